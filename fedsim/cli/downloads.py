"""Public files: downloaded on request, or offered before a run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.table import Table

from fedsim.core.blocks.wording import unknown
from fedsim.core.errors import DataError
from fedsim.core.tables import listing
from fedsim.physics.formats.published import TRACE_SETS, fetch_traces
from fedsim.problems import ENTRIES, Catalogue, fetch
from fedsim.problems.partition import cache_folder
from fedsim.scenario import Plan, load
from fedsim.scenario.building import missing_data
from fedsim.scenario.examples import examples

# The example scenarios as a table.


def examples_table() -> Table:
    """Return the examples with their questions, numbers of runs and external data."""
    plans = {name: load(file) for name, file in examples().items()}
    rows = [
        (name, plan.variants[0].question, str(_runs(plan)), ", ".join(_external_sets(plan)))
        for name, plan in plans.items()
    ]
    return listing("examples", ("name", "question", "runs", "data to fetch"), rows)


def _runs(plan: Plan) -> int:
    return sum(len(variant.seeds) for variant in plan.variants)


def _external_sets(plan: Plan) -> list[str]:
    """Return the names of data sets that are not part of fedsim."""
    problem = plan.variants[0].scenario.problem
    parts = [each for each in (problem.data, problem.test) if isinstance(each, Catalogue)]
    return list(dict.fromkeys(part.name for part in parts))


def offer_downloads(plan: Plan) -> None:
    """Offer to download missing files, if the terminal is interactive."""
    for name in missing_data(plan):
        question = f"{name} is not on this machine. Download {ENTRIES[name].download}?"
        if sys.stdin.isatty() and typer.confirm(question, default=True, err=True):
            fetch(name)


def fetch_named(name: str) -> list[Path]:
    """Download a data set or traces, and return the paths.

    Raises:
        DataError: the name is unknown, the download fails, or the file has another checksum.
    """
    if name in ENTRIES:
        return [fetch(name)]
    if name in TRACE_SETS:
        return fetch_traces(name, cache_folder() / "traces")
    known = [*ENTRIES, *TRACE_SETS]
    raise DataError("fetch", f"unknown name: {unknown(name, known)}")


def public_table() -> Table:
    """Return a table of the files to fetch, or to download by hand."""
    return listing(
        "to fetch", ("name", "download", "licence", "checksum", "for, by"), list(_rows())
    )


def _rows() -> Iterator[tuple[str, ...]]:
    for name, entry in ENTRIES.items():
        kinds = {file.known.partition(":")[0] or "none" for file in entry.files}
        licence = entry.origin.rpartition("; ")[2] if "CC BY" in entry.origin else "see there"
        serves = f"data: {{kind: catalogue, name: {name}}}; {entry.origin}"
        size, _, place = entry.download.partition("from ")
        download = size.strip() or ("size unknown" if place else "by hand")
        yield name, download, licence, _describe(kinds), serves
    for name, traces in TRACE_SETS.items():
        kinds = {file.known.partition(":")[0] for file in traces.files}
        serves = f"{traces.serves}; {traces.origin}; {traces.page}"
        yield name, traces.download, traces.licence, _describe(kinds), serves


def _describe(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds)) or "none"
