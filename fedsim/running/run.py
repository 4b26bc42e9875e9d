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
from fedsim.record.scenarios import ABANDONED, DESERTED, RISEN, sign
from fedsim.record.schema import Event
from fedsim.record.summary import DONE, NO_CLIENTS, ROSE, Ending, is_whole, status_of
from fedsim.scenario import Scenario, Variant, dump
from fedsim.sim.world import World

# Notes on a run that has ended, beside its results.

_ROUNDING = 1e-9  # relative


def has_risen(scenario: Scenario, start: float | None, end: float) -> bool:
    """Return whether an objective is above where its run began.

    Under a constraint it may have to be: the start need not be feasible.
    """
    if start is None or scenario.algorithm.constrained:
        return False
    return end > start + _ROUNDING * abs(start)


class Course(NamedTuple):
    """How a run went.

    Attributes:
        start: the objective at the initial model; None if unknown.
        end: the objective of its last round; NaN where there was none.
        rounds: how many there were.
        abandoned: how many of these were no step of the algorithm.
    """

    start: float | None
    end: float
    rounds: int
    abandoned: int


def verdict(
    scenario: Scenario, ending: Ending, course: Course, advice: Callable[[], str]
) -> Iterator[str]:
    """Yield the notes of a run that ended without an error, each a key and a sentence.

    Args:
        scenario: of the run.
        ending: how and why it ended.
        course: how it went.
        advice: returns what to say of its step size, which may take long to know.
    """
    status, reason = ending
    start, end, rounds, abandoned = course
    if status == NO_CLIENTS:
        yield f"{DESERTED}: no stop rule ended it: {reason}"
    if has_risen(scenario, start, end):
        yield f"{RISEN}: it ended at {end:.6g}, above {start:.6g}, where it began{advice()}"
    if 2 * abandoned > rounds:
        yield (
            f"{ABANDONED}: {abandoned} of {rounds} were abandoned, for too few clients replied, or"
            " none: they cost time and energy, and were no steps of the algorithm"
        )
    if reason.startswith("rounds: ") and "rounds" not in scenario.stop.model_fields_set:
        yield f"stop.rounds: {reason.removeprefix('rounds: ')}: a default has ended it, not a rule"


# Provenance: a hash of the code that a run's bytes depend on, found by following imports.
#
# Nothing is listed by hand: what a module imports, wherever in it, is read off its source, and so
# on from there. So a module counts from the moment somebody imports it, and one that only shows
# what runs have come to does not count. Nothing is imported or run for that.

_CHECKED = re.compile(r"^if TYPE_CHECKING:.*\n(?:(?:[ \t]+.*)?\n)*", re.MULTILINE)
"""What is read by type checkers only, and never runs."""

_STATEMENT = re.compile(
    r"import\b(?:[ \t]*\(([^)]*)\)|([^\n;#]*))",  # begins with a literal, so it is fast
)
_FROM = re.compile(r"(?:^|[:;])[ \t]*from[ \t]*([.\w \t]+?)[ \t]*$")
_PLAIN = re.compile(r"(?:^|[:;])[ \t]*$")


def imports(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a module imports: from where, as written, and which names.

    It takes a tenth of the time of a parser. Text that reads like an import, such as an example
    in a docstring, counts as one: too much is followed rather than too little.
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
    """What some modules and all that they import are made of.

    Attributes:
        modules: the content of each file, by the name of the module.
        packages: installed ones, which are imported and not followed; without the standard library.
    """

    modules: dict[str, bytes]
    packages: frozenset[str]

    def hash(self) -> str:
        """Return a hash of the modules; by what name one was loaded does not matter."""
        each = sorted(sha256(content).digest() for content in self.modules.values())
        return sha256(b"".join(each)).hexdigest()


def sources(roots: Mapping[str, bytes], known: Container[str] = ()) -> Sources:
    """Follow the imports of some modules.

    Args:
        roots: their texts by their names; the packages that they are in are followed, too.
        known: names of modules that are not looked at, nor what they import.
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
        with suppress(ImportError):  # it goes above the top
            yield resolve_name(written, package), names


@cache
def _is_installed(top: str) -> bool:
    """Return whether a module is of an installed package, not a user's own file."""
    return is_of_a_package(_spec(top))


@cache
def _load(name: str, names: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Return what is loaded for an import: the module, the packages it is in, and submodules."""
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
    """Return where a module is, without importing anything; None where there is none."""
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
    except KeyError:  # a folder without __init__ in another such that was not imported
        return None


class RunProgress(NamedTuple):
    """How far a run is.

    Attributes:
        variant, seed: of the run.
        algorithm: its kind.
        rounds: the most there can be.
        round: the last one that was committed.
        objective, gap: after it; NaN where nothing is known.
        ended: whether the run is over, or was there already.
        doing: what goes on since then, in a few words, where the run is in another process and
            that takes long; see `fedsim.progress`.
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
"""Told of every round of every run, and of its end."""


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
        job: what to run.
        out: where the folders of runs go.
        watch: told of every round.
        origin: further words of the manifest, where it is no run of its own.

    Raises:
        OutputError: something of it cannot be written.
    """
    folder = RunFolder(out, job.variant.name, job.seed)
    folder.write_text(SCENARIO, scenario_text(job))
    begun, keeper = beginning(job.variant, job.seed), job.keeper(folder.path)
    book = RunRecorder(folder.path, len(job.members), job.variant.name, job.seed, keeper)
    try:
        with book:
            word = book.log.word(job.opening)
            book.log.append(0.0, 0.0, Event.EVALUATE, SERVER, detail=word)
            with activity("making the world"):
                world = World(job.setup, book, partial(_tell, watch, begun))
            status, reason = _let_run(world)
            if status == "diverged":
                reason += job.advice()
            with activity("closing and auditing the log"):
                world.close(reason)
    except AuditError as error:
        status, reason = status_of(type(error)), str(error)
    with activity("writing the tables"):
        folder.write_table("clients", book.clients(job.facts, world.meters()))
        events = {"rows": book.log.rows, "sha256": book.log.sha256}
        made = {**_make(job), EVENTS: events, **(origin or {})}
        folder.close(made, _summary(job, world, status=status, reason=reason))
    return folder.path


class Finished(NamedTuple):
    """Metadata of a completed run, small enough to send to a worker.

    Attributes:
        manifest, summary: what these files say.
        scenario: the text of that file.
    """

    manifest: Mapping[str, Any]
    summary: Mapping[str, Any]
    scenario: str


def finished_in(path: Path) -> Finished | None:
    """Return what tells of the run in a folder; None unless every file has the hash that it had."""
    try:
        check_files(path, RESULTS)
        made = read_manifest(path)
    except DataError:
        return None
    scenario = (path / SCENARIO).read_text(encoding="utf-8")
    return Finished(made, read_json(path / SUMMARY), scenario)


def is_finished(job: Job, out: Path) -> bool:
    """Say whether the folder of a job holds this very run, whole."""
    return is_same(job, finished_in(RunFolder.place(out, job.variant.name, job.seed)))


def is_same(job: Job, there: Finished | None) -> bool:
    """Say whether a run that is there is the one that a job makes.

    It is where scenario, data, code and versions are those that this run would be made with, for
    then it would come out the same.
    """
    if there is None:
        return False
    made = there.manifest
    if {key: made[key] for key in made.keys() - {EVENTS, FILES, SEAL}} != _make(job):
        return False
    same = there.summary.get("problem") == job.problem.fingerprint
    return same and there.scenario == scenario_text(job)


def _make(job: ExecutableRun) -> dict[str, Any]:
    made = made_with(job.seed, job.variant.fingerprint, made_by(job))
    return {**made, COMPUTING: dict(job.computing), INPUTS: dict(job.inputs)}


def scenario_text(job: ExecutableRun) -> str:
    """Return the scenario of one run, as YAML with its hash."""
    own = job.variant.scenario.model_copy(update={"seed": job.seed, "seeds": 1})
    return sign(dump(own, job.variant.question))


def made_by(job: ExecutableRun) -> str:
    """Return a hash of the code that makes a run: fedsim's, and that of blocks of one's own.

    Fedsim's is what this module imports, at whatever distance; so what only shows results, or
    reads a command, does not count. Of packages that such blocks import, the version counts. What
    Python hands over counts as it is in memory, with all that its code reads (`identity_in`).
    Where that cannot be compared for certain, the hash is new every time; `no_identity` says why.
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


def no_identity(scenario: Scenario) -> str:
    """Return why runs of a scenario are never taken for ones that are there; empty if they are."""
    if reason := identity_in(scenario).reason:
        return reason
    try:
        own_modules(scenario)
    except OSError:
        return "a class of its blocks was typed in, and no file keeps it"
    return ""


def surroundings() -> dict[str, str]:
    """Return what else than a job decides which bytes a run has, by what it is called."""
    made = made_with(0, "", "")
    own = {"the code of fedsim": _own_code().hash()[:12]}
    return {"Python": made["python"], **made["versions"], **own, "the machine": made["machine"]}


@cache
def _own_code() -> Sources:
    return sources({__name__: Path(__file__).read_bytes()})


def beginning(variant: Variant, seed: int) -> RunProgress:
    """Return how far a run is that has not begun."""
    scenario = variant.scenario
    return RunProgress(variant.name, seed, scenario.algorithm.kind, scenario.stop.rounds)


def ending(job: ExecutableRun, out: Path) -> RunProgress:
    """Return how far a run has come that is over."""
    summary = read_json(RunFolder.place(out, job.variant.name, job.seed) / SUMMARY)
    return final_progress(beginning(job.variant, job.seed), summary)


def final_progress(begun: RunProgress, summary: Mapping[str, Any]) -> RunProgress:
    """Return how far a run has come, by its summary."""
    objective, gap = (nan if summary[key] is None else summary[key] for key in ("objective", "gap"))
    return begun._replace(round=summary["rounds"], objective=objective, gap=gap, ended=True)


def _tell(watch: Watch, run: RunProgress, number: int, objective: float, gap: float) -> None:
    watch(run._replace(round=number, objective=objective, gap=gap))


def _let_run(world: World) -> Ending:
    """Run a world; return how and why it ended.

    One thread does the linear algebra: with more, the last bits depend on their number.
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
    course = Course(start, objective, number, world.abandoned)
    notes = verdict(scenario, ending, course, job.advice) if is_whole(status) else ()
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
