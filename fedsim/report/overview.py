"""The overview: the answer in sentences, and what it cost to get there."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, isnan, nan

import pandas as pd

from fedsim.analysis import pair, quantity, with_grams
from fedsim.analysis.compare.caveats import DECIDING, caveats, read_doubts
from fedsim.analysis.compare.comparison import Case
from fedsim.analysis.compare.pairwise import INDISTINGUISHABLE
from fedsim.record.columns import LEAST, RANKED, SPENT, TITLES, UNITS, higher_is_better
from fedsim.record.schema import GRAMS
from fedsim.report.components import NOT_REACHED, PageTable, TableCell, digits, number, words
from fedsim.report.study import ReportedStudy
from fedsim.text import format_number

_NAMED = 3  # variants in a list; of more there is the first


def answers(study: ReportedStudy) -> Iterator[str]:
    """Yield which variant reached each target for the least of each cost, and how sure that is.

    Before that: how many clients left for good, since all that follows is without them.
    """
    yield from _departures(study)
    for case in study.comparison.cases:
        table = case.table.set_index("variant")
        if not (table["reached"] == table["runs"]).any():
            yield _none_always(study, case)
        if not table["reached"].any():
            continue
        if len(study.labels) == 1:
            if table["reached"].eq(table["runs"]).all():
                yield _alone(study, case)
            continue
        order = {cost: case.decisions.rank(cost) for cost in _rank(case.table)}
        yield _first(study, case, {cost: names[0] for cost, names in order.items()})
        for cost, names in order.items():
            if len(names) > 1:
                yield _margin(study, case, cost, (names[0], names[1]))


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
        yield f"{_upper(label)}: {who}." if len(study.labels) > 1 else f"{who}."


def notes(study: ReportedStudy) -> list[str]:
    """Return what has to be known before any of it is believed."""
    costs = {str(case.target): case.costs for case in study.comparison.cases}
    return [f"{text[:1].upper()}{text[1:]}." for text in caveats(study.comparison.runs, costs)]


def _rank(table: pd.DataFrame) -> list[str]:
    """Return the costs of `LEAST` that a table has."""
    return with_grams([cost for cost in LEAST if cost != GRAMS], table)


def _alone(study: ReportedStudy, case: Case) -> str:
    """Say what the only variant has cost, and how far it got."""
    (row,) = case.table.to_dict("records")
    spent = _and([quantity(row[cost], UNITS.get(cost, "")) for cost in _rank(case.table)])
    ends = _ends(study).dropna()
    far = "" if ends.empty else f"; {_words(ends)} is {format_number(ends.iloc[0], '.3g')}"
    return f"{_upper(case.target.words)}: {quantity(row['round'])} rounds, {spent}{far}."


def _first(study: ReportedStudy, case: Case, best: Mapping[str, str]) -> str:
    """Name the variant that is first by each cost; one that is so by several is named once."""
    means = case.table.set_index("variant")
    praise: dict[str, list[str]] = {}
    for cost, name in best.items():
        amount = quantity(float(means[cost][name]), UNITS.get(cost, ""))
        names = _tied_labels(study, case, cost, name)
        praise.setdefault(names, []).append(f"{LEAST[cost]} ({amount})")
    firsts = "; ".join(f"{names} {_and(said)}" for names, said in praise.items())
    if case.target.measure:
        return f"{_upper(case.target.words)}: {firsts}."
    furthest = _furthest(study)
    far = f"{furthest}; " if furthest else ""
    return f"No target is set, so this compares whole runs: {far}{firsts}."


def _tied_labels(study: ReportedStudy, case: Case, cost: str, name: str) -> str:
    """Return the label of a variant, and of those that are not costlier, in words."""
    others = case.decisions.not_costlier(name, cost)
    every = case.decisions.by_cost[cost].same
    numbers = {own: number for number, own in enumerate(case.decisions.variants)}
    same = [own for own in others if every[numbers[own], numbers[name]]]
    rest = [_label(study, case, own) for own in others if own not in same]
    first = _and(_few([_label(study, case, own) for own in (name, *same)]))
    return f"{first} ({INDISTINGUISHABLE} from {_and(_few(rest))})" if rest else first


def _label(study: ReportedStudy, case: Case, name: str) -> str:
    """Return the label of a variant; with how many runs reached the target where not all did."""
    row = case.table.set_index("variant").loc[name]
    if row["reached"] == row["runs"]:
        return study.labels[name]
    return f"{study.labels[name]} (reached in {row['reached']} of {row['runs']} seeds)"


def _few(names: Sequence[str]) -> list[str]:
    """Return names for a sentence: of many the first, and how many others there are."""
    return [*names] if len(names) <= _NAMED else [names[0], f"{len(names) - 1} others"]


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _none_always(study: ReportedStudy, case: Case) -> str:
    """Say that no variant got there under all its seeds, and how many runs did."""
    reached, runs = int(case.table["reached"].sum()), len(study.runs)
    some = f", though {reached} of {runs} runs did" if reached else ""
    text = f"{_upper(case.target.words)}: no variant got there under all its seeds{some}."
    furthest = _furthest(study)
    return f"{text} {_upper(furthest)}." if furthest else text


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


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _margin(study: ReportedStudy, case: Case, cost: str, names: tuple[str, str]) -> str:
    """Say how far the next variant is from the first one, seed by seed."""
    pair = case.decisions.pair(names[1], names[0], cost)
    first, rival = (_label(study, case, name) for name in names)
    head = f"By {TITLES.get(cost, cost)}"
    if not pair.seeds:
        return f"{head}, {rival} comes next: {pair.verdict}."
    if not (pair.cheaper or pair.costlier):
        return f"{head}, {first} and {rival} cost {pair.verdict}."
    times = _times(pair.ratio, pair.evidence) if isfinite(pair.ratio) else pair.evidence
    if pair.order > 0:
        return f"{head}, {rival} comes next: {times}."
    return f"{head}, {rival} is {INDISTINGUISHABLE} from {first}: {times}."


def _times(ratio: float, evidence: str) -> str:
    """Say how many times the cost is, in three digits.

    >>> _times(1.5, "p = 0.03"), _times(1.0001, "p = 0.4")
    ('1.5 times the cost (p = 0.03)', 'the same cost in three digits (p = 0.4)')
    """
    shown = format_number(ratio, ".3g")
    if shown != "1":
        return f"{shown} times the cost ({evidence})"
    return f"the same cost{'' if ratio == 1 else ' in three digits'} ({evidence})"


def tables(study: ReportedStudy) -> Iterator[PageTable]:
    """Yield, for each target, the table of costs and that of pairs."""
    for case in study.comparison.cases:
        yield _costs(study, case)
        if len(study.labels) > 1:
            yield _pairs(study, case)


def _costs(study: ReportedStudy, case: Case) -> PageTable:
    ends, costs = _ends(study), with_grams(SPENT, case.table)
    rows = []
    for row in case.table.to_dict("records"):
        name = str(row["variant"])
        mark = _mark(row["pareto"], row["tie"]) if len(study.labels) > 1 else ""
        cells = [TableCell(study.labels[name], under=mark)]
        cells.append(TableCell(f"{row['reached']} of {row['runs']}", float(row["reached"])))
        cells.append(digits(float(ends.get(name, nan))))
        for cost in costs:
            bounds = row[f"{cost}_low"], row[f"{cost}_high"]
            cells.append(_with_interval(row[cost], *bounds, UNITS.get(cost, "")))
        rows.append(cells)
    heads = (TITLES.get(cost, cost) for cost in costs)
    last = _words(ends)
    return PageTable(_upper(case.target.words), ("variant", "reached", last, *heads), rows)


def _mark(optimal: object, tie: object) -> str:
    if optimal:
        return "Pareto-optimal"
    return f"{INDISTINGUISHABLE} from a Pareto-optimal variant" if tie else ""


def _ends(study: ReportedStudy) -> "pd.Series[float]":
    """Return the mean at the end of the runs of each variant, of what was asked for first."""
    measure = study.measures[0] if study.measures else "objective"
    known = study.rounds[study.rounds[measure].notna()]
    last = known.drop_duplicates(["variant", "seed"], keep="last")
    return last.groupby("variant", observed=True)[measure].mean()


def _with_interval(mean: float, low: float, high: float, unit: str) -> TableCell:
    if isnan(mean):
        return TableCell(NOT_REACHED)
    ends = quantity(low, unit), quantity(high, unit)
    first, last = ends[0].partition(" "), ends[1].partition(" ")
    shown = (first[0] if first[2] == last[2] else ends[0], ends[1])  # a shared unit stands once
    interval = " to ".join(shown) if high > low and ends[0] != ends[1] else ""
    return TableCell(quantity(mean, unit), float(mean), under=interval)


def _pairs(study: ReportedStudy, case: Case) -> PageTable:
    """Return what the variants cost beside the one they are compared with, seed by seed."""
    other = _against(study, case)
    same, sure = other == study.comparison.against, study.comparison.confidence
    pairs = case.pairs if same else pair(case.costs, other, sure, case.decisions)
    frame = pairs[pairs["cost"].isin(RANKED) & (pairs["seeds"] > 0)]
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
                number(row["seeds"]),
                number(float(row["difference"]), UNITS.get(cost, "")),
                TableCell(ratio.text, ratio.value, under=ends),
                digits(float(row["p_holm"]), 2),
                *words(row["verdict"]),
            ]
        )
    columns = ("variant", "cost", "seeds", "paired difference", "ratio", "p (Holm)", "verdict")
    title = f"{_upper(case.target.words)}: paired difference from {study.labels[other]}"
    return PageTable(title, columns, rows)


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
            _between(row["ratio"], row["ratio_low"], row["ratio_high"]),
            TableCell(str(row["by_seed"])),
            _percent(row["typical"], row["typical_low"], row["typical_high"]),
            _percent(row["probability"], row["probability_low"], row["probability_high"]),
            _percent(row["noise"]),
            TableCell(_decides(deciding, row["variant"], row["cost"])),
        ]
        for row in own.to_dict("records")
    ]
    heads = (
        *("variant", "cost", "ratio", "by seed", "typically less in", "one run takes less in"),
        *("noise of training", "what decides"),
    )
    worlds = format_number(own["worlds"].max(), ",.0f") if len(own) else "no"
    words_ = case.target.words
    first = study.labels[study.comparison.against]
    title = f"{words_[:1].upper()}{words_[1:]}, against {first}, in {worlds} worlds"
    return PageTable(f"{title} of the constants' doubt", heads, rows)


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
