"""Progress in any column against rounds, bits, seconds and joules: means and bands over seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.analysis.costs import cumulative, with_grams
from fedsim.analysis.figures import spread
from fedsim.analysis.style import (
    AXES,
    GREY,
    against_cost,
    entitle,
    escape_text,
    look,
    name_variants,
    panels,
    shared_upwards,
    words,
)

COSTS = ("transmissions", "bits", "bits_up", "bits_down", "t", "joules")
"""What is added up round by round."""

_FEW = 4  # bands that can overlap and remain distinguishable


def over_seeds(rounds: pd.DataFrame, column: str, *, log: bool = False) -> pd.DataFrame:
    """Return what the seeds of each variant have in common, round by round.

    Args:
        rounds: as `Result.rounds` gives it.
        column: of the round table.
        log: whether the mean is that of logarithms; values that are not positive count as missing.

    Returns:
        A row a variant and round that all of its seeds have and an observer evaluated: variant, the
        costs of `COSTS` so far (means), and mean, least and largest of the column.
    """
    totals = cumulative(rounds)
    totals = totals[totals["objective"].notna() | totals[column].notna()]  # else unobserved
    totals["bits"] = totals["bits_up"] + totals["bits_down"]
    totals["value"] = totals[column].where(totals[column] > 0) if log else totals[column]
    totals["averaged"] = np.log(totals["value"]) if log else totals["value"]
    runs = totals.groupby("variant", sort=False, observed=True)["seed"].nunique()
    grouped = totals.groupby(["variant", "round"], sort=False, observed=True)
    table = grouped[with_grams(COSTS, totals)].mean()
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
    axes: Sequence[str] = (),
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
        axes: which costs, of `AXES` or grams; all that there are if none are given.
        ylabel: what the column is; its name where not given.
        title: above the figure; what follows its first line is in smaller letters.
        log: whether the column is drawn on a logarithmic axis, and averaged so.
        target: where a line is to be.
    """
    axes = axes or with_grams(AXES, rounds)
    figure, every = panels(len(axes), 2, sharey=True)
    table = over_seeds(rounds[rounds["variant"].isin(list(labels))], column, log=log)
    for axis, cost in zip(every, axes, strict=True):
        for number, (variant, name) in enumerate(labels.items()):
            own = table[table["variant"] == variant]
            _curve(
                axis,
                own,
                cost,
                (number, escape_text(name)),
                alpha=0.2 if len(labels) <= _FEW else 0.1,
            )
        if target is not None:
            axis.axhline(target, color=GREY, linewidth=1, linestyle=":")
        against_cost(axis, cost)
    shared_upwards(every, 2, ylabel or words(column), log=log)
    name_variants(figure)
    entitle(figure, title)
    return figure


def _curve(
    axis: Axes, table: pd.DataFrame, cost: str, called: tuple[int, str], *, alpha: float
) -> None:
    number, name = called
    table, own = table.iloc[spread(len(table))], look(number)
    axis.plot(table[cost], table["mean"], label=name, **own)
    ends = table["least"], table["largest"]
    axis.fill_between(table[cost], *ends, color=own["color"], alpha=alpha, linewidth=0)
