"""Tables of a comparison, as rich draws them in a terminal."""

from collections.abc import Hashable, Mapping
from math import isfinite, isnan

import pandas as pd
from rich.markup import escape
from rich.table import Table

from fedsim.analysis.carbon import with_grams
from fedsim.analysis.comparing.pairwise import FEWEST, INDISTINGUISHABLE
from fedsim.analysis.tables import HEADS, UNITS
from fedsim.record.schema import GRAMS
from fedsim.tables import plain, quantity

_SHOWN = ("round", "transmissions", "bits_up", "bits_down", "t", "joules")
_PAIRED = ("round", "transmissions", "bits", "t", "joules")
_LEAST, _LESS = 1e-4, "<1e-4"  # nobody believes a smaller probability
_WIDE = 10  # percent, of which tenths matter no more


def summary_table(table: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `summarised`, a row a variant: means, and below them their intervals.

    Args:
        table: with columns `pareto` and `tie` beside.
        labels: variant -> what the table calls it; the others are left out.
        title: above the table.
    """
    drawn = plain(title)
    marks = {
        "pareto": "* Pareto-optimal in bits, time and energy",
        "tie": f"tie: {INDISTINGUISHABLE} from a Pareto-optimal variant",
    }
    drawn.caption = "; ".join(text for mark, text in marks.items() if table[mark].any()) or None
    drawn.add_column("variant")
    drawn.add_column("reached", justify="right")
    shown = with_grams(_SHOWN, table)
    for cost in shown:
        drawn.add_column(HEADS.get(cost, cost), justify="right")
    drawn.add_column("")
    for row in table.set_index("variant").loc[list(labels)].reset_index().to_dict("records"):
        cells = [escape(labels[row["variant"]]), f"{row['reached']} of {row['runs']}"]
        if row["reached"]:
            cells += [_mean(row, cost) for cost in shown]
        else:
            cells += ["", "never reached", *[""] * (len(shown) - 2)]
        drawn.add_row(*cells, "*" if row["pareto"] else "tie" if row["tie"] else "")
    return drawn


def paired_table(pairs: pd.DataFrame, labels: Mapping[str, str], title: str) -> Table:
    """Return a table of `paired`, a row a variant and cost.

    Args:
        pairs: as `paired` gives it.
        labels: variant -> what the table calls it; the others are left out.
        title: above the table.
    """
    drawn = plain(title, keys=3)
    drawn.caption = (
        "ratio: geometric mean over seeds (median where a run did not reach the target); p: paired"
        f" t test of its logarithm (sign test below {FEWEST} seeds, or where a run did not reach"
        " the target), corrected for all pairs of variants (Holm)"
    )
    drawn.add_column("variant")
    for head in ("seeds", "cost", "difference", "ratio", "low", "high", "p", "verdict"):
        drawn.add_column(head, justify="left" if head in {"cost", "verdict"} else "right")
    shown = pairs[pairs["cost"].isin([*_PAIRED, GRAMS]) & pairs["variant"].isin(list(labels))]
    previous = None
    for row in shown[(shown["seeds"] > 0) | (shown["cost"] == _PAIRED[0])].to_dict("records"):
        variant, cost = row["variant"], row["cost"]
        unit = UNITS.get(cost, "")
        if previous not in {None, variant}:
            drawn.add_section()
        drawn.add_row(
            "" if variant == previous else escape(labels[variant]),
            str(row["seeds"]),
            HEADS.get(cost, cost) if row["seeds"] else "",
            quantity(row["difference"], unit),
            *(_ratio(row[key]) for key in ("ratio", "low", "high")),
            _p(row["p_holm"]),
            row["verdict"],
        )
        previous = variant
    return drawn


def _mean(row: Mapping[Hashable, float], cost: str) -> str:
    mean, low, high = row[cost], row[f"{cost}_low"], row[f"{cost}_high"]
    text = quantity(mean, UNITS.get(cost, ""))
    if not mean or isnan(high):
        return text
    down, up = (_share(bound, mean) for bound in (mean - low, high - mean))
    around = f"\N{PLUS-MINUS SIGN}{up}%" if down == up else f"\N{MINUS SIGN}{down}%\n+{up}%"
    return f"{text}\n[dim]{around}[/]"


def _share(part: float, whole: float) -> str:
    """Return a share in percent, as fine as the three digits of a mean are."""
    share = 100 * part / whole
    return f"{share:.0f}" if share >= _WIDE else f"{share:.1f}".removesuffix(".0")


def _ratio(ratio: float) -> str:
    if isfinite(ratio):
        return f"{ratio:.3g}"
    return "-" if isnan(ratio) else "inf"


def _p(value: float) -> str:
    if isnan(value):
        return "-"
    return _LESS if value < _LEAST else f"{value:.2g}"
