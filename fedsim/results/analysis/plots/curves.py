"""Curves: any column of the round table against any other, a mean over seeds with its band."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.table_columns import AFTER
from fedsim.results.analysis.costs import measures_in, spent, with_bits
from fedsim.results.analysis.plots.canvas import (
    Recorded,
    add_legend,
    axes_for,
    finish,
    label_of,
    label_with_unit,
    labels_for,
)
from fedsim.results.analysis.seeds import POINTS, Band, Ends, over_seeds, spread
from fedsim.results.analysis.style import GREY, draw_target, escape_text, from_zero, look

By = Literal["variant", "seed"]
"""What a curve is of: a variant, as the mean over its seeds, or one run."""

ENDED = "first seed ended"
"""What the legend says of the small bar across a curve; that seed then holds its last values."""

_FEW = 4  # bands that can overlap and remain distinguishable


def columns_of(rounds: pd.DataFrame) -> list[str]:
    """Return the columns that can be an axis: rounds, costs and all measures."""
    numbers = [str(name) for name in rounds.select_dtypes("number")]
    known = [
        name for name in numbers if name != "seed" and (rounds.empty or rounds[name].notna().any())
    ]
    return [*known, "bits"]


def check_column(rounds: pd.DataFrame, name: str, key: str) -> str:
    """Return the name of a column that can be an axis.

    Raises:
        DataError: the rounds have no such column.
    """
    known = columns_of(rounds)
    if name not in known:
        text = f"got {name!r}{nearest(name, known)}; the rounds have {', '.join(known)}"
        raise DataError(key, text)
    return name


def plot_curves(
    runs: Recorded,
    x: str = "round",
    y: str = "",
    *,
    by: By = "variant",
    band: Band = "min-max",
    ends: Ends = "hold",
    log: bool | None = None,
    target: float | None = None,
    labels: Mapping[str, str] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw one column of the rounds against another: a curve per variant, with a band over seeds.

    Costs are those of all rounds so far; a small bar across a curve marks where a seed has ended.
    Against energy, a thin line at the end of a curve is what radios take after the last round.

    Args:
        runs: a `Result`.
        x: a column of the rounds, such as "round", "bits", "t", "joules", "gap", or a measure.
        y: another one; the first measure of the scenario if not given.
        by: "variant" for means over seeds, "seed" for one curve per run.
        band: "min-max" of the seeds, "std" (one deviation), "interval" (95 %, Student's), "none".
        ends: "hold": an ended seed counts on with its last values; "stop": it ends the curve.
        log: whether y is logarithmic, and is averaged so; a gap is if None.
        target: value of y at which a line is drawn.
        labels: variant -> its name in the legend; all variants by their usual names if None.
        legend: whether the curves are named in the figure.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such column or variant, or no such format.

    Example:
        >>> axes = plot_curves(result, "joules", "gap", band="std")
        >>> axes.get_xlabel().split(" (")[0], axes.get_yscale()
        ('energy', 'log')
    """
    x, y = _columns(rounds := runs.rounds, x, y)
    named, logarithmic = labels_for(runs, labels), y == "gap" if log is None else log
    axis = axes_for(ax, width)
    means = None if by == "seed" else {"band": band, "ends": ends}
    _draw(axis, rounds, (x, y), named, means, log=logarithmic)
    label_axes(axis, x, y, log=logarithmic, target=target)
    if legend:
        add_legend(axis, own=ax is None)
    return finish(axis, out)


def _columns(rounds: pd.DataFrame, x: str, y: str) -> tuple[str, str]:
    """Return the columns of both axes; y is the first measure if not given."""
    wanted = y or next(iter(measures_in(rounds)), "objective")  # a run may end before a round
    return check_column(rounds, x, "x"), check_column(rounds, wanted, "y")


def _draw(
    axis: Axes,
    rounds: pd.DataFrame,
    columns: tuple[str, str],
    labels: Mapping[str, str],
    means: Mapping[str, Any] | None,
    *,
    log: bool,
) -> None:
    """Draw means over seeds, which `means` says how to take; one curve per run if None."""
    if means is None:
        totals = with_bits(spent(rounds))
        draw_runs(axis, totals[totals[columns[1]].notna()], columns, labels, log=log)
        return
    x, y = columns
    own = rounds[rounds["variant"].isin(list(labels))]
    also = [name for name in dict.fromkeys((x, y)) if name != "round"]
    draw_means(axis, over_seeds(own, y, log=log, also=also, **means), x, labels)


def label_axes(axis: Axes, x: str, y: str, *, log: bool, target: float | None = None) -> None:
    """Label both axes of curves by their columns, with units; costs begin at zero.

    A target is a dotted line at its value of y, with its name.
    """
    if log:
        axis.set_yscale("log")
    if x in {"round", "t", "joules", "grams", "transmissions", "beacons"} or x.startswith("bits"):
        from_zero(axis)
    label_with_unit(axis.xaxis, *label_of(x))
    note_tails(axis)
    label_with_unit(axis.yaxis, *label_of(y))
    if target is not None:
        draw_target(axis, target)


def draw_means(
    axis: Axes, table: pd.DataFrame, x: str, labels: Mapping[str, str], most: int = POINTS
) -> None:
    """Draw the mean of each variant with its band, from a table of `over_seeds`.

    What is drawn of the n-th variant, from 0, has the gid `variant-n`, which an SVG file names.

    Args:
        axis: where.
        table: with the column x.
        x: of the horizontal axis.
        labels: variant -> its name in the legend, which also says what the bars across curves mean.
        most: points of a curve.
    """
    ended = False
    alpha = 0.2 if len(labels) <= _FEW else 0.1
    for number, (variant, name) in enumerate(labels.items()):
        own = table[table["variant"] == variant]
        thin = own.iloc[spread(len(own), most)]
        style = look(number, len(thin)) | {"gid": f"variant-{number}"}
        axis.plot(thin[x], thin["mean"], label=escape_text(name), **style)
        colour = axis.lines[-1].get_color()
        if (thin["low"] < thin["high"]).any():
            band: dict[str, Any] = {"color": colour, "alpha": alpha, "linewidth": 0}
            band["gid"] = f"variant-{number}-band"
            axis.fill_between(thin[x], thin["low"], thin["high"], **band)
        _draw_tail(axis, own, (x, "mean"), colour, f"variant-{number}-tail")
        fewer = np.flatnonzero(np.diff(own["running"].to_numpy()) < 0)
        if len(fewer):
            end = own.iloc[int(fewer[0])]
            bar: dict[str, Any] = {"markersize": 9, "label": "_ended"}
            axis.plot(end[x], end["mean"], "|", color=colour, gid=f"variant-{number}-end", **bar)
            ended = True
    if ended:
        axis.plot([], [], "|", color=GREY, markersize=9, label=ENDED)


def draw_runs(
    axis: Axes,
    totals: pd.DataFrame,
    columns: tuple[str, str],
    labels: Mapping[str, str],
    *,
    log: bool,
) -> None:
    """Draw one curve per run; the first of each variant has its name.

    Args:
        axis: where.
        totals: the rounds, with costs so far.
        columns: across and upwards.
        labels: variant -> its name in the legend.
        log: whether what is not positive has no place.
    """
    x, y = columns
    for number, (variant, label) in enumerate(labels.items()):
        name = escape_text(label)
        for _, run in totals[totals["variant"] == variant].groupby("seed"):
            thin = run.iloc[spread(len(run))]
            values = thin[y].where(thin[y] > 0) if log else thin[y]
            axis.plot(thin[x], values, label=name, **look(number, len(thin)))
            _draw_tail(axis, run, columns, axis.lines[-1].get_color())
            name = "_nolegend_"


_TAIL = "_tail"
"""The label of the lines of last tails, which no legend lists."""


def _draw_tail(
    axis: Axes, run: pd.DataFrame, columns: tuple[str, str], colour: Any, gid: str = ""
) -> None:
    """Draw what radios take after the last round, until they sleep: a thin line with an end."""
    x, y = columns
    after = AFTER.get(x, "")
    if after not in run or not len(run) or not run[after].iloc[-1] > 0:
        return
    end = run.iloc[-1]
    across = [end[x], end[x] + end[after]]
    style: dict[str, Any] = {"color": colour, "linewidth": 1.0, "marker": "|", "markevery": [1]}
    axis.plot(across, [end[y]] * 2, label=_TAIL, gid=gid or None, **style)


def note_tails(axis: Axes) -> None:
    """Write below an axis of energy what the thin lines at the ends of curves are."""
    if any(line.get_label() == _TAIL for line in axis.get_lines()):
        axis.set_xlabel(f"{axis.get_xlabel()}; thin line: until radios sleep")
