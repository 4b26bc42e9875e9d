"""Figures and tables of robustness: probabilities, ranges of ratios, a tornado of constants."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.verdicts import by_weight, reach_of
from fedsim.core.table_columns import TITLES
from fedsim.core.tables import plain
from fedsim.core.text import format_number, visible
from fedsim.results.analysis.compare.caveats import HEADS, WORDS
from fedsim.results.analysis.style import entitle, label_axis, panels

_BARS = 6  # number of bars of a tornado
_COLOURS = {"t": "tab:blue", "joules": "tab:orange", "grams": "tab:green"}
_FAR = 3.0  # the axis is logarithmic if the largest ratio exceeds this multiple of the smallest
_FLAT = 1e-3  # a ratio whose logarithm changes by less along all intervals has no bars
_SEEN = 0.01  # bars shorter than this share of the longest one cannot be seen


class Drawn(Protocol):
    """The part of `fedsim.addons.robustness.result.Robustness` that figures use."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The label of each variant."""

    @property
    def against(self) -> str:
        """The variant that the others are compared with."""

    @property
    def design(self) -> Design:
        """The worlds."""

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row per pair of variants and cost."""

    @property
    def deciding(self) -> pd.DataFrame:
        """One row per variant, cost and constant."""


def robustness_figure(study: Drawn, title: str) -> Figure:
    """Draw the spread of ratios over worlds, their probabilities, and the deciding constants.

    The upper row has one panel per cost. It has one bar per variant over 90 % of the worlds, a mark
    at the ratio with the original constants, and the probability that the variant costs less than
    the one it is compared with. The lower row is about the variant whose verdict is least certain.
    For each constant, it shows the variant's ratio at both ends of the constant's interval.
    """
    rows_against = study.verdicts[study.verdicts["against"] == study.against]
    names = [name for name in study.labels if name != study.against]
    costs = [cost for cost in _COLOURS if (rows_against["cost"] == cost).any()]
    tornado = study.design.lines and len(names) > 0
    height = 0.9 + 0.26 * max(len(names), _BARS)
    count = len(costs) * (2 if tornado else 1)
    figure, axes = panels(count, len(costs), height, width=4.6)
    for axis, cost in zip(axes, costs, strict=False):
        rows = rows_against[rows_against["cost"] == cost]
        _spreads(axis, rows, [name for name in names if name in set(rows["variant"])], study, cost)
    for axis, cost in zip(axes[len(costs) :], costs, strict=False):
        _tornado(axis, study, _least_sure(rows_against, cost), cost)
    caption = (
        f"relative to {visible(study.labels[study.against])}; bars: 90 % of the worlds; mark: as"
        " written; %: share of worlds in which it is less"
    )
    if tornado:
        caption += (
            "; below: least certain variant, with one constant at the low (pale) or the high end"
            " of its interval"
        )
    entitle(figure, f"{title}\n{caption}", apart=True)
    return figure


def _spreads(axis: Axes, rows: pd.DataFrame, names: Sequence[str], study: Drawn, cost: str) -> None:
    by_name = {str(row["variant"]): row for row in rows.to_dict("records")}
    ends = [1.0]
    for height, name in enumerate(names):
        row = by_name[name]
        if np.isnan(row["ratio_low"]):
            axis.annotate(
                "no seed in which both reached it", (1.0, height), va="center", fontsize="small"
            )
            continue
        bar = [float(row[end]) for end in ("ratio_low", "ratio_high")]
        ends += [*bar, float(row["ratio"])]
        colour = _COLOURS[cost]
        axis.plot(bar, [height] * 2, color=colour, alpha=0.6, linewidth=8, solid_capstyle="butt")
        axis.plot(row["ratio"], height, "k|", markersize=10)
        axis.annotate(
            f"{format_number(100 * row['typical'], '.3g')} %",
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    axis.axvline(1.0, color="k", linewidth=0.8)
    axis.set_yticks(range(len(names)), [visible(study.labels[name]) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    _ratios(axis, ends, WORDS[cost])


def _ratios(axis: Axes, values: Sequence[float], label: str) -> None:
    """Lay out the axis of a ratio: logarithmic if values are far apart."""
    label_axis(axis.xaxis, label, log=max(values) > _FAR * min(values) > 0)


def _least_sure(rows: pd.DataFrame, cost: str) -> str:
    selected = rows[rows["cost"] == cost].copy()
    # The distance of a probability from 1/2; unknown ones come last.
    selected["sure"] = (selected["typical"].fillna(2.0) - 0.5).abs()
    return str(selected.sort_values("sure", kind="stable")["variant"].iloc[0])


def _tornado(axis: Axes, study: Drawn, name: str, cost: str) -> None:
    every = study.deciding
    rows = every[(every["variant"] == name) & (every["cost"] == cost)].copy()
    rows["reach"] = reach_of(rows)
    # Written with `not`, so that a reach of NaN counts as flat.
    if not rows["reach"].max() > _FLAT:
        axis.annotate("hardly varies", (0.5, 0.5), xycoords="axes fraction", ha="center")
        axis.set(xticks=[], yticks=[], xlabel=f"{WORDS[cost]} of {visible(study.labels[name])}")
        return
    rows = rows.sort_values("reach", ascending=False, kind="stable").head(_BARS)
    rows = rows[rows["reach"] > _SEEN * rows["reach"].max()]
    verdicts = study.verdicts
    written = verdicts[
        (verdicts["variant"] == name)
        & (verdicts["against"] == study.against)
        & (verdicts["cost"] == cost)
    ]["ratio"].iloc[0]
    colour, ends = _COLOURS[cost], [float(written)]
    for height, row in enumerate(rows.to_dict("records")):
        for end, alpha in (("at_low", 0.35), ("at_high", 0.8)):
            reach = float(row[end]) - written
            axis.barh(height, reach, left=written, height=0.6, color=colour, alpha=alpha)
            ends.append(float(row[end]))
    axis.axvline(written, color="k", linewidth=0.8)
    if min(ends) < 1.0 < max(ends):
        axis.axvline(1.0, color="k", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [visible(text) for text in rows["constant"]])
    axis.set_ylim(_BARS - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    _ratios(axis, ends, f"{WORDS[cost]} of {visible(study.labels[name])}")


# Tables of robustness, as rich draws them in a terminal.

_SAME = 1e-3  # a relative variation up to this counts as none
_DECIDING = 4  # number of constants reported per ratio; all are in the files


def verdict_table(
    verdicts: pd.DataFrame, fronts: pd.DataFrame, labels: Mapping[str, str], title: str
) -> Table:
    """Return a table of verdicts against one variant, and of shares of fronts.

    Args:
        verdicts: the result of `fedsim.addons.robustness.verdicts.verdicts`, against one variant.
        fronts: the result of `fedsim.addons.robustness.verdicts.fronts`.
        labels: the label of each variant.
        title: the title of the table.
    """
    drawn = plain(title, keys=2)
    drawn.caption = (
        f"{HEADS['verdict']}: over seeds and worlds; {HEADS['ratio']}: geometric mean over seeds,"
        f" with the original constants; from, to: its range in 90 % of the worlds;"
        f" {HEADS['typical']}: share of worlds in which this mean is below 1;"
        f" {HEADS['probability']}: probability that one run in a random world is cheaper (90 %"
        f" intervals); {HEADS['noise']}: share of the ratio's variance that comes from seeds;"
        " optimal: share of worlds in which the variant is Pareto-optimal"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    verdict, ratio, *shares = HEADS.values()
    drawn.add_column(verdict)
    for head in (ratio, "from", "to", *shares, "optimal"):
        drawn.add_column(head, justify="right")
    optimal = fronts.set_index("variant")["optimal"]
    for name, label in labels.items():
        rows = verdicts[verdicts["variant"] == name].to_dict("records")
        if not rows:
            drawn.add_row(escape(label), *[""] * 8, _percent(optimal[name]))
        for number, row in enumerate(rows):
            drawn.add_row(
                "" if number else escape(label),
                TITLES.get(row["cost"], row["cost"]),
                row["verdict"],
                *(_ratio(row[key]) for key in ("ratio", "ratio_low", "ratio_high")),
                _probability(row, "typical"),
                _probability(row, "probability"),
                _percent(row["noise"]),
                "" if number else _percent(optimal[name]),
            )
    return drawn


def deciding_table(deciding: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of the most influential constants of each ratio.

    Args:
        deciding: the result of `fedsim.addons.robustness.verdicts.deciding`.
        labels: the label of each variant.
        title: the title of the table.
    """
    drawn = plain(title, keys=3)
    drawn.caption = (
        "first: share of the variance of the log ratio that the constant alone explains; total:"
        " with its interactions (Sobol', 90 % intervals); ratio: with this constant at the"
        " ends of its interval, all others at their original values"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    drawn.add_column("constant")
    for head in ("first", "total", "ratio low", "ratio high"):
        drawn.add_column(head, justify="right")
    for (name, cost), group in deciding.groupby(["variant", "cost"], sort=False):
        ends = group[["at_low", "at_high"]].to_numpy()
        if np.isinf(ends).any():  # one of the two never reached the target
            continue
        if ends.max() - ends.min() <= _SAME * ends.max():
            head, ratio = TITLES.get(str(cost), str(cost)), _ratio(ends.max())
            drawn.add_row(
                escape(labels[str(name)]), head, "none: it hardly varies", "", "", ratio, ratio
            )
            continue
        first = by_weight(group).head(_DECIDING)
        for number, row in enumerate(first.to_dict("records")):
            drawn.add_row(
                "" if number else escape(labels[str(name)]),
                "" if number else TITLES.get(str(cost), str(cost)),
                row["constant"],
                *(_index(row, name) for name in ("first", "total")),
                _ratio(row["at_low"]),
                _ratio(row["at_high"]),
            )
    return drawn


def _index(row: Mapping[Any, Any], name: str) -> str:
    if isnan(row[name]):
        return "-"
    return f"{format_number(row[name], '.2f')} \N{PLUS-MINUS SIGN}{row[f'{name}_error']:.2f}"


def _probability(row: Mapping[Any, Any], name: str) -> str:
    if isnan(row[name]):
        return "no seed in which both reached it"
    low, high = _percent(row[f"{name}_low"]), _percent(row[f"{name}_high"])
    return f"{_percent(row[name])}\n[dim]{low} to {high}[/]"


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{format_number(100 * share, '.3g')} %"


def _ratio(ratio: float) -> str:
    return format_number(ratio, ".3f") if isfinite(ratio) else "-"
