"""How sure: what survives the doubt about constants, where `fedsim robust` was asked."""

from collections.abc import Iterator
from math import isnan

import pandas as pd

from fedsim.analysis.comparing.comparison import Case
from fedsim.analysis.comparing.doubts import DECIDING, read_doubts
from fedsim.analysis.tables import HEADS
from fedsim.report.parts import Cell, Table, digits, words
from fedsim.report.study import Study

_DECIDING = 3  # constants told of each ratio


def tables(study: Study) -> Iterator[Table]:
    """Yield, for each target that was asked about, a table of verdicts with what decides them."""
    for case in study.comparison.cases:
        runs, target = study.comparison.runs, str(case.target)
        known = read_doubts(runs, target)
        if known is not None:
            deciding = read_doubts(runs, target, DECIDING)
            yield _verdicts(study, case, known, pd.DataFrame() if deciding is None else deciding)


def _verdicts(study: Study, case: Case, known: pd.DataFrame, deciding: pd.DataFrame) -> Table:
    others = [name for name in study.labels if name != study.comparison.against]
    against = known["against"] == study.comparison.against
    own = known[against & known["variant"].isin(others)]
    rows = [
        [
            *words(
                study.labels[str(row["variant"])], HEADS.get(str(row["cost"]), str(row["cost"]))
            ),
            _between(row["ratio"], row["ratio_low"], row["ratio_high"]),
            Cell(str(row["by_seed"])),
            _percent(row["typical"], row["typical_low"], row["typical_high"]),
            _percent(row["probability"], row["probability_low"], row["probability_high"]),
            _percent(row["noise"]),
            Cell(_decides(deciding, row["variant"], row["cost"])),
        ]
        for row in own.to_dict("records")
    ]
    heads = (
        *("variant", "cost", "ratio", "by seed", "typically less in", "one run takes less in"),
        *("noise of training", "what decides"),
    )
    worlds = f"{own['worlds'].max():,.0f}" if len(own) else "no"
    words_ = case.target.words
    first = study.labels[study.comparison.against]
    title = f"{words_[:1].upper()}{words_[1:]}, against {first}, in {worlds} worlds"
    return Table(f"{title} of the constants' doubt", heads, rows)


def _between(middle: float, low: float, high: float) -> Cell:
    cell = digits(float(middle))
    return Cell(cell.text, cell.value, under=f"{low:.3g} to {high:.3g}")


def _percent(share: float, low: float | None = None, high: float | None = None) -> Cell:
    if isnan(share):
        return Cell("-")
    under = "" if low is None or high is None else f"{100 * low:.3g} to {100 * high:.3g} %"
    return Cell(f"{100 * share:.3g} %", float(share), under=under)


def _decides(deciding: pd.DataFrame, variant: object, cost: object) -> str:
    """Return the constants that make most of a ratio's variance, the first one first."""
    if deciding.empty:
        return "-"
    own = deciding[(deciding["variant"] == variant) & (deciding["cost"] == cost)]
    first = own.sort_values("total", ascending=False, kind="stable").head(_DECIDING)
    known = [row for row in first.to_dict("records") if not isnan(row["total"])]
    told = [
        f"{row['constant']} {row['total']:.2f} \N{PLUS-MINUS SIGN}{row['total_error']:.2f}"
        for row in known
    ]
    return ", ".join(told) or "-"
