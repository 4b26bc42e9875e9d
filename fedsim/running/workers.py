"""Workers: processes that make runs, tell how far they are, and end with their campaign.

They tell it through one pipe, in messages so short that each is written at once or not at all,
so a worker that is killed takes no lock with it and leaves nothing by halves.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
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

from fedsim.computing.threads import VARIABLE, usable_threads
from fedsim.errors import RunError
from fedsim.record.locks import Handed
from fedsim.running.execution import RunProgress, Watch, unwatched
from fedsim.running.loading import Recording, marked
from fedsim.signals import ENDING, uninterrupted
from fedsim.under_way import now

_PAUSE = 0.1  # seconds of real time between two words of a worker
_LONG = 0.5  # seconds of real time without a word, after which it is told what goes on

_watch: Watch = unwatched


def telling() -> Watch:
    """Return who is told of runs that this process makes: nobody, unless it is a worker."""
    return _watch


@contextmanager
def postponed() -> Iterator[None]:
    """Let signals wait for the end of the block, and let processes begun in it not hear them.

    A process inherits what is blocked. It hears no signal while it is being loaded, and then
    what it decides to hear.
    """
    resource_tracker.ensure_running()  # it unblocks signals, so not amid what postpones them
    with uninterrupted():
        mask = pthread_sigmask(SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            pthread_sigmask(SIG_SETMASK, mask)


@contextmanager
def workers(jobs: int, told: Watch) -> Iterator[Executor]:
    """Open a pool of processes, and tell how far their runs are.

    What is submitted belongs into a `postponed` block, for that begins the processes.

    Raises:
        RunError: one of them has died, or the script would start workers in each of them.
    """
    context = Recording()  # it spawns: a fork would copy the locks of threads that it does not copy
    with postponed(), marked():
        others = set(active_children())
        ear, mouth = context.Pipe(duplex=False)
        given = mouth, max(usable_threads() // jobs, 1), Handed()
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    listener = threading.Thread(target=_listen, args=(ear, told), daemon=True)
    listener.start()
    try:
        with marked(), pool:
            try:
                yield pool
            except BaseException:
                # A run may have hours to go: nobody waits for it; another time it is made again.
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
    the parent is killed, nobody else writes while it does.
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
        say: carries a word to who watches.
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
    def kept(self) -> Iterator[Watch]:
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
            if run is not None and time.monotonic() - self._last >= _LONG and (words := now()):
                self._send(run._replace(doing=words))

    def _send(self, progress: RunProgress) -> None:
        with self._one:
            self._say(progress)
