"""Costs of reaching a target: bars with intervals, and what variants trade for what."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patheffects import withStroke

from fedsim.core.errors import DataError
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.compare.cost_tables import COMPARED, Target, summarise
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.costs import with_bits, with_grams
from fedsim.results.analysis.plots.canvas import (
    Recorded,
    add_legend,
    axes_for,
    bar_row,
    category,
    finish,
    fit_rows,
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

    Bars are means over the seeds that reached it, which are written beside them; where some did
    not, the bar is hatched and says how many did.
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
    rows = _summary(runs, target, (cost,), confidence)
    axis = axes_for(ax, width)
    draw_cost_bars(axis, rows, cost, named)
    fit_rows(axis, bar_row(width), 0.7, own=ax is None)
    return finish(axis, out)


def draw_cost_bars(axis: Axes, rows: pd.DataFrame, cost: str, labels: Mapping[str, str]) -> None:
    """Draw what variants cost: a bar a variant, the first on top, with its interval and its mean.

    Where some runs did not get there the bar is hatched, and how many did stands beside its mean.

    Args:
        axis: where.
        rows: as `summarise` gives them, by variant.
        cost: which.
        labels: variant -> its name, of those that are drawn.
    """
    title, unit = label_of(cost)
    rows = rows.reindex(list(labels))
    axis.grid(visible=False, axis="y")
    for number, row in enumerate(rows.to_dict("records")):
        _bar(axis, number, row, cost, unit)
    category(axis, list(labels.values()))
    ends = rows[[cost, f"{cost}_high"]].to_numpy(np.float64)
    widest = float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0
    partly = (rows["reached"].between(1, rows["runs"] - 1)).any()
    axis.set_xlim(0, (_PARTLY if partly else _WHOLE) * widest or 1.0)
    label_with_unit(axis.xaxis, title, unit)


_WHOLE, _PARTLY = 1.3, 1.6  # of an axis, with a mean beside its bars, and with "1.23 kbit (1 of 3)"

_BESIDE: dict[str, Any] = {"textcoords": "offset points", "va": "center"}


def _bar(axis: Axes, number: int, row: Mapping[Any, Any], cost: str, unit: str) -> None:
    """Draw the bar of a variant with its interval, or say that no seed reached the target."""
    mean = float(row[cost])
    if not np.isfinite(mean):
        axis.annotate("not reached", (0, number), (3, 0), color=GREY, **_BESIDE)
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
    text = quantity(mean, unit)
    if part:
        counts = (format_number(row[name], ".0f") for name in ("reached", "runs"))
        text += f" ({' of '.join(counts)})"
    axis.annotate(text, (high if np.isfinite(high) else mean, number), (4, 0), **_BESIDE)


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
    axis = axes_for(ax, width)
    draw_pareto(axis, rows.loc[rows.index.isin(list(named))], front, (x, y), named)
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def draw_pareto(
    axis: Axes,
    rows: pd.DataFrame,
    front: pd.DataFrame,
    costs: tuple[str, str],
    labels: Mapping[str, str],
) -> None:
    """Draw what variants trade between two costs; those without a label are grey points.

    Args:
        axis: where.
        rows: as `summarise` gives them, by variant.
        front: which variants are Pareto-optimal in these costs, as `Decisions.front` gives it.
        costs: across and upwards.
        labels: variant -> its name in the legend.
    """
    x, y = costs
    rows = rows[rows["reached"] > 0].dropna(subset=[x, y])
    best = rows[front.reindex(rows.index).any(axis=1)].sort_values([x, y])
    best = best[best[y] <= best[y].cummin()]  # no other one is below them in both costs
    dots: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": ":"}
    axis.plot(best[x], best[y], drawstyle="steps-post", **dots)
    for number, (variant, label) in enumerate(labels.items()):
        if variant in rows.index:
            own = rows.loc[[variant]].iloc[0]
            fill = "full" if front["pareto"][variant] else "half" if front["open"][variant] else ""
            _point(axis, own, costs, (number, label), fill)
    others = rows.drop(index=[name for name in labels if name in rows.index])
    axis.scatter(others[x], others[y], s=12, color=GREY, alpha=0.5, linewidth=0)
    for cost, which in ((x, axis.xaxis), (y, axis.yaxis)):
        _scale(which, rows, cost)


def _scale(which: Axis, rows: pd.DataFrame, cost: str) -> None:
    """Scale and label an axis: from zero, or by logarithm where costs differ far."""
    least, largest = rows[cost].min(), rows[cost].max()
    across = which is which.axes.xaxis
    if 0 < _WIDE * least < largest:
        (which.axes.set_xscale if across else which.axes.set_yscale)("log")
    else:
        ends = rows[[cost, f"{cost}_high"]].to_numpy(np.float64)
        top = 1.08 * float(np.nanmax(ends)) if np.isfinite(ends).any() else 0.0
        (which.axes.set_xlim if across else which.axes.set_ylim)(0, top or 1.0)
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
    mark = {
        "fmt": style.get("marker", "o"),
        "color": colour,
        "fillstyle": "left" if fill == "half" else "full",
        "markerfacecolor": colour if fill else "white",
        "markerfacecoloralt": "white",
    }
    bars: dict[str, Any] = {"xerr": errors[0], "yerr": errors[1], "capsize": 3, "elinewidth": 1}
    axis.errorbar(row[costs[0]], row[costs[1]], label=escape_text(label), **mark, **bars)


def _costs(runs: Recorded, target: str | None) -> pd.DataFrame:
    wanted = Target.usual(runs) if target is None else Target.read(target)
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
