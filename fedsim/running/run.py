"""One run: a job is executed in its folder, or found complete there."""

import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.blocks.identity import versions
from fedsim.blocks.identity.packages import is_of_a_package
from fedsim.blocks.in_memory import identity_in
from fedsim.blocks.plugins import own_modules
from fedsim.building import Job
from fedsim.building.job import ExecutableRun
from fedsim.computing.serial import one_thread
from fedsim.errors import AuditError, DataError, RunError
from fedsim.ports import SERVER
from fedsim.progress import activity
from fedsim.record.folder import RESULTS, SCENARIO, SUMMARY, RunFolder, read_json
from fedsim.record.manifest import (
    COMPUTING,
    EVENTS,
    FILES,
    INPUTS,
    SEAL,
    check_files,
    made_with,
    read_manifest,
)
from fedsim.record.recorder import RunRecorder
from fedsim.record.scenarios import DESERTED, RISEN, sign
from fedsim.record.schema import Event
from fedsim.record.summary import DONE, NO_CLIENTS, ROSE, Ending, is_whole, status_of
from fedsim.scenario import Scenario, Variant, dump
from fedsim.sim.world import World

# Notes on a completed run, stored beside its results.

_ROUNDING = 1e-9  # relative


def has_risen(scenario: Scenario, start: float | None, end: float) -> bool:
    """Return whether a run ended with a larger objective than it began with.

    Never under a constraint: an infeasible start may have a smaller objective than any solution.
    """
    if start is None or scenario.algorithm.constrained:
        return False
    return end > start + _ROUNDING * abs(start)


def end_notes(
    scenario: Scenario, ending: Ending, start: float | None, end: float, advice: Callable[[], str]
) -> Iterator[str]:
    """Yield the notes of a run that ended without an error, each a key and a sentence.

    Args:
        scenario: of the run.
        ending: its state and the reason.
        start: the objective at the initial model; None if unknown.
        end: the objective of its last round; NaN without any.
        advice: returns a hint on the step size, which may take long to compute.
    """
    status, reason = ending
    if status == NO_CLIENTS:
        yield f"{DESERTED}: it ended before any stop rule applied: {reason}"
    if has_risen(scenario, start, end):
        yield f"{RISEN}: it ended at {end:.6g}, above its initial value {start:.6g}{advice()}"
    if reason.startswith("rounds: ") and "rounds" not in scenario.stop.model_fields_set:
        yield f"stop.rounds: {reason.removeprefix('rounds: ')}: the default limit has ended it"


# Provenance: a hash of the code that a run's bytes depend on, found by following imports.
#
# No list of modules is kept by hand: the imports of each module, at any depth of its code, are read
# from its source, and followed. So a new module counts as soon as another one imports it, and
# modules that only display results never do. No module is imported or executed for this.
#
# The hash is of whole files. An edit of a comment changes it, and all runs are made again: that
# costs time, whereas a hash that ignores too much would reuse a run with other bytes.

_CHECKED = re.compile(r"^if TYPE_CHECKING:.*\n(?:(?:[ \t]+.*)?\n)*", re.MULTILINE)
"""Blocks that only type checkers read."""

_STATEMENT = re.compile(
    r"import\b(?:[ \t]*\(([^)]*)\)|([^\n;#]*))",  # begins with a literal, so it is fast
)
_FROM = re.compile(r"(?:^|[:;])[ \t]*from[ \t]*([.\w \t]+?)[ \t]*$")
_PLAIN = re.compile(r"(?:^|[:;])[ \t]*$")


def imports(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the imports of a module: the source, as written, and the names.

    Regular expressions take a tenth of the time of a parser. Text that looks like an import, such
    as an example in a docstring, counts as one: an extra module is harmless, a missing one is not.
    """
    text = _CHECKED.sub("", text.replace("\\\n", " "))
    for found in _STATEMENT.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        names = re.sub(r"#[^\n]*", "", found[1] or found[2] or "").split(",")
        firsts = tuple(words[0] for name in names if (words := name.split()))
        if source := _FROM.search(before):
            yield "".join(source[1].split()), firsts
        elif _PLAIN.search(before):
            yield from ((name, ()) for name in firsts)


class Sources(NamedTuple):
    """The files of some modules and of all that they import.

    Attributes:
        modules: the content of each file, by the name of the module.
        packages: imported packages that are installed, whose imports are not followed; without the
            standard library.
    """

    modules: dict[str, bytes]
    packages: frozenset[str]

    def hash(self) -> str:
        """Return a hash of the modules, independent of the names under which they were loaded."""
        each = sorted(sha256(content).digest() for content in self.modules.values())
        return sha256(b"".join(each)).hexdigest()


def sources(roots: Mapping[str, bytes], known: Container[str] = ()) -> Sources:
    """Follow the imports of some modules.

    Args:
        roots: their texts by their names; imports of the packages that contain them are followed.
        known: names of modules that are skipped, with their imports.
    """
    own = frozenset(name.partition(".")[0] for name in roots)
    modules, packages, waiting = dict(roots), set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        for other, names in _imports(name, modules[name]):
            top = other.partition(".")[0]
            if top not in own and _is_installed(top):
                packages.add(top)
                continue
            for each, path in _load(other, names):
                if each not in modules and each not in known:
                    modules[each] = path.read_bytes()
                    waiting.append(each)
    return Sources(modules, frozenset(packages))


def _imports(name: str, content: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that a module imports from, by their full names, and the names."""
    spec = _spec(name)
    is_package = spec is not None and spec.submodule_search_locations is not None
    package = name if is_package else name.rpartition(".")[0]
    for written, names in imports(content.decode(errors="replace")):
        with suppress(ImportError):  # a relative import beyond the top package
            yield resolve_name(written, package), names


@cache
def _is_installed(top: str) -> bool:
    """Return whether a module is of an installed package, not a user's own file."""
    return is_of_a_package(_spec(top))


@cache
def _load(name: str, names: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Return the files that an import loads: the module, its packages, and named submodules."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names:
        return []
    wanted = [".".join(parts[: count + 1]) for count in range(len(parts))]
    if names and (spec := _spec(name)) and spec.submodule_search_locations:
        wanted += [f"{name}.{each}" for each in names]
    specs = ((each, _spec(each)) for each in wanted)
    return [
        (each, Path(spec.origin))
        for each, spec in specs
        if spec and spec.has_location and spec.origin
    ]


def _spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module without importing it; None if there is none."""
    loaded: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    return loaded or _find_spec(name, tuple(sys.path))


@cache
def _find_spec(name: str, path: tuple[str, ...]) -> ModuleSpec | None:
    parent = name.rpartition(".")[0]
    if not parent:
        return PathFinder.find_spec(name, path)
    above = _spec(parent)
    inside = above.submodule_search_locations if above else None
    try:
        return PathFinder.find_spec(name, inside) if inside else None
    except KeyError:  # a namespace package within another one that was not imported
        return None


class RunProgress(NamedTuple):
    """The progress of a run.

    Attributes:
        variant, seed: of the run.
        algorithm: its kind.
        rounds: the largest possible number.
        round: the last one that was committed.
        objective, gap: after it; NaN if unknown.
        ended: whether the run is over, or existed already.
        doing: the current activity in a few words, if the run is in another process and has
            reported no progress for long; see `fedsim.progress`.
    """

    variant: str
    seed: int
    algorithm: str
    rounds: int
    round: int = 0
    objective: float = nan
    gap: float = nan
    ended: bool = False
    doing: str = ""


Watch = Callable[[RunProgress], None]
"""A callback for every round of every run, and for its end."""


def ignore_progress(progress: RunProgress) -> None:
    """Ignore progress."""


def execute(
    job: ExecutableRun,
    out: Path,
    watch: Watch = ignore_progress,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Run one job into its folder, `OUT/<variant>/seed-<n>`, and return that.

    Args:
        job: the run.
        out: the folder of the run folders.
        watch: called with every round.
        origin: further entries of the manifest, for a re-priced run.

    Raises:
        OutputError: a file of it cannot be written.
    """
    folder = RunFolder(out, job.variant.name, job.seed)
    folder.write_text(SCENARIO, scenario_text(job))
    initial, models = beginning(job.variant, job.seed), job.model_writer(folder.path)
    recorder = RunRecorder(folder.path, len(job.members), job.variant.name, job.seed, models)
    try:
        with recorder:
            word = recorder.log.word(job.opening)
            recorder.log.append(0.0, 0.0, Event.EVALUATE, SERVER, detail=word)
            with activity("building the world"):
                world = World(job.setup, recorder, partial(_report, watch, initial))
            status, reason = _run_world(world)
            if status == "diverged":
                reason += job.advice()
            with activity("closing and auditing the log"):
                world.close(reason)
    except AuditError as error:
        status, reason = status_of(type(error)), str(error)
    with activity("writing the tables"):
        folder.write_table("clients", recorder.clients(job.facts, world.meters()))
        events = {"rows": recorder.log.rows, "sha256": recorder.log.sha256}
        made = {**_make(job), EVENTS: events, **(origin or {})}
        folder.close(made, _summary(job, world, status=status, reason=reason))
    return folder.path


class Finished(NamedTuple):
    """Metadata of a completed run, small enough to send to a worker.

    Attributes:
        manifest, summary: the contents of these files.
        scenario: the text of the scenario file.
    """

    manifest: Mapping[str, Any]
    summary: Mapping[str, Any]
    scenario: str


def finished_in(path: Path) -> Finished | None:
    """Return the metadata of the run in a folder; None unless all its files are undamaged."""
    try:
        check_files(path, RESULTS)
        made = read_manifest(path)
    except DataError:
        return None
    scenario = (path / SCENARIO).read_text(encoding="utf-8")
    return Finished(made, read_json(path / SUMMARY), scenario)


def is_finished(job: Job, out: Path) -> bool:
    """Return whether the folder of a job holds this run, complete."""
    return matches(job, finished_in(RunFolder.place(out, job.variant.name, job.seed)))


def matches(job: Job, there: Finished | None) -> bool:
    """Return whether an existing run is the one that a job would make.

    It is if scenario, data, code and versions are the same: the result would be, too.
    """
    if there is None:
        return False
    made = there.manifest
    if {key: made[key] for key in made.keys() - {EVENTS, FILES, SEAL}} != _make(job):
        return False
    same = there.summary.get("problem") == job.problem.fingerprint
    return same and there.scenario == scenario_text(job)


def _make(job: ExecutableRun) -> dict[str, Any]:
    made = made_with(job.seed, job.variant.fingerprint, code_hash(job))
    return {**made, COMPUTING: dict(job.computing), INPUTS: dict(job.inputs)}


def scenario_text(job: ExecutableRun) -> str:
    """Return the scenario of one run, as YAML with its hash."""
    own = job.variant.scenario.model_copy(update={"seed": job.seed, "seeds": 1})
    return sign(dump(own, job.variant.question))


def code_hash(job: ExecutableRun) -> str:
    """Return a hash of the code that makes a run: fedsim's, and that of user-defined blocks.

    Fedsim's is all that this module imports, directly or not; code that displays results or parses
    commands does not count. Of packages that user-defined blocks import, the version counts.
    Objects passed in Python count by their contents in memory, with all that their code reads
    (`identity_in`). If these cannot be compared reliably, the hash is random, so that no run is
    ever reused; `why_unresumable` returns the reason.
    """
    scenario, own = job.variant.scenario, _own_code()
    identity = identity_in(scenario)
    try:
        added = sources(own_modules(scenario), own.modules)
    except OSError:
        return sha256(os.urandom(32)).hexdigest()
    if identity.reason:
        return sha256(os.urandom(32)).hexdigest()
    digest = sha256(f"{own.hash()} {added.hash()} {identity.digest}".encode())
    digest.update("\n".join(versions(added.packages - own.packages)).encode())
    return digest.hexdigest()


def why_unresumable(scenario: Scenario) -> str:
    """Return why complete runs of a scenario are never reused; empty if they are."""
    if reason := identity_in(scenario).reason:
        return reason
    try:
        own_modules(scenario)
    except OSError:
        return "a class of its blocks was typed into an interactive session, and is in no file"
    return ""


def environment() -> dict[str, str]:
    """Return what decides the bytes of a run beside its job: versions and machine, by name."""
    made = made_with(0, "", "")
    own = {"the code of fedsim": _own_code().hash()[:12]}
    return {"Python": made["python"], **made["versions"], **own, "the machine": made["machine"]}


@cache
def _own_code() -> Sources:
    return sources({__name__: Path(__file__).read_bytes()})


def beginning(variant: Variant, seed: int) -> RunProgress:
    """Return the progress of a run that has not begun."""
    scenario = variant.scenario
    return RunProgress(variant.name, seed, scenario.algorithm.kind, scenario.stop.rounds)


def ending(job: ExecutableRun, out: Path) -> RunProgress:
    """Return the progress of a run that has ended."""
    summary = read_json(RunFolder.place(out, job.variant.name, job.seed) / SUMMARY)
    return final_progress(beginning(job.variant, job.seed), summary)


def final_progress(initial: RunProgress, summary: Mapping[str, Any]) -> RunProgress:
    """Return the final progress of a run, from its summary."""
    objective, gap = (nan if summary[key] is None else summary[key] for key in ("objective", "gap"))
    return initial._replace(round=summary["rounds"], objective=objective, gap=gap, ended=True)


def _report(watch: Watch, run: RunProgress, number: int, objective: float, gap: float) -> None:
    watch(run._replace(round=number, objective=objective, gap=gap))


def _run_world(world: World) -> Ending:
    """Run a world; return its final state and the reason.

    One thread does the linear algebra: with more, the last bits would depend on their number.
    """
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        try:
            reason = world.run()
        except RunError as error:
            return Ending(status_of(type(error)), str(error))
    return Ending(world.status, reason)


def _summary(job: ExecutableRun, world: World, *, status: str, reason: str) -> dict[str, Any]:
    number, objective = world.last_round
    scenario, start = job.variant.scenario, job.identity["start"]
    if status == DONE and has_risen(scenario, start, objective):
        status = ROSE
    ending = Ending(status, reason)
    notes = end_notes(scenario, ending, start, objective, job.advice) if is_whole(status) else ()
    return {
        **job.identity,
        "status": status,
        "reason": reason,
        "notes": list(notes),
        "rounds": number,
        "t": world.calendar.now,
        "objective": objective,
        "gap": objective - job.setup.optimum,
        "looks": world.looks,
        **world.traffic.as_dict(),
    }
