"""Tables of robustness, as rich draws them in a terminal."""

from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.tables import HEADS
from fedsim.robustness.deciding import by_weight
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
        "ratio: typical over seeds, as written, and in nine of ten worlds; P typical: share of"
        " worlds in which that is below 1; P(cheaper): of one run, seed and world both drawn"
        " (90 % intervals);"
        " noise: what of the ratio's variance is training's; optimal: worlds on the Pareto front"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    for head in ("ratio", "from", "to", "P typical", "P(cheaper)", "noise", "optimal"):
        drawn.add_column(head, justify="right")
    optimal = fronts.set_index("variant")["optimal"]
    for name, label in labels.items():
        rows = verdicts[verdicts["variant"] == name].to_dict("records")
        if not rows:
            drawn.add_row(escape(label), *[""] * 7, _percent(optimal[name]))
        for number, row in enumerate(rows):
            drawn.add_row(
                "" if number else escape(label),
                HEADS.get(row["cost"], row["cost"]),
                *(_ratio(row[key]) for key in ("ratio", "ratio_low", "ratio_high")),
                _probability(row, "typical"),
                _probability(row, "probability"),
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
        "first: the share of the variance of the log ratio that goes with the constant alone;"
        " total: with others as well (Sobol', 90 % intervals); ratio: with this constant at the"
        " ends of its interval, all others as written"
    )
    drawn.add_column("variant")
    drawn.add_column("cost")
    drawn.add_column("constant")
    for head in ("first", "total", "ratio low", "ratio high"):
        drawn.add_column(head, justify="right")
    for (name, cost), group in deciding.groupby(["variant", "cost"], sort=False):
        ends = group[["at_low", "at_high"]].to_numpy()
        if ends.max() - ends.min() <= _SAME * ends.max():
            head, ratio = HEADS.get(str(cost), str(cost)), _ratio(ends.max())
            drawn.add_row(
                escape(labels[str(name)]), head, "none: it hardly varies", "", "", ratio, ratio
            )
            continue
        first = by_weight(group).head(_DECIDING)
        for number, row in enumerate(first.to_dict("records")):
            drawn.add_row(
                "" if number else escape(labels[str(name)]),
                "" if number else HEADS.get(str(cost), str(cost)),
                row["constant"],
                *(_index(row, name) for name in ("first", "total")),
                _ratio(row["at_low"]),
                _ratio(row["at_high"]),
            )
    return drawn


def _index(row: Mapping[Any, Any], name: str) -> str:
    if isnan(row[name]):
        return "-"
    return f"{row[name]:.2f} \N{PLUS-MINUS SIGN}{row[f'{name}_error']:.2f}"


def _probability(row: Mapping[Any, Any], name: str) -> str:
    if isnan(row[name]):
        return "no seed in which both reached it"
    low, high = _percent(row[f"{name}_low"]), _percent(row[f"{name}_high"])
    return f"{_percent(row[name])}\n[dim]{low} to {high}[/]"


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{100 * share:.3g} %"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if isfinite(ratio) else "-"
