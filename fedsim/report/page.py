"""The page: everything put together, in one file that asks nobody for anything."""

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsim.analysis import Comparison
from fedsim.record.writing import write_whole
from fedsim.report import (
    audit,
    convergence,
    energy,
    fleet,
    overview,
    participation,
    scenario,
    timeline,
)
from fedsim.report.parts import Figure, Table, options, style
from fedsim.report.study import Study
from fedsim.visible import visible

Content = dict[str, Any]

TABS = (
    *("Overview", "Scenario", "Fleet", "Convergence"),
    *("Energy", "Participation", "Timeline", "Audit"),
)

_BATTERIES = 12  # variants of which a page shows the batteries

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
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    scripts = [_plotly(), _asset("page.js")]
    return environment.get_template("page.html").render(
        **_content(own),
        style=_asset("page.css"),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )


def _seen(value: object) -> object:
    """Return what the page shows of a value; markup of its own making stays as it is."""
    return visible(value) if type(value) is str else value


def _content(own: Study) -> Content:
    """Return all that the template shows."""
    figures: dict[str, Figure] = {}
    fleets = _fleets(own, figures)
    measures, columns = _convergence(own, figures)
    clients = participation.counted(own)
    runs = timeline.chosen(own)
    figures["energy"] = energy.whole(own)
    for number, variant in enumerate(own.variants):
        figures[f"kinds/{number}"] = energy.kinds(own, variant)
        figures[f"participation/{number}"] = participation.figure(own, clients, variant)
    batteries = _batteries(own, figures)
    for number, run in enumerate(runs):
        for name, figure in timeline.figures(own, run).items():
            figures[f"timeline/{number}/{name}"] = figure
    variants = options(enumerate(own.labels.values()))
    return {
        "tabs": TABS,
        "study": own,
        "fedsim": version("fedsim"),
        "fleets": fleets,
        "measures": options((name, name.replace("_", " ")) for name in measures),
        "legend": _legend(own),
        "variants": variants,
        "batteries": batteries,
        "runs": options(
            (n, f"{own.labels[run.variant]}, seed {run.seed}") for n, run in enumerate(runs)
        ),
        "rounds": options((name, name) for name in timeline.ROUNDS),
        "checks": audit.CHECKS,
        "tables": _tables(own, clients),
        "figures": {"figures": figures, "columns": columns},
        "answers": list(overview.answers(own)),
        "notes": overview.notes(own),
    }


def _tables(own: Study, clients: Any) -> dict[str, list[Table]]:  # noqa: ANN401 - a frame
    return {
        "overview": list(overview.tables(own)),
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
        {"style": style(number), "name": own.labels[variant], "drawn": variant in drawn}
        for number, variant in enumerate(own.labels)
    ]


def _fleets(own: Study, figures: dict[str, Figure]) -> list[Content]:
    """Draw every different fleet, and return what stands beside each."""
    found = fleet.fleets(own)
    for number, (_, run) in enumerate(found):
        figures[f"fleet-{number}"] = fleet.drawing(own, run)
    return [{"variants": names, "table": fleet.table(own, run)} for names, run in found]


def _convergence(
    own: Study, figures: dict[str, Figure]
) -> tuple[list[str], dict[str, list[float | None]]]:
    measures = convergence.measures(own)
    columns: dict[str, list[float | None]] = {}
    for measure in measures:
        curves = dict(convergence.curves(own, measure))
        columns.update(curves)
        for cost, figure in convergence.figures(own, measure, curves).items():
            figures[f"convergence-{cost}/{measure}"] = figure
    return measures, columns


def _batteries(own: Study, figures: dict[str, Figure]) -> list[tuple[str, str]]:
    """Draw the batteries of every variant's first run, and return which variants have any."""
    having = []
    for number, (variant, run) in enumerate(islice(own.variants.items(), _BATTERIES)):
        figure = energy.batteries(own, run)
        if figure is not None:
            figures[f"batteries/{number}"] = figure
            having.append((number, own.labels[variant]))
    return options(having)


def _plotly() -> str:
    return (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")


def _asset(name: str) -> str:
    return (resources.files("fedsim.report") / "templates" / name).read_text("utf-8")


def _hash(script: str) -> str:
    """Return the hash under which the page allows a script: no other one can run in it."""
    if _END.search(script):
        raise ValueError("a script that ends itself cannot stand in a page")
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
