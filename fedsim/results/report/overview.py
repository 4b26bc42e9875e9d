"""The overview: the answer in sentences, and what it cost to get there."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple

import pandas as pd

from fedsim.core.table_columns import LEAST, RANKED, SHOWN, TITLES, UNITS, higher_is_better
from fedsim.core.text import format_number, span_text
from fedsim.results.analysis import pair, quantity, with_grams
from fedsim.results.analysis.compare.caveats import DECIDING, HEADS, caveats, read_doubts
from fedsim.results.analysis.compare.comparison import MARKS, Case
from fedsim.results.analysis.compare.cost_tables import failed_in_words, failed_variants
from fedsim.results.analysis.compare.quality import QUALITY_RULE, interval, signed
from fedsim.results.analysis.costs import (
    cost_text,
    notes_on_means,
    notes_on_seeds,
    notes_on_tails,
    shown_costs,
)
from fedsim.results.best import feasible_figure
from fedsim.results.record.scenarios import LEFT, RISEN
from fedsim.results.record.schema import GRAMS
from fedsim.results.report.components import (
    FAILED,
    NOT_REACHED,
    PageTable,
    TableCell,
    digits,
    number,
    sentence,
    words,
)
from fedsim.results.report.study import ReportedStudy

_NAMED = 3  # variants in a list; of more there is the first


class PageAnswer(NamedTuple):
    """A sentence at the top of the page, and the lines of its causes; see `Causes.lines`."""

    text: str
    causes: Sequence[tuple[str, str, str]] = ()


def answers(study: ReportedStudy) -> Iterator[PageAnswer]:
    """Yield the sentences at the top of the page, in the words of `compare`, with their causes.

    Failed runs come first, since the other sentences leave them out. For each target there is an
    answer with its causes. If the answer is open, the verdict on the first variant follows.
    """
    runs = study.comparison.runs
    failed = failed_in_words(runs.summary, runs.labels)
    yield from (PageAnswer(f"{_begin(study, text)}.") for text in failed)
    for case, causes in zip(study.comparison.cases, study.comparison.explanations, strict=True):
        table = case.table.set_index("variant")
        if not (table["reached"] == table["runs"]).any():
            yield PageAnswer(_none_always(study, case))
        if not table["reached"].any():
            continue
        if len(study.labels) == 1:
            if table["reached"].eq(table["runs"]).all():
                yield PageAnswer(_alone(study, case))
            continue
        if not case.target.measure and (furthest := _furthest(study)):
            yield PageAnswer(f"{_begin(study, furthest)}.")
        first = f"{_begin(study, study.comparison.verdicts(case)[0])}."
        lines = causes.lines() if causes else ()
        if pair := study.comparison.whose(causes):
            yield PageAnswer(first)
            yield PageAnswer(_begin(study, pair), lines)
        else:
            yield PageAnswer(first, lines)
        if reference := study.comparison.reference(case):
            yield PageAnswer(f"{_begin(study, reference)}.")


def further_answers(study: ReportedStudy) -> list[str]:
    """Return for each target the verdicts in the costs that its answer is not about."""
    cases = study.comparison.cases if len(study.labels) > 1 else ()
    said = (text for case in cases for text in study.comparison.verdicts(case)[1:])
    return [f"{_begin(study, text)}." for text in said]


def _departures(study: ReportedStudy) -> Iterator[str]:
    """Yield for each variant how many clients left for good before the end of its runs."""
    for variant, label in study.labels.items():
        runs = [run.summary for run in study.runs if run.variant == variant]
        counts = sorted(sum(run.get("left", {}).values()) for run in runs)
        if not counts[-1]:
            continue
        number = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        reasons = dict.fromkeys(reason for run in runs for reason in run.get("left", {}))
        who = f"{number} of {runs[0]['clients']} clients left for good ({', '.join(reasons)})"
        yield f"{label}: {who}." if len(study.labels) > 1 else f"{who}."


def notes(study: ReportedStudy) -> list[str]:
    """Return what has to be known before any of it is believed."""
    costs = {case.target: case.costs for case in study.comparison.cases}
    every = (f"{_begin(study, text)}." for text in caveats(study.comparison.runs, costs))
    return [*_departures(study), *every, *_notes_of_runs(study)]


def _notes_of_runs(study: ReportedStudy) -> Iterator[str]:
    """Yield what the runs have noted at their ends, each once, with the runs that it is about.

    `caveats` has the notes on a risen objective, and `_departures` those on clients that left, each
    in its own words.
    """
    about: dict[str, dict[str, list[int]]] = {}
    for run in study.runs:
        for text in run.summary.get("notes") or ():
            if not text.startswith((f"{RISEN}: ", f"{LEFT}: ")):
                seeds = about.setdefault(text, {}).setdefault(study.labels[run.variant], [])
                seeds.append(run.seed)
    for text, variants in about.items():
        named = (
            f"{label}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
            for label, seeds in variants.items()
        )
        yield f"{'; '.join(named)}: {text}."


def _rank(table: pd.DataFrame) -> list[str]:
    """Return the costs of `LEAST` that a table has."""
    return with_grams([cost for cost in LEAST if cost != GRAMS], table)


def _alone(study: ReportedStudy, case: Case) -> str:
    """Say what the only variant has cost, and how far it got."""
    (row,) = case.table.to_dict("records")
    spent = _and([quantity(row[cost], UNITS.get(cost, "")) for cost in _rank(case.table)])
    ends = _ends(study).dropna()
    far = "" if ends.empty else f"; {_words(ends)} is {format_number(ends.iloc[0], '.3g')}"
    return f"{_begin(study, case.target.words)}: {quantity(row['round'])} rounds, {spent}{far}."


def _few(names: Sequence[str]) -> list[str]:
    """Return names for a sentence: of many the first, and how many others there are."""
    return [*names] if len(names) <= _NAMED else [names[0], f"{len(names) - 1} others"]


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _none_always(study: ReportedStudy, case: Case) -> str:
    """Say that no variant got there under all its seeds, and how many runs did."""
    reached, runs = int(case.table["reached"].sum()), len(study.runs)
    some = f", though {reached} of {runs} runs did" if reached else ""
    text = f"{_begin(study, case.target.words)}: no variant got there under all its seeds{some}."
    furthest = _furthest(study)
    return f"{text} {_begin(study, furthest)}." if furthest else text


def _furthest(study: ReportedStudy) -> str:
    """Return which variant ended best by the requested measure; nothing if none has it."""
    ends = _ends(study).dropna()
    if ends.empty:
        return ""
    measure = str(ends.name)
    highest = higher_is_better(measure)
    name, value = (ends.idxmax(), ends.max()) if highest else (ends.idxmin(), ends.min())
    most = "highest" if highest else "lowest"
    text = f"{most} {_words(ends)} is {format_number(value, '.3g')}"
    tied = [study.labels[str(each)] for each in ends.index[ends == value]]
    return f"the {text}, that of {study.labels[str(name)] if len(tied) == 1 else _and(_few(tied))}"


def _words(ends: "pd.Series[float]") -> str:
    return f"{str(ends.name).replace('_', ' ')} at the end"


def _begin(study: ReportedStudy, text: str) -> str:
    """Return a text as a sentence; names of variants stay as they are written."""
    return sentence(text, (*study.labels, *study.labels.values()))


def tables(study: ReportedStudy) -> Iterator[PageTable]:
    """Yield, for each target, the tables of costs and of pairs; at the end that of quality."""
    for case in study.comparison.cases:
        yield _costs(study, case)
        if len(case.pairs):
            yield _pairs(study, case)
    if len(study.comparison.quality):
        yield _quality(study)


def _costs(study: ReportedStudy, case: Case) -> PageTable:
    # What a narrow screen shows without scrolling comes first.
    ends = _ends(study)
    costs = shown_costs(case.table, dict.fromkeys(("t", "joules", *SHOWN)))  # each of them once
    first = [cost for cost in costs if cost in ("t", "joules", "round")]
    failed = failed_variants(study.comparison.runs.summary)
    rows = []
    for row in case.table.to_dict("records"):
        name = str(row["variant"])
        mark = "Pareto-optimal" if row["pareto"] and len(study.labels) > 1 else ""
        cells = {
            cost: TableCell(FAILED) if name in failed else _cost_cell(row, cost) for cost in costs
        }
        reached = TableCell(f"{row['reached']} of {row['runs']}", float(row["reached"]))
        end = digits(float(ends.get(name, nan)))
        spent = [cells.pop(cost) for cost in first]
        label = TableCell(study.labels[name], under=mark)
        rows.append([label, *spent, reached, end, *cells.values()])
    heads = [TITLES.get(cost, cost) for cost in costs]
    middle = (case.target.arrived, _words(ends))
    columns = ("variant", *heads[: len(first)], *middle, *heads[len(first) :])
    states = case.table[[f"{cost}_state" for cost in costs]]
    marks = [text for state, (_, text) in MARKS.items() if (states == str(state)).any(axis=None)]
    notes = [*notes_on_tails(case.costs), *notes_on_means(case.table), *marks]
    notes += notes_on_seeds(case.costs, case.target.missed)
    below = [f"{sentence(text, ())}." for text in notes]
    return PageTable(_begin(study, case.target.words), columns, rows, " ".join(below))


def _cost_cell(row: Mapping[Hashable, Any], cost: str) -> TableCell:
    if not cost_text(cost, row[cost]):
        return TableCell("", float(row[cost]))
    bounds = row[f"{cost}_low"], row[f"{cost}_high"]
    sign, _ = MARKS.get(row[f"{cost}_state"], ("", ""))
    return _with_interval(row[cost], *bounds, UNITS.get(cost, ""), sign)


def _ends(study: ReportedStudy) -> "pd.Series[float]":
    """Return the mean at the end of the runs of each variant, of what was asked for first."""
    measure = study.measures[0] if study.measures else "objective"
    known = study.rounds[study.rounds[measure].notna()]
    last = known.drop_duplicates(["variant", "seed"], keep="last")
    return feasible_figure(last, measure).groupby(last["variant"], observed=True).mean()


def _with_interval(mean: float, low: float, high: float, unit: str, mark: str) -> TableCell:
    if isnan(mean):
        return TableCell(NOT_REACHED)
    differ = high > low and quantity(low, unit) != quantity(high, unit)
    return TableCell(
        f"{quantity(mean, unit)} {mark}".rstrip(),
        float(mean),
        under=span_text(low, high, unit) if differ else "",
        unit=unit,
        ends=(float(low), float(high)) if differ else (),
        sign=mark,
    )


def _pairs(study: ReportedStudy, case: Case) -> PageTable:
    """Return what the variants cost beside the one they are compared with, seed by seed.

    The ratio stands in front of the verdict, so that a telephone shows both.
    """
    other = _against(study, case)
    same, sure = other == study.comparison.against, study.comparison.confidence
    pairs = case.pairs if same else pair(case.costs, other, sure, case.decisions)
    frame = pairs[pairs["cost"].isin(RANKED) & (pairs["seeds"] > 0)]
    tested = bool(frame["p_holm"].notna().any())  # a single seed has no p-values
    rows = []
    for row in frame.to_dict("records"):
        cost = str(row["cost"])
        ratio = digits(float(row["ratio"]))
        ends = (
            f"{format_number(row['low'], '.3g')} to {format_number(row['high'], '.3g')}"
            if row["low"] < row["high"]
            else ""
        )
        rows.append(
            [
                *words(study.labels[str(row["variant"])], TITLES.get(cost, cost)),
                TableCell(ratio.text, ratio.value, under=ends),
                *words(row["verdict"]),
                number(float(row["difference"]), UNITS.get(cost, "")),
                *([digits(float(row["p_holm"]), 2)] if tested else []),
                number(row["seeds"]),
            ]
        )
    p = ["p (Holm)"] if tested else []
    columns = ("variant", "cost", "ratio", "verdict", "paired difference", *p, "seeds")
    title = f"{_begin(study, case.target.words)}: paired difference from {study.labels[other]}"
    return PageTable(title, columns, rows)


def _quality(study: ReportedStudy) -> PageTable:
    """Return how the last models differ from those of the variant they are compared with."""
    found, other = study.comparison.quality, study.comparison.against
    tested = bool(found["p_holm"].notna().any())
    rows = []
    for row in found.to_dict("records"):
        measure, low, high = str(row["measure"]), float(row["low"]), float(row["high"])
        difference = TableCell(
            signed(float(row["difference"]), measure),
            float(row["difference"]),
            under="" if isnan(low) else interval(low, high, measure),
        )
        rows.append(
            [
                *words(
                    study.labels[str(row["variant"])], measure.replace("_", " "), row["verdict"]
                ),
                digits(float(row["mean"])),
                TableCell("-") if row["variant"] == other else difference,
                *([digits(float(row["p_holm"]), 2)] if tested else []),
            ]
        )
    p = ["p (Holm)"] if tested else []
    heads = ("variant", "measure", "verdict", "mean", "paired difference", *p)
    title = f"Quality at the end: paired difference from {study.labels[other]}"
    return PageTable(title, heads, rows, QUALITY_RULE if tested else "")


def _against(study: ReportedStudy, case: Case) -> str:
    """Return the variant compared with: if it never reached the target, the first that did."""
    usual = study.comparison.against
    there = [str(name) for name in case.table.loc[case.table["reached"] > 0, "variant"]]
    return usual if usual in there or not there else there[0]


# Robustness to parameter uncertainty, where `fedsim robust` was run.

_DECIDING = 3  # constants reported for each ratio


def robustness_tables(study: ReportedStudy) -> Iterator[PageTable]:
    """Yield, for each target that was asked about, a table of verdicts with what decides them."""
    for case in study.comparison.cases:
        runs, target = study.comparison.runs, str(case.target)
        known = read_doubts(runs, target)
        if known is not None:
            deciding = read_doubts(runs, target, DECIDING)
            yield _verdicts(study, case, known, pd.DataFrame() if deciding is None else deciding)


def _verdicts(
    study: ReportedStudy, case: Case, known: pd.DataFrame, deciding: pd.DataFrame
) -> PageTable:
    others = [name for name in study.labels if name != study.comparison.against]
    against = known["against"] == study.comparison.against
    own = known[against & known["variant"].isin(others)]
    rows = [
        [
            *words(
                study.labels[str(row["variant"])], TITLES.get(str(row["cost"]), str(row["cost"]))
            ),
            TableCell(str(row["verdict"])),
            _between(row["ratio"], row["ratio_low"], row["ratio_high"]),
            _percent(row["typical"], row["typical_low"], row["typical_high"]),
            _percent(row["probability"], row["probability_low"], row["probability_high"]),
            _percent(row["noise"]),
            TableCell(_decides(deciding, row["variant"], row["cost"])),
        ]
        for row in own.to_dict("records")
    ]
    heads = ("variant", "cost", *HEADS.values(), "constants that decide")
    worlds = format_number(own["worlds"].max(), ",.0f") if len(own) else "no"
    words_ = case.target.words
    first = study.labels[study.comparison.against]
    drawn = f"in {worlds} worlds (sets of uncertain constants)"
    return PageTable(f"{_begin(study, words_)}, against {first}, {drawn}", heads, rows)


def _between(middle: float, low: float, high: float) -> TableCell:
    cell = digits(float(middle))
    return TableCell(
        cell.text, cell.value, under=f"{format_number(low, '.3g')} to {format_number(high, '.3g')}"
    )


def _percent(share: float, low: float | None = None, high: float | None = None) -> TableCell:
    if isnan(share):
        return TableCell("-")
    under = (
        ""
        if low is None or high is None
        else f"{format_number(100 * low, '.3g')} to {format_number(100 * high, '.3g')} %"
    )
    return TableCell(f"{format_number(100 * share, '.3g')} %", float(share), under=under)


def _decides(deciding: pd.DataFrame, variant: object, cost: object) -> str:
    """Return the constants that make most of a ratio's variance, the first one first."""
    if deciding.empty:
        return "-"
    own = deciding[(deciding["variant"] == variant) & (deciding["cost"] == cost)]
    first = own.sort_values("total", ascending=False, kind="stable").head(_DECIDING)
    known = [row for row in first.to_dict("records") if not isnan(row["total"])]
    figures = [
        [format_number(row[key], ".2f") for key in ("total", "total_error")] for row in known
    ]
    text = [
        f"{row['constant']} {total} \N{PLUS-MINUS SIGN}{error}"
        for row, (total, error) in zip(known, figures, strict=True)
    ]
    return ", ".join(text) or "-"
