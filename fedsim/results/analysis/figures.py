"""Figures of runs: convergence, any column against any cost, stacked bars."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.results.analysis.costs import cumulative, with_bits, with_grams
from fedsim.results.analysis.plots.curves import draw_means
from fedsim.results.analysis.seeds import over_seeds, spread
from fedsim.results.analysis.style import (
    AXES,
    GREY,
    Drawing,
    against_cost,
    entitle,
    escape_text,
    look,
    name_variants,
    panels,
    shared_upwards,
    words,
)


def convergence(
    rounds: pd.DataFrame,
    labels: Mapping[str, str],
    title: str = "",
    *,
    measures: Sequence[str] = (),
    against: Sequence[str] = (),
    columns: int = 2,
) -> Drawing:
    """Draw the gap of every run against rounds, bits, seconds, joules and, where known, grams.

    Where no optimum is known, the objective stands in for the gap.

    Args:
        rounds: as `Result.rounds` gives it.
        labels: variant -> what the legend calls it; the others go by their names.
        title: above the figure; what follows its first line is in smaller letters.
        measures: other columns of the rounds, in place of the gap; several stand one below the
            other, each against all costs.
        against: some of `AXES`, or grams, in place of all.
        columns: how many panels stand side by side.

    Example:
        >>> drawing = convergence(result.rounds, {"base": "CHB", "gd": "GD"}, "five clients")
    """
    totals = with_bits(cumulative(rounds))
    totals = totals[totals["objective"].notna()]  # curves join the rounds that were looked at
    shown = list(measures) or ["gap" if totals["gap"].notna().any() else "objective"]
    costs = list(against or with_grams(AXES, totals))
    columns = min(columns, len(costs))
    block = -(-len(costs) // columns) * columns
    figure, every = panels(block * len(shown), columns)
    for number, measure in enumerate(shown):
        own = every[number * block : (number + 1) * block]
        for spare in own[len(costs) :]:
            spare.remove()
        _measure(own[: len(costs)], totals, measure, costs, labels)
        shared_upwards(own[: len(costs)], columns, words(measure), log=measure == "gap")
    name_variants(figure)
    entitle(figure, title)
    return figure


def _measure(
    axes: Sequence[Axes],
    totals: pd.DataFrame,
    measure: str,
    costs: Sequence[str],
    labels: Mapping[str, str],
) -> None:
    """Draw one measure against each cost, all with the same axis upwards."""
    for number, (axis, cost) in enumerate(zip(axes, costs, strict=True)):
        if number:
            axis.sharey(axes[0])
        _panel(axis, totals, cost, measure, labels)
        against_cost(axis, cost)


def stacked_bars(axis: Axes, parts: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw one bar per row, the first on top, made of the row's columns from left to right.

    Args:
        axis: where.
        parts: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
    """
    begins = np.zeros(len(parts))
    for name, amounts in parts.items():
        widths = amounts.to_numpy()
        axis.barh(parts.index, widths, left=begins, color=colours[str(name)], label=str(name))
        begins = begins + widths
    axis.invert_yaxis()


def _panel(
    axis: Axes, totals: pd.DataFrame, column: str, measure: str, labels: Mapping[str, str]
) -> None:
    groups = totals.groupby("variant", sort=False, observed=True)
    variants = {str(variant): runs for variant, runs in groups}
    for number, variant in enumerate(dict.fromkeys([*labels, *variants])):
        runs, name = variants.get(variant, totals[:0]), escape_text(labels.get(variant, variant))
        for _, run in runs.groupby("seed"):
            thin = run.iloc[spread(len(run))]
            values = thin[measure].where(thin[measure] > 0) if measure == "gap" else thin[measure]
            axis.plot(thin[column], values, label=name, **look(number, len(thin)))
            name = "_nolegend_"


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
        if target is not None:
            axis.axhline(target, color=GREY, linewidth=1, linestyle=":")
        against_cost(axis, cost)
    shared_upwards(every, 2, ylabel or words(column), log=log)
    name_variants(figure)
    entitle(figure, title)
    return figure
