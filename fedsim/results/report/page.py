"""The page: everything in one file that loads nothing from elsewhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.core.atomic import write_whole
from fedsim.core.extras import VERSION
from fedsim.core.text import format_number, unbroken_html
from fedsim.results.analysis import Comparison, look
from fedsim.results.analysis.compare.pairwise import fewest_seeds
from fedsim.results.analysis.costs import without_start
from fedsim.results.analysis.style import GREY, target_name
from fedsim.results.record.outputs import Call, check_page, output
from fedsim.results.record.regimes import RoundMessages, errors_of_energy, errors_of_models
from fedsim.results.record.scenarios import NOTHING, differing, flat, format_value
from fedsim.results.report import convergence, energy, fleet, network, overview, timeline
from fedsim.results.report.components import (
    MOST_LETTERS,
    PageTable,
    TableCell,
    number,
    options,
    shortened,
    with_names,
    words,
)
from fedsim.results.report.drawing import PageFigure, line_icon, page_style, renamed
from fedsim.results.report.study import ReportedRun, ReportedStudy
from fedsim.results.report.templating import asset, environment, ink, palette, script_hash

# The scenario: as the first variant had it, and where the others differ.


def differences(study: ReportedStudy) -> PageTable | None:
    """Return the values in which variants differ from the one they are compared with, if any."""
    rows = [
        words(study.labels[variant], key, format_value(held), format_value(seen))
        for variant, run in study.variants.items()
        for key, held, seen in differing(study.first.scenario, run.scenario)
        if not _is_unset(held, seen)
    ]
    if not rows:
        return None
    first = study.labels[study.first.variant]
    heads = ("variant", "key", f"in {first}", "in the variant")
    return PageTable(f"Where the variants differ from {first}", heads, rows)


def _is_unset(one: object, other: object) -> bool:
    """Return whether a key that only one of two scenarios has is off there.

    Another method has other keys. Those that it leaves at "none" are no difference.
    """
    pair = [one, other]
    return NOTHING in pair and any(value in _OFF for value in pair if value != NOTHING)


_OFF: tuple[object, ...] = (None, False, "none", [], {})


def parameters(study: ReportedStudy) -> PageTable:
    """Return the parameters of the methods, as they were resolved for the problem."""
    rows = [
        words(study.labels[variant], name, _figure(value))
        for variant, run in study.variants.items()
        for name, value in flat(run.summary.get("parameters", {}))
        if name
    ]
    return PageTable("Resolved parameters", ("variant", "parameter", "value"), rows)


def concerns(study: ReportedStudy) -> PageTable | None:
    """Return what the theory of the methods does not cover; None where there is nothing."""
    rows = [
        words(study.labels[variant], concern)
        for variant, run in study.variants.items()
        for concern in run.summary.get("concerns", ())
    ]
    return PageTable("Beyond theory", ("variant", "what does not hold"), rows) if rows else None


def accuracy(study: ReportedStudy) -> PageTable | None:
    """Return how far the times of messages are from packets; None where messages take no time."""
    found = {
        study.labels[variant]: errors_of_models(
            run.scenario["network"], run.scenario["fleet"], messages_of(run.rows(study.rounds))
        )
        for variant, run in study.variants.items()
    }
    heads = ("variants", "network.model", "error of its times")
    return _errors("Errors of models", heads, found)


def energy_accuracy(study: ReportedStudy) -> PageTable | None:
    """Return how far presets' energy is from measurements; None where there are no presets."""
    found = {
        study.labels[variant]: errors_of_energy(run.scenario["fleet"])
        for variant, run in study.variants.items()
    }
    heads = ("variants", "presets", "error of their energy")
    return _errors("Errors of energy", heads, found)


def _errors(
    title: str, heads: Sequence[str], found: Mapping[str, Iterable[tuple[str, str]]]
) -> PageTable | None:
    """Return the errors of variants, each once with all variants that share it."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, sentences in found.items():
        for each in sentences:
            alike.setdefault(tuple(map(str, each)), []).append(label)
    rows = [
        words("all" if len(names) == len(found) > 1 else ", ".join(names), *each)
        for each, names in alike.items()
    ]
    return PageTable(title, heads, rows) if rows else None


def messages_of(rounds: pd.DataFrame) -> RoundMessages | None:
    """Return the messages of the second round of a run, or of its only one, as a check has them."""
    first = without_start(rounds).head(2)
    return RoundMessages.of_round(first.iloc[-1].to_dict()) if len(first) else None


def _figure(value: object) -> str:
    return format_number(value, ".6g") if isinstance(value, float) else format_value(value)


# The audit: what the ledger checked, the books of each run, and what it was made with.

CHECKS = (
    "Bits sent equal bits delivered, lost or in flight, as the network and the log count them.",
    "The joules of every client in the log equal those that its radio and processor metered.",
    "The energy that the fleet drew at rest equals that of the log.",
    (
        "Every battery delivered what its client spent; its last charge is the first one, plus "
        "what was charged, less what was drained."
    ),
    "Time never runs backwards.",
)
"""What the ledger compares at the end of every run, bits exactly and joules to 1e-9."""

_BITS = ["payload_bits", "header_bits", "transport_bits"]


def books(run: ReportedRun) -> dict[str, float]:
    """Return the sums of a run's log: bits by what became of them, joules in all."""
    rows = run.events(["event", "detail", "joules", *_BITS])
    bits = rows[_BITS].sum(axis=1)
    sums = bits.groupby(rows["event"], observed=False).sum()
    flying = (rows["event"] == "send") & (rows["detail"] == "in flight")
    return {
        "sent": float(sums["send"] + sums["retransmit"]),
        "received": float(sums["receive"]),
        "lost": float(sums["lost"] + sums["retransmit"]),
        "in flight": float(bits[flying].sum()),
        "joules": float(rows["joules"].sum()),
    }


def book_table(study: ReportedStudy) -> PageTable:
    """Return the books of every run, and whether the ledger found them right."""
    rows = []
    for run in study.runs:
        own = books(run)
        failed = run.summary["status"] == "audit"
        bits = [number(own[name], "bit") for name in ("sent", "received", "lost", "in flight")]
        rows.append(
            [
                *words(study.labels[run.variant], run.seed),
                TableCell("failed" if failed else "passed"),
                *bits,
                number(own["joules"], "J"),
                number(float(run.rows(study.clients)["joules"].sum()), "J"),
            ]
        )
    heads = ("variant", "seed", "audit", "sent", "received", "lost", "in flight")
    return PageTable(
        "Sums of every run's log: bits sent, received by every listener, lost and in flight; "
        "joules of the log, and of the client table",
        (*heads, "joules, log", "joules, clients"),
        rows,
    )


def run_table(study: ReportedStudy) -> PageTable:
    """Return how every run ended, and the hash of its log."""
    rows = []
    for run in study.runs:
        own, events = run.summary, run.manifest.get("events", {})
        rows.append(
            [
                *words(study.labels[run.variant], run.seed, own["status"], own["reason"]),
                number(own["rounds"]),
                number(own["t"], "s"),
                number(events.get("rows") or 0),
                _fold(events.get("sha256")),
            ]
        )
    heads = ("variant", "seed", "status", "why it ended", "rounds", "time", "rows", "log, SHA-256")
    return PageTable("How every run ended", heads, rows)


def _fold(digest: str | None) -> TableCell:
    """Return the cell of a hash, shortened to its first digits."""
    return (
        TableCell(digest, folded=f"{digest[:8]}\N{HORIZONTAL ELLIPSIS}")
        if digest
        else TableCell("-")
    )


def version_table(study: ReportedStudy) -> PageTable:
    """Return what the runs were made with; several versions where the runs differ."""
    facts: dict[str, list[str]] = {}
    for run in study.runs:
        made = run.manifest
        own = {
            "schema of the log": made.get("schema_version"),
            "Python": made.get("python"),
            "machine": made.get("machine"),
            **made.get("versions", {}),
        }
        for name, value in own.items():
            seen = facts.setdefault(name, [])
            if str(value) not in seen:
                seen.append(str(value))
    rows = [words(name, ", ".join(values)) for name, values in facts.items()]
    return PageTable("Versions", ("component", "version"), rows)


Content = dict[str, Any]

TABS = (
    *("Overview", "Scenario", "Fleet", "Convergence"),
    *("Energy", "Participation", "Timeline", "Audit"),
)

_BATTERIES = 12  # variants of which a page shows the batteries


def write(folder: Path, out: Path | None = None, targets: Sequence[str] = ()) -> Path:
    """Write the report of the runs in a folder, and return where it is.

    A file of another call is kept: the page gets a name with a number then.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.
        out: the file to write; `report.html` in the folder where not given.
        targets: what is to be reached, as `Comparison.of` takes it.

    Raises:
        DataError: there are no runs to report, no run evaluates a target, or `out` does not end
            in .html.
        OutputError: the file cannot be written.

    Example:
        >>> write(result.folder, out / "page.html").name
        'page.html'
    """
    check_page(out)
    comparison = Comparison.of([folder], targets)
    given = [str(case.target) for case in comparison.cases]
    call = Call.of("report", [folder], targets=given, against=comparison.against)
    with output(call, out or folder / "report.html") as made:
        write_comparison(comparison, made.path)
    return made.place


def write_comparison(comparison: Comparison, file: Path) -> None:
    """Write the report of a comparison into a file.

    Raises:
        DataError: no run evaluates a target.
        OutputError: the file cannot be written.
    """
    write_whole(file, render(ReportedStudy(comparison)).encode())


def render(own: ReportedStudy) -> str:
    """Return the page of a study, as HTML."""
    return _page(own, content_of(own))


@page_style()
def _page(study: ReportedStudy, content: Content) -> str:
    script = page_script("page.js")
    pages = environment("fedsim.results.report")
    pages.filters["with_names"] = partial(with_names, names=_identifiers(study))
    pages.filters["shortened"] = shortened
    page = pages.get_template("page.html").render(
        **content,
        ink=ink,
        fedsim=VERSION,
        palette=palette(),
        style=asset("fedsim.results.report", "page.css"),
        script=script,
        hash=script_hash(script),
        most_letters=MOST_LETTERS,
    )
    return unbroken_html(page, study.labels.values())


def page_script(*names: str, package: str = "fedsim.results.report") -> str:
    """Return the script of a page: files of its templates, after what all pages have."""
    files = [asset("fedsim.results.report", "scrollers.js")]
    files += [asset(package, each) for each in names]
    return "\n".join(['"use strict";', *files])


def _identifiers(study: ReportedStudy) -> list[str]:
    """Return the names that sentences set as code: variants, and measures of several words."""
    return [*map(str, study.labels), *(each for each in study.measures if "_" in each)]


@page_style()
def content_of(own: ReportedStudy) -> Content:
    """Return all that the page of a study shows, by the names that its template has for it."""
    clients = fleet.with_received_counts(own)
    runs = timeline.choose_runs(own)
    plots = {
        **_convergence(own),
        **_by_variant(own, clients),
        "energy": {"": energy.whole(own)},
        "timeline": dict(_timelines(own, runs)),
    }
    fleets = fleet.fleets(own)
    for index, (_, run) in enumerate(fleets):
        plots[f"fleet-{index}"] = network.drawings(own, run, f"fleet-{index}")
    measures = convergence.measures(own)
    return {
        "tabs": TABS,
        "study": own,
        "seeds": sorted({run.seed for run in own.runs}),
        "fleets": [
            {
                "variants": names,
                "table": fleet.fleet_table(own, run),
                "values": options(
                    (value, network.ON_LINKS[value]) for value in plots[f"fleet-{index}"]
                ),
            }
            for index, (names, run) in enumerate(fleets)
        ],
        "measures": options((name, convergence.measure_name(name)) for name in measures),
        "costs": convergence.axes(own),
        "legend": _legend(own),
        "goals": _goals(own),
        "variants": options(enumerate(own.labels.values())),
        "batteries": options(
            (index, label)
            for index, label in enumerate(own.labels.values())
            if str(index) in plots["batteries"]
        ),
        "runs": options(
            (n, f"{own.labels[run.variant]}, seed {run.seed}") for n, run in enumerate(runs)
        ),
        "rounds": options((name, name) for name in timeline.ROUNDS),
        "checks": CHECKS,
        "tables": _tables(own, clients),
        "battery_notes": energy.battery_notes(own),
        "plots": {name: _merge(figures) for name, figures in plots.items()},
        "answers": list(overview.answers(own)),
        "further_answers": overview.further_answers(own),
        "notes": overview.notes(own),
        "fewest": fewest_seeds(own.comparison.confidence),
    }


def _merge(figures: Mapping[str, PageFigure]) -> dict[str, PageFigure]:
    """Return every figure once, with all the choices that it is shown for."""
    choices: dict[int, list[str]] = {}
    for choice, figure in figures.items():
        choices.setdefault(id(figure), []).append(choice)
    return {" ".join(own): figures[own[0]] for own in choices.values()}


def _convergence(own: ReportedStudy) -> dict[str, dict[str, PageFigure]]:
    """Return the figures of the overview, and those of every measure, by what a menu calls it."""
    plots: dict[str, dict[str, PageFigure]] = {}
    for index, measure in enumerate(convergence.measures(own)):
        for cost, figure in convergence.figures(own, measure, f"curves-{index}").items():
            plots.setdefault(f"convergence-{cost}", {})[measure] = figure
            if not index:
                plots[f"overview-{cost}"] = {"": renamed(figure, "overview")}
    return plots


def _by_variant(own: ReportedStudy, clients: pd.DataFrame) -> dict[str, dict[str, PageFigure]]:
    """Return the figures that a reader chooses a variant of."""
    plots: dict[str, dict[str, PageFigure]] = {"batteries": {}}
    for index, variant in enumerate(own.variants):
        found = {
            "kinds": energy.kinds(own, variant, f"kinds-{index}"),
            "clients": energy.clients(own, variant, f"clients-{index}"),
            "participation": fleet.figure(own, clients, variant, f"participation-{index}"),
        }
        for name, figure in found.items():
            plots.setdefault(name, {})[str(index)] = figure
    for index, run in enumerate(islice(own.variants.values(), _BATTERIES)):
        charge = energy.batteries(own, run, f"batteries-{index}")
        if charge is not None:
            plots["batteries"][str(index)] = charge
    return plots


def _timelines(own: ReportedStudy, runs: Sequence[ReportedRun]) -> Iterator[tuple[str, PageFigure]]:
    most = timeline.lanes_each(len(runs))
    for index, run in enumerate(runs):
        for name, figure in timeline.figures(own, run, f"timeline-{index}", most).items():
            yield f"{index}/{name}", figure


def _tables(own: ReportedStudy, clients: pd.DataFrame) -> dict[str, list[PageTable]]:
    return {
        "overview": [*overview.tables(own), *overview.robustness_tables(own)],
        "scenario": _present(
            [differences(own), parameters(own), concerns(own), accuracy(own), energy_accuracy(own)]
        ),
        "energy": [energy.table(own)],
        "batteries": _present([*energy.battery_tables(own), energy.battery_table(own)]),
        "participation": _present([fleet.participation_table(own, clients), fleet.given_up(own)]),
        "audit": [book_table(own), run_table(own), version_table(own)],
    }


def _present(tables: list[PageTable | None]) -> list[PageTable]:
    return [table for table in tables if table is not None]


def _goals(own: ReportedStudy) -> list[Content]:
    """Return what the dotted lines of the first measure are."""
    first = own.measures[0] if own.measures else ""
    values = [each.target.value for each in own.comparison.cases if each.target.measure == first]
    icon = line_icon(color=GREY, linestyle=":", linewidth=1.2)
    return [{"icon": icon, "name": target_name(value)} for value in values]


def _legend(own: ReportedStudy) -> list[Content]:
    drawn = convergence.drawn_first(own)
    return [
        {
            "icon": line_icon(**look(index)),
            "name": own.labels[variant],
            "drawn": variant in drawn,
        }
        for index, variant in enumerate(own.labels)
    ]
