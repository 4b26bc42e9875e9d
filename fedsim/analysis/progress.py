"""Progress in any column against rounds, bits, seconds and joules: means and bands over seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

from fedsim.analysis.costs import cumulative
from fedsim.analysis.figures import COLOURS, DASHES, Drawing, drawn, spread

AXES = {
    "round": ("rounds", ""),
    "bits": ("bits, up and down", "bit"),
    "bits_up": ("bits up", "bit"),
    "bits_down": ("bits down", "bit"),
    "t": ("simulated time", "s"),
    "joules": ("energy of the fleet", "J"),
}
"""Costs that progress can be drawn against: their labels and units."""

_FEW = 4  # bands that can lie upon each other and be told apart

SPACED = ConstrainedLayoutEngine(wspace=0.06)
"""A layout of panels side by side: the labels of their outermost ticks keep clear."""


def over_seeds(rounds: pd.DataFrame, column: str, *, log: bool = False) -> pd.DataFrame:
    """Return what the seeds of each variant have in common, round by round.

    Args:
        rounds: as `Result.rounds` gives it.
        column: of the round table.
        log: whether the mean is that of logarithms; values that are not positive count as missing.

    Returns:
        A row a variant and round that all of its seeds have and somebody looked at: variant, the
        costs of `AXES` so far (means), and mean, least and largest of the column.
    """
    totals = cumulative(rounds)
    totals = totals[totals["objective"].notna() | totals[column].notna()]  # else nobody looked
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    totals["value"] = totals[column].where(totals[column] > 0) if log else totals[column]
    totals["averaged"] = np.log(totals["value"]) if log else totals["value"]
    runs = totals.groupby("variant", sort=False, observed=True)["seed"].nunique()
    costs = [cost for cost in AXES if cost != "round"]
    grouped = totals.groupby(["variant", "round"], sort=False, observed=True)
    table = grouped[costs].mean()
    means = grouped["averaged"].mean()
    table["mean"] = np.exp(means) if log else means
    table["least"], table["largest"] = grouped["value"].min(), grouped["value"].max()
    wanted = runs.reindex(table.index.get_level_values("variant")).to_numpy()
    table = table[grouped.size() == wanted]
    return table.reset_index()


def progress(
    rounds: pd.DataFrame,
    labels: Mapping[str, str],
    column: str = "gap",
    *,
    axes: Sequence[str] = ("round", "bits", "t", "joules"),
    ylabel: str = "",
    title: str = "",
    log: bool = True,
    target: float | None = None,
) -> Figure:
    """Draw a column of the round table, a panel a cost: the mean over seeds, least to largest.

    Args:
        rounds: as `Result.rounds` gives it.
        labels: variant -> what the legend calls it; variants that are not in it are left out.
        column: of the round table.
        axes: which costs, of `AXES`.
        ylabel: what the column is; its name where not given.
        title: above the figure.
        log: whether the column is drawn on a logarithmic axis, and averaged so.
        target: where a line is to be.
    """
    figure = Drawing(figsize=(3.6 * len(axes), 4.4), layout=SPACED)
    panels = figure.subplots(1, len(axes), sharey=True, squeeze=False)[0]
    table = over_seeds(rounds[rounds["variant"].isin(list(labels))], column, log=log)
    for axis, cost in zip(panels, axes, strict=True):
        for number, (variant, name) in enumerate(labels.items()):
            own = table[table["variant"] == variant]
            _curve(
                axis, own, cost, (number, drawn(name)), alpha=0.2 if len(labels) <= _FEW else 0.1
            )
        if target is not None:
            axis.axhline(target, color="#777777", linewidth=1, linestyle=":")
        label, unit = AXES[cost]
        axis.set(xlabel=label, yscale="log" if log else "linear")
        axis.set_xlim(left=0)
        axis.xaxis.set_major_formatter(EngFormatter(unit))
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.grid(visible=True, alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(ylabel or column)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=_columns(len(names)), frameon=False
    )
    if title:
        figure.suptitle(drawn(title))
    return figure


def _columns(names: int) -> int:
    """Return the columns of a legend whose rows are as full as each other, of five at most."""
    rows = -(-names // 5)
    return -(-names // max(rows, 1))


def _curve(
    axis: Axes, table: pd.DataFrame, cost: str, called: tuple[int, str], *, alpha: float
) -> None:
    number, name = called
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    table = table.iloc[spread(len(table))]
    axis.plot(table[cost], table["mean"], color=colour, linestyle=dash, linewidth=1.5, label=name)
    axis.fill_between(
        table[cost], table["least"], table["largest"], color=colour, alpha=alpha, linewidth=0
    )
