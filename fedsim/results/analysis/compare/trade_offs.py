"""Figures of a table of costs: what each variant costs, and what it trades for what."""

from collections.abc import Mapping
from itertools import combinations

import pandas as pd
from matplotlib.figure import Figure

from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.costs import with_grams
from fedsim.results.analysis.plots.costs import draw_cost_bars, draw_pareto
from fedsim.results.analysis.style import GREY, entitle, name_variants, panels

TRADED = ("bits", "t", "joules")
"""The costs between which variants trade."""

_BARS = ("transmissions", *TRADED)


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
    for axis, cost in zip(every, costs, strict=True):
        draw_cost_bars(axis, table.set_index("variant"), cost, labels)
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
    rows = table.set_index("variant")
    named = {name: _legend_name(label, rows, name) for name, label in labels.items()}
    for axis, costs in zip(every, combinations(TRADED, 2), strict=True):
        draw_pareto(axis, rows, decisions.front(costs), costs, named)
        for which, cost in zip((axis.xaxis, axis.yaxis), costs, strict=True):
            if rows[cost].isna().all():  # no run got there, or none has a meter
                which.set_ticks([])
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
