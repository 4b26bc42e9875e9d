"""The first tab of a study in progress: the time left, its curves so far, its runs and workers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedsim.results.analysis import EVERY_AXIS, label_axis, look
from fedsim.results.analysis.plots.canvas import label_with_unit
from fedsim.results.analysis.plots.curves import draw_runs
from fedsim.results.analysis.seeds import spread
from fedsim.results.record.live import POINTS, CurvePoint
from fedsim.results.report.components import PageTable
from fedsim.results.report.convergence import LARGEST, SIZE, measure_name, without_marks
from fedsim.results.report.drawing import PageFigure, draw, line_icon

DRAWN = 60
"""Runs of which curves are drawn."""

_POINTS, _VALUES = (20, 120), 3_000  # of a curve, at least and at most; of a figure

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
            yield name, line_icon(**look(number)), states

    @property
    def figures(self) -> Iterator[PageFigure]:
        """The figures of the curves that have points."""
        rounds = _table(self.lines)
        labels = {name: name for name in self.seeds}
        known = rounds["gap"].notna().any()
        for number, (x, upwards) in enumerate(_AXES):
            y = upwards if upwards != "gap" or known else "objective"
            if rounds[[x, y]].notna().all(axis=1).any():
                yield _figure(number, rounds, labels, x, y)


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


def _table(lines: Mapping[Key, Sequence[CurvePoint]]) -> pd.DataFrame:
    """Return the points of curves as rows, with variant and seed; what is not finite is NaN."""
    least, most = _POINTS
    count = min(max(_VALUES // max(len(lines), 1), least), most)
    rows = [
        (*key, *own[place])
        for key, own in lines.items()
        for place in spread(len(own), count).tolist()
    ]
    table = pd.DataFrame(rows, columns=["variant", "seed", *CurvePoint._fields])
    numbers = table[list(CurvePoint._fields)].astype(np.float64)
    return table.assign(**numbers.where(numbers.abs() < LARGEST))


def _figure(
    number: int, rounds: pd.DataFrame, labels: Mapping[str, str], x: str, y: str
) -> PageFigure:
    """Return a figure of one column of the curves against another.

    Args:
        number: of the figure.
        rounds: the points of all curves.
        labels: variant -> its name.
        x: the column across.
        y: the column upwards.
    """
    log = y == "gap"

    def plot(axis: Axes) -> None:
        draw_runs(axis, rounds, (x, y), labels, log=log)
        without_marks(axis)
        axis.set_xlim(left=0)
        label_with_unit(axis.xaxis, *EVERY_AXIS[x])
        if y in EVERY_AXIS:
            axis.set_ylim(bottom=0)
            label_with_unit(axis.yaxis, *EVERY_AXIS[y])
        else:
            label_axis(axis.yaxis, measure_name(y), log=log)

    called = EVERY_AXIS[y][0] if y in EVERY_AXIS else measure_name(y)
    return draw(f"progress-{number}", f"{called} against {EVERY_AXIS[x][0]}", plot, size=SIZE)
