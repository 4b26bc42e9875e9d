"""The overview: the answer in sentences, and what it cost to get there."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan

import pandas as pd

from fedsim.analysis import paired, quantity, with_grams
from fedsim.analysis.comparing.caveats import caveats
from fedsim.analysis.comparing.comparison import Case
from fedsim.analysis.comparing.pairs import with_bits
from fedsim.analysis.comparing.standings import tied_with
from fedsim.analysis.tables import HEADS, UNITS
from fedsim.record.directions import higher_is_better
from fedsim.record.schema import GRAMS
from fedsim.report.parts import NOT_REACHED, Cell, Table, digits, number, words
from fedsim.report.study import Study
from fedsim.report.verdicts import SAME, SEVERAL, TIE, verdict_of

COSTS = ("round", "transmissions", "beacons", "bits_up", "bits_down", "t", "joules")
"""The costs of the table."""

PAIRED = ("round", "bits", "t", "joules", "grams")
"""The costs that are compared seed by seed."""

RANKED = {
    "bits": "for the fewest bits",
    "t": "in the least time",
    "joules": "for the least energy",
    "grams": "for the least CO2",
}
"""The costs that the answer is about."""


_NAMED = 3  # variants of a tie; of more there is the first


def answers(study: Study) -> Iterator[str]:
    """Yield who reached each target for the least of each cost, and how sure that is."""
    for case in study.comparison.cases:
        table = case.table.set_index("variant")
        there = table[table["reached"] == table["runs"]]
        if there.empty:
            yield _nobody(study, case)
            continue
        if len(study.labels) == 1:
            yield _alone(study, case)
            continue
        best = {cost: str(there[cost].idxmin()) for cost in _ranked(there)}
        yield _first(study, case, there, best)
        if len(there) > 1:
            yield from (_margin(study, case, cost, name, there) for cost, name in best.items())


def notes(study: Study) -> list[str]:
    """Return what has to be known before any of it is believed."""
    costs = {str(case.target): case.costs for case in study.comparison.cases}
    return [f"{text[:1].upper()}{text[1:]}." for text in caveats(study.comparison.runs, costs)]


def _ranked(table: pd.DataFrame) -> list[str]:
    """Return the costs of `RANKED` that a table has."""
    return with_grams([cost for cost in RANKED if cost != GRAMS], table)


def _alone(study: Study, case: Case) -> str:
    """Say what the only variant has cost, and how far it got."""
    (row,) = case.table.to_dict("records")
    spent = _and([quantity(row[cost], UNITS.get(cost, "")) for cost in _ranked(case.table)])
    ends = _ends(study).dropna()
    far = "" if ends.empty else f"; {_words(ends)} is {ends.iloc[0]:.3g}"
    return f"{_upper(case.target.words)}: {quantity(row['round'])} rounds, {spent}{far}."


def _first(study: Study, case: Case, there: pd.DataFrame, best: Mapping[str, str]) -> str:
    """Name the variant that is first by each cost; one that is so by several is named once."""
    praise: dict[tuple[str, ...], list[str]] = {}
    for cost, name in best.items():
        amount = quantity(float(there[cost][name]), UNITS.get(cost, ""))
        tied = tied_with(with_bits(case.costs), name, cost, study.comparison.confidence)
        praise.setdefault((name, *tied), []).append(f"{RANKED[cost]} ({amount})")
    firsts = "; ".join(f"{_tied(study, names)} {_and(said)}" for names, said in praise.items())
    if case.target.measure:
        return f"{_upper(case.target.words)}: {firsts}."
    furthest = _furthest(study)
    far = f"{furthest}; " if furthest else ""
    return f"No target is set, so this compares whole runs: {far}{firsts}."


def _tied(study: Study, names: Sequence[str]) -> str:
    """Return who is first, or who share that place as far as the seeds can tell."""
    labels = [study.labels[name] for name in names]
    return labels[0] if len(labels) == 1 else f"a tie of {_and(_few(labels))}"


def _few(names: Sequence[str]) -> list[str]:
    """Return names for a sentence: of many the first, and how many others there are."""
    return [*names] if len(names) <= _NAMED else [names[0], f"{len(names) - 1} others"]


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _nobody(study: Study, case: Case) -> str:
    """Say that no variant got there under all its seeds, and how many runs did."""
    reached, runs = int(case.table["reached"].sum()), len(study.runs)
    some = f", though {reached} of {runs} runs did" if reached else ""
    text = f"{_upper(case.target.words)}: no variant got there under all its seeds{some}."
    furthest = _furthest(study)
    return f"{text} {_upper(furthest)}." if furthest else text


def _furthest(study: Study) -> str:
    """Say who ended best by the measure that was asked for; nothing where nobody has it."""
    ends = _ends(study).dropna()
    if ends.empty:
        return ""
    measure = str(ends.name)
    highest = higher_is_better(measure)
    name, value = (ends.idxmax(), ends.max()) if highest else (ends.idxmin(), ends.min())
    most = "highest" if highest else "lowest"
    told = f"{most} {_words(ends)} is {value:.3g}"
    tied = [study.labels[str(each)] for each in ends.index[ends == value]]
    return f"the {told}, that of {study.labels[str(name)] if len(tied) == 1 else _and(_few(tied))}"


def _words(ends: "pd.Series[float]") -> str:
    return f"{str(ends.name).replace('_', ' ')} at the end"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _margin(study: Study, case: Case, cost: str, name: str, there: pd.DataFrame) -> str:
    """Say how far the next one is from the best one, under common random numbers."""
    rival = str(there[cost].drop(index=name).idxmin())
    pairs = paired(case.costs, name, study.comparison.confidence)
    row = pairs[(pairs["variant"] == rival) & (pairs["cost"] == cost)].iloc[0]
    low, high, seeds = float(row["low"]), float(row["high"]), int(row["pairs"])
    unit, labels = UNITS.get(cost, ""), (study.labels[name], study.labels[rival])
    head = f"By {HEADS.get(cost, cost)}"
    if not seeds:
        return f"{head}, {labels[1]} comes next, under other seeds."
    many = f"under each of {seeds} seeds" if seeds >= SEVERAL else "under one seed"
    more = f"{quantity(float(row['difference']), unit)} more"
    verdict = verdict_of(row.to_dict(), float(there[cost][name]))
    if verdict == SAME:
        return f"{head}, {_and(labels)} are a tie: they cost the same {many}."
    if seeds < SEVERAL:
        return f"{head}, {labels[1]} comes next: {more}, {many}, so nothing says how sure that is."
    if low == high:
        return f"{head}, {labels[1]} comes next: {more} {many}."
    share = f"{100 * study.comparison.confidence:g} %"
    interval = f"{share} interval {quantity(low, unit)} to {quantity(high, unit)}, {seeds} seeds"
    if verdict == TIE:
        return f"{head}, {_and(labels)} are a tie: {labels[1]} costs {more} ({interval})."
    return f"{head}, {labels[1]} comes next: {more} ({interval})."


def tables(study: Study) -> Iterator[Table]:
    """Yield, for each target, the table of costs and that of pairs."""
    for case in study.comparison.cases:
        yield _costs(study, case)
        if len(study.labels) > 1:
            yield _pairs(study, case)


def _costs(study: Study, case: Case) -> Table:
    ends, costs = _ends(study), with_grams(COSTS, case.table)
    rows = []
    for row in case.table.to_dict("records"):
        name = str(row["variant"])
        mark = _mark(row["pareto"], row["tie"]) if len(study.labels) > 1 else ""
        cells = [Cell(study.labels[name], under=mark)]
        cells.append(Cell(f"{row['reached']} of {row['runs']}", float(row["reached"])))
        cells.append(digits(float(ends.get(name, nan))))
        for cost in costs:
            bounds = row[f"{cost}_low"], row[f"{cost}_high"]
            cells.append(_with_interval(row[cost], *bounds, UNITS.get(cost, "")))
        rows.append(cells)
    heads = (HEADS.get(cost, cost) for cost in costs)
    last = _words(ends)
    return Table(_upper(case.target.words), ("variant", "reached", last, *heads), rows)


def _mark(optimal: object, tie: object) -> str:
    if optimal:
        return "Pareto-optimal"
    return "tie: may be Pareto-optimal" if tie else ""


def _ends(study: Study) -> "pd.Series[float]":
    """Return the mean at the end of the runs of each variant, of what was asked for first."""
    measure = study.measures[0] if study.measures else "objective"
    known = study.rounds[study.rounds[measure].notna()]
    last = known.drop_duplicates(["variant", "seed"], keep="last")
    return last.groupby("variant", observed=True)[measure].mean()


def _with_interval(mean: float, low: float, high: float, unit: str) -> Cell:
    if isnan(mean):
        return Cell(NOT_REACHED)
    ends = quantity(low, unit), quantity(high, unit)
    interval = " to ".join(ends) if high > low and ends[0] != ends[1] else ""
    return Cell(quantity(mean, unit), float(mean), under=interval)


def _pairs(study: Study, case: Case) -> Table:
    """Return what the variants cost more than the one they are compared with, seed by seed."""
    other = _against(study, case)
    same = other == study.comparison.against
    pairs = case.pairs if same else paired(case.costs, other, study.comparison.confidence)
    frame = pairs[pairs["cost"].isin(PAIRED) & (pairs["pairs"] > 0)]
    usual = case.table.set_index("variant")
    rows = []
    for row in frame.to_dict("records"):
        cost = str(row["cost"])
        bounds = row["low"], row["high"], UNITS.get(cost, "")
        rows.append(
            [
                *words(study.labels[str(row["variant"])], HEADS.get(cost, cost)),
                number(row["pairs"]),
                _with_interval(row["difference"], *bounds),
                digits(float(row["ratio"])),
                digits(float(row["p_value"]), 2),
                *words(verdict_of(row, float(usual[cost][other]))),
            ]
        )
    columns = ("variant", "cost", "seeds", "difference", "ratio", "p-value", "verdict")
    first = study.labels[other]
    return Table(f"{_upper(case.target.words)}, less that of {first}, seed by seed", columns, rows)


def _against(study: Study, case: Case) -> str:
    """Return whom the others are compared with: where that one got nowhere, the first that did."""
    usual = study.comparison.against
    there = [str(name) for name in case.table.loc[case.table["reached"] > 0, "variant"]]
    return usual if usual in there or not there else there[0]
