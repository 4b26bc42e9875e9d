"""The first tab of a study in progress: the time left, its curves so far, its runs and workers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import pandas as pd

from fedsim.results.analysis import EVERY_AXIS
from fedsim.results.analysis.seeds import spread
from fedsim.results.record.live import POINTS, CurvePoint
from fedsim.results.report.charts import Curve, curves, line_icon
from fedsim.results.report.components import PageFigure, PageTable, style
from fedsim.results.report.convergence import measure_name
from fedsim.results.report.svg import Area, Scale, linear, logarithmic

DRAWN = 60
"""Runs of which curves are drawn."""

_POINTS, _VALUES = (20, 120), 3_000  # of a curve, at least and at most; of a figure

_HEIGHT = 240  # pixels of a figure

_AXES = (("round", "gap"), ("joules", "gap"), ("round", "joules"))
"""The figures: what lies across, and upwards. In place of the gap, of an unknown optimum, there is
the objective."""

Key = tuple[str, int]
"""The variant and the seed of a run."""


@dataclass(frozen=True)
class Progress:
    """The state of a study at a moment.

    Attributes:
        name: the study's.
        state: in a sentence, with the time left.
        share: of the study that is done, from 0 to 1.
        seeds: for each variant the state of each of its runs, and its words.
        lines: the curves of runs in progress and of ended ones.
        tables: runs in progress, failed ones, and the events of each process.
        notes: what processes are doing.
        drawn: the time of day.
        pause: until the page is drawn again, s of real time.
    """

    name: str
    state: str
    share: float
    seeds: Mapping[str, Sequence[tuple[str, str]]]
    lines: Mapping[Key, Sequence[CurvePoint]] = field(default_factory=dict)
    tables: Sequence[PageTable] = ()
    notes: Sequence[str] = ()
    drawn: str = ""
    pause: float = 1.0

    @property
    def variants(self) -> Iterator[tuple[str, object, Sequence[tuple[str, str]]]]:
        """The name of each variant, a piece of its curve, and the states of its runs."""
        for number, (name, states) in enumerate(self.seeds.items()):
            yield name, line_icon(*style(number)), states

    @property
    def figures(self) -> Iterator[PageFigure]:
        """The figures of the curves that have points."""
        points = [point for own in self.lines.values() for point in own]
        known = any(isfinite(point.gap) for point in points)
        numbers = {name: number for number, name in enumerate(self.seeds)}
        for x, upwards in _AXES:
            y = upwards if upwards != "gap" or known else "objective"
            if any(isfinite(getattr(each, x)) and isfinite(getattr(each, y)) for each in points):
                yield _figure_of(self.lines, numbers, x, y)


def recorded_curves(rounds: pd.DataFrame) -> dict[Key, list[CurvePoint]]:
    """Return the curves of ended runs, of `DRAWN` at most, by their round tables."""
    found: dict[Key, list[CurvePoint]] = {}
    for (variant, seed), table in rounds.groupby(["variant", "seed"], sort=False, observed=True):
        own = table[["round", "t", "objective", "gap"]].assign(joules=table["joules"].cumsum())
        known = own[np.isfinite(own["objective"])]
        rows = known.iloc[spread(len(known), POINTS)].itertuples(index=False)
        found[str(variant), int(str(seed))] = [
            CurvePoint(int(number), *row) for number, *row in rows
        ]
        if len(found) == DRAWN:
            break
    return found


def _figure_of(
    lines: Mapping[Key, Sequence[CurvePoint]], numbers: Mapping[str, int], x: str, y: str
) -> PageFigure:
    least, most = _POINTS
    count = min(max(_VALUES // max(len(lines), 1), least), most)
    drawn, ends = [], dict[str, list[float]](x=[], y=[])
    for (variant, seed), own in lines.items():
        rows = [own[row] for row in spread(len(own), count).tolist()]
        xs, ys = ([getattr(each, name) for each in rows] for name in (x, y))
        ends["x"] += xs
        ends["y"] += ys
        colour, dash = style(numbers[variant])
        drawn.append(Curve(f"{variant}, seed {seed}", colour, xs, ys, dash=dash))
    title, unit = EVERY_AXIS[x]
    called, unit_y = EVERY_AXIS.get(y, (measure_name(y), ""))
    lowest = [0.0] if y == "joules" else []
    upwards = _scale([*lowest, *ends["y"]], log=y == "gap", unit=unit_y)
    called += ", log scale" if y == "gap" else f", {upwards.unit}" if upwards.unit else ""
    across = _scale([0.0, *ends["x"]], log=False, unit=unit)
    area = Area(f"{called} against {title}", _HEIGHT, across, title, upwards, upwards=called)
    return PageFigure(curves(area, drawn))


def _scale(values: Sequence[float], *, log: bool, unit: str) -> Scale:
    """Return the axis of some values; those that are not numbers do not count."""
    known = [each for each in values if isfinite(each) and (each > 0 or not log)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if log and known:
        return logarithmic(low, high)
    return linear(low, high, unit)
