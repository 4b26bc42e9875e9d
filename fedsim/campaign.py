"""A campaign: all the runs of a plan, in turn or at once, each made unless it is there already."""

import os
import pickle
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.managers import SyncManager
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from signal import SIG_DFL, SIG_IGN, SIGINT, Handlers, signal
from typing import Any

from fedsim.building import Builder
from fedsim.execution import Progress, Watch, ending, execute, is_finished, unwatched
from fedsim.record.folder import RunFolder
from fedsim.scenario import Plan

_PAUSE = 0.1  # seconds of real time between two words of a run elsewhere


@dataclass(frozen=True)
class Campaign:
    """The runs of a plan.

    Attributes:
        plan: the variants and their seeds.
        out: where the run folders go.
        fresh: whether what is there already is made anew.
    """

    plan: Plan
    out: Path
    fresh: bool = False

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs, variant by variant."""
        return tuple(
            RunFolder.place(self.out, variant.name, seed)
            for variant in self.plan.variants
            for seed in variant.seeds
        )

    @property
    def errands(self) -> list[tuple[int, int]]:
        """The number of the variant and the seed of each run.

        Seed by seed: the variants share the data of a seed, which is then built once.
        """
        variants = enumerate(self.plan.variants)
        every = [(number, seed) for number, variant in variants for seed in variant.seeds]
        return sorted(every, key=itemgetter(1))

    def make(self, builder: Builder, number: int, seed: int, watch: Watch) -> None:
        """Make one run, unless it is there."""
        job = builder.build(self.plan.variants[number], seed)
        if self.fresh or not is_finished(job, self.out):
            execute(job, self.out, watch)
        watch(ending(job, self.out))

    def make_all(
        self, builder: Builder, jobs: int, executor: Executor | None, watch: Watch
    ) -> tuple[Path, ...]:
        """Make all runs, one after the other or at once, and return their folders."""
        if jobs == 1 and executor is None:
            return self.in_turn(builder, watch)
        return self.at_once(executor, jobs, watch)

    def in_turn(self, builder: Builder, watch: Watch) -> tuple[Path, ...]:
        """Make the runs one after the other, and return their folders."""
        for number, seed in self.errands:
            self.make(builder, number, seed, watch)
        return self.folders

    def at_once(self, executor: Executor | None, jobs: int, watch: Watch) -> tuple[Path, ...]:
        """Make the runs in processes, or wherever an executor takes them; return their folders.

        The first that fails ends the campaign: what has not begun is not begun any more.
        """
        if jobs < 1:
            raise ValueError(f"at least 1 job is needed; seen {jobs}")
        pickled = pickle.dumps(self)
        with ExitStack() as open_until_the_end:
            told: Any = None
            if executor is None:
                executor, told = open_until_the_end.enter_context(_processes(jobs, watch))
            errands = self.errands
            futures = [executor.submit(_make, pickled, *errand, told) for errand in errands]
            try:
                for future in as_completed(futures):
                    future.result()
            finally:
                for future in futures:
                    future.cancel()
        return self.folders


@contextmanager
def _processes(jobs: int, watch: Watch) -> Iterator[tuple[Executor, Any]]:
    """Open a pool of processes, and the queue on which they say how far they are."""
    context = get_context("spawn")  # a fork would copy the locks of threads that it does not copy
    manager = SyncManager(ctx=context)
    manager.start(_begin, (SIG_IGN,))
    others = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(SIG_DFL,))
    with manager, pool:
        told = manager.Queue()
        listener = threading.Thread(target=_listen, args=(told, watch), daemon=True)
        listener.start()
        try:
            yield pool, told
        except BaseException:
            # A run may have hours to go: nobody waits for it, and it is made again another time.
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
        finally:
            told.put(None)
            listener.join()


def _begin(on_interrupt: Handlers) -> None:
    """Prepare a process: what an interrupt does to it, and that it ends with its parent."""
    signal(SIGINT, on_interrupt)
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()


def _end_with(parent: BaseProcess | None) -> None:
    """Wait until the parent is gone, killed perhaps, and end at once."""
    if parent is not None:
        parent.join()
        os._exit(1)


def _listen(told: "queue.Queue[Progress | None]", watch: Watch) -> None:
    while (progress := told.get()) is not None:
        watch(progress)


@lru_cache(maxsize=1)
def _opened(pickled: bytes) -> tuple[Campaign, Builder]:
    """Return the campaign that this process works for, and its builder."""
    campaign: Campaign = pickle.loads(pickled)  # noqa: S301 - of our own making
    return campaign, Builder(campaign.plan)


def _make(pickled: bytes, number: int, seed: int, told: Any) -> None:  # noqa: ANN401 - a proxy
    """Make one run in this process."""
    campaign, builder = _opened(pickled)
    campaign.make(builder, number, seed, unwatched if told is None else _Teller(told))


class _Teller:
    """Tells a queue how far a run is, a few times a second."""

    def __init__(self, told: Any) -> None:  # noqa: ANN401 - a proxy
        self._told = told
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.ended or now - self._last >= _PAUSE:
            self._last = now
            self._told.put(progress)
