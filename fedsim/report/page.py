"""The page: everything put together, in one file that asks nobody for anything."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsim.analysis import COLOURS, Comparison
from fedsim.analysis.comparing.pairwise import FEWEST
from fedsim.extras import VERSION
from fedsim.record.writing import write_whole
from fedsim.report import (
    audit,
    convergence,
    energy,
    fleet,
    network,
    overview,
    participation,
    scenario,
    sureness,
    timeline,
)
from fedsim.report.drawing import ink, line_icon
from fedsim.report.parts import Figure, Table, options, style
from fedsim.report.study import Run, Study
from fedsim.visible import visible

Content = dict[str, Any]

TABS = (
    *("Overview", "Scenario", "Fleet", "Convergence"),
    *("Energy", "Participation", "Timeline", "Audit"),
)

_BATTERIES = 12  # variants of which a page shows the batteries

_SMALL, _LARGE = 150, 280  # pixels that curves are high, on the first screen and in their tab

_END = re.compile("</(?=script)", re.IGNORECASE)  # what would end a script within its own text


def write(folder: Path, out: Path | None = None, targets: Sequence[str] = ()) -> Path:
    """Write the report of the runs in a folder, and return where it is.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.
        out: the file to write; `report.html` in the folder where not given.
        targets: what is to be reached, as `Comparison.of` takes it.

    Raises:
        DataError: there are no runs to report, or no run evaluates a target.
        OutputError: the file cannot be written.
    """
    page = render(Study(Comparison.of([folder], targets)))
    target = out or folder / "report.html"
    write_whole(target, page.encode())
    return target


def render(own: Study) -> str:
    """Return the page of a study, as HTML."""
    environment = Environment(
        loader=PackageLoader("fedsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    script = _asset("page.js")
    return environment.get_template("page.html").render(
        **_content(own),
        palette=" ".join(f"{ink(each)[4:-1]}: {each};" for each in COLOURS),
        style=_asset("page.css"),
        script=script,
        hash=_hash(script),
    )


def _seen(value: object) -> object:
    """Return what the page shows of a value; markup of its own making stays as it is."""
    return visible(value) if type(value) is str else value


def _content(own: Study) -> Content:
    """Return all that the template shows."""
    clients = participation.counted(own)
    runs = timeline.chosen(own)
    plots = {
        **_convergence(own),
        **_by_variant(own, clients),
        "energy": {"": energy.whole(own)},
        "timeline": dict(_timelines(own, runs)),
    }
    fleets = fleet.fleets(own)
    for number, (_, run) in enumerate(fleets):
        plots[f"fleet-{number}"] = {"": network.drawing(own, run)}
    measures = convergence.measures(own)
    return {
        "tabs": TABS,
        "study": own,
        "ink": ink,
        "seeds": sorted({run.seed for run in own.runs}),
        "fedsim": VERSION,
        "fleets": [{"variants": names, "table": fleet.table(own, run)} for names, run in fleets],
        "measures": options((name, convergence.named(name)) for name in measures),
        "costs": convergence.axes(own),
        "legend": _legend(own),
        "variants": options(enumerate(own.labels.values())),
        "batteries": options(
            (number, label)
            for number, label in enumerate(own.labels.values())
            if str(number) in plots["batteries"]
        ),
        "runs": options(
            (n, f"{own.labels[run.variant]}, seed {run.seed}") for n, run in enumerate(runs)
        ),
        "rounds": options((name, name) for name in timeline.ROUNDS),
        "checks": audit.CHECKS,
        "tables": _tables(own, clients),
        "plots": {name: _merged(figures) for name, figures in plots.items()},
        "answers": list(overview.answers(own)),
        "notes": overview.notes(own),
        "fewest": FEWEST,
    }


def _merged(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """Return every figure once, with all the choices that it is shown for."""
    choices: dict[Figure, list[str]] = {}
    for choice, figure in figures.items():
        choices.setdefault(figure, []).append(choice)
    return {" ".join(own): figure for figure, own in choices.items()}


def _convergence(own: Study) -> dict[str, dict[str, Figure]]:
    """Return the figures of the overview, and those of every measure, by what a menu calls it."""
    costs = convergence.axes(own)
    names = [f"{place}-{cost}" for place in ("overview", "convergence") for cost in costs]
    plots: dict[str, dict[str, Figure]] = {name: {} for name in names}
    for number, measure in enumerate(convergence.measures(own)):
        if not number:
            for cost, figure in convergence.figures(own, measure, _SMALL).items():
                plots[f"overview-{cost}"][""] = figure
        for cost, figure in convergence.figures(own, measure, _LARGE).items():
            plots[f"convergence-{cost}"][measure] = figure
    return plots


def _by_variant(own: Study, clients: pd.DataFrame) -> dict[str, dict[str, Figure]]:
    """Return the figures that a reader chooses a variant of."""
    plots: dict[str, dict[str, Figure]] = {"batteries": {}}
    for number, variant in enumerate(own.variants):
        found = {
            "kinds": energy.kinds(own, variant),
            "clients": energy.clients(own, variant),
            "participation": participation.figure(own, clients, variant),
        }
        for name, figure in found.items():
            plots.setdefault(name, {})[str(number)] = figure
    for number, run in enumerate(islice(own.variants.values(), _BATTERIES)):
        charge = energy.batteries(own, run)
        if charge is not None:
            plots["batteries"][str(number)] = charge
    return plots


def _timelines(own: Study, runs: Sequence[Run]) -> Iterator[tuple[str, Figure]]:
    most = timeline.lanes_each(len(runs))
    for number, run in enumerate(runs):
        for name, figure in timeline.figures(own, run, most).items():
            yield f"{number}/{name}", figure


def _tables(own: Study, clients: pd.DataFrame) -> dict[str, list[Table]]:
    return {
        "overview": [*overview.tables(own), *sureness.tables(own)],
        "scenario": _present(
            [scenario.differences(own), scenario.parameters(own), scenario.concerns(own)]
        ),
        "energy": [energy.table(own)],
        "batteries": _present([energy.battery_table(own)]),
        "participation": _present([participation.table(own, clients), participation.given_up(own)]),
        "audit": [audit.book_table(own), audit.run_table(own), audit.version_table(own)],
    }


def _present(tables: list[Table | None]) -> list[Table]:
    return [table for table in tables if table is not None]


def _legend(own: Study) -> list[Content]:
    drawn = convergence.drawn_first(own)
    return [
        {"icon": line_icon(*style(number)), "name": own.labels[variant], "drawn": variant in drawn}
        for number, variant in enumerate(own.labels)
    ]


def _asset(name: str) -> str:
    return (resources.files("fedsim.report") / "templates" / name).read_text("utf-8")


def _hash(script: str) -> str:
    """Return the hash under which the page allows a script: no other one can run in it."""
    if _END.search(script):
        raise ValueError("a script that ends itself cannot stand in a page")
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
