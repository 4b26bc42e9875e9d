"""A campaign: all the runs of a plan, in turn or at once, each made unless it is there already."""

import pickle
from concurrent.futures import Executor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from fedsim.blocks.plugins import dumped
from fedsim.building import Builder
from fedsim.errors import BlockError
from fedsim.protocol.carriage import Carry
from fedsim.record.folder import RunFolder
from fedsim.running.execution import Watch, beginning, ending, execute, is_finished
from fedsim.running.workers import postponed, telling, workers
from fedsim.scenario import Plan


@dataclass(frozen=True)
class Campaign:
    """The runs of a plan.

    Attributes:
        plan: the variants and their seeds.
        out: where the run folders go.
        fresh: whether what is there already is made anew.
        carry: how messages go from node to node.
    """

    plan: Plan
    out: Path
    fresh: bool = False
    carry: Carry = "values"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs, variant by variant."""
        return tuple(
            RunFolder.place(self.out, variant.name, seed)
            for variant in self.plan.variants
            for seed in variant.seeds
        )

    @property
    def count(self) -> int:
        """How many runs there are."""
        return sum(len(variant.seeds) for variant in self.plan.variants)

    @property
    def numbered(self) -> list[tuple[int, int]]:
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
        for number, seed in self.numbered:
            self.make(builder, number, seed, watch)
        return self.folders

    def at_once(self, executor: Executor | None, jobs: int, watch: Watch) -> tuple[Path, ...]:
        """Make the runs in processes, or wherever an executor takes them; return their folders.

        The first that fails ends the campaign: what has not begun is not begun any more.

        Raises:
            RunError: a process has died.
            BlockError: a block is made of what another process cannot be sent.
            ValueError: there are fewer than 1 jobs.
        """
        if jobs < 1:
            raise ValueError(f"at least 1 job is needed; seen {jobs}")
        pickled = _pickled(self)
        pool: AbstractContextManager[Executor] = (
            workers(jobs, watch) if executor is None else nullcontext(executor)
        )
        with pool as taking:
            with postponed():  # else an interrupt could leave a process half begun
                futures = [taking.submit(_make, pickled, *run) for run in self.numbered]
            try:
                for future in as_completed(futures):
                    future.result()
            finally:
                for future in futures:
                    future.cancel()
        return self.folders


def _pickled(campaign: Campaign) -> bytes:
    """Return a campaign as it is sent to another process.

    Raises:
        BlockError: it cannot be sent.
    """
    try:
        return dumped(campaign)
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # as pickle tells it
        text = (
            f"a block of this scenario cannot be sent to another process ({error}): take jobs=1, or"
            " put its class into a file of its own, a plugin"
        )
        raise BlockError(text) from error


@lru_cache(maxsize=1)
def _opened(pickled: bytes) -> tuple[Campaign, Builder]:
    """Return the campaign that this process works for, and its builder."""
    campaign: Campaign = pickle.loads(pickled)  # noqa: S301 - of our own making
    return campaign, Builder(campaign.plan, campaign.carry)


def _make(pickled: bytes, number: int, seed: int) -> None:
    """Make one run in this process."""
    campaign, builder = _opened(pickled)
    begun = beginning(campaign.plan.variants[number], seed)
    campaign.make(builder, number, seed, telling(begun))
