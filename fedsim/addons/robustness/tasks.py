"""Execution of pricing tasks: in this process, in worker processes, or on a cluster."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from fedsim.addons.robustness.design import Worlds
from fedsim.addons.robustness.pricing import Costs, FinishedRun, PriceStore, play, price
from fedsim.core.blocks.spec import Spec
from fedsim.core.signals import postpone_signals
from fedsim.running.cluster import open_cluster
from fedsim.running.run import ignore_progress
from fedsim.running.workers import workers


@dataclass(frozen=True)
class Pricing:
    """Prices runs, in this process or by workers.

    Attributes:
        store: the known results; new ones are added as they arrive.
        blocks: user-defined classes that scenarios name.
        jobs: the number of concurrent tasks.
        executor: runs the tasks instead.
        cluster: runs the tasks instead, see `fedsim.running.cluster.open_cluster`.
        base: where relative paths of scenarios start; the current folder if None.
    """

    store: PriceStore
    blocks: tuple[type[Spec], ...] = ()
    jobs: int = 1
    executor: Executor | None = None
    cluster: str | None = None
    base: Path | None = None

    def price(self, runs: Sequence[FinishedRun], worlds: Worlds) -> list[Costs]:
        """Price runs in all worlds, one task per run."""
        task = partial(price, world=worlds.world(), worlds=worlds.count, blocks=self.blocks)
        return self._results(runs, worlds, task)

    def play(self, runs: Sequence[FinishedRun], worlds: Worlds) -> list[Costs]:
        """Replay or repeat runs in all worlds, one task per run and world."""
        # By run, then by world: `reshape` below relies on this order.
        tasks = [replace(run, world=number) for run in runs for number in range(worlds.count)]
        task = partial(play, worlds=worlds, blocks=self.blocks, base=self.base)
        known = self._results(tasks, worlds, task)
        by_run = np.array(known).reshape(len(runs), worlds.count, len(Costs._fields))
        return [Costs(*rows.T) for rows in by_run]

    def _results(
        self, tasks: Sequence[FinishedRun], worlds: Worlds, price: Callable[[FinishedRun], Costs]
    ) -> list[Costs]:
        """Return the costs of tasks, from the store or computed."""
        known = [self.store.read(task, worlds) for task in tasks]
        missing = [task for task, costs in zip(tasks, known, strict=True) if costs is None]
        # Computed ones fill the gaps, in order.
        fresh = iter(self._map(missing, worlds, price))
        return [next(fresh) if costs is None else costs for costs in known]

    def _map(
        self, tasks: Sequence[FinishedRun], worlds: Worlds, price: Callable[[FinishedRun], Costs]
    ) -> list[Costs]:
        keep = self.store.store
        with self._pool(len(tasks)) as pool:
            if pool is None:
                return [keep(task, worlds, price(task)) for task in tasks]
            # An interrupt between two submissions would lose track of tasks.
            with postpone_signals():
                futures = [pool.submit(price, task) for task in tasks]
            try:
                # Stored as they arrive, so that an interrupted study keeps all prices up to the
                # first one that is missing.
                pending = zip(tasks, futures, strict=True)
                return [keep(task, worlds, future.result()) for task, future in pending]
            finally:  # after a failure the other tasks need not start
                for future in futures:
                    future.cancel()

    @contextmanager
    def _pool(self, tasks: int) -> Iterator[Executor | None]:
        if self.executor is not None:
            yield self.executor
        elif self.cluster is not None:
            with open_cluster(self.cluster) as pool:
                yield pool
        elif self.jobs > 1 and tasks > 1:
            with workers(min(self.jobs, tasks), ignore_progress) as pool:
                yield pool
        else:
            yield None
