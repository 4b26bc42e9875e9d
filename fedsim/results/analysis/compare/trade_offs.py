"""Figures of a table of costs: what each variant costs, and what it trades for what."""

from collections.abc import Hashable, Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.core.text import quantity
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.costs import with_grams
from fedsim.results.analysis.style import (
    COLOURS,
    EVERY_AXIS,
    GREY,
    MARKS,
    entitle,
    escape_text,
    label_axis,
    label_count_axis,
    name_variants,
    panels,
)

TRADED = ("bits", "t", "joules")
"""The costs between which variants trade."""

_BARS = ("transmissions", *TRADED)
_AXES = {"transmissions": ("transmissions", ""), **EVERY_AXIS}
_WIDE = 20  # costs that differ by more are drawn on logarithmic axes


def cost_bars(table: pd.DataFrame, labels: Mapping[str, str], title: str = "") -> Figure:
    """Draw what each variant costs, with intervals: one panel per cost, one bar per variant.

    The bar of a variant of which some runs did not get there is hatched, and says how many did.

    Args:
        table: as `summarised` gives it.
        labels: variant -> what the axis calls it; the others are left out.
        title: above the figure.
    """
    costs = with_grams(_BARS, table)
    figure, every = panels(len(costs), 2, 0.9 + 0.28 * len(labels), sharey=True)
    rows = table.set_index("variant").reindex(list(labels))
    for axis, cost in zip(every, costs, strict=True):
        label, unit = _AXES[cost]
        _bars(axis, rows, cost, unit)
        (label_axis if unit else label_count_axis)(axis.xaxis, label, *filter(None, [unit]))
        axis.grid(visible=False, axis="y")
    every[0].set_yticks(range(len(labels)), [escape_text(label) for label in labels.values()])
    every[0].set_ylim(len(labels) - 0.5, -0.5)
    entitle(figure, title)
    return figure


def pareto_scatter(
    table: pd.DataFrame,
    labels: Mapping[str, str],
    decisions: Decisions,
    title: str = "",
) -> Figure:
    """Draw what variants trade: a panel for each two of bits, seconds and joules.

    A variant whose mark is full is Pareto-optimal in the two costs of the panel, one whose
    mark is half full is neither that nor known to be dominated; a line joins these.
    Points are means over the runs that reached the target; where some did not, the legend says
    how many did.

    Args:
        table: as `summarised` gives it.
        labels: variant -> what the legend calls it; the others are grey points.
        decisions: which variant is cheaper than which.
        title: above the figure, with what the marks mean; neither if empty.
    """
    figure, every = panels(3, 2, 2.7)
    rows = table[table["reached"] > 0].set_index("variant")
    named = {name: _legend_name(label, rows, name) for name, label in labels.items()}
    for axis, (across, up) in zip(every, combinations(TRADED, 2), strict=True):
        fill = _fills(decisions, (across, up))
        _front(
            axis, rows.loc[[name for name in rows.index if fill[str(name)] != "none"]], across, up
        )
        numbers = {variant: number for number, variant in enumerate(labels)}
        for variant, row in rows.to_dict("index").items():
            if variant in numbers:
                name = numbers[str(variant)], escape_text(named[str(variant)])
                _point(axis, row, (across, up), name, fill[str(variant)])
        others = rows.drop(index=[name for name in labels if name in rows.index])
        axis.scatter(others[across], others[up], s=12, color=GREY, alpha=0.5, linewidth=0)
        _scale(axis, rows, across, up)
    name_variants(figure)
    if not figure.legends:
        every[1].set_title("no run reached the target", color=GREY, fontsize=10)
    if title:
        caption = "full marks: Pareto-optimal in the two costs of a panel; half ones: not decided"
        entitle(figure, f"{title}\n{caption}")
    return figure


def _legend_name(label: str, rows: pd.DataFrame, name: str) -> str:
    """Return what the legend calls a variant: with how many runs reached the target if not all."""
    if name not in rows.index or rows["reached"][name] == rows["runs"][name]:
        return label
    return f"{label} ({rows['reached'][name]} of {rows['runs'][name]})"


def _fills(decisions: Decisions, pair: tuple[str, str]) -> dict[str, str]:
    """Return how full the mark of each variant is: full, half or none."""
    return {
        str(name): "full" if own["pareto"] else "half" if own["open"] else "none"
        for name, own in decisions.front(pair).to_dict("index").items()
    }


def _bars(axis: Axes, rows: pd.DataFrame, cost: str, unit: str) -> None:
    """Draw the bars of one panel and write at each what it stands for."""
    margins = (rows[f"{cost}_high"] - rows[cost]).fillna(0).to_numpy()
    below = (rows[cost] - rows[f"{cost}_low"]).fillna(0).to_numpy()
    for number, row in enumerate(rows.to_dict("records")):
        mean, margin, runs, reached = row[cost], margins[number], row["runs"], row["reached"]
        if not reached:
            _write(axis, "not reached", (0, number), GREY)
            continue
        some = reached < runs
        colour = COLOURS[number % len(COLOURS)]
        axis.barh(number, mean, 0.7, color=colour, hatch="//" if some else "", edgecolor="white")
        if margin:
            around = [[below[number]], [margin]]
            axis.errorbar(mean, number, xerr=around, color="black", capsize=3, linewidth=1)
        text = quantity(mean, unit) + (f" ({reached} of {runs})" if some else "")
        _write(axis, text, (mean + margin, number), "black")
    widest = float(np.nanmax(rows[cost] + margins)) if rows[cost].notna().any() else 0.0
    axis.set_xlim(0, 1.65 * widest or 1.0)  # room for the texts


def _write(axis: Axes, text: str, place: tuple[float, float], colour: str) -> None:
    axis.annotate(text, place, (4, 0), textcoords="offset points", va="center", color=colour)


def _front(axis: Axes, rows: pd.DataFrame, across: str, up: str) -> None:
    """Draw the staircase below which none of these points lies."""
    ordered = rows.sort_values([across, up])
    best = ordered[ordered[up] <= ordered[up].cummin()]
    axis.plot(
        best[across], best[up], drawstyle="steps-post", color=GREY, linewidth=1, linestyle=":"
    )


def _point(
    axis: Axes,
    row: Mapping[Hashable, float],
    costs: tuple[str, str],
    name: tuple[int, str],
    fill: str,
) -> None:
    (across, up), (number, label) = costs, name
    colour = COLOURS[number % len(COLOURS)]
    xerr, yerr = (
        [[row[cost] - row[f"{cost}_low"]], [row[f"{cost}_high"] - row[cost]]] for cost in costs
    )
    axis.errorbar(
        row[across],
        row[up],
        xerr=None if np.isnan(xerr).any() else xerr,
        yerr=None if np.isnan(yerr).any() else yerr,
        fmt=MARKS[number % len(MARKS)],
        color=colour,
        fillstyle="left" if fill == "half" else "full",
        markerfacecolor="white" if fill == "none" else colour,
        markerfacecoloralt="white",
        markersize=8,
        capsize=3,
        linewidth=1,
        label=label,
    )


def _scale(axis: Axes, rows: pd.DataFrame, across: str, up: str) -> None:
    """Label the axes and choose their scales: from zero, unless a cost spans decades."""
    for cost, which in ((across, axis.xaxis), (up, axis.yaxis)):
        label, unit = _AXES[cost]
        least, largest = rows[cost].min(), rows[cost].max()
        wide = 0 < _WIDE * least < largest
        label_axis(which, label, unit, log=bool(wide))
        if rows[cost].isna().all():  # without rows, or the energy of runs without a meter
            which.set_ticks([])
        elif not wide:
            top = 1.08 * float(np.nanmax(rows[[cost, f"{cost}_high"]].to_numpy(np.float64)))
            (axis.set_xlim if which is axis.xaxis else axis.set_ylim)(0, top or 1.0)
