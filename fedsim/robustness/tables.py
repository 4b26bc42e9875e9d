"""Tables of robustness, as rich draws them in a terminal."""

from collections.abc import Mapping
from math import isfinite, isnan

import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.tables import HEADS
from fedsim.tables import plain

_SAME = 1e-3  # relative; a ratio that varies by no more is the same in every world
_DECIDING = 4  # constants told of each ratio; all are in the files


def verdict_table(
    verdicts: pd.DataFrame, fronts: pd.DataFrame, labels: Mapping[str, str], title: str
) -> Table:
    """Return a table of verdicts against one variant, and of shares of fronts.

    Args:
        verdicts: as `fedsim.robustness.verdicts.verdicts` gives it, against one variant.
        fronts: as `fedsim.robustness.verdicts.fronts` gives it.
        labels: variant -> what the table calls it.
        title: above the table.
    """
    drawn = plain(title, keys=2)
    drawn.caption = (
        "ratio: as written, and in nine of ten worlds; P less: that it takes less (90 % interval);"
        " noise: what of the ratio's variance is training's; optimal: worlds on the Pareto front"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    for head in ("ratio", "from", "to", "P less", "noise", "optimal"):
        drawn.add_column(head, justify="right")
    optimal = fronts.set_index("variant")["optimal"]
    for name, label in labels.items():
        rows = verdicts[verdicts["variant"] == name].to_dict("records")
        if not rows:
            drawn.add_row(escape(label), "", "", "", "", "", "", _percent(optimal[name]))
        for number, row in enumerate(rows):
            drawn.add_row(
                "" if number else escape(label),
                HEADS.get(row["cost"], row["cost"]),
                *(_ratio(row[key]) for key in ("ratio", "ratio_low", "ratio_high")),
                _probability(row),
                _percent(row["noise"]),
                "" if number else _percent(optimal[name]),
            )
    return drawn


def deciding_table(deciding: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of the constants that decide, the first ones of each ratio.

    Args:
        deciding: as `fedsim.robustness.deciding.deciding` gives it.
        labels: variant -> what the table calls it.
        title: above the table.
    """
    drawn = plain(title, keys=3)
    drawn.caption = (
        "total: the share of the variance of the log ratio that goes with the constant;"
        " ratio: with this constant at the ends of its interval, all others as written"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    drawn.add_column("constant")
    for head in ("total", "ratio low", "ratio high"):
        drawn.add_column(head, justify="right")
    for (name, cost), group in deciding.groupby(["variant", "cost"], sort=False):
        ends = group[["at_low", "at_high"]].to_numpy()
        if ends.max() - ends.min() <= _SAME * ends.max():
            head, ratio = HEADS.get(str(cost), str(cost)), _ratio(ends.max())
            drawn.add_row(
                escape(labels[str(name)]), head, "none: it hardly varies", "", ratio, ratio
            )
            continue
        first = group.sort_values("total", ascending=False, kind="stable").head(_DECIDING)
        for number, row in enumerate(first.to_dict("records")):
            total = row["total"]
            drawn.add_row(
                "" if number else escape(labels[str(name)]),
                "" if number else HEADS.get(str(cost), str(cost)),
                row["constant"],
                "-" if isnan(total) else f"{total:.2f} \N{PLUS-MINUS SIGN}{row['total_error']:.2f}",
                _ratio(row["at_low"]),
                _ratio(row["at_high"]),
            )
    return drawn


def _probability(row: Mapping[object, float]) -> str:
    if isnan(row["probability"]):
        return "never both"
    low, high = _percent(row["probability_low"]), _percent(row["probability_high"])
    return f"{_percent(row['probability'])}\n[dim]{low} to {high}[/]"


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{100 * share:.3g} %"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if isfinite(ratio) else "-"
