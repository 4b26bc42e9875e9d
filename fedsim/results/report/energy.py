"""Energy: where it went, by variant and by kind of client, and what batteries held."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from fedsim.core.table_columns import JOULES_AFTER
from fedsim.core.text import span_text
from fedsim.results.analysis import (
    ENERGY_PARTS,
    PART_COLOURS,
    energy_parts,
    plot_batteries,
    plot_energy,
    quantity,
    with_grams,
)
from fedsim.results.analysis.batteries import BatteryTable
from fedsim.results.analysis.client_names import display_names
from fedsim.results.record.schema import GRAMS
from fedsim.results.report.components import (
    PageTable,
    TableCell,
    client_table,
    digits,
    number,
    sentence,
    words,
)
from fedsim.results.report.drawing import BAR, BOX, PageFigure, draw, many
from fedsim.results.report.study import ReportedRun, ReportedStudy

_ORDER = [name for name in PART_COLOURS if name in ENERGY_PARTS.values()]


def by_kind(study: ReportedStudy) -> pd.DataFrame:
    """Return where the energy of each kind of client went, J, means over the seeds.

    The index is variant and kind; the columns are the parts.
    """
    parts = _order(energy_parts(study.clients, ["variant", "kind"]))
    seeds = [study.seeds[str(variant)] for variant, _ in parts.index]
    return parts.div(pd.Series(seeds, index=parts.index), axis=0)


def _order(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the parts that there are, in the order of their colours."""
    return parts[[name for name in _ORDER if name in parts]]


def whole(study: ReportedStudy) -> PageFigure:
    """Return the energy of each variant, by its parts."""
    return draw(
        "energy",
        "Energy by variant",
        lambda axis: plot_energy(study, ax=axis),
        _without_tails(study.runs),
        row=BAR,
    )


def kinds(study: ReportedStudy, variant: str, name: str) -> PageFigure:
    """Return the energy of each kind of client of a variant, by its parts."""
    return draw(
        name,
        "Energy by kind of client",
        lambda axis: plot_energy(study, "kind", variant, ax=axis),
        _without_tails([run for run in study.runs if run.variant == variant]),
        row=BAR,
    )


def clients(study: ReportedStudy, variant: str, name: str) -> PageFigure:
    """Return the energy of each client of a variant; of many, how it is spread over each kind."""
    own = study.clients[study.clients["variant"] == variant]
    note = many(own)
    made = draw(
        name,
        "Energy by client",
        lambda axis: plot_energy(study, "client", variant, ax=axis),
        note,
        row=BOX if note else BAR,
    )
    parts = _order(energy_parts(own, ["client"])) / study.seeds[variant]
    parts = parts.where(parts.gt(_NEGLIGIBLE * parts.sum(axis=1), axis=0), 0.0)
    parts = parts.set_axis(display_names(parts.index, own))
    return replace(made, table=client_table("Energy of each client, mean over seeds", parts, "J"))


def table(study: ReportedStudy) -> PageTable:
    """Return the energy of every kind of client, by its parts, and what that has emitted.

    Parts that no client has are left out.
    """
    rows, grams, every = [], _grams(study), by_kind(study)
    every = every.loc[:, every.gt(_NEGLIGIBLE * every.sum(axis=1), axis=0).any()]
    for key, parts in every.iterrows():
        variant, kind = key if isinstance(key, tuple) else ("", key)
        amounts = [_part(float(amount), float(parts.sum())) for amount in parts]
        whole = number(float(parts.sum()), "J")
        emitted = [] if grams is None else [number(float(grams[key]), "g")]
        rows.append([*words(study.labels[str(variant)], kind), *amounts, whole, *emitted])
    heads = ("variant", "kind", *every, "in all", *([] if grams is None else ["CO2"]))
    return PageTable(
        "Energy by kind of client, mean over seeds", heads, rows, _without_tails(study.runs)
    )


def _without_tails(runs: Sequence[ReportedRun]) -> str:
    """Return that the energy of the log ends with the last round; empty if radios sleep then."""
    joules = [float(run.summary.get(JOULES_AFTER) or 0.0) for run in runs]
    if not any(joules):
        return ""
    low, high = min(joules), max(joules)
    alike = quantity(low, "J") == quantity(high, "J")
    amount = quantity(high, "J") if alike else span_text(low, high, "J")
    return (
        "Up to the end of the last round. The radios of a run then take another"
        f" {amount} until they sleep, which the costs in the overview include."
    )


_NEGLIGIBLE = 1e-6
"""A part below this share of the whole is shown as 0: it is nothing, or a residue of rounding."""


def _part(joules: float, whole: float) -> TableCell:
    """Return the cell of a part of an energy."""
    return number(joules if abs(joules) > _NEGLIGIBLE * whole else 0.0, "J")


def _grams(study: ReportedStudy) -> Mapping[object, float] | None:
    """Return what each kind of client has emitted, means over the seeds; None if unknown of all."""
    clients = study.clients
    if not with_grams((), clients):
        return None
    groups = clients.groupby(["variant", "kind"], sort=False, observed=True)
    sums = groups[GRAMS].sum(min_count=1)
    seeds = [study.seeds[str(variant)] for variant, _ in sums.index]
    means: dict[object, float] = sums.div(pd.Series(seeds, index=sums.index)).to_dict()
    return means


def battery_tables(study: ReportedStudy) -> list[PageTable]:
    """Return when batteries were empty, how long they last, and what took their charge."""
    known = study.comparison.batteries
    if known is None:
        return []
    return [_page_table(table) for table in (known.lasting(), known.taken())]


def _page_table(table: BatteryTable) -> PageTable:
    rows = [
        [TableCell(cell.text, cell.value, under=cell.under) for cell in row] for row in table.rows
    ]
    return PageTable(sentence(table.title, ()), table.heads, rows)


def battery_notes(study: ReportedStudy) -> str:
    """Return what the words of the tables of batteries mean; empty for a fleet on mains."""
    known = study.comparison.batteries
    return " ".join(f"{sentence(note, ())}." for note in known.lasting().notes) if known else ""


def battery_table(study: ReportedStudy) -> PageTable | None:
    """Return what batteries took in and gave, by kind; None for a fleet on mains."""
    own = study.clients.dropna(subset=["initial_joules"])
    if own.empty:
        return None
    columns = ["initial_joules", "charged_joules", "drained_joules", "final_joules"]
    groups = own.groupby(["variant", "kind"], sort=False, observed=True)
    means = groups[columns].mean()
    deaths = groups["depletions"].sum()
    rows = []
    for variant, kind in means.index:
        amounts = [float(means.loc[(variant, kind), name]) for name in columns]
        rows.append(
            [
                *words(study.labels[str(variant)], kind),
                *(_part(amount, max(amounts)) for amount in amounts),
                digits(float(deaths[variant, kind]) / study.seeds[str(variant)]),
            ]
        )
    heads = ("variant", "kind", "at the start", "charged", "drained", "at the end", "depletions")
    return PageTable(
        "Energy of batteries, means over clients and seeds; depletions per run", heads, rows
    )


def batteries(study: ReportedStudy, run: ReportedRun, name: str) -> PageFigure | None:
    """Return the state of charge of the batteries of a run; None for a fleet on mains."""
    tables = run.tables(study, ["t", "node", "state_of_charge"])
    if tables.events["state_of_charge"].isna().all():
        return None
    note = f"seed {run.seed}; the line of a group is the median of its batteries, the dark band "
    note += "holds the middle half of them and the light one 90 %; up to five have one line each"
    label = "State of charge against simulated time"
    return draw(name, label, lambda axis: plot_batteries(tables, ax=axis), note)
