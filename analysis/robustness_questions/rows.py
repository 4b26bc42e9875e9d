"""Rows: each claim of a study with the share of worlds in which it holds, and what decides it."""

from dataclasses import replace
from math import isnan
from typing import Any

import pandas as pd

from fedsim.addons.robustness import Robustness
from fedsim.addons.robustness.verdicts import by_weight
from fedsim.results.analysis.compare.caveats import LESS, is_undecided
from robustness_questions.studies import ALL, Asked, Study

_LEAST = {"t": "the least time", "joules": "the fewest joules"}


def rows(study: Study, known: Robustness) -> list[str]:
    """Return the lines of the page about one study."""
    deciding = dict[str, pd.DataFrame]()  # by the variant compared with: each takes a while
    return [_row(study, known, claim, deciding) for claim in study.claims]


def _row(study: Study, known: Robustness, claim: Asked, deciding: dict[str, pd.DataFrame]) -> str:
    variant, against, cost = claim
    less = (
        f"{_LEAST[cost]} of all" if against == ALL else f"{LESS[cost]} than {known.labels[against]}"
    )
    words = f"{known.labels[variant]} takes {less}"
    row = _closest(known, claim)
    share = _share(known, claim, row)
    if isnan(share):
        return f"| {study.title} | {words} | no seed in which both reached it | | | |"
    sure = f"{100 * share:.3g} %"
    mark = f"**{sure}**" if is_undecided(share) else sure
    spread = f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}"
    other = str(row["against"])
    if other not in deciding:
        deciding[other] = replace(known, against=other).deciding
    decides = _decides(deciding[other], variant, cost)
    return f"| {study.title} | {words} | {mark} | {row['ratio']:.3g} | {spread} | {decides} |"


def _closest(known: Robustness, claim: Asked) -> dict[str, Any]:
    """Return the verdict against the other, or against the one that beats it in most worlds."""
    variant, against, cost = claim
    table = known.verdicts
    own = table[(table["variant"] == variant) & (table["cost"] == cost)]
    if against != ALL:
        own = own[own["against"] == against]
    order = own.sort_values(["typical", "ratio"], ascending=[True, False], kind="stable")
    return dict(order.iloc[0])


def _share(known: Robustness, claim: Asked, row: dict[str, Any]) -> float:
    variant, against, cost = claim
    if against != ALL:
        return float(row["typical"])
    return float(known.fronts.set_index("variant").loc[variant, cost])


def _decides(table: pd.DataFrame, variant: str, cost: str) -> str:
    """Return the constant that makes most of a ratio's variance, and its share of it."""
    own = table[(table["variant"] == variant) & (table["cost"] == cost)]
    first = by_weight(own).iloc[0]
    share = "" if isnan(first["total"]) else f" ({min(first['total'], 1.0):.2f})"
    return f"{first['constant']}{share}"
