"""Convergence: what the rounds reached, against rounds, bits, seconds and joules."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fedsim.results.analysis import AXES, EVERY_AXIS, over_seeds, with_grams
from fedsim.results.analysis.seeds import spread
from fedsim.results.report.charts import Curve, curves
from fedsim.results.report.components import PageFigure, style
from fedsim.results.report.study import ReportedStudy
from fedsim.results.report.svg import Area, Scale, linear, logarithmic

_NAMES = {"gap": "objective gap"}

_VALUES = 6_000  # points of a figure
_POINTS = 20, 400  # of a curve: a screen does not tell more apart

_DRAWN = 12  # of many variants; a reader can draw the others

_MOST = 6  # measures that a page shows; each is four figures more

_LARGEST = 1e300  # of what is drawn: a run that diverges gets there

_SPARE = 0.04  # of an axis, beyond what is drawn


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


def points(study: ReportedStudy, measure: str) -> Mapping[str, pd.DataFrame]:
    """Return the points of the curves of a measure, by variant, as `over_seeds` gives them.

    Of long curves there are some, spread evenly.
    """
    most = int(np.clip(_VALUES // len(study.labels), *_POINTS))
    table = over_seeds(study.rounds, measure, log=measure == "gap")
    groups = {variant: table[table["variant"] == variant] for variant in study.labels}
    return {variant: own.iloc[spread(len(own), most)] for variant, own in groups.items()}


def figures(study: ReportedStudy, measure: str, height: int) -> dict[str, PageFigure]:
    """Return the figures of a measure, by the axis.

    Args:
        study: whose variants they show.
        measure: of `measures`.
        height: of their areas, pixels.
    """
    tables, shown = points(study, measure), drawn_first(study)
    seen = pd.concat([own for variant, own in tables.items() if variant in shown])
    upwards = _upwards(seen, measure)
    targets = [each.target for each in study.comparison.cases]
    levels = [each.value for each in targets if each.measure == measure]
    found = {}
    for cost in axes(study):
        title, unit = EVERY_AXIS[cost]
        across = linear(0.0, _largest(seen[cost]), unit)
        label = f"{measure_name(measure)} against {title}"
        called = (
            f"{measure_name(measure)}, log scale" if measure == "gap" else measure_name(measure)
        )
        area = Area(label, height, across, title, upwards, upwards=called)
        lines = [
            _curve(number, name, tables[variant], cost, hidden=variant not in shown)
            for number, (variant, name) in enumerate(study.labels.items())
        ]
        found[cost] = PageFigure(curves(area, lines, levels))
    return found


def drawn_first(study: ReportedStudy) -> set[str]:
    """Return the variants that are shown before a reader chooses: all, or the best ones of many."""
    table = study.comparison.cases[0].table
    order = table.sort_values(["pareto", "bits"], ascending=[False, True], kind="stable")
    return set(order["variant"].head(_DRAWN))


def _curve(number: int, name: str, table: pd.DataFrame, cost: str, *, hidden: bool) -> Curve:
    colour, dash = style(number)
    x, y, low, high = (table[column] for column in (cost, "mean", "low", "high"))
    return Curve(name, colour, x, y, low, high, dash, group=str(number), hidden=hidden)


def _upwards(seen: pd.DataFrame, measure: str) -> Scale:
    """Return the axis of a measure: a gap's is logarithmic."""
    ends = seen[["low", "high"]].to_numpy(np.float64)
    ends = ends[np.abs(ends) < _LARGEST]
    if measure == "gap":
        ends = ends[ends > 0]
        return logarithmic(float(ends.min()), float(ends.max())) if len(ends) else linear(0, 1)
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
    return linear(low - _SPARE * (high - low), high + _SPARE * (high - low))


def _largest(values: "pd.Series[float]") -> float:
    largest = values.max()
    return float(largest) if np.isfinite(largest) else 0.0
