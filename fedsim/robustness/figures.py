"""Figures of robustness: probabilities, spreads of ratios, and a tornado of the constants."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.analysis.style import entitle, panels
from fedsim.robustness.design import Design
from fedsim.robustness.verdicts import COSTS
from fedsim.visible import visible

_BARS = 6  # of a tornado
_WORDS = {"t": "time", "joules": "energy"}
_COLOURS = ("tab:blue", "tab:orange")


class Drawn(Protocol):
    """What is drawn of a study; see `fedsim.robustness.study.Robustness`."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What each variant is called."""

    @property
    def against(self) -> str:
        """The variant that the others are compared with."""

    @property
    def design(self) -> Design:
        """The worlds."""

    @property
    def verdicts(self) -> pd.DataFrame:
        """A row a pair of variants and cost."""

    @property
    def deciding(self) -> pd.DataFrame:
        """A row a variant, cost and constant."""


def robustness_figure(study: Drawn, title: str) -> Figure:
    """Draw how ratios spread over worlds with their probabilities, and what decides them.

    Above, a panel a cost: a bar a variant over nine of ten worlds, a mark at its ratio as written,
    and the probability that it takes less than the variant compared with. Below, of the variant
    whose verdict is least sure, the ratio with each constant at the ends of its interval.
    """
    own = study.verdicts[study.verdicts["against"] == study.against]
    names = [name for name in study.labels if name != study.against]
    tornado = study.design.lines and len(names) > 0
    figure, axes = panels(4 if tornado else 2, 2, 1.2 + 0.32 * max(len(names), _BARS))
    for axis, cost in zip(axes, COSTS, strict=False):
        _spreads(axis, own[own["cost"] == cost], names, study, cost)
    for axis, cost in zip(axes[2:], COSTS, strict=False):
        _tornado(axis, study, _least_sure(own, cost), cost)
    below = "; below: with one constant at either end of its interval" if tornado else ""
    bars = "bars: in nine of ten worlds; %: worlds in which it takes less"
    entitle(figure, f"{title}\n{bars}{below}")
    return figure


def _spreads(axis: Axes, rows: pd.DataFrame, names: Sequence[str], study: Drawn, cost: str) -> None:
    by_name = rows.set_index("variant")
    for height, name in enumerate(names):
        row = by_name.loc[name]
        if np.isnan(row["ratio_low"]):
            axis.annotate("never both", (1.0, height), va="center", fontsize="small")
            continue
        axis.barh(
            height,
            row["ratio_high"] - row["ratio_low"],
            left=row["ratio_low"],
            height=0.5,
            color=_COLOURS[COSTS.index(cost)],
            alpha=0.6,
        )
        axis.plot(row["ratio"], height, "k|", markersize=10)
        share = f"{100 * row['probability']:.3g} %"  # of worlds in which it takes less
        axis.annotate(
            share,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    axis.axvline(1.0, color="k", linewidth=0.8)
    shown = [visible(study.labels[name]) for name in names] if cost == COSTS[0] else []
    axis.set_yticks(range(len(names)) if shown else [], shown)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel(f"{_WORDS[cost]} / that of {visible(study.labels[study.against])}")
    axis.grid(visible=False, axis="y")


def _least_sure(rows: pd.DataFrame, cost: str) -> str:
    own = rows[rows["cost"] == cost].copy()
    own["sure"] = (own["probability"].fillna(2.0) - 0.5).abs()
    return str(own.sort_values("sure", kind="stable")["variant"].iloc[0])


def _tornado(axis: Axes, study: Drawn, name: str, cost: str) -> None:
    every = study.deciding
    rows = every[(every["variant"] == name) & (every["cost"] == cost)].copy()
    rows["reach"] = np.abs(np.log(rows["at_high"]) - np.log(rows["at_low"]))
    rows = rows.sort_values("reach", ascending=False, kind="stable").head(_BARS)
    own = study.verdicts
    written = own[
        (own["variant"] == name) & (own["against"] == study.against) & (own["cost"] == cost)
    ]["ratio"].iloc[0]
    for height, row in enumerate(rows.to_dict("records")):
        for end, alpha in (("at_low", 0.35), ("at_high", 0.8)):
            axis.barh(
                height,
                row[end] - written,
                left=written,
                height=0.6,
                color=_COLOURS[COSTS.index(cost)],
                alpha=alpha,
                label={"at_low": "at its low end", "at_high": "at its high end"}[end]
                if height == 0
                else None,
            )
    axis.axvline(written, color="k", linewidth=0.8)
    axis.axvline(1.0, color="k", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [visible(text) for text in rows["constant"]])
    axis.set_ylim(_BARS - 0.5, -0.5)
    axis.set_xlabel(f"{_WORDS[cost]} of {visible(study.labels[name])}, in the same ratio")
    axis.grid(visible=False, axis="y")
    if cost == COSTS[0]:
        axis.legend(fontsize="x-small", loc="lower right")
