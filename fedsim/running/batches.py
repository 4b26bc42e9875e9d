"""Batches of runs on their way to the workers of a cluster of Dask's, and what comes back.

A worker that dies has its batches made by others, by Dask itself; a batch whose workers
all died is sent again run by run. A worker has several batches, and which one killed it is unknown:
a run is given up only where workers die that had nothing but this run, in the end. Where the
scheduler is out of reach for a while, what was on the way is sent again; runs that have been made
meanwhile are whole where they belong, or are made again with the same result.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, inf
from pathlib import Path
from queue import Empty, Queue
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from fedsim.blocks.plugins import specs_in
from fedsim.errors import BlockError, RunError
from fedsim.progress import activity
from fedsim.record.folder import SCENARIO, SUMMARY
from fedsim.running.run import RunProgress, surroundings
from fedsim.running.workers import (
    Known,
    Order,
    Outcome,
    Run,
    Teller,
    encode_order,
    make_some,
    names,
)

# Scheduling of runs: which runs a worker gets next, and how many of them in one task.
#
# A task costs a cluster some milliseconds, whatever is in it. So short runs go in batches of about
# a second, and towards the end in smaller ones, down to a quarter of it, so that the campaign does
# not wait long for one worker's batch. The variants of a scenario share the data and the optimum
# of a seed: a worker keeps to the seeds that it has begun as long as no worker has the others,
# then helps where most is left. Within a seed the longest go first, as far as that is known: from
# this campaign, or from runs of an earlier one that lie in the folder. What is not known goes
# first of all.

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

    def report_progress(self, told: RunProgress) -> None:
        """Note what a worker tells of a run, which it may have ended."""
        if told.ended:
            self._awaited.discard(Run(self._numbers[told.variant], told.seed))

    def again(self, batch: Batch) -> None:
        """Return an unmade batch, whose runs are scheduled one by one from now on."""
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
        rounds = self._order.initial_progress(known.run).rounds
        return self._seconds.get(known.run.number, inf), rounds


def _earlier(order: Order, runs: Iterable[Run]) -> dict[int, float]:
    """Return how long runs of variants took that lie in the folder, in seconds."""
    found: dict[int, float] = {}
    for run in runs:
        if run.number not in found and (seconds := run_duration(order.folder(run))) is not None:
            found[run.number] = seconds
    return found


def run_duration(folder: Path) -> float | None:
    """Return how long a run took that is whole, in seconds of real time, by its files.

    Its scenario is written first, its summary last. Nothing is known where the clock went back.
    """
    try:
        first, last = ((folder / name).stat().st_mtime_ns for name in (SCENARIO, SUMMARY))
    except OSError:
        return None
    return (last - first) / 1e9 if last >= first else None


if TYPE_CHECKING:
    from distributed import Client, Future

_AHEAD = 2  # batches that a worker has, so that it need not wait for the next
_LOOK = 1.0  # seconds of real time between two looks at which workers there are
_PAUSE = 0.25  # seconds of real time between two words of a worker: all pass through one scheduler


class _Landed(NamedTuple):
    """A batch that has come back."""

    batch: Batch
    future: "Future"


class Sending:
    """Sends batches to workers, and takes what comes back."""

    def __init__(self, client: "Client", order: Order, topic: str, batches: Batches) -> None:
        self._client, self._order, self._topic = client, order, topic
        self._batches = batches
        self._address = client.scheduler_info()["address"]
        self._surroundings = surroundings()
        self._pickled: Future | None = None
        self._landed: Queue[_Landed] = Queue()
        self._flying: dict[str, Future] = {}  # by their keys
        self._has: Counter[str] = Counter()  # worker -> batches
        self._sent: dict[str, str] = {}  # key -> worker
        self._suspects = deque[Batch]()  # of one run each, of which perhaps workers have died
        self._alone = ""  # the key of a suspect that is made while nothing else is
        self._looked, self._workers = 0.0, list[str]()

    def all(self) -> Iterator[Outcome]:
        """Yield what became of each run.

        Raises:
            BlockError: a class of the scenario is kept by no file that can be sent.
            RunError: the scheduler is gone, or its workers cannot make runs.
        """
        _check_classes(self._order)
        try:
            while self._flying or self._batches.left or self._suspects:
                if self._client.status == "running":
                    self._send()
                yield from self._next()
        finally:
            if self._client.status == "running":
                self._client.cancel([*self._flying.values()])

    def _send(self) -> None:
        """Give every worker what it is to have; suspects come last, one after another."""
        if self._alone in self._flying:
            return
        for worker in self._present():
            while self._batches.left and self._has[worker] < _AHEAD:
                self._launch(self._batches.take(worker, len(self._workers)), worker)
        if self._suspects and self._workers and not self._flying:
            self._alone = self._launch(self._suspects.popleft(), self._workers[0])

    def _launch(self, batch: Batch, worker: str) -> str:
        """Send a batch; return its key."""
        future = self._submit(batch, worker)
        self._has[worker] += 1
        self._flying[future.key] = future
        self._sent[future.key] = worker
        future.add_done_callback(lambda done: self._landed.put(_Landed(batch, done)))
        return str(future.key)

    def _submit(self, batch: Batch, worker: str) -> "Future":
        if self._pickled is None:
            # As the result of a task it is sent once to each worker, and made again where lost.
            self._pickled = self._client.submit(
                _keep_pickled, encode_order(self._order), pure=False
            )
        return self._client.submit(
            _make,
            self._pickled,
            self._surroundings,
            batch.runs,
            self._topic,
            pure=False,
            workers=[worker],
            allow_other_workers=True,
        )

    def _present(self) -> list[str]:
        """Return the addresses of the workers that there are."""
        if monotonic() - self._looked > _LOOK or not self._workers:
            self._workers = [*self._client.scheduler_info(n_workers=-1)["workers"]]
            self._looked = monotonic()
        return self._workers

    def _next(self) -> Iterator[Outcome]:
        """Wait for a batch, a moment at most, and yield what became of its runs.

        Raises:
            RunError: the scheduler is gone.
        """
        from distributed.client import FutureCancelledError

        with activity("waiting for workers" if not self._workers else ""):
            try:
                batch, future = self._landed.get(timeout=_LOOK)
            except Empty:
                if self._client.status not in {"running", "connecting"}:
                    raise self._no_workers_error() from None
                return
        self._has[self._sent.pop(future.key)] -= 1
        del self._flying[future.key]
        try:
            error = future.exception()
            outcomes = future.result() if error is None else []
        except (FutureCancelledError, OSError):  # as the scheduler is out of reach
            self._pickled = None
            self._batches.again(batch)
            return
        if error is not None:
            yield from self._retry_lost(batch, error, alone=future.key == self._alone)
            return
        self._batches.note(outcomes)
        yield from outcomes

    def _retry_lost(self, batch: Batch, error: BaseException, *, alone: bool) -> Iterator[Outcome]:
        """Send the runs of a batch again, each by itself, or say that one is given up.

        Args:
            batch: that has not come back.
            error: why.
            alone: whether nothing else was made meanwhile.

        Raises:
            RunError: it is not for a worker that has died.
        """
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            raise RunError(f"the workers of {self._address} cannot make runs: {error}") from error
        if len(batch.runs) > 1:
            self._batches.again(batch)
            return
        if not alone:
            self._suspects.append(batch)
            return
        run = batch.runs[0].run
        text = (
            f"{names(self._order, run)}: each of {error.allowed_failures + 1} workers that made it"
            " has died, perhaps for want of memory"
        )
        outcome = Outcome(run, error=RunError(text))
        self._batches.note([outcome])
        yield outcome

    def _no_workers_error(self) -> RunError:
        count = self._batches.awaited
        runs = "1 run" if count == 1 else f"{count} runs"
        return RunError(
            f"the scheduler {self._address} is gone: {runs} had not ended; the others are kept, and"
            " the same command makes the rest"
        )


def _keep_pickled(pickled: bytes) -> bytes:
    return pickled


def _make(
    pickled: bytes, wanted: Mapping[str, str], runs: Sequence[Known], topic: str
) -> list[Outcome]:
    """Make runs on a worker, which tells of them while they go on.

    Raises:
        RunError: its runs would have other bytes than those of the calling process.
    """
    from distributed import get_worker

    worker = get_worker()
    _check(worker.address, wanted, surroundings())
    teller = Teller(lambda progress: worker.log_event(topic, [*progress]), _PAUSE, ends=False)
    with teller.report_activity() as watch:
        return make_some(pickled, runs, watch)


def _check_classes(order: Order) -> None:
    """Make sure that workers can have the classes of a scenario.

    Raises:
        BlockError: one is of the script that runs, or was typed in.
    """
    blocks = (block for each in order.plan.variants for block in specs_in(each.scenario))
    for model in {model for block in blocks for model in type(block).__mro__}:
        if model.__module__ == "__main__":
            text = "is of the script itself, or was typed in, and workers of a cluster have neither"
            helps = "put it into a file of its own, and give that as a plugin"
            raise BlockError(f"the class {model.__name__} {text}: {helps}")


def _check(worker: str, wanted: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Make sure that a worker makes the runs that its parent would.

    Raises:
        RunError: it has other versions.
    """
    differ = [name for name in wanted if there.get(name) != wanted[name]]
    if differ:
        told = "; ".join(
            f"{name} is {there.get(name)} there, {wanted[name]} here" for name in differ
        )
        raise RunError(f"the worker {worker} would make other runs: {told}; give it what is here")
