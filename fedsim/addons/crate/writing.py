"""Archives of studies as RO-Crates 1.1, by the profile Process Run Crate 0.5.

The profile has one action per run: fedsim, in its version, has made these files from that scenario.
See Leo et al., "Recording provenance of workflow runs with RO-Crate", PLOS ONE 19(9), 2024.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.core.errors import DataError
from fedsim.core.extras import missing as extra_missing
from fedsim.results.record.folder import RESULTS, SCENARIO, SUMMARY
from fedsim.results.record.manifest import MANIFEST, read_manifest
from fedsim.results.record.outputs import Call, output
from fedsim.results.record.read import hold_no_runs, missing, run_folders
from fedsim.results.record.studies import study_in
from fedsim.scenario import load

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

FILE = "crate.zip"
"""The archive in the folder of a study."""

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"

NO_LICENCE = "No licence is stated. Ask the authors before you use these files."

_FORMATS = {
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".json": "application/json",
    ".csv": "text/csv",
    ".html": "text/html",
    ".md": "text/markdown",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".tex": "application/x-tex",
    ".bib": "application/x-bibtex",
}
"""Media types by the endings of files."""

_MEANINGS = {
    SCENARIO: "the scenario of this run: problem, method, devices and network",
    "events.parquet": "the event log: one row per event, with time, bits and joules",
    "rounds.parquet": "one row per round: objective, measures, and costs so far",
    "clients.parquet": "one row per client and round",
    "models.parquet": "stored models",
    SUMMARY: "the state at the end of the run",
    MANIFEST: "versions, inputs and hashes of the files of this run",
    "convergence.png": "curves of all variants against rounds, bits, time and energy",
    "report.html": "the report of the study",
    "study.json": "the variants of the study",
}
"""Descriptions of files by name."""


def write_crate(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    name: str = "",
    description: str = "",
    licence: str = "",
    authors: Sequence[str] = (),
) -> Path:
    """Write a study with all its files and their description into one archive, an RO-Crate.

    Args:
        folder: of all runs, written by `run`.
        out: the archive to write; `crate.zip` in the folder if None.
        name: a title; that of the scenario if empty.
        description: what the study is about; the question of the scenario if empty.
        licence: the address of the licence of these files, or a sentence about it.
        authors: each a name, or "NAME <ADDRESS>" with a persistent address such as an ORCID.

    Returns:
        The path of the archive: `out`, or a name with a number where another file is there.

    Raises:
        DataError: there is no finished run, `out` does not end in .zip, or the library rocrate is
            not installed.
        OutputError: the archive cannot be written.
    """
    place = Path(folder)
    file = place / FILE if out is None else Path(out)
    _check(place, file)
    crate = _crate(place, name, description, licence, authors)
    options = {"name": name, "description": description, "licence": licence, "authors": authors}
    with output(Call.of("crate", [place], **options), file) as draft:
        crate.write_zip(draft.path)
    return draft.place


def _check(place: Path, file: Path) -> None:
    if find_spec("rocrate") is None:
        raise DataError("crate", extra_missing("fedsim crate", "rocrate", "crate"))
    if file.suffix != ".zip":
        raise DataError("out", f"got {file}; expected a file that ends in .zip")
    if not place.is_dir():
        raise missing("folder", place)
    if not _finished(place):
        raise DataError("folder", hold_no_runs(place))


def _finished(place: Path) -> list[Path]:
    """Return the finished runs of a whole study."""
    runs = run_folders(place)
    return [run for run in runs if run.parent.parent == place and (run / SUMMARY).exists()]


def _crate(
    place: Path, name: str, description: str, licence: str, authors: Sequence[str]
) -> "ROCrate":
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    def add(address: str, kind: str, **facts: Any) -> ContextEntity:
        return crate.add(ContextEntity(crate, address, properties={"@type": kind, **facts}))

    crate = ROCrate(version="1.1")
    runs = _finished(place)
    study, question = study_in(place), load(runs[0] / SCENARIO).variants[0].question
    crate.name = name or (study.name if study else place.resolve().name)
    crate.description = description or question or f"A study of {len(runs)} runs with fedsim."
    crate.datePublished = datetime.now(UTC).replace(microsecond=0)
    crate.license = _licence(licence, add)
    if authors:
        crate.root_dataset["author"] = [_author(author, add) for author in authors]
    profile = add(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    crate.root_dataset["conformsTo"] = profile
    files = {
        path: crate.add_file(place / path, path, properties=_facts(place / path))
        for path in _paths(place, runs)
    }
    programs: dict[str, ContextEntity] = {}
    crate.root_dataset["mentions"] = [_action(place, run, files, programs, add) for run in runs]
    return crate


def _paths(place: Path, runs: Sequence[Path]) -> Iterator[str]:
    """Yield the files of finished runs, and others beside them, by their paths in the study."""
    for path in sorted(place.rglob("*")):
        inside = path.relative_to(place)
        hidden = any(part.startswith(".") for part in inside.parts)
        unfinished = inside.parts[1:2] and re.fullmatch(r"seed-\d+", inside.parts[1])
        if hidden or not path.is_file() or path.is_symlink() or path.suffix == ".zip":
            continue
        if not unfinished or place.joinpath(*inside.parts[:2]) in runs:
            yield inside.as_posix()


def _facts(file: Path) -> dict[str, Any]:
    """Return the description of a file."""
    facts = {
        "name": file.name,
        "description": _MEANINGS.get(file.name, ""),
        "encodingFormat": _FORMATS.get(file.suffix, ""),
        "contentSize": str(file.stat().st_size),
    }
    return {key: fact for key, fact in facts.items() if fact}


def _licence(licence: str, add: Any) -> Any:
    """Return a licence with an address as an entity, any other one as text."""
    if not licence:
        return NO_LICENCE
    if not re.match(r"https?://", licence):
        return licence
    return add(licence, "CreativeWork", name=licence.rstrip("/").rpartition("/")[2])


def _author(author: str, add: Any) -> Any:
    """Return an author as an entity: one with an address under that address."""
    match = re.fullmatch(r"(?P<name>[^<>]*\S)\s*<(?P<address>https?://\S+)>", author.strip())
    if match:
        return add(match["address"], "Person", name=match["name"])
    return add(f"#{re.sub(r'[^A-Za-z0-9]+', '-', author).strip('-')}", "Person", name=author)


def _action(
    place: Path,
    run: Path,
    files: Mapping[str, Any],
    programs: dict[str, Any],
    add: Any,
) -> Any:
    """Return the action of a run: what made its files, from what, and when."""
    inside = run.relative_to(place).as_posix()
    named = {name: f"{inside}/{name}" for name in (*RESULTS, MANIFEST)}
    held = {name: files[path] for name, path in named.items() if path in files}
    begun, ended = (
        datetime.fromtimestamp(int((run / name).stat().st_mtime), UTC).isoformat()
        for name in (SCENARIO, SUMMARY)
    )
    return add(
        f"#run-{run.parent.name}-{run.name}",
        "CreateAction",
        name=f"Run of {run.parent.name}, {run.name.replace('-', ' ')}",
        description="A simulated federated optimisation over a network.",
        instrument=_program(read_manifest(run)["versions"], programs, add),
        object=held[SCENARIO],
        result=[file for name, file in held.items() if name != SCENARIO],
        startTime=begun,
        endTime=ended,
        actionStatus="http://schema.org/CompletedActionStatus",
    )


def _program(versions: Mapping[str, str], programs: dict[str, Any], add: Any) -> Any:
    """Return fedsim in a version as an entity, with the libraries that compute its results."""

    def program(name: str, **facts: Any) -> Any:
        address = f"#{name}-{versions[name]}"
        if address not in programs:
            programs[address] = add(
                address, "SoftwareApplication", name=name, softwareVersion=versions[name], **facts
            )
        return programs[address]

    return program(
        "fedsim", softwareRequirements=[program(name) for name in versions if name != "fedsim"]
    )
