"""Workers: processes that make runs, tell how far they are, and end with their campaign.

They tell it through one pipe, in messages so short that each is written at once or not at all,
so a worker that is killed takes no lock with it and leaves nothing by halves.
"""

import os
import pickle
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import active_children, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import (
    SIG_BLOCK,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIG_UNBLOCK,
    SIGTERM,
    pthread_sigmask,
    signal,
)
from threading import Lock
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

from fedsim.blocks.plugins import dump
from fedsim.building import Builder
from fedsim.computing.serial import VARIABLE, usable_threads
from fedsim.errors import BlockError, OutputError, RunError
from fedsim.problems.references import use_optima
from fedsim.progress import current_activity
from fedsim.protocol.transport import Carry
from fedsim.record.folder import SUMMARY, RunFolder, read_json, tidy
from fedsim.record.lock import Handed
from fedsim.running.main_guard import Recording, mark_workers
from fedsim.running.run import (
    Finished,
    RunProgress,
    Watch,
    beginning,
    execute,
    final_progress,
    finished_in,
    ignore_progress,
    is_same,
)
from fedsim.running.staging import Files, Place, pack, settle
from fedsim.scenario import Plan
from fedsim.signals import ENDING, defer_signals

_PAUSE = 0.1  # seconds of real time between two words of a worker
_LONG = 0.5  # seconds of real time without a word, after which it is told what goes on

_watch: Watch = ignore_progress


def telling() -> Watch:
    """Return the progress callback of this process: it does nothing unless it is a worker."""
    return _watch


@contextmanager
def postpone_signals() -> Iterator[None]:
    """Let signals wait for the end of the block, and let processes begun in it not hear them.

    A process inherits what is blocked. It hears no signal while it is being loaded, and then
    what it decides to hear.
    """
    resource_tracker.ensure_running()  # it unblocks signals, so not amid what postpones them
    with defer_signals():
        mask = pthread_sigmask(SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            pthread_sigmask(SIG_SETMASK, mask)


@contextmanager
def workers(jobs: int, told: Watch) -> Iterator[Executor]:
    """Open a pool of processes, and tell how far their runs are.

    What is submitted belongs into a `postpone_signals` block, for that begins the processes.

    Raises:
        RunError: one of them has died, or the script would start workers in each of them.
    """
    context = Recording()  # it spawns: a fork would copy the locks of threads that it does not copy
    with postpone_signals(), mark_workers():
        others = set(active_children())
        ear, mouth = context.Pipe(duplex=False)
        given = mouth, max(usable_threads() // jobs, 1), Handed()
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    listener = threading.Thread(target=_listen, args=(ear, told), daemon=True)
    listener.start()
    try:
        with mark_workers(), pool:
            try:
                yield pool
            except BaseException:
                # A run may have hours to go: it is not waited for; another time it is made again.
                for worker in set(active_children()) - others:
                    worker.kill()
                raise
        context.check()
    except BrokenProcessPool:
        context.check()
        text = "a worker process has died, perhaps for want of memory; fewer --jobs take less"
        raise RunError(text) from None
    finally:
        mouth.close()
        listener.join()
        ear.close()


def _listen(ear: "Connection[None, RunProgress]", told: Watch) -> None:
    """Tell what workers say, until the last of them is gone."""
    try:
        with suppress(EOFError):
            while True:
                told(ear.recv())
    finally:  # whatever has gone wrong in telling, no worker is to wait for a listener
        with suppress(EOFError):
            while True:
                ear.recv_bytes()


def _begin(mouth: "Connection[RunProgress, None]", threads: int, locks: Handed) -> None:
    """Prepare a process: it leaves interrupts to its parent, and ends with it.

    It computes on its share of the threads, and holds the parent's locks as long as it lives: where
    the parent is killed, no other process writes while it does.
    """
    del locks  # it has had them since it was begun
    global _watch  # noqa: PLW0603 - a process is one worker
    os.environ[VARIABLE] = str(threads)
    _watch = Teller(partial(_say, mouth))
    for number in ENDING:
        signal(number, SIG_IGN)
    signal(SIGTERM, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    threading.Thread(target=_watch.keep_telling, args=(threading.Event(),), daemon=True).start()


def _say(mouth: "Connection[RunProgress, None]", progress: RunProgress) -> None:
    """Tell the parent how far a run is, unless it is gone: then this process ends in a moment."""
    with suppress(BrokenPipeError):
        mouth.send(progress)


def _end_with(parent: BaseProcess | None) -> None:
    """Wait until the parent is gone, killed perhaps, and end at once."""
    if parent is not None:
        parent.join()
        os._exit(1)


class Teller:
    """Tells how far a run is, a few times a second.

    Args:
        say: sends progress to the parent.
        pause: seconds of real time between two words, at least.
        ends: whether it tells of every end, however soon one follows another.
    """

    def __init__(self, say: Watch, pause: float = _PAUSE, *, ends: bool = True) -> None:
        self._say, self._pause, self._ends = say, pause, ends
        self._last = 0.0
        self._run: RunProgress | None = None  # as it was last told of
        self._one = threading.Lock()  # speaks at a time

    def turn_to(self, begun: RunProgress) -> None:
        """Tell of a run that begins now, unless it ends at once."""
        self._last, self._run = time.monotonic(), begun

    def __call__(self, progress: RunProgress) -> None:
        """Tell how far the run is, unless that was told a moment ago."""
        moment = time.monotonic()
        self._run = None if progress.ended else progress
        if (progress.ended and self._ends) or moment - self._last >= self._pause:
            self._last = moment
            self._send(progress)

    @contextmanager
    def report_activity(self) -> Iterator[Watch]:
        """Tell within the block what goes on in what takes long."""
        over = threading.Event()
        thread = threading.Thread(target=self.keep_telling, args=(over,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()

    def keep_telling(self, over: threading.Event) -> None:
        """Tell what goes on in what takes long, until it is over."""
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
            self._say(progress)


# A worker's tasks: it makes the runs assigned to it, and reports the outcome of each.
#
# What it is sent holds all that it needs: the scenario with the blocks of a user's own, and what
# is there already of a run, for the worker may not see that.


class Run(NamedTuple):
    """One run of a plan: the number of its variant, and its seed."""

    number: int
    seed: int


class Known(NamedTuple):
    """A run, and what tells of it where it has been made already."""

    run: Run
    there: Finished | None = None


class Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        run: which one.
        ended: how far it has come; None where it has failed.
        error: why it has failed, if it has.
        files: of the run, if the requesting process has to write them.
        seconds: of real time that it took, building included; 0 where it was there already.
    """

    run: Run
    ended: RunProgress | None = None
    error: Exception | None = None
    files: Files | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Order:
    """What a worker has to know of a campaign.

    Attributes:
        plan: the variants and their seeds.
        out: where the runs go.
        fresh: whether what is there already is made anew.
        carry: how messages go from node to node.
        place: `out` for workers that may not see it, which make runs in a staging folder; None
            for those of this machine, which write there, so that partial runs can be read.
        optima: those known already, to avoid computing them again.
        serial: tells it apart from every other order, so that a worker keeps nothing of an earlier
            one that says the same: what Python has handed over may have changed since.
    """

    plan: Plan
    out: Path
    fresh: bool = False
    carry: Carry = "values"
    place: Place | None = None
    optima: Mapping[str, bytes] = field(default_factory=dict)
    serial: str = field(default_factory=lambda: uuid4().hex)

    @contextmanager
    def home(self) -> Iterator[Path]:
        """Make a folder for runs to be made in: `out` itself, or one aside, which goes.

        Raises:
            OutputError: it cannot be made.
        """
        if self.place is None:
            yield self.out
            return
        with self.place.aside() as home:
            yield home

    def folder(self, run: Run) -> Path:
        """Return where a run goes."""
        return RunFolder.place(self.out, self.plan.variants[run.number].name, run.seed)

    def initial_progress(self, run: Run) -> RunProgress:
        """Return how far a run is before its first round."""
        return beginning(self.plan.variants[run.number], run.seed)


def encode_order(order: Order) -> bytes:
    """Return what a worker is sent of a campaign.

    Raises:
        BlockError: a block is made of what another process cannot be sent.
    """
    try:
        return dump(order)
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # as pickle tells it
        text = (
            f"a block of this scenario cannot be sent to another process ({error}): take jobs=1, or"
            " put its class into a file of its own, a plugin"
        )
        raise BlockError(text) from error


def make(order: Order, builder: Builder, home: Path, known: Known, watch: Watch) -> Outcome:
    """Make a run unless it is there, and return what became of it; it does not fail.

    Args:
        order: the campaign.
        builder: of its plan.
        home: of the order, to make it in.
        known: which run, and what tells of it where it is there.
        watch: told of every round, and of the end of a run that is where it belongs.
    """
    started = perf_counter()
    try:
        outcome = _make(order, builder, home, known, watch)
    except Exception as error:  # noqa: BLE001 - it may come from code of a user's: say of which run
        return Outcome(known.run, error=error)
    if outcome.ended is not None and outcome.files is None:  # else it has to be written first
        watch(outcome.ended)
    return outcome._replace(seconds=perf_counter() - started if outcome.seconds else 0.0)


def _make(order: Order, builder: Builder, home: Path, known: Known, watch: Watch) -> Outcome:
    run, there = known
    job = builder.build(order.plan.variants[run.number], run.seed)
    begun = order.initial_progress(run)
    if there is not None and is_same(job, there):
        return Outcome(run, final_progress(begun, there.summary))
    if not home.exists():
        raise RunError(
            "no campaign waits for this run any more: its unfinished files have been removed"
        )
    folder = execute(job, home, watch)
    outcome = Outcome(run, final_progress(begun, read_json(folder / SUMMARY)), seconds=1)
    if order.place is None:
        return outcome
    if not order.place.is_here:
        return outcome._replace(files=pack(folder))
    settle(folder, order.folder(run))
    return outcome


_ONE = Lock()
"""A process makes one run at a time: it decides for all its threads how many compute."""


def make_some(pickled: bytes, runs: Sequence[Known], watch: Watch) -> list[Outcome]:
    """Make runs in this process, one after the other, and return what became of each."""
    with _ONE:
        order, builder = _open_campaign(pickled)
        try:
            with order.home() as home:
                return [_made_sendable(order, builder, home, known, watch) for known in runs]
        except (OSError, OutputError) as error:  # of the folder that they are made in
            text = f"it cannot be made: {error}"
            return [Outcome(known.run, error=OutputError(text)) for known in runs]


def _made_sendable(
    order: Order, builder: Builder, home: Path, known: Known, watch: Watch
) -> Outcome:
    """Make a run; return what became of it, with an error that another process can read."""
    if isinstance(watch, Teller):
        watch.turn_to(order.initial_progress(known.run))
    outcome = make(order, builder, home, known, watch)
    return outcome if outcome.error is None else _sendable(outcome)


@lru_cache(maxsize=1)
def _open_campaign(pickled: bytes) -> tuple[Order, Builder]:
    """Return the campaign that this process works for, and its builder."""
    order: Order = pickle.loads(pickled)  # noqa: S301 - of our own making
    use_optima(order.optima)
    return order, Builder(order.plan, order.carry)


def _sendable(outcome: Outcome) -> Outcome:
    """Return an outcome whose error can be pickled."""
    try:
        pickle.loads(pickle.dumps(outcome.error))  # noqa: S301 - of our own making
    except Exception:  # noqa: BLE001 - an error of a user's own; whatever its pickling raises
        text = f"{type(outcome.error).__name__}: {outcome.error}"
        return outcome._replace(error=RunError(text))
    return outcome


def there_in(order: Order, run: Run) -> Finished | None:
    """Return what tells of a run that is in its folder, unless it is to be made in any case."""
    if order.fresh:
        return None
    folder = order.folder(run)
    if there := finished_in(folder):
        tidy(folder)  # of what a disk did not let go
    return there


def names(order: Order, run: Run) -> str:
    """Return what to call a run."""
    return f"{order.plan.variants[run.number].name}, seed {run.seed}"
