"""Costs of reaching a target: bars with intervals, and what variants trade for what."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from fedsim.core.errors import DataError
from fedsim.core.text import format_number
from fedsim.results.analysis.compare.cost_tables import COMPARED, Target, summarise
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.costs import with_bits, with_grams
from fedsim.results.analysis.plots.canvas import (
    Recorded,
    add_legend,
    axes_for,
    bars_height,
    category,
    finish,
    label_of,
    label_with_unit,
    labels_for,
)
from fedsim.results.analysis.style import GREY, escape_text, look

_WIDE = 20  # costs that differ by more are drawn on a logarithmic axis


def plot_time_to_target(
    runs: Recorded,
    target: str | None = None,
    cost: str = "t",
    *,
    confidence: float = 0.95,
    labels: Mapping[str, str] | None = None,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw what each variant took to reach a target: one bar per variant, with its interval.

    Bars are means over the seeds that reached it; where some did not, the bar says how many did.
    From four seeds on the interval is Student's for the logarithm of the mean; of two or three
    seeds it goes from the least to the largest.

    Args:
        runs: a `Result`.
        target: such as "gap=1e-5"; the one at which the runs were to stop if None.
        cost: "t" for simulated time, or "round", "bits", "transmissions", "joules".
        confidence: of the interval.
        labels: variant -> its name, of those that are drawn; all if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: no run evaluates the target, or there is no such cost or variant.

    Example:
        >>> axes = plot_time_to_target(result, "gap=1e5", "joules")
        >>> axes.get_xlabel(), [text.get_text() for text in axes.get_yticklabels()]
        ('energy (J)', ['base (chb)', 'gd'])
    """
    named = labels_for(runs, labels)
    rows = _summary(runs, target, (cost,), confidence).reindex(list(named))
    axis = axes_for(ax, width, bars_height(ax, width, len(named), 0.7))
    axis.grid(visible=False, axis="y")
    for number, row in enumerate(rows.to_dict("records")):
        _bar(axis, number, row, cost)
    category(axis, list(named.values()))
    ends = rows[[cost, f"{cost}_high"]].to_numpy(np.float64)
    widest = float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0
    beside = (rows["reached"].between(1, rows["runs"] - 1)).any()  # a text stands beside a bar
    axis.set_xlim(0, (1.2 if beside else 1.05) * widest or 1.0)
    label_with_unit(axis.xaxis, *label_of(cost))
    return finish(axis, out)


_BESIDE: dict[str, Any] = {"textcoords": "offset points", "va": "center", "color": GREY}


def _bar(axis: Axes, number: int, row: Mapping[Any, Any], cost: str) -> None:
    """Draw the bar of a variant with its interval, or say that no seed reached the target."""
    mean = float(row[cost])
    if not np.isfinite(mean):
        axis.annotate("not reached", (0, number), (3, 0), **_BESIDE)
        return
    part = row["reached"] < row["runs"]
    own = look(number)["color"]
    axis.barh(number, mean, 0.7, color=own, hatch="//" if part else "", edgecolor="white")
    low, high = row[f"{cost}_low"], row[f"{cost}_high"]
    if low < high:
        around = [[mean - low], [high - mean]]
        style: dict[str, Any] = {"ecolor": "black", "capsize": 3, "elinewidth": 1}
        _, caps, (line,) = axis.errorbar(mean, number, xerr=around, fmt="none", **style)
        for each in (*caps, line):  # seen on a dark bar, too
            each.set_path_effects([withStroke(linewidth=2.6, foreground="white")])
    if part:
        end = high if np.isfinite(high) else mean
        text = f"{format_number(row['reached'], '.0f')} of {format_number(row['runs'], '.0f')}"
        axis.annotate(text, (end, number), (3, 0), **_BESIDE)


def plot_pareto(
    runs: Recorded,
    x: str = "bits",
    y: str = "joules",
    target: str | None = None,
    *,
    confidence: float = 0.95,
    labels: Mapping[str, str] | None = None,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw what variants trade between two costs of a target, with the Pareto front.

    A full mark is Pareto-optimal in both costs, a half one neither that nor known to be dominated
    by another variant; a dotted line joins these. Marks are means over the seeds that reached the
    target, and error bars their intervals, as in `plot_time_to_target`.

    Args:
        runs: a `Result`.
        x: a cost: "round", "bits", "bits_up", "transmissions", "t", "joules", ...
        y: another one.
        target: such as "gap=1e-5"; the one at which the runs were to stop if None.
        confidence: of intervals and tests.
        labels: variant -> its name, of those that are drawn; all if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: no run evaluates the target, or there is no such cost or variant.

    Example:
        >>> axes = plot_pareto(result, "bits", "joules", "gap=1e5")
        >>> axes.get_legend_handles_labels()[1]
        ['base (chb)', 'gd']
    """
    named = labels_for(runs, labels)
    rows = _summary(runs, target, (x, y), confidence)
    front = Decisions.of(with_bits(_costs(runs, target)), [x, y], confidence).front([x, y])
    rows = rows[rows["reached"] > 0].reindex([name for name in named if name in rows.index])
    rows = rows.dropna(subset=[x, y])
    axis = axes_for(ax, width)
    _join(axis, rows[front.reindex(rows.index).any(axis=1)], x, y)
    for number, (variant, label) in enumerate(named.items()):
        if variant in rows.index:
            own = rows.loc[[variant]].iloc[0]
            fill = "full" if front["pareto"][variant] else "half" if front["open"][variant] else ""
            _point(axis, own, (x, y), (number, label), fill)
    _scale(axis, rows, x, y)
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def _join(axis: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Draw a line through those rows that no other one is below in both costs."""
    best = rows.sort_values([x, y])
    best = best[best[y] <= best[y].cummin()]
    axis.plot(best[x], best[y], drawstyle="steps-post", color=GREY, linewidth=1, linestyle=":")


def _scale(axis: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Scale and label both axes: from zero, or by logarithm where costs differ far."""
    for cost, which in ((x, axis.xaxis), (y, axis.yaxis)):
        least, largest = rows[cost].min(), rows[cost].max()
        across = which is axis.xaxis
        if 0 < _WIDE * least < largest:
            (axis.set_xscale if across else axis.set_yscale)("log")
        else:
            ends = rows[[cost, f"{cost}_high"]].to_numpy(np.float64)
            top = 1.08 * float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0
            (axis.set_xlim if across else axis.set_ylim)(0, top or 1.0)
        label_with_unit(which, *label_of(cost))


def _point(
    axis: Axes, row: pd.Series, costs: tuple[str, str], called: tuple[int, str], fill: str
) -> None:
    """Draw the mark of a variant with its error bars."""
    number, label = called
    style = look(number, points=1)
    colour, errors = style["color"], []
    for cost in costs:
        around = [[row[cost] - row[f"{cost}_low"]], [row[f"{cost}_high"] - row[cost]]]
        errors.append(None if np.isnan(around).any() else around)
    axis.errorbar(
        row[costs[0]],
        row[costs[1]],
        xerr=errors[0],
        yerr=errors[1],
        fmt="none",
        ecolor=colour,
        capsize=3,
        elinewidth=1,
    )
    axis.plot(
        row[costs[0]],
        row[costs[1]],
        style.get("marker", "o"),
        color=colour,
        fillstyle="left" if fill == "half" else "full",
        markerfacecolor=colour if fill else "white",
        markerfacecoloralt="white",
        label=escape_text(label),
    )


def _costs(runs: Recorded, target: str | None) -> pd.DataFrame:
    wanted = Target.usual(runs.summary) if target is None else Target.read(target)
    return wanted.costs(runs)


def _summary(
    runs: Recorded, target: str | None, costs: tuple[str, ...], confidence: float
) -> pd.DataFrame:
    """Return means and intervals of costs, one row per variant.

    Raises:
        DataError: a cost is none.
    """
    table = _costs(runs, target)
    known = with_grams(COMPARED, table)
    for cost in costs:
        if cost not in known:
            raise DataError("cost", f"got {cost!r}; expected one of {', '.join(known)}")
    return summarise(table, confidence).set_index("variant")
