"""Convergence: what the rounds reached, against rounds, bits, seconds and joules."""

from math import log10

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedsim.results.analysis import AXES, EVERY_AXIS, label_axis, over_seeds, with_grams
from fedsim.results.analysis.costs import with_tails
from fedsim.results.analysis.plots.canvas import label_with_unit
from fedsim.results.analysis.plots.curves import draw_means, note_tails
from fedsim.results.analysis.style import draw_target
from fedsim.results.report.drawing import PageFigure, draw
from fedsim.results.report.study import ReportedStudy

_NAMES = {"gap": "objective gap"}

_VALUES = 6_000  # points of a figure
_POINTS = 20, 400  # of a curve: a screen does not tell more apart

_DRAWN = 12  # of many variants; a reader can draw the others

_MOST = 6  # measures that a page shows; each is four figures more

_FAR = 200.0  # powers of ten, with room for ticks beyond them; a run that diverges reaches 308

LARGEST = 10.0**_FAR
"""From which on numbers are not drawn."""

_SPARE = 1.04  # of an axis, with what is beyond what is drawn

SIZE = 3.2, 2.2
"""Inches of a figure: four stand in a row on a wide screen, and one fills a telephone's."""


def axes(study: ReportedStudy) -> list[str]:
    """Return what is drawn against: the costs that its rounds have."""
    return with_grams(AXES, study.rounds)


def measures(study: ReportedStudy) -> tuple[str, ...]:
    """Return what is drawn, what was asked for in front."""
    return study.measures[:_MOST]


def measure_name(measure: str) -> str:
    """Return what the page calls a measure.

    >>> measure_name("gap"), measure_name("test_accuracy")
    ('objective gap', 'test accuracy')
    """
    return _NAMES.get(measure, measure.replace("_", " "))


def figures(study: ReportedStudy, measure: str, name: str) -> dict[str, PageFigure]:
    """Return the figures of a measure, by the axis.

    Args:
        study: whose variants they show.
        measure: of `measures`.
        name: with which those of the figures begin.
    """
    table, shown = over_seeds(study.rounds, measure, log=measure == "gap"), drawn_first(study)
    ends = ["mean", "low", "high"]
    table[ends] = table[ends].where(table[ends].abs() < LARGEST)
    hidden = [
        f"variant-{number}{part}"
        for number, variant in enumerate(study.labels)
        for part in ("", "-band", "-end", "-tail")
        if variant not in shown
    ]
    return {
        cost: draw(
            f"{name}-{cost}",
            f"{measure_name(measure)} against {EVERY_AXIS[cost][0]}",
            lambda axis, cost=cost: _curves(axis, study, table, (cost, measure), shown),  # type: ignore[misc]
            size=SIZE,
            hidden=hidden,
        )
        for cost in axes(study)
    }


def _curves(
    axis: Axes, study: ReportedStudy, table: pd.DataFrame, of: tuple[str, str], shown: set[str]
) -> None:
    """Draw a measure against a cost; the axes are those of the variants that are shown first."""
    cost, measure = of
    draw_means(
        axis, table, cost, study.labels, int(np.clip(_VALUES // len(study.labels), *_POINTS))
    )
    without_marks(axis)
    seen = table[table["variant"].isin(shown)]
    far = with_tails(seen)[cost].max()
    axis.set_xlim(0, _SPARE * float(far) if 0 < far < LARGEST else 1.0)
    label_with_unit(axis.xaxis, *EVERY_AXIS[cost])
    note_tails(axis)
    ends = seen[["low", "high"]].to_numpy(np.float64)
    ends = ends[np.isfinite(ends) & ((ends > 0) | (measure != "gap"))]
    if len(ends):
        axis.set_ylim(*_around(float(ends.min()), float(ends.max()), log=measure == "gap"))
    label_axis(axis.yaxis, measure_name(measure), log=measure == "gap")
    low, high = axis.get_ylim()
    for target in (case.target for case in study.comparison.cases):
        if target.measure == measure and low <= target.value <= high:
            draw_target(axis, target.value)


def without_marks(axis: Axes) -> None:
    """Take the marks off curves, which a page tells apart by colours and dashes."""
    for line in axis.get_lines():
        # A bar marks where a seed ended (without a line), or where its last tails end.
        if line.get_marker() != "|":
            line.set_marker("None")


def _around(low: float, high: float, *, log: bool) -> tuple[float, float]:
    """Return the ends of an axis on which two figures are."""
    if log:
        least, most = log10(low), log10(high)
        more = (_SPARE - 1) * (most - least) or 0.3
        return 10 ** max(least - more, -_FAR), 10 ** min(most + more, _FAR)
    more = (_SPARE - 1) * (high - low) or abs(low) / 2 or 0.5
    return low - more, high + more


def drawn_first(study: ReportedStudy) -> set[str]:
    """Return the variants that are shown before a reader chooses: all, or the best ones of many."""
    table = study.comparison.cases[0].table
    order = table.sort_values(["pareto", "bits"], ascending=[False, True], kind="stable")
    return set(order["variant"].head(_DRAWN))
