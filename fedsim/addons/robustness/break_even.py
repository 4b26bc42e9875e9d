"""Break-even values: the value of a single constant at which a verdict reverses.

All other constants are as written. The design has points along the interval of each constant. If
the verdicts at two neighbouring points disagree, the step between them is divided repeatedly, and
the runs are priced at the points of division: a bisection with many points at a time, since an
array of worlds takes hardly longer than a single one.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.addons.robustness.design import STEPS, Design, Worlds
from fedsim.addons.robustness.verdicts import CostTable, pairs
from fedsim.core.ports import Array

_PARTS = 32
_PASSES = 3
"""With this many passes the step is divided by 32^3, to 2e-6 of the interval; within the last part
the value is interpolated linearly."""

COLUMNS = ("variant", "cost", "constant", "value", "unit", "wins")
ENDS = ("low", "high", "ratio_low", "ratio_high")

Again = Callable[[Worlds, Collection[str]], CostTable]
"""Prices the runs of some variants in further worlds; the costs of all others are NaN."""


@dataclass
class _Reversal:
    """A step in which a verdict reverses: shares of the interval and log ratios at both sides."""

    variant: str
    cost: str
    constant: int
    sides: tuple[float, float]
    logs: tuple[float, float]

    def points(self) -> Array:
        """Return the points of division, as shares of the interval."""
        return np.linspace(*self.sides, _PARTS + 1)[1:-1]

    def narrow(self, logs: Array) -> None:
        """Keep the first part in which the verdict reverses, given the log ratios at the points.

        A part ends at points whose world has a price; those without one between them are passed
        over.
        """
        shares = np.linspace(*self.sides, _PARTS + 1)
        known = np.array([self.logs[0], *logs, self.logs[1]])
        # There is one, as both ends have a price and differ.
        first, last = next(_sign_changes(known))
        self.sides = float(shares[first]), float(shares[last])
        self.logs = float(known[first]), float(known[last])

    @property
    def share(self) -> float:
        """The break-even value, as a share of the interval."""
        # Linear interpolation of the log ratio to 0; the two logarithms differ in sign.
        (begin, end), (first, last) = self.sides, self.logs
        return begin + (end - begin) * first / (first - last)


def flips(table: CostTable, design: Design, against: int, again: Again) -> pd.DataFrame:
    """Return the values of single constants at which verdicts reverse.

    Args:
        table: the costs in the worlds of the design.
        design: see `Design`.
        against: the variant that the others are compared with.
        again: see `Again`.

    Returns:
        One row per reversal, and one per constant along which the verdict does not reverse:
        variant, cost, constant; value (in the unit; NaN without a reversal; interpolated between
        the nearest worlds in which both variants have a price), unit; wins ("below" or
        "above": the side of the value on which the variant costs less than `against`; "all" or
        "none" of the interval without a reversal); low and high (the ends of the interval),
        ratio_low and ratio_high (the typical ratio at these ends).
    """
    reversals, steady = list[_Reversal](), list[dict[str, object]]()
    for variant, cost, ratios in pairs(table, against) if design.lines else ():
        for number, line in enumerate(_lines(ratios, design)):
            # A ratio need not be monotone along a constant, so there may be several reversals.
            steps = list(_reversals(variant, cost, number, line))
            reversals += steps
            if not steps and not np.isnan(line).any():
                wins = "all" if line[0] < 0 else "none"
                steady.append(_row(design, (variant, cost, number), line, np.nan, wins))
    _narrow(reversals, design, against, str(table.variants[against]), again)
    lines = (
        {
            (variant, cost): list(_lines(ratios, design))
            for variant, cost, ratios in pairs(table, against)
        }
        if reversals
        else {}
    )
    rows = [
        _row(
            design,
            (step.variant, step.cost, step.constant),
            lines[step.variant, step.cost][step.constant],
            float(design.constants[step.constant].at(np.array(step.share))),
            "above" if step.logs[1] < 0 else "below",
        )
        for step in reversals
    ]
    return pd.DataFrame([*rows, *steady], columns=[*COLUMNS, *ENDS])


def _lines(ratios: Array, design: Design) -> Iterator[Array]:
    for number in range(len(design.constants)):
        yield ratios[design.line(number)]


def _reversals(variant: str, cost: str, constant: int, line: Array) -> Iterator[_Reversal]:
    shares = np.linspace(0.0, 1.0, STEPS)
    for first, last in _sign_changes(line):
        sides = float(shares[first]), float(shares[last])
        yield _Reversal(variant, cost, constant, sides, (float(line[first]), float(line[last])))


def _sign_changes(logs: Array) -> Iterator[tuple[int, int]]:
    """Yield the points between which a log ratio changes its sign.

    A world in which a variant cannot be priced has NaN, whose sign means nothing: points are
    compared with the next one that is finite.
    """
    known = np.flatnonzero(np.isfinite(logs))
    less = logs[known] < 0
    for place in np.flatnonzero(less[:-1] != less[1:]):
        yield int(known[place]), int(known[place + 1])


def _narrow(
    reversals: list[_Reversal], design: Design, against: int, reference: str, again: Again
) -> None:
    """Price at the points of division of all steps at once, in `_PASSES` passes."""
    inner, names = _PARTS - 1, {step.variant for step in reversals} | {reference}
    for _ in range(_PASSES if reversals else 0):
        # All constants as written, in as many worlds as there are points; each step then overwrites
        # the row of its constant.
        values = np.tile(design.as_written[:, None], inner * len(reversals))
        for number, step in enumerate(reversals):
            part = slice(number * inner, (number + 1) * inner)
            values[step.constant, part] = design.constants[step.constant].at(step.points())
        priced = again(Worlds(design.constants, values), names)
        known = {(name, cost): ratios for name, cost, ratios in pairs(priced, against)}
        for number, step in enumerate(reversals):
            part = slice(number * inner, (number + 1) * inner)
            step.narrow(known[step.variant, step.cost][part])


def _row(
    design: Design, place: tuple[str, str, int], line: Array, value: float, wins: str
) -> dict[str, object]:
    constant = design.constants[place[2]]
    ends = np.exp(line[[0, -1]])
    columns = (place[0], place[1], str(constant.key), value, constant.unit, wins)
    interval = (constant.low, constant.high, float(ends[0]), float(ends[1]))
    return dict(zip((*COLUMNS, *ENDS), (*columns, *interval), strict=True))
