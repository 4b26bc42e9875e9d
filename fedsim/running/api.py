"""The function `run(scenario) -> Result`."""

import atexit
import os
import re
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from math import isnan
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, get_args

from fedsim.core.atomic import check_folder
from fedsim.core.blocks.in_memory import code_in
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import listed, reject_renamed
from fedsim.core.errors import OccupiedError, OutputError, RunWarning, TheoryWarning
from fedsim.core.progress import current_activity
from fedsim.core.signals import defer_signals
from fedsim.problems.references import record_optima
from fedsim.protocol.transport import Carry
from fedsim.results.record.folder import RunFolder
from fedsim.results.record.live import clear_live
from fedsim.results.record.lock import hold, share
from fedsim.results.record.scenarios import RUNS, Note, Tell, ignore_note
from fedsim.results.record.studies import Study, study_in
from fedsim.results.result import Result
from fedsim.results.tracking import Tracker
from fedsim.running import cluster as clusters
from fedsim.running import staging
from fedsim.running.campaign import Campaign, check_ends
from fedsim.running.check import added_notes, preflight_notes, theory_notes
from fedsim.running.folder import WHOLE, Shard, changes, check_place, study_of
from fedsim.running.history import record_call
from fedsim.running.live import LiveReporter
from fedsim.running.main_guard import end_if_loading
from fedsim.running.resuming import CampaignJournal
from fedsim.running.run import RunProgress, Watch, ignore_progress
from fedsim.running.tracking import Track, Tracking, check_trackers, choose_trackers
from fedsim.running.workers import AGAIN, RESUMED, Order
from fedsim.scenario import Plan, Scenario, load
from fedsim.scenario.building import Builder, Job

if TYPE_CHECKING:  # loading them takes a while, and few calls need them
    from rich.table import Table

    from fedsim.scenario.from_graph import AnyGraph

# Temporary folders for runs without `out`: they last until the Python session ends.


def session_folder(name: str) -> Path:
    """Return a new, empty folder, named after a study; it is removed when Python ends."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "runs"
    home = _home(os.getpid())
    names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
    folder = next(home / each for each in names if not (home / each).exists())
    folder.mkdir()
    return folder


@cache
def _home(process: int) -> Path:
    """Return the temporary folder of a process; a forked child gets one of its own."""
    folder = Path(mkdtemp(prefix="fedsim-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


# The progress of a campaign, as a bar in a notebook.
#
# The bar is Rich's, as in a terminal. IPython redraws it: Rich would need ipywidgets for that.

_REDRAW = 0.1  # seconds of real time

_LONG = 1.0  # seconds of real time without a report until the current activity is shown


@contextmanager
def notebook_bar(name: str, runs: int) -> Iterator[Watch]:
    """Show one bar for all runs in a notebook, until they have ended; elsewhere show nothing."""
    if not in_notebook():
        yield ignore_progress
        return
    progress_bar = _Bar(name, runs)
    with progress_bar.looking():
        yield progress_bar


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


class _Bar:
    """Updates a bar: a run counts by the share of its rounds that are done, and as 1 at its end."""

    def __init__(self, name: str, runs: int) -> None:
        from IPython.display import display  # a notebook has it
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = "{task.description}", "{task.fields[state]}"
        before, after = (TextColumn(column, markup=False) for column in columns)
        self._bar = Progress(before, BarColumn(), TaskProgressColumn(), after, auto_refresh=False)
        self._runs = self._bar.add_task(name, total=runs, state="")
        self._shares: dict[tuple[str, int], float] = {}
        self._drawn = 0.0
        self._last_report = time.monotonic()
        self._display: Any = display(self._table(), display_id=True)

    def _table(self) -> "Table":
        return self._bar.make_tasks_table(self._bar.tasks)

    def _draw(self, state: str) -> None:
        self._bar.update(self._runs, state=state)
        self._display.update(self._table())

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Within the block, show the current activity if no progress was reported for long.

        At the end of the block, clear the bar.
        """
        stop = threading.Event()
        looker = threading.Thread(target=self._look_until, args=(stop,), daemon=True)
        looker.start()
        try:
            yield
        finally:
            stop.set()
            looker.join()
            self._display.update({"text/plain": ""}, raw=True)

    def _look_until(self, stop: threading.Event) -> None:
        while not stop.wait(_LONG):
            if time.monotonic() - self._last_report >= _LONG and (words := current_activity()):
                self._draw(words)

    def __call__(self, reached: RunProgress) -> None:
        self._last_report = time.monotonic()
        if reached.doing:
            self._draw(f"{_run(reached)}, {reached.doing}")
            return
        key = reached.variant, reached.seed
        self._shares[key] = 1.0 if reached.ended else reached.round / max(reached.rounds, 1)
        if reached.ended or self._last_report - self._drawn >= _REDRAW:
            self._drawn = self._last_report
            self._bar.update(self._runs, completed=sum(self._shares.values()))
            self._draw(_state(reached))


def _state(reached: RunProgress) -> str:
    figure = "objective" if isnan(reached.gap) else "gap"
    return f"{_run(reached)}, {figure} {getattr(reached, figure):.3g}"


def _run(reached: RunProgress) -> str:
    return f"{reached.variant}, seed {reached.seed}, round {reached.round}"


@reject_renamed
def run(
    source: str | Path | Mapping[str, Any] | Scenario,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    watch: Watch | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    fresh: bool = False,
    carry: Carry = "values",
    tell: Tell = ignore_note,
    cluster: str | None = None,
    shard: str | None = None,
    check: bool = True,
    graph: "AnyGraph | None" = None,
    version: str | None = None,
    track: Track = (),
) -> Result:
    """Run every variant of a scenario under every seed.

    A run that fails does not stop the others. When all have ended, an error names variant and seed
    of failed runs. A run that diverged, lost all its clients, or ended above its initial objective
    gives a `RunWarning`. Complete runs in `out` of the same scenario, data, code and versions are
    reused; others are moved into `OUT/.earlier`, and return when the scenario is changed back.
    Python objects in the scenario, such as functions, classes and modules, count as changed unless
    `version` is the same: their runs are repeated, with a warning.

    Args:
        source: a YAML file, a mapping, or a `Scenario`.
        out: the folder of the run folders; if None, a temporary one until this session ends.
        overrides: "key=value" texts that replace values of the scenario.
        blocks: user-defined classes that the scenario may name by their kind.
        watch: called with the progress of runs; if None, a notebook shows a bar.
        jobs: number of runs at a time; with more than 1, each is made in a worker process.
        executor: of `concurrent.futures`, Dask or submitit; it makes the runs, and is left open.
        fresh: repeat all runs; complete ones are moved into `OUT/.trash`.
        carry: "bytes" encodes and decodes every message; the logs are the same as with "values".
        tell: called with each note: settings without effect, runs that are repeated or failed.
        cluster: a Dask cluster that makes the runs: "tcp://host:8786", or "local:4" (workers).
        shard: "3/16" makes the third of sixteen shares, beside other processes with the same `out`.
        check: whether to raise and warn by the final states of runs, which the summary has, too.
        graph: of networkx, of peers, or of links where "server" is a node; see `fedsim.load`.
        version: a text that identifies the Python objects in the scenario, such as a commit.
        track: "mlflow", "wandb" or "tensorboard", a `fedsim.extend.Tracker`, or several of them:
            they store every run, in folders of `out`.

    Raises:
        ScenarioError, BlockError: the scenario, or one of `blocks`, is invalid; nothing has run.
        DataError: `out` holds other runs; `shard`, `cluster`, `version` or `track` is invalid.
        OccupiedError: another process is writing into `out`; nothing has run.
        OutputError, ValueError: a file cannot be written; `jobs` is below 1, `carry` is unknown.
        RunError: runs have failed, or the cluster is gone; the other runs are kept.

    Example:
        >>> len(fedsim.run("censoring", overrides=["stop={rounds: 2}"]).summary)
        3
    """
    share = _share(shard, jobs, executor, cluster)
    plan = load(source, overrides=overrides, blocks=blocks, graph=graph).of_version(version)
    make = partial(run_plan, plan, out=out, watch=watch, tell=tell, fresh=fresh, check=check)
    make = partial(make, trackers=choose_trackers(track))
    return make(jobs=jobs, executor=executor, carry=carry, cluster=cluster, share=share)


def run_plan(
    plan: Plan,
    *,
    out: str | Path | None = None,
    watch: Watch | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    fresh: bool = False,
    carry: Carry = "values",
    tell: Tell = ignore_note,
    cluster: str | None = None,
    share: Shard = WHOLE,
    check: bool = True,
    trackers: Sequence[Tracker] = (),
    rescue: Callable[[Result], None] | None = None,
) -> Result:
    """Make the runs of a plan, or a share of them; for the other arguments see `run`.

    If runs have failed, `rescue` is called with the complete ones before the error is raised.
    """
    builder, place = Builder(plan, _check_carry(carry)), None if out is None else Path(out)
    check_trackers(trackers, plan, place)
    with record_optima() as optima, _recorded_if_interrupted(plan, place):
        notes = _preflight(plan, builder, place, tell, fresh=fresh)
    make_runs = partial(_make, builder=builder, jobs=jobs, executor=executor, cluster=cluster)
    elsewhere = executor is not None or cluster is not None
    request = _RunRequest(
        plan, make_runs, notes, share, tell, watch, fresh, carry, elsewhere, optima, check, trackers
    )
    request = replace(request, rescue=rescue)
    return request.into(place)


@dataclass(frozen=True)
class _RunRequest:
    """A plan's runs with their executor and progress callback."""

    plan: Plan
    make_runs: "Callable[[Campaign, Watch], tuple[Path, ...]]"
    notes: tuple[Note, ...]
    share: Shard
    tell: Tell
    watch: Watch | None
    fresh: bool
    carry: Carry
    elsewhere: bool
    optima: Mapping[str, bytes]
    check: bool
    trackers: Sequence[Tracker]
    rescue: Callable[[Result], None] | None = None
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_staged(self) -> bool:
        """Whether other processes may make the same run: it is staged, and moved when complete."""
        return self.elsewhere or self.share != WHOLE

    def into(self, out: Path | None) -> Result:
        """Make the runs into a folder, or a temporary one."""
        try:
            if out is None:
                result = _temporary(self.plan, self._make)
            else:
                keep = _make_locked if self.share == WHOLE else _make_shared
                result = keep(self.plan, out, self._make_recorded, fresh=self.fresh)
        finally:
            if self.check and self.counts[AGAIN]:
                warnings.warn(_made_again(self.counts[AGAIN], self._code), RunWarning, stacklevel=5)
        if self.check:
            check_ends(result, stacklevel=5)
        return result

    def _make_recorded(self, folder: Path) -> Result:
        """Make the runs, and record the call in the folder's history."""
        study = study_of(self.plan)
        count = len(self.share.of([seed for seeds in study.seeds.values() for seed in seeds]))
        shard = "" if self.share == WHOLE else f"{self.share.number}/{self.share.shares}"
        with record_call(folder, study, count, shard, fresh=self.fresh) as call:
            call.counts = self.counts
            unversioned = self._code and self.plan.variants[0].version is None
            journal = CampaignJournal(folder, shard, fresh=self.fresh) if unversioned else None
            try:
                result = self._make(folder, journal, call.note)
            finally:
                self._tell_of_code()
            call.close(result)
        return result

    @property
    def _code(self) -> list[str]:
        """The names of all Python objects in the scenario."""
        return code_in([variant.scenario for variant in self.plan.variants])

    def _tell_of_code(self) -> None:
        """Report runs of Python objects that were repeated, or kept after an interruption."""
        if again := self.counts[AGAIN]:
            self.tell(Note(self.plan.name, RUNS, _made_again(again, self._code)))
        if kept := self.counts[RESUMED]:
            text = f"{_runs(kept)} kept from an interrupted call, as the script, its arguments and"
            also = "the files of its code are unchanged; fresh=True repeats all runs"
            self.tell(Note(self.plan.name, RUNS, f"{text} {also}"))

    def _make(
        self,
        folder: Path,
        journal: CampaignJournal | None = None,
        counted: Callable[[], None] = lambda: None,
    ) -> Result:
        with staging.share_folder(folder) if self.is_staged else nullcontext() as place:
            order = Order(self.plan, folder, self.fresh, self.carry, place, self.optima)
            live = LiveReporter(folder, self.plan)
            tell = live.tell(self.tell)
            campaign = Campaign(order, self.share, tell, self.counts, journal, counted)
            bar = notebook_bar(self.plan.name, len(campaign.runs))
            display = nullcontext(self.watch) if self.watch else bar
            tracking = Tracking(self.trackers, self.plan, folder, tell)
            with display as callback, live.publish(len(campaign.runs)):
                try:
                    runs = self.make_runs(campaign, tracking.watch(live.watch(callback)))
                except Exception:
                    if self.rescue is not None and campaign.complete:
                        self.rescue(Result(folder, campaign.complete, self.notes))
                    raise
        return Result(folder, runs, self.notes)


def _made_again(count: int, code: Sequence[str]) -> str:
    return (
        f"{_runs(count)} made again, as Python objects in the scenario ({', '.join(code)}) may have"
        " changed; run(..., version='1') keeps runs as long as the version is the same"
    )


def _runs(count: int) -> str:
    return "1 run was" if count == 1 else f"{count} runs were"


def _make(
    campaign: Campaign,
    watch: Watch,
    *,
    builder: Builder,
    jobs: int,
    executor: Executor | None,
    cluster: str | None,
) -> tuple[Path, ...]:
    """Make the runs of a campaign in the chosen place; return their folders."""
    if cluster is not None:
        with clusters.open_cluster(cluster) as opened:
            return campaign.by(clusters.engine_of(opened), watch)
    if executor is not None:
        return campaign.by(clusters.engine_of(executor), watch)
    return campaign.in_processes(jobs, watch) if jobs != 1 else campaign.in_turn(builder, watch)


def _share(shard: str | None, jobs: int, executor: Executor | None, cluster: str | None) -> Shard:
    """Validate where runs are made, and return which of them.

    Raises:
        DataError: the shard is invalid, or more than one of jobs, executor and cluster is set.
        ValueError: `jobs` is below 1.
    """
    end_if_loading()
    clusters.check_choice(jobs, executor, cluster)
    return WHOLE if shard is None else Shard.parse(shard)


def _check_carry(carry: Carry) -> Carry:
    """Validate how messages are carried.

    Raises:
        ValueError: the name is unknown.
    """
    if carry not in get_args(Carry):
        raise ValueError(f"carry is one of {', '.join(get_args(Carry))}; got {carry!r}")
    return carry


def _preflight(
    plan: Plan, builder: Builder, out: Path | None, tell: Tell, *, fresh: bool
) -> tuple[Note, ...]:
    """Check the plan and its folder; call `tell` with each note, and return the notes."""
    if out is not None:
        check_folder(out)
    if out is not None and not fresh:
        check_place(study_of(plan), out)
    jobs = builder.check()
    warn_of_theory(jobs, stacklevel=6)
    before = () if out is None else changes(plan, out)
    notes = *added_notes(plan), *before, *preflight_notes(jobs)
    for note in notes:
        tell(note)
    return notes


@contextmanager
def _recorded_if_interrupted(plan: Plan, out: Path | None) -> Iterator[None]:
    """Record the study if the block is interrupted: `fedsim status` then has its runs as pending.

    A plan whose check fails leaves no folder.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):  # `Interrupted` is the latter
        if out is not None and study_in(out) is None:
            with suppress(OutputError):
                study_of(plan).write(out)
        raise


def _temporary(plan: Plan, make: Callable[[Path], Result]) -> Result:
    """Make the runs in a folder that is removed when the session ends."""
    folder = session_folder(plan.name)
    try:
        study_of(plan).write(folder)
        return replace(make(folder), temporary=True)
    except BaseException:
        with defer_signals():
            rmtree(folder, ignore_errors=True)
        raise


def _make_locked(plan: Plan, out: Path, make: Callable[[Path], Result], *, fresh: bool) -> Result:
    """Make the runs in a folder under its exclusive lock."""
    with hold(out):
        _claim_folder(plan, out, fresh=fresh)
        return make(out)


def _difference(study: Study, there: Study | None) -> str:
    """Return in what the study of other processes differs, as a clause."""
    if there is None:
        return "it is not known of which scenario"
    unlike = study.variants.keys() ^ there.variants.keys()  # in one of them only
    if changed := [*study.changed_variants(there), *sorted(unlike)]:
        return f"their scenario has another state of {listed(changed, _NAMED)}"
    if study.seeds != there.seeds:
        return "their scenario has other seeds"
    if study.baseline != there.baseline:
        names = (each.baseline or "none" for each in (there, study))
        return "their scenario has the baseline {} instead of {}".format(*names)
    return f"their scenario is {there.file or there.name}"


_NAMED = 3  # variants


def _make_shared(plan: Plan, out: Path, make: Callable[[Path], Result], *, fresh: bool) -> Result:
    """Make the runs in a folder into which other processes write other shards of the plan."""
    study = study_of(plan)

    def check() -> None:
        if (there := study_in(out)) != study:
            text = f"other processes make runs there, and {_difference(study, there)}"
            raise OccupiedError(f"{out} is in use: {text}; give another folder with --out")

    with share(
        out, lambda: _claim_folder(plan, out, fresh=fresh), check, lambda: staging.clear(out)
    ):
        return make(out)


def _claim_folder(plan: Plan, out: Path, *, fresh: bool) -> None:
    """Assign a folder to a plan, under its exclusive lock.

    Raises:
        DataError: it holds runs of another scenario.
        OutputError: a symbolic link stands in the place of a run.
    """
    if not fresh:
        check_place(study_of(plan), out)  # another process may have changed it since
    for variant in plan.variants:
        for seed in variant.seeds:
            RunFolder.check(out, variant.name, seed)
    staging.clear(out)
    clear_live(out)
    study_of(plan).write(out)


def warn_of_theory(jobs: Sequence[Job], stacklevel: int) -> None:
    """Warn of the conditions of their theory that the methods of variants do not meet."""
    for note in theory_notes(jobs):
        warnings.warn(str(note), TheoryWarning, stacklevel=stacklevel)
