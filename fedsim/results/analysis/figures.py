"""Figures of runs: convergence, any column against any cost, stacked bars."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.results.analysis.costs import spent, with_bits, with_grams
from fedsim.results.analysis.plots.canvas import label_with_unit
from fedsim.results.analysis.plots.curves import draw_means, draw_runs, note_tails
from fedsim.results.analysis.seeds import over_seeds
from fedsim.results.analysis.style import (
    AXES,
    EVERY_AXIS,
    Drawing,
    draw_target,
    entitle,
    from_zero,
    name_variants,
    panels,
    shared_upwards,
    words,
)

_HIGH, _LOW = 2.4, 2.1  # inches of a panel: of one measure, and of several below each other

_WIDE = 100.0
"""Ratio of the largest to the smallest objective from which on its axis is logarithmic."""


def convergence(
    rounds: pd.DataFrame,
    labels: Mapping[str, str],
    title: str = "",
    *,
    measures: Sequence[str] = (),
    against: Sequence[str] = (),
    columns: int = 2,
    targets: Mapping[str, float] = MappingProxyType({}),
) -> Drawing:
    """Draw the gap of every run against rounds, bits, seconds, joules and, where known, grams.

    Where no optimum is known, the objective stands in for the gap. Its axis is logarithmic if its
    values are positive and span more than two decades.

    Args:
        rounds: as `Result.rounds` gives it.
        labels: variant -> what the legend calls it; the others go by their names.
        title: above the figure; what follows its first line is in smaller letters.
        measures: other columns of the rounds, in place of the gap; several stand one below the
            other, each against all costs.
        against: some of `AXES`, or grams, in place of all.
        columns: how many panels stand side by side.
        targets: measure -> the value that was to be reached, for a line.

    Example:
        >>> drawing = convergence(result.rounds, {"base": "CHB", "gd": "GD"}, "five clients")
    """
    totals = with_bits(spent(rounds))
    totals = totals[totals["objective"].notna()]  # curves join the rounds that were looked at
    labels = {
        **labels,
        **{str(each): str(each) for each in totals["variant"].unique() if str(each) not in labels},
    }
    shown = list(measures) or ["gap" if totals["gap"].notna().any() else "objective"]
    costs = list(against or with_grams(AXES, totals))
    columns = min(columns, len(costs))
    block = -(-len(costs) // columns) * columns
    high = _HIGH if len(shown) == 1 else _LOW
    figure, every = panels(block * len(shown), columns, high)
    for number, measure in enumerate(shown):
        log = _is_logarithmic(measure, totals)
        own = every[number * block : (number + 1) * block]
        for spare in own[len(costs) :]:
            spare.remove()
        _measure(own[: len(costs)], totals, measure, costs, labels, log=log)
        shared_upwards(own[: len(costs)], columns, words(measure), log=log)
        if measure in targets:
            for axis in own[: len(costs)]:
                draw_target(axis, targets[measure])
    name_variants(figure)
    entitle(figure, title)
    return figure


def _is_logarithmic(measure: str, totals: pd.DataFrame) -> bool:
    """Return whether an axis is logarithmic: of the gap, and of an objective of several decades."""
    if measure != "objective":
        return measure == "gap"
    values = totals[measure]
    return bool((values > 0).all() and values.max() > _WIDE * values.min())


def _measure(
    axes: Sequence[Axes],
    totals: pd.DataFrame,
    measure: str,
    costs: Sequence[str],
    labels: Mapping[str, str],
    *,
    log: bool,
) -> None:
    """Draw one measure against each cost, all with the same axis upwards."""
    for number, (axis, cost) in enumerate(zip(axes, costs, strict=True)):
        if number:
            axis.sharey(axes[0])
        draw_runs(axis, totals, (cost, measure), labels, log=log)
        _label_cost(axis, cost)


def _label_cost(axis: Axes, cost: str) -> None:
    """Label the horizontal axis of a cost with its unit; it begins at zero."""
    from_zero(axis)
    label_with_unit(axis.xaxis, *EVERY_AXIS[cost])
    note_tails(axis)


def progress(
    rounds: pd.DataFrame,
    labels: Mapping[str, str],
    column: str = "gap",
    *,
    axes: Sequence[str] = (),
    ylabel: str = "",
    title: str = "",
    log: bool = True,
    target: float | None = None,
) -> Figure:
    """Draw a column of the round table, one panel per cost: the mean over seeds, least to largest.

    Args:
        rounds: as `Result.rounds` gives it.
        labels: variant -> what the legend calls it; variants that are not in it are left out.
        column: of the round table.
        axes: which costs, of `AXES` or grams; all that there are if none are given.
        ylabel: what the column is; its name where not given.
        title: above the figure; what follows its first line is in smaller letters.
        log: whether the column is drawn on a logarithmic axis, and averaged so.
        target: where a line is to be.

    Example:
        >>> figure = progress(result.rounds, {"base": "CHB", "gd": "GD"}, "objective")
        >>> len(figure.axes)
        4
    """
    axes = axes or with_grams(AXES, rounds)
    figure, every = panels(len(axes), 2, sharey=True)
    table = over_seeds(rounds[rounds["variant"].isin(list(labels))], column, log=log)
    for axis, cost in zip(every, axes, strict=True):
        draw_means(axis, table, cost, labels)
        _label_cost(axis, cost)
    shared_upwards(every, 2, ylabel or words(column), log=log)
    for axis in every if target is not None else ():
        draw_target(axis, float(target or 0.0))
    name_variants(figure)
    entitle(figure, title)
    return figure
