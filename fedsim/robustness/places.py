"""Places where runs are priced: in turn, in processes, or on the workers of a cluster."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedsim.blocks.spec import Spec
from fedsim.robustness.design import Worlds
from fedsim.robustness.playing import played
from fedsim.robustness.pricing import Costs, Run, priced
from fedsim.robustness.stored import Store
from fedsim.running.cluster import opened
from fedsim.running.execution import unwatched
from fedsim.running.workers import postponed, workers


@dataclass(frozen=True)
class Pricing:
    """How runs are priced, and where.

    Attributes:
        store: what is known already, and where more of it is kept as soon as it is known.
        blocks: classes of one's own that scenarios name.
        jobs: how many tasks go on at once.
        executor: where they go on instead.
        cluster: where they go on instead, see `fedsim.running.cluster.opened`.
    """

    store: Store
    blocks: tuple[type[Spec], ...] = ()
    jobs: int = 1
    executor: Executor | None = None
    cluster: str | None = None

    def priced(self, runs: Sequence[Run], worlds: Worlds) -> list[Costs]:
        """Price runs in all worlds: a task a run."""
        task = partial(priced, world=worlds.world(), worlds=worlds.count, blocks=self.blocks)
        return self._known(runs, worlds, task)

    def played(self, runs: Sequence[Run], worlds: Worlds) -> list[Costs]:
        """Play runs again in all worlds, or make them: a task a run and world."""
        tasks = [replace(run, world=number) for run in runs for number in range(worlds.count)]
        task = partial(played, worlds=worlds, blocks=self.blocks)
        known = self._known(tasks, worlds, task)
        by_run = np.array(known).reshape(len(runs), worlds.count, len(Costs._fields))
        return [Costs(*own.T) for own in by_run]

    def _known(
        self, tasks: Sequence[Run], worlds: Worlds, price: Callable[[Run], Costs]
    ) -> list[Costs]:
        """Return what tasks come to; those of which it is not known yet are done."""
        known = [self.store.read(task, worlds) for task in tasks]
        missing = [task for task, costs in zip(tasks, known, strict=True) if costs is None]
        fresh = iter(self._mapped(missing, worlds, price))
        return [next(fresh) if costs is None else costs for costs in known]

    def _mapped(
        self, tasks: Sequence[Run], worlds: Worlds, price: Callable[[Run], Costs]
    ) -> list[Costs]:
        kept = self.store.kept
        with self._pool(len(tasks)) as pool:
            if pool is None:
                return [kept(task, worlds, price(task)) for task in tasks]
            with postponed():
                futures = [pool.submit(price, task) for task in tasks]
            try:
                done = zip(tasks, futures, strict=True)
                return [kept(task, worlds, each.result()) for task, each in done]
            finally:  # where one has failed, those that have not begun are not waited for
                for each in futures:
                    each.cancel()

    @contextmanager
    def _pool(self, tasks: int) -> Iterator[Executor | None]:
        if self.executor is not None:
            yield self.executor
        elif self.cluster is not None:
            with opened(self.cluster) as engine:
                yield engine.client.get_executor()
        elif self.jobs > 1 and tasks > 1:
            with workers(min(self.jobs, tasks), unwatched) as pool:
                yield pool
        else:
            yield None
