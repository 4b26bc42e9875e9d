"""Worker processes: they make runs, report progress, and end with their campaign.

All workers of a pool report through one pipe, without a lock. A message is shorter than PIPE_BUF,
so the system writes it atomically: two reports never mix, and a worker that is killed neither
leaves half a message nor keeps a lock on which the others would wait.
"""

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import active_children
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

from fedsim.core.blocks.plugins import dump
from fedsim.core.errors import BlockError, OutputError, RunError
from fedsim.core.progress import current_activity
from fedsim.core.signals import end_with_parent, postpone_signals
from fedsim.core.threads import VARIABLE, usable_threads
from fedsim.problems.references import use_optima
from fedsim.protocol.transport import Carry
from fedsim.results.record.earlier import earlier_runs, time_stamp
from fedsim.results.record.folder import SUMMARY, RunFolder, read_json, tidy
from fedsim.results.record.lock import Handed
from fedsim.running.main_guard import RecordingContext, mark_workers
from fedsim.running.run import (
    Finished,
    Match,
    RunProgress,
    Watch,
    beginning,
    execute,
    final_progress,
    finished_in,
    ignore_progress,
    match,
)
from fedsim.running.staging import Files, Place, pack, publish
from fedsim.scenario import Plan
from fedsim.scenario.building import Builder

_PAUSE = 0.1  # seconds of real time between two reports of a worker
_LONG = 0.5  # seconds of real time without progress until the current activity is reported

_watch: Watch = ignore_progress


def process_callback() -> Watch:
    """Return the progress callback of this process: it does nothing unless it is a worker."""
    return _watch


@contextmanager
def workers(jobs: int, watch: Watch) -> Iterator[Executor]:
    """Open a pool of worker processes, and report the progress of their runs.

    Submit tasks within a `postpone_signals` block: the pool starts its processes then.

    Raises:
        RunError: a worker died, or the caller's script would start workers in each worker.
    """
    # Spawned: a fork would copy locks that threads hold, but not the threads.
    context = RecordingContext()
    with postpone_signals(), mark_workers():
        others = set(active_children())
        receiver, sender = context.Pipe(duplex=False)
        given = sender, max(usable_threads() // jobs, 1), Handed()
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    listener = threading.Thread(target=_listen, args=(receiver, watch), daemon=True)
    listener.start()
    try:
        with mark_workers(), pool:
            try:
                yield pool
            except BaseException:
                # A run may take hours: the interrupted caller does not wait for it. The next
                # command makes it again.
                for worker in set(active_children()) - others:
                    worker.kill()
                raise
        context.check()
    except BrokenProcessPool:
        context.check()
        text = "a worker process died, perhaps because memory was short; fewer --jobs need less"
        raise RunError(text) from None
    finally:
        sender.close()
        listener.join()
        receiver.close()


def _listen(receiver: "Connection[None, RunProgress]", watch: Watch) -> None:
    """Pass on the reports of workers until the last of them has ended."""
    try:
        with suppress(EOFError):
            while True:
                watch(receiver.recv())
    finally:  # after an error in the callback the pipe is still emptied, or workers would block
        with suppress(EOFError):
            while True:
                receiver.recv_bytes()


def _begin(sender: "Connection[RunProgress, None]", threads: int, locks: Handed) -> None:
    """Initialise a worker: it leaves interrupts to its parent, and ends with it.

    It computes on its share of the threads. It inherits the parent's folder locks, and holds them
    while it lives: if the parent is killed, no other process writes into the folder before the
    last worker has ended.
    """
    del locks  # unpickling has taken them
    global _watch  # noqa: PLW0603 - a process is one worker
    os.environ[VARIABLE] = str(threads)
    _watch = ProgressReporter(partial(_send_to_parent, sender), worker=f"process {os.getpid()}")
    end_with_parent()
    threading.Thread(target=_watch.report_until, args=(threading.Event(),), daemon=True).start()


def _send_to_parent(sender: "Connection[RunProgress, None]", progress: RunProgress) -> None:
    """Send progress to the parent; if that is gone, this process is about to end as well."""
    with suppress(BrokenPipeError):
        sender.send(progress)


class ProgressReporter:
    """Reports the progress of runs, a few times a second.

    Args:
        say: sends progress to the parent.
        pause: shortest time between two reports, s of real time.
        ends: whether the end of a run is reported even within that time.
        worker: the name of this process, reported with the progress.
    """

    def __init__(
        self, say: Watch, pause: float = _PAUSE, *, ends: bool = True, worker: str = ""
    ) -> None:
        self._send_to_parent, self._pause, self._ends = say, pause, ends
        self._worker = worker
        self._last = 0.0
        self._run: RunProgress | None = None  # as it was last reported
        self._one = threading.Lock()  # one thread sends at a time

    def begin_run(self, begun: RunProgress) -> None:
        """Register the run that begins now."""
        self._last, self._run = time.monotonic(), begun

    def __call__(self, progress: RunProgress) -> None:
        """Report the progress of the run, unless the last report was less than a pause ago."""
        moment = time.monotonic()
        self._run = None if progress.ended else progress
        if (progress.ended and self._ends) or moment - self._last >= self._pause:
            self._last = moment
            self._send(progress)

    @contextmanager
    def report_activity(self) -> Iterator[Watch]:
        """Within the block, report the current activity when there is no progress for long."""
        over = threading.Event()
        thread = threading.Thread(target=self.report_until, args=(over,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()

    def report_until(self, over: threading.Event) -> None:
        """Report the current activity when there is no progress for long, until `over` is set."""
        while not over.wait(_LONG):
            run = self._run
            if (
                run is not None
                and time.monotonic() - self._last >= _LONG
                and (words := current_activity())
            ):
                self._send(run._replace(doing=words))

    def _send(self, progress: RunProgress) -> None:
        with self._one:
            self._send_to_parent(progress._replace(worker=self._worker))


# A worker's tasks: it makes the runs assigned to it, and reports the outcome of each.
#
# An order holds all that a worker needs: the scenario with its user-defined blocks, and the
# metadata of runs that exist already, since the worker may be on a machine without that folder.


class Run(NamedTuple):
    """One run of a plan: the number of its variant, and its seed."""

    number: int
    seed: int


class Known(NamedTuple):
    """A run, with the metadata of what has been made already.

    Attributes:
        run: its variant and seed.
        there: the complete run in its place, if any.
        earlier: runs that were once in its place, by their folders below `.earlier`.
        resumed: whether the campaign has made the complete run before it was cut off.
    """

    run: Run
    there: Finished | None = None
    earlier: tuple[tuple[Path, Finished], ...] = ()
    resumed: bool = False


AGAIN, RESUMED = "again", "resumed"
"""What becomes of a complete run of code handed over in Python that has no version."""


class Outcome(NamedTuple):
    """The outcome of a run.

    Attributes:
        run: its variant and seed.
        ended: its final progress; None if it failed.
        error: the reason if it failed.
        files: its files, if the requesting process has to write them.
        seconds: how long it took, s of real time, building included; 0 if it existed already.
        earlier: the folder of an earlier run that is this one, and is to be brought back.
        code: `AGAIN` or `RESUMED` if there was a complete run of code handed over in Python.
    """

    run: Run
    ended: RunProgress | None = None
    error: Exception | None = None
    files: Files | None = None
    seconds: float = 0.0
    earlier: Path | None = None
    code: str = ""

    @property
    def in_place(self) -> bool:
        """Whether nothing is left to move or to write."""
        return self.files is None and self.earlier is None


@dataclass(frozen=True)
class Order:
    """A campaign as it is sent to workers.

    Attributes:
        plan: the variants and their seeds.
        out: the folder of the runs.
        fresh: whether existing runs are made again.
        carry: how messages are carried between nodes.
        place: `out` for workers that may not see it, which make runs in a staging folder; None
            for those of this machine, which write there, so that partial runs can be read.
        optima: those known already, to avoid computing them again.
        trash: the folder in `.trash` for runs that are made again with `fresh`.
        serial: unique, so that a worker does not take its cached builder of an earlier order for
            this one: objects passed in Python may have changed in between.
    """

    plan: Plan
    out: Path
    fresh: bool = False
    carry: Carry = "values"
    place: Place | None = None
    optima: Mapping[str, bytes] = field(default_factory=dict)
    trash: str = field(default_factory=time_stamp)
    serial: str = field(default_factory=lambda: uuid4().hex)

    @contextmanager
    def home(self) -> Iterator[Path]:
        """Return the folder to make runs in: `out`, or a staging folder, removed afterwards.

        Raises:
            OutputError: it cannot be created.
        """
        if self.place is None:
            yield self.out
            return
        with self.place.stage() as home:
            yield home

    def folder(self, run: Run) -> Path:
        """Return the folder of a run."""
        return RunFolder.place(self.out, self.plan.variants[run.number].name, run.seed)

    def initial_progress(self, run: Run) -> RunProgress:
        """Return the progress of a run before its first round."""
        return beginning(self.plan.variants[run.number], run.seed)


def encode_order(order: Order, *, script: bool = True) -> bytes:
    """Return an order pickled for workers.

    Args:
        order: the campaign.
        script: whether workers import the script that runs here.

    Raises:
        BlockError: a block cannot be pickled.
    """
    try:
        return dump(order, script=script)
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # of pickle
        text = (
            f"a block of this scenario cannot be sent to another process ({error}): use jobs=1 and"
            " no executor, or put its class into a separate file, a plugin"
        )
        raise BlockError(text) from error


def make(order: Order, builder: Builder, home: Path, known: Known, watch: Watch) -> Outcome:
    """Make a run unless it exists; return its outcome, also if it fails.

    Args:
        order: the campaign.
        builder: of its plan.
        home: the folder to make it in.
        known: the run, with its metadata if it exists.
        watch: called with every round, and with the end of a run whose files are in place.
    """
    started = perf_counter()
    try:
        outcome = _make(order, builder, home, known, watch)
    except Exception as error:  # noqa: BLE001 - from user code: any
        return Outcome(known.run, error=error)
    if outcome.ended is not None and outcome.in_place:
        watch(outcome.ended)
    return outcome._replace(seconds=perf_counter() - started if outcome.seconds else 0.0)


def _make(order: Order, builder: Builder, home: Path, known: Known, watch: Watch) -> Outcome:
    run, there, earlier, resumed = known
    job = builder.build(order.plan.variants[run.number], run.seed)
    begun = order.initial_progress(run)
    same = match(job, there)
    code = "" if same is not Match.CODE else RESUMED if resumed else AGAIN
    if there is not None and (same is Match.SAME or code == RESUMED):
        return Outcome(run, final_progress(begun, there.summary), code=code)
    for folder, finished in earlier:
        if match(job, finished) is Match.SAME:
            return Outcome(run, final_progress(begun, finished.summary), earlier=folder)
    trash = order.trash if order.fresh else ""
    if not home.exists():
        raise RunError("its campaign is over: the unfinished files of this run have been removed")
    folder = execute(job, home, watch, trash=trash)
    ended = final_progress(begun, read_json(folder / SUMMARY))
    outcome = Outcome(run, ended, seconds=1, code=code)
    if order.place is None:
        return outcome
    if not order.place.is_here:
        return outcome._replace(files=pack(folder))
    publish(folder, order.folder(run), trash)
    return outcome


_ONE = Lock()
"""A process makes one run at a time: limits on threads of linear algebra are per process."""


def make_all(pickled: bytes, runs: Sequence[Known], watch: Watch) -> list[Outcome]:
    """Make runs in this process, one after another; return their outcomes."""
    with _ONE:
        order, builder = _open_campaign(pickled)
        try:
            with order.home() as home:
                return [_make_sendable(order, builder, home, known, watch) for known in runs]
        except (OSError, OutputError) as error:  # of the staging folder
            text = f"the run cannot be made: {error}"
            return [Outcome(known.run, error=OutputError(text)) for known in runs]


def _make_sendable(
    order: Order, builder: Builder, home: Path, known: Known, watch: Watch
) -> Outcome:
    """Make a run; return its outcome with an error that can be pickled."""
    if isinstance(watch, ProgressReporter):
        watch.begin_run(order.initial_progress(known.run))
    outcome = make(order, builder, home, known, watch)
    return outcome if outcome.error is None else _sendable(outcome)


@lru_cache(maxsize=1)
def _open_campaign(pickled: bytes) -> tuple[Order, Builder]:
    """Return the unpickled campaign and its builder, which the process keeps between tasks."""
    order: Order = pickle.loads(pickled)  # noqa: S301 - pickled by fedsim
    use_optima(order.optima)
    return order, Builder(order.plan, order.carry)


def _sendable(outcome: Outcome) -> Outcome:
    """Return an outcome whose error can be pickled."""
    try:
        pickle.loads(pickle.dumps(outcome.error))  # noqa: S301 - pickled by fedsim
    except Exception:  # noqa: BLE001 - pickling a user-defined error may raise anything
        text = f"{type(outcome.error).__name__}: {outcome.error}"
        return outcome._replace(error=RunError(text))
    return outcome


def find_finished(order: Order, run: Run, on_damage: Callable[[Path], None]) -> Known:
    """Return a run with the metadata of what has been made; with none if runs are made afresh.

    Args:
        order: the campaign.
        run: of it.
        on_damage: called with the folder of each earlier run that is damaged.
    """
    if order.fresh:
        return Known(run)
    folder, variant = order.folder(run), order.plan.variants[run.number]
    if there := finished_in(folder):
        tidy(folder)  # leftovers that could not be removed when it ended
    earlier = list[tuple[Path, Finished]]()
    for path in earlier_runs(order.out, variant.name, run.seed, variant.fingerprint):
        if known := finished_in(path):
            earlier.append((path, known))
        else:
            on_damage(path)
    return Known(run, there, tuple(earlier))


def run_name(order: Order, run: Run) -> str:
    """Return the name of a run for messages."""
    return f"{order.plan.variants[run.number].name}, seed {run.seed}"
