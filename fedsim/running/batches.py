"""Batches of runs for the workers of a Dask cluster, and the outcomes that come back.

Dask itself gives the batches of a dead worker to others. A batch whose workers all died is sent
again run by run. Since a worker has several batches, the one that killed it is unknown: a run is
abandoned only when workers died that had no other run. If the scheduler is out of reach for a
while, all batches in transit are sent again; runs that were completed meanwhile are found complete
in their folders, or are made again with the same result.
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
from fedsim.running.run import RunProgress, environment
from fedsim.running.workers import (
    Known,
    Order,
    Outcome,
    ProgressReporter,
    Run,
    encode_order,
    make_all,
    run_name,
)

# Scheduling of runs: which runs a worker gets next, and how many of them in one task.
#
# A task costs a cluster some milliseconds, whatever it contains. So short runs go in batches of
# about a second, and towards the end in smaller ones, down to a quarter of it, so that the campaign
# does not wait long for one worker's batch.
#
# The variants of a scenario share the data and the optimum of a seed, which each worker builds for
# itself. So a worker stays with the seed that it has begun, then takes one that no other worker
# has, and at last helps with the seed of most remaining runs. Within a seed the longest runs go
# first, as usual for scheduling on parallel machines. Durations are known from this campaign, or
# from runs of an earlier one in the folder; variants without any go before all others.

LASTING = 1.0
"""Target duration of a batch of short runs, seconds of real time."""

_SHARES = 4
"""A batch holds at most one worker's share of the remaining runs, divided by this number.

The target duration of larger batches is divided by it as well.
"""


class Batch(NamedTuple):
    """The runs of one task."""

    runs: tuple[Known, ...]


class Batches:
    """The runs of a campaign that are not assigned yet, and the durations known so far.

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
        self._seed: dict[str, int] = {}  # worker -> the seed that it stays with
        self._awaited = {known.run for known in runs}
        self._numbers = {each.name: number for number, each in enumerate(order.plan.variants)}
        for known in runs:
            self._left.setdefault(known.run.seed, []).append(known)
        for several in self._left.values():
            several.sort(key=self._length, reverse=True)

    @property
    def left(self) -> int:
        """Number of runs that are not assigned to a worker."""
        return len(self._alone) + sum(map(len, self._left.values()))

    @property
    def awaited(self) -> int:
        """Number of runs whose end was not reported yet."""
        return len(self._awaited)

    def take(self, worker: str, workers: int) -> Batch:
        """Take a batch for one of `workers` workers; at least one run must be left."""
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
        """Register runs that have ended, and how long they took."""
        for outcome in outcomes:
            self._awaited.discard(outcome.run)
            number = outcome.run.number
            if outcome.seconds:
                before = self._seconds[number] if number in self._measured else outcome.seconds
                self._seconds[number] = (before + outcome.seconds) / 2
                self._measured.add(number)

    def report_progress(self, report: RunProgress) -> None:
        """Register a worker's report on a run, which may be that it has ended."""
        if report.ended:
            self._awaited.discard(Run(self._numbers[report.variant], report.seed))

    def again(self, batch: Batch) -> None:
        """Put a batch that was not made back; its runs are scheduled one by one from now on."""
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
    """Return how long runs of an earlier campaign in the folder took, s, by variant."""
    found: dict[int, float] = {}
    for run in runs:
        if run.number not in found and (seconds := run_duration(order.folder(run))) is not None:
            found[run.number] = seconds
    return found


def run_duration(folder: Path) -> float | None:
    """Return how long a complete run took, s of real time, by the dates of its files.

    Its scenario is written first, its summary last. None if the run is incomplete or the clock
    was set back meanwhile.
    """
    try:
        first, last = ((folder / name).stat().st_mtime_ns for name in (SCENARIO, SUMMARY))
    except OSError:
        return None
    return (last - first) / 1e9 if last >= first else None


if TYPE_CHECKING:
    from distributed import Client, Future

_AHEAD = 2  # batches per worker, so that it need not wait for the next one
_LOOK = 1.0  # seconds of real time between two queries of the list of workers
_PAUSE = 0.25  # seconds of real time between two reports of a worker: one scheduler handles all


class _Landed(NamedTuple):
    """A batch whose task has ended."""

    batch: Batch
    future: "Future"


class Sending:
    """Sends batches to workers and collects their outcomes."""

    def __init__(self, client: "Client", order: Order, topic: str, batches: Batches) -> None:
        self._client, self._order, self._topic = client, order, topic
        self._batches = batches
        self._address = client.scheduler_info()["address"]
        self._surroundings = environment()
        self._pickled: Future | None = None
        self._landed: Queue[_Landed] = Queue()
        self._flying: dict[str, Future] = {}  # by their keys
        self._has: Counter[str] = Counter()  # worker -> batches
        self._sent: dict[str, str] = {}  # key -> worker
        self._suspects = deque[Batch]()  # of one run each, which may have killed their workers
        self._alone = ""  # the key of the suspect that is made while no other batch is
        self._looked, self._workers = 0.0, list[str]()

    def all(self) -> Iterator[Outcome]:
        """Yield the outcome of each run.

        Raises:
            BlockError: a class of the scenario is in no file that can be sent.
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
        """Send batches to all workers; suspects come last, one after another."""
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
            # As the result of a task, Dask sends it once to each worker, and again if it is lost.
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
        """Return the addresses of the present workers."""
        if monotonic() - self._looked > _LOOK or not self._workers:
            self._workers = [*self._client.scheduler_info(n_workers=-1)["workers"]]
            self._looked = monotonic()
        return self._workers

    def _next(self) -> Iterator[Outcome]:
        """Wait for a batch, for `_LOOK` seconds at most, and yield the outcomes of its runs.

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
        except (FutureCancelledError, OSError):  # the scheduler is out of reach
            self._pickled = None
            self._batches.again(batch)
            return
        if error is not None:
            yield from self._retry_lost(batch, error, alone=future.key == self._alone)
            return
        self._batches.note(outcomes)
        yield from outcomes

    def _retry_lost(self, batch: Batch, error: BaseException, *, alone: bool) -> Iterator[Outcome]:
        """Schedule the runs of a lost batch again, each alone, or yield that a run is abandoned.

        Args:
            batch: the lost one.
            error: the error of its task.
            alone: whether it was the only batch on the cluster.

        Raises:
            RunError: the error is not that its workers died.
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
            f"{run_name(self._order, run)}: each of {error.allowed_failures + 1} workers that made"
            " it has died, perhaps because memory was short"
        )
        outcome = Outcome(run, error=RunError(text))
        self._batches.note([outcome])
        yield outcome

    def _no_workers_error(self) -> RunError:
        count = self._batches.awaited
        runs = "1 run" if count == 1 else f"{count} runs"
        return RunError(
            f"the scheduler {self._address} is gone: {runs} had not ended; the others are kept, and"
            " the same command makes the missing ones"
        )


def _keep_pickled(pickled: bytes) -> bytes:
    return pickled


def _make(
    pickled: bytes, wanted: Mapping[str, str], runs: Sequence[Known], topic: str
) -> list[Outcome]:
    """Make runs on a worker, which reports their progress.

    Raises:
        RunError: its versions differ from those of the calling process, so runs would differ.
    """
    from distributed import get_worker

    worker = get_worker()
    _check(worker.address, wanted, environment())
    reporter = ProgressReporter(
        lambda progress: worker.log_event(topic, [*progress]),
        _PAUSE,
        ends=False,
        worker=worker.address,
    )
    with reporter.report_activity() as watch:
        return make_all(pickled, runs, watch)


def _check_classes(order: Order) -> None:
    """Validate that workers can load the classes of a scenario.

    Raises:
        BlockError: one is defined in the running script or an interactive session.
    """
    blocks = (block for each in order.plan.variants for block in specs_in(each.scenario))
    for model in {model for block in blocks for model in type(block).__mro__}:
        if model.__module__ == "__main__":
            text = "is defined in the script or an interactive session, which workers do not have"
            helps = "put it into a separate file, and give that as a plugin"
            raise BlockError(f"the class {model.__name__} {text}: {helps}")


def _check(worker: str, wanted: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Validate that a worker has the same versions as the calling process.

    Raises:
        RunError: some differ.
    """
    differ = [name for name in wanted if there.get(name) != wanted[name]]
    if differ:
        report = "; ".join(
            f"{name} is {there.get(name)} there, {wanted[name]} here" for name in differ
        )
        text = f"the worker {worker} would make other runs: {report}"
        raise RunError(f"{text}; install the same versions")
