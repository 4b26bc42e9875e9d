"""One run: a job is executed in its folder, or found complete there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from hashlib import sha256
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedsim.core.blocks.in_memory import code_in
from fedsim.core.blocks.plugins import own_modules
from fedsim.core.errors import AuditError, DataError, RunError
from fedsim.core.files import read_file
from fedsim.core.ports import SERVER, node_name
from fedsim.core.progress import activity
from fedsim.problems.evaluators.serial import one_thread
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.record.earlier import set_aside
from fedsim.results.record.folder import RESULTS, SCENARIO, SUMMARY, RunFolder, read_json
from fedsim.results.record.ledger import Ledger, Meters
from fedsim.results.record.manifest import (
    CODE_VERSION,
    COMPUTING,
    EVENTS,
    FILES,
    INPUTS,
    SEAL,
    check_files,
    made_with,
    read_manifest,
)
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.scenarios import ABANDONED, DESERTED, LEFT, RISEN, sign
from fedsim.results.record.schema import Event
from fedsim.results.record.summary import (
    DONE,
    NO_CLIENTS,
    ROSE,
    Departures,
    Ending,
    is_whole,
    status_of,
)
from fedsim.running.imports import Sources, sources, versions
from fedsim.scenario import Scenario, Variant
from fedsim.scenario.building import Job
from fedsim.scenario.building.feasibility import deadline
from fedsim.scenario.building.job import ExecutableRun
from fedsim.scenario.building.slow_devices import slow_devices
from fedsim.sim.config import WorldConfig
from fedsim.sim.network.models import LAYERS
from fedsim.sim.world import World
from fedsim.sim.worlds.observer import OnRound

# Notes on a completed run, stored beside its results.

_ROUNDING = 1e-9  # relative


def has_risen(scenario: Scenario, start: float | None, end: float) -> bool:
    """Return whether a run ended with a larger objective than it began with.

    Never under a constraint: an infeasible start may have a smaller objective than any solution.
    """
    if start is None or scenario.algorithm.constrained:
        return False
    return end > start + _ROUNDING * abs(start)


class Course(NamedTuple):
    """How a run went.

    Attributes:
        start: the objective at the initial model; None if unknown.
        end: the objective of its last round, or of the start without one; NaN if unknown.
        rounds: how many there were.
        abandoned: how many of these were no step of the algorithm.
        left: how many of its clients left for good, when and why; empty if none did.
        all_replied: whether all sampled clients replied before the deadline in every round.
    """

    start: float | None
    end: float
    rounds: int
    abandoned: int
    left: str = ""
    all_replied: bool = False


def end_notes(
    scenario: Scenario, ending: Ending, course: Course, advice: Callable[[], str]
) -> Iterator[str]:
    """Yield the notes of a run that ended without an error, as pairs of key and sentence.

    Args:
        scenario: of the run.
        ending: its state and the reason.
        course: how it went.
        advice: returns a hint on the step size, which may take long to compute.
    """
    status, reason = ending
    start, end, rounds, abandoned, left, all_replied = course
    if status == NO_CLIENTS:
        yield f"{DESERTED}: it ended before any stop rule applied: {left or reason}"
    elif left:
        yield f"{LEFT}: {left}"
    if has_risen(scenario, start, end):
        yield f"{RISEN}: it ended at {end:.6g}, above its initial value {start:.6g}{advice()}"
    if 2 * abandoned > rounds:
        yield (
            f"{ABANDONED}: {abandoned} of {rounds} were abandoned because too few clients"
            " replied: they cost time and energy, but did not update the model"
        )
    key, span = deadline(scenario)
    if all_replied and span < inf and rounds:
        yield f"{key}: got {span:g} s, and all replies of all rounds were in time: it had no effect"
    if reason.startswith("rounds: ") and "rounds" not in scenario.stop.model_fields_set:
        yield f"stop.rounds: {reason.removeprefix('rounds: ')}: the run ended at the default limit"


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
            reported no progress for long; see `fedsim.core.progress`.
        t, joules: simulated time at the end of the round, s, and energy of the fleet until then;
            NaN if unknown.
        worker: the process that makes the run; empty if it is this one.
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
    t: float = nan
    joules: float = nan
    worker: str = ""


Watch = Callable[[RunProgress], None]
"""A callback for every round of every run, and for its end."""


def ignore_progress(progress: RunProgress) -> None:
    """Ignore progress."""


class RunnableWorld(Protocol):
    """A world that runs once, simulated or live; see `fedsim.sim.world.World`."""

    status: str
    departures: Departures
    costs_after: Mapping[str, float]

    @property
    def now(self) -> float:
        """The time of the run, s."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Running totals of the run's cost."""
        ...

    @property
    def start(self) -> float | None:
        """The objective of the model that the run starts with; None where it is no number."""
        ...

    @property
    def last_round(self) -> tuple[int, float]:
        """Number and objective of the last round that was committed."""
        ...

    @property
    def feasible(self) -> bool | None:
        """Whether the last model meets the method's constraint; None without one."""
        ...

    @property
    def abandoned(self) -> int:
        """How many of its rounds were abandoned, and no step of the algorithm."""
        ...

    @property
    def unheard(self) -> int:
        """The number of clients that were asked, and of which no reply has ever counted."""
        ...

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        ...

    @property
    def looks(self) -> list[str]:
        """The ports that the method has read."""
        ...

    def run(self) -> str:
        """Run to the end and return the reason why it ended."""
        ...

    def meters(self) -> Meters:
        """Return the meters, for the audit."""
        ...

    def close(self, reason: str) -> None:
        """Record the reason for the end, and the meter readings."""
        ...


MakeWorld = Callable[[WorldConfig, RunRecorder, OnRound], RunnableWorld]
"""Makes a world, given its configuration, the recorder, and the callback for rounds."""


def execute(
    job: ExecutableRun,
    out: Path,
    watch: Watch = ignore_progress,
    origin: Mapping[str, Any] | None = None,
    trash: str = "",
    make_world: MakeWorld = World,
) -> Path:
    """Run one job into its folder, `OUT/<variant>/seed-<n>`, and return that.

    A finished run that is there is moved; see `fedsim.results.record.earlier`.

    Args:
        job: the run.
        out: the folder of the run folders.
        watch: called with every round.
        origin: further entries of the manifest, for a re-priced or a live run; read at its end.
        trash: where a finished run goes that is there; see `set_aside`.
        make_world: makes the world that it runs in: the simulated one, or the live one.

    Raises:
        OutputError: a file of it cannot be written.
    """
    RunFolder.check(out, job.variant.name, job.seed)
    set_aside(out, RunFolder.place(out, job.variant.name, job.seed), trash)
    folder = RunFolder(out, job.variant.name, job.seed)
    folder.write_text(SCENARIO, scenario_text(job))
    initial, models = beginning(job.variant, job.seed), job.model_writer(folder.path)
    recorder = RunRecorder(folder.path, len(job.members), job.variant.name, job.seed, models)
    try:
        with recorder:
            word = recorder.log.word(job.opening)
            recorder.log.append(0.0, 0.0, Event.EVALUATE, SERVER, detail=word)
            with activity("building the world"):
                world = make_world(job.setup, recorder, partial(_report, watch, initial))
            status, reason = _run_world(world)
            if status == "diverged":
                reason += job.advice()
            with activity("closing and auditing the log"):
                world.close(reason)
    except AuditError as error:
        status, reason = status_of(type(error)), str(error)
    with activity("writing the tables"):
        meters = recorder.meters or world.meters()
        folder.write_table("clients", recorder.client_blocks(job.facts, meters))
        events = {"rows": recorder.log.rows, "sha256": recorder.log.sha256}
        manifest = {**_make(job), EVENTS: events, **(origin or {})}
        ledger = recorder.ledger
        folder.close(manifest, _summary(job, world, ledger, status=status, reason=reason))
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


def finished_in(path: Path, files: Sequence[str] = RESULTS) -> Finished | None:
    """Return the metadata of the run in a folder; None if one of the given files is damaged."""
    try:
        check_files(path, files)
        manifest = read_manifest(path)
    except DataError:
        return None
    scenario = read_file(path / SCENARIO).decode()
    return Finished(manifest, read_json(path / SUMMARY), scenario)


class Match(Enum):
    """How an existing run compares with the one that a job would make.

    SAME: scenario, data, code and versions are equal. CODE: they are equal as far as known, but the
    scenario has Python objects without a version. OTHER: they differ.
    """

    SAME = "same"
    CODE = "code"
    OTHER = "other"


def match(job: Job, there: Finished | None) -> Match:
    """Return how an existing run compares with the one that a job would make."""
    if there is None:
        return Match.OTHER
    ignored = {EVENTS, FILES, SEAL, CODE_VERSION}
    recorded, expected = ({key: manifest[key] for key in manifest.keys() - ignored}
                    for manifest in (there.manifest, _make(job)))  # fmt: skip
    same = there.summary.get("problem") == job.problem.fingerprint
    if recorded != expected or not same or there.scenario != scenario_text(job):
        return Match.OTHER
    if not code_in(job.variant.scenario):
        return Match.SAME
    if job.variant.version is None:
        return Match.CODE
    return Match.SAME if there.manifest.get(CODE_VERSION) == job.variant.version else Match.OTHER


def _make(job: ExecutableRun) -> dict[str, Any]:
    variant = job.variant
    manifest = made_with(job.seed, variant.fingerprint, code_hash(job))
    version = {CODE_VERSION: variant.version} if code_in(variant.scenario) else {}
    return {**manifest, COMPUTING: dict(job.computing), INPUTS: dict(job.inputs), **version}


def scenario_text(job: ExecutableRun) -> str:
    """Return the scenario of one run, as YAML with its hash."""
    return sign(job.variant.text(job.seed))


def code_hash(job: ExecutableRun) -> str:
    """Return a hash of the code that makes a run: fedsim's, and that of plugins and packages.

    Fedsim's is all that this module imports, directly or not; code that displays results or parses
    commands does not count. Plugins, and packages with an entry point, count by their text and that
    of what they import; of other installed packages that they import, the version counts. Code
    handed over in Python does not count here: it has a version, or nothing; see `match`.
    """
    sources_of_fedsim = _own_code()
    added = sources(own_modules(job.variant.scenario), sources_of_fedsim.modules)
    digest = sha256(f"{sources_of_fedsim.hash} {added.hash}".encode())
    digest.update("\n".join(versions(added.packages - sources_of_fedsim.packages)).encode())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """Return what decides the bytes of a run beside its job: versions and machine, by name."""
    versions_of = made_with(0, "", "")
    environment_of = {"the code of fedsim": _own_code().hash[:12]}
    return {
        "Python": versions_of["python"],
        **versions_of["versions"],
        **environment_of,
        "the machine": versions_of["machine"],
    }


@cache
def _own_code() -> Sources:
    return sources({__name__: Path(__file__).read_bytes()}, named=LAYERS.values())


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
    keys = ("objective", "gap", "t", "joules")
    objective, gap, t, joules = (nan if summary.get(key) is None else summary[key] for key in keys)
    return initial._replace(
        round=summary["rounds"], objective=objective, gap=gap, t=t, joules=joules, ended=True
    )


def _report(watch: Watch, run: RunProgress, end: RoundEnd) -> None:
    number, t, joules = end.round, end.t, end.joules
    watch(run._replace(round=number, objective=end.objective, gap=end.gap, t=t, joules=joules))


def _run_world(world: RunnableWorld) -> Ending:
    """Run a world; return its final state and the reason.

    One thread does the linear algebra: with more, the last bits would depend on their number.
    """
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        try:
            reason = world.run()
        except RunError as error:
            return Ending(status_of(type(error)), str(error))
    return Ending(world.status, reason)


def _all_replied(scenario: Scenario, ledger: Ledger, traffic: Traffic) -> bool:
    """Return whether all sampled clients replied before the deadline in every round."""
    missed = [Event.LATE, Event.LOST, *([] if scenario.silence.beacon else [Event.SILENT])]
    if any(ledger.of_number("count", event).any() for event in missed):
        return False
    return traffic.transmissions + traffic.beacons >= traffic.cohort


_NAMED = 3
"""Clients that a note names."""

_MANY = 0.05
"""Share of late replies, of all or of one client, below which they are no news."""


def _out_of_time(
    scenario: Scenario, ledger: Ledger, unheard: int, clients: int, rounds: int
) -> Iterator[tuple[str, str]]:
    """Yield how many replies came after their round had closed, and whose updates never counted."""
    facts = list(_late(scenario, ledger, clients, rounds))
    if unheard:
        text = f"no update of {unheard} of {clients} clients was used"
        facts.append(f"{text}: rounds closed before it arrived")
    if facts:
        early = [f"participation.{rule.key}" for rule in scenario.participation.early()]
        yield (early or ["silence.after"])[0], "; ".join(facts)


def _late(scenario: Scenario, ledger: Ledger, clients: int, rounds: int) -> Iterator[str]:
    """Yield how many replies were late, to which rounds, by whom, and what became of them."""
    if scenario.network.peers is not None or scenario.tiers:
        return  # a late row is one of many neighbours, or of a gateway
    late, sent = (ledger.of_number("count", event)[:clients] for event in (Event.LATE, Event.SEND))
    if late.sum() < _MANY * sent.sum() or not late.any():
        return
    whose = np.flatnonzero(late)
    most = whose[np.argsort(-late[whose], kind="stable")][:_NAMED]
    names = [f"{node_name(int(one))} ({late[one]:,} of {sent[one]:,})" for one in most]
    rest = [f"{len(whose) - len(most):,} more"] if len(whose) > len(most) else []
    kept = scenario.silence.keep_late and scenario.participation.keep_late
    fate = "counted in a later one" if kept else "were discarded"
    yield (
        f"{late.sum():,} of {sent.sum():,} replies came after their round had closed and {fate},"
        f" {_lost_rounds(ledger.late_rounds, rounds)}; late clients ({len(whose):,} of"
        f" {clients:,}): {', '.join([*names, *rest])}"
    )


def _lost_rounds(late: Mapping[int, int], rounds: int) -> str:
    """Return in how many rounds replies were late, and which rounds these were.

    Args:
        late: the number of late replies to each round that had any.
        rounds: the number of the last round; an abandoned one may have a later number.

    >>> _lost_rounds({1: 20, 2: 20, 3: 1}, 80), _lost_rounds({4: 1}, 80)
    ('in 3 of 80 rounds (1 to 3)', 'in 1 of 80 rounds (4)')
    >>> _lost_rounds({1: 2, 2: 2, 5: 1, 7: 1, 9: 1, 10: 1, 12: 3}, 80)
    'in 7 of 80 rounds (1 to 2, 5, 7 and others)'
    """
    numbers = np.array(sorted(late))
    spans = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    named = [f"{span[0]}" if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
    others = " and others" if len(named) > _NAMED else ""
    of = max(rounds, int(numbers[-1]))
    return f"in {len(late):,} of {of:,} rounds ({', '.join(named[:_NAMED])}{others})"


def _summary(
    job: ExecutableRun,
    world: RunnableWorld,
    ledger: Ledger,
    *,
    status: str,
    reason: str,
) -> dict[str, Any]:
    number, objective = world.last_round
    scenario, start = job.variant.scenario, world.start
    if not number and start is not None:
        objective = start
    if status == DONE and has_risen(scenario, start, objective):
        status = ROSE
    ending = Ending(status, reason)
    departures = world.departures
    left = departures.describe(job.identity["clients"])
    all_replied = not world.abandoned and _all_replied(scenario, ledger, world.traffic)
    course = Course(start, objective, number, world.abandoned, left, all_replied)
    notes = [*end_notes(scenario, ending, course, job.advice)] if is_whole(status) else []
    if is_whole(status):
        notes += [f"{key}: {text}" for key, text in world.aggregation_notes]
    if is_whole(status) and world.now > 0:
        computing = float(ledger.of("seconds", Event.COMPUTE).max(initial=0.0)) / world.now
        further = (
            *slow_devices(job.deployment, computing),
            *_out_of_time(scenario, ledger, world.unheard, job.identity["clients"], number),
            *job.run_notes(),
        )
        notes += [f"{key}: {text}" for key, text in further]
    return {
        **job.identity,
        "counting": scenario.counting,
        "start": start,
        "status": status,
        "reason": reason,
        "notes": notes,
        "left": dict(departures.reasons),
        "rounds": number,
        "t": world.now,
        "objective": objective,
        "gap": objective - job.setup.optimum,
        **({} if world.feasible is None else {"feasible": world.feasible}),
        "looks": world.looks,
        **world.traffic.as_dict(),
        **world.costs_after,
    }
