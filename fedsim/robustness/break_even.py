"""Turning: at which value of a single constant a verdict turns round, all others as written.

Where the ends of a step on the line of a constant disagree, the step is cut into parts again and
again, and the runs are priced at the points between: a bisection with several points at a time,
since an array of worlds takes hardly longer than one.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.ports import Array
from fedsim.robustness.design import STEPS, Design, Worlds
from fedsim.robustness.verdicts import CostTable, pairs

_PARTS = 32
_PASSES = 3
"""After so many passes a turn lies within 2e-6 of its interval, as the line's step is cut by 32^3;
within that it is where the straight line between both sides turns."""

COLUMNS = ("variant", "cost", "constant", "value", "unit", "wins")
ENDS = ("low", "high", "ratio_low", "ratio_high")

Again = Callable[[Worlds, Collection[str]], CostTable]
"""Prices the runs of some variants in further worlds; those of all others are NaN."""


@dataclass
class _Turn:
    """A step of a line in which a verdict turns round: shares and log ratios at its two sides."""

    variant: str
    cost: str
    constant: int
    sides: tuple[float, float]
    logs: tuple[float, float]

    def points(self) -> Array:
        """Return the shares between the sides."""
        return np.linspace(*self.sides, _PARTS + 1)[1:-1]

    def narrow(self, logs: Array) -> None:
        """Keep the first part in which it turns, by the log ratios at the points."""
        shares = np.linspace(*self.sides, _PARTS + 1)
        known = np.array([self.logs[0], *logs, self.logs[1]])
        first = int(np.argmax((known < 0) != (known[0] < 0)))
        self.sides = float(shares[first - 1]), float(shares[first])
        self.logs = float(known[first - 1]), float(known[first])

    @property
    def share(self) -> float:
        """Where it turns, as a share of the interval."""
        (begin, end), (one, other) = self.sides, self.logs
        return begin + (end - begin) * one / (one - other)


def flips(table: CostTable, design: Design, against: int, again: Again) -> pd.DataFrame:
    """Return the values of single constants at which verdicts turn round.

    Args:
        table: of costs in the worlds of the design.
        design: see `Design`.
        against: the variant that the others are compared with.
        again: see `Again`.

    Returns:
        A row a turn, and one for each constant along which a verdict does not turn: variant, cost,
        constant; value (in the unit; NaN where it does not turn), unit; wins ("below" or "above":
        on which side of the value the variant costs less than `against`; "all" or "none" of the
        interval where it does not turn); low and high (the interval's ends), ratio_low and
        ratio_high (the typical ratio there).
    """
    turns, still = list[_Turn](), list[dict[str, object]]()
    for variant, cost, ratios in pairs(table, against) if design.lines else ():
        for number, line in enumerate(_lines(ratios, design)):
            found = list(_turns(variant, cost, number, line))
            turns += found
            if not found and not np.isnan(line).any():
                wins = "all" if line[0] < 0 else "none"
                still.append(_row(design, (variant, cost, number), line, np.nan, wins))
    _narrow(turns, design, against, str(table.variants[against]), again)
    lines = (
        {
            (variant, cost): list(_lines(ratios, design))
            for variant, cost, ratios in pairs(table, against)
        }
        if turns
        else {}
    )
    rows = [
        _row(
            design,
            (turn.variant, turn.cost, turn.constant),
            lines[turn.variant, turn.cost][turn.constant],
            float(design.constants[turn.constant].at(np.array(turn.share))),
            "above" if turn.logs[1] < 0 else "below",
        )
        for turn in turns
    ]
    return pd.DataFrame([*rows, *still], columns=[*COLUMNS, *ENDS])


def _lines(ratios: Array, design: Design) -> Iterator[Array]:
    for number in range(len(design.constants)):
        yield ratios[design.line(number)]


def _turns(variant: str, cost: str, constant: int, line: Array) -> Iterator[_Turn]:
    shares, less = np.linspace(0.0, 1.0, STEPS), line < 0
    known = np.isfinite(line)
    for first in np.flatnonzero((less[:-1] != less[1:]) & known[:-1] & known[1:]):
        sides = float(shares[first]), float(shares[first + 1])
        yield _Turn(variant, cost, constant, sides, (float(line[first]), float(line[first + 1])))


def _narrow(turns: list[_Turn], design: Design, against: int, reference: str, again: Again) -> None:
    """Price at points between the sides of all turns at once, as often as it takes."""
    inner, names = _PARTS - 1, {turn.variant for turn in turns} | {reference}
    for _ in range(_PASSES if turns else 0):
        values = np.tile(design.as_written[:, None], inner * len(turns))
        for number, turn in enumerate(turns):
            own = slice(number * inner, (number + 1) * inner)
            values[turn.constant, own] = design.constants[turn.constant].at(turn.points())
        priced = again(Worlds(design.constants, values), names)
        known = {(name, cost): ratios for name, cost, ratios in pairs(priced, against)}
        for number, turn in enumerate(turns):
            own = slice(number * inner, (number + 1) * inner)
            turn.narrow(known[turn.variant, turn.cost][own])


def _row(
    design: Design, place: tuple[str, str, int], line: Array, value: float, wins: str
) -> dict[str, object]:
    constant = design.constants[place[2]]
    ends = np.exp(line[[0, -1]])
    found = (place[0], place[1], str(constant.key), value, constant.unit, wins)
    more = (constant.low, constant.high, float(ends[0]), float(ends[1]))
    return dict(zip((*COLUMNS, *ENDS), (*found, *more), strict=True))
