"""Which runs go to which worker next, and how many of them in one task.

A task costs a cluster some milliseconds, whatever is in it. So short runs go in batches of about
a second, and towards the end in smaller ones, down to a quarter of it, for nobody is to wait long
for one worker's batch. The variants of a scenario share the data and the optimum of a seed: a
worker keeps to the seeds that it has begun as long as there are seeds that nobody has, and then
helps where most is left. Within a seed the longest go first, as far as that is known: from this
campaign, or from runs of an earlier one that lie in the folder. What is not known goes first of
all.
"""

from collections.abc import Iterable, Sequence
from math import ceil, inf
from pathlib import Path
from typing import NamedTuple

from fedsim.record.folder import SCENARIO, SUMMARY
from fedsim.running.execution import RunProgress
from fedsim.running.tasks import Known, Order, Outcome, Run

LASTING = 1.0
"""Seconds of real time that a batch of short runs is to take."""

_SHARES = 4
"""A batch has at most so much of what is left: a share for each worker, divided by this.

So does its time, for what it takes to send and to take in is the same for one run as for many.
"""


class Batch(NamedTuple):
    """Runs that one task makes."""

    runs: tuple[Known, ...]


class Batches:
    """What is left to be made.

    Args:
        order: the campaign.
        runs: all of its runs.
    """

    def __init__(self, order: Order, runs: Sequence[Known]) -> None:
        self._order = order
        self._seconds = _earlier(order, (known.run for known in runs))
        self._measured: set[int] = set()  # numbers of variants
        self._alone: list[Known] = []
        self._left: dict[int, list[Known]] = {}  # seed -> runs
        self._seed: dict[str, int] = {}  # worker -> that it keeps to
        self._awaited = {known.run for known in runs}
        self._numbers = {each.name: number for number, each in enumerate(order.plan.variants)}
        for known in runs:
            self._left.setdefault(known.run.seed, []).append(known)
        for several in self._left.values():
            several.sort(key=self._length, reverse=True)

    @property
    def left(self) -> int:
        """How many runs have not been taken."""
        return len(self._alone) + sum(map(len, self._left.values()))

    @property
    def awaited(self) -> int:
        """How many runs have not ended, as far as anybody has heard."""
        return len(self._awaited)

    def take(self, worker: str, workers: int) -> Batch:
        """Take a batch for a worker, of so many that there are; something has to be left."""
        if self._alone:
            return Batch((self._alone.pop(),))
        taken, seconds = list[Known](), 0.0
        most = ceil(self.left / (_SHARES * max(workers, 1)))
        while self._left and seconds < (LASTING if len(taken) < most else LASTING / _SHARES):
            seed = self._seed[worker] = self._seed_for(worker)
            taken.append(self._left[seed].pop(0))
            seconds += self._seconds.get(taken[-1].run.number, inf)
            if not self._left[seed]:
                del self._left[seed]
        return Batch(tuple(taken))

    def note(self, outcomes: Iterable[Outcome]) -> None:
        """Note how long runs took, of which nothing is awaited any more."""
        for outcome in outcomes:
            self._awaited.discard(outcome.run)
            number = outcome.run.number
            if outcome.seconds:
                before = self._seconds[number] if number in self._measured else outcome.seconds
                self._seconds[number] = (before + outcome.seconds) / 2
                self._measured.add(number)

    def heard(self, told: RunProgress) -> None:
        """Note what a worker tells of a run, which it may have ended."""
        if told.ended:
            self._awaited.discard(Run(self._numbers[told.variant], told.seed))

    def again(self, batch: Batch) -> None:
        """Take back a batch that nobody has made, whose runs go alone from now on."""
        self._alone += batch.runs

    def _seed_for(self, worker: str) -> int:
        """Return the seed whose runs a worker makes next."""
        own = self._seed.get(worker)
        if own in self._left:
            return own
        others = {seed for name, seed in self._seed.items() if name != worker}
        free = [seed for seed in self._left if seed not in others]
        return max(free or self._left, key=lambda seed: len(self._left[seed]))

    def _length(self, known: Known) -> tuple[float, int]:
        rounds = self._order.begun(known.run).rounds
        return self._seconds.get(known.run.number, inf), rounds


def _earlier(order: Order, runs: Iterable[Run]) -> dict[int, float]:
    """Return how long runs of variants took that lie in the folder, in seconds."""
    found: dict[int, float] = {}
    for run in runs:
        if run.number not in found and (seconds := lasted(order.folder(run))) is not None:
            found[run.number] = seconds
    return found


def lasted(folder: Path) -> float | None:
    """Return how long a run took that is whole, in seconds of real time, by its files.

    Its scenario is written first, its summary last. Nothing is known where the clock went back.
    """
    try:
        first, last = ((folder / name).stat().st_mtime_ns for name in (SCENARIO, SUMMARY))
    except OSError:
        return None
    return (last - first) / 1e9 if last >= first else None
