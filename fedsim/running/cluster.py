"""Dask: its executors report the progress of runs, and `--cluster` opens one.

Dask itself gives the task of a dead worker to another one, some times. Reports are Dask's own
events, which pass through the scheduler.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from logging import CRITICAL
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from fedsim.core.errors import DataError, RunError
from fedsim.core.extras import missing
from fedsim.core.signals import postpone_signals
from fedsim.core.threads import VARIABLE, usable_threads
from fedsim.running.executors import ExecutorEngine, make_elsewhere
from fedsim.running.main_guard import UNGUARDED, mark_workers
from fedsim.running.run import RunProgress, Watch, environment
from fedsim.running.workers import Known, Order, Outcome, ProgressReporter

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

_PAUSE = 0.25  # seconds of real time between two reports of a worker: one scheduler handles all

_CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.deploy.lost-worker-timeout": "1000 days",
}
"""For a local cluster.

Dask's own monitoring is off, since it takes 2 % of the time. A worker that dies is started again
by its nanny, and Dask waits for it: where it dies twice within a timeout, Dask gives its nanny up,
and a cluster of one worker would stay without any.
"""

CHOICES = "tcp://HOST:PORT or local:N"
"""The clusters there are, for an error."""


def engine_of(executor: Executor) -> ExecutorEngine:
    """Return an engine for an executor; with that of a Dask client it reports progress.

    Raises:
        RunError: the Dask client is closed.
    """
    if type(executor).__module__.partition(".")[0] != "distributed":
        return ExecutorEngine(executor)
    client: Client = vars(executor)["_client"]  # Dask has no public attribute for it
    if client.status not in {"running", "connecting"}:
        raise RunError("the Dask client of this executor is closed")
    return DaskEngine(executor, client=client, address=client.scheduler.address)


@dataclass(frozen=True, kw_only=True)
class DaskEngine(ExecutorEngine):
    """Makes runs by Dask's workers.

    Its futures are the client's own: those of its executor never end where the connection breaks
    while a result is fetched.

    Attributes:
        client: connected to the scheduler.
        address: the scheduler's.
        topic: of the events that report progress.
    """

    client: "Client"
    address: str
    topic: str = field(default_factory=lambda: f"fedsim-{token_hex(8)}")
    _sent: "list[Future]" = field(default_factory=list)

    apart: ClassVar[bool] = True

    def outcomes(self, order: Order, runs: Sequence[Known], watch: Watch) -> Iterator[Outcome]:
        """Make runs; see `ExecutorEngine`."""
        self.client.subscribe_topic(self.topic, lambda event: watch(RunProgress(*event[1])))
        try:
            yield from super().outcomes(order, runs, watch)
        finally:
            if self.client.status == "running":
                self.client.unsubscribe_topic(self.topic)

    def _submit(self, pickled: bytes, known: Known) -> "Future":
        while self.client.status == "connecting":
            time.sleep(_PAUSE)
        if self.client.status != "running":
            raise BrokenExecutor(f"the scheduler {self.address} is gone")
        # As the result of a task with a key, Dask sends the campaign once to each worker, and again
        # where it is lost.
        self._sent[:] = [self.client.submit(_keep, pickled, key=f"{self.topic}-campaign")]
        given = self._sent[0], environment(), known, self.topic
        return self.client.submit(_make_on_worker, *given, pure=False)

    def _cancel(self, tasks: "Sequence[Future]") -> None:
        if self.client.status == "running":
            self.client.cancel(tasks)

    def _is_cut_off(self, task: "Future", error: Exception) -> bool:
        from distributed.client import FutureCancelledError

        return task.status != "error" and isinstance(error, FutureCancelledError | OSError)


def _keep(pickled: bytes) -> bytes:
    return pickled


def _make_on_worker(
    pickled: bytes, wanted: Mapping[str, str], known: Known, topic: str
) -> list[Outcome]:
    """Make a run on a worker of Dask's, which reports its progress."""
    from distributed import get_worker

    worker = get_worker()
    reporter = ProgressReporter(
        lambda progress: worker.log_event(topic, [*progress]),
        _PAUSE,
        ends=False,
        worker=worker.address,
    )
    with reporter.report_activity() as watch:
        return make_elsewhere(pickled, wanted, known, watch)


@contextmanager
def open_cluster(where: str) -> Iterator[Executor]:
    """Open an executor of the cluster at an address, or of one that is started on this machine.

    Args:
        where: "tcp://host:8786" or "local:4".

    Raises:
        DataError: Dask is not installed, or no scheduler answers.
    """
    check_installed()
    from distributed import Client
    from distributed.utils import silence_logging_cmgr as silent

    kind, _, count = where.partition(":")
    if kind == "local" and not (count.isdecimal() and int(count)):
        raise DataError("cluster", f"got {where!r}; expected local:N with N at least 1")
    with ExitStack() as stack:
        place = stack.enter_context(_local(int(count))) if kind == "local" else where
        # Dask logs every lost connection. One that comes back does not concern the user; one that
        # does not is reported as an error of the campaign.
        stack.enter_context(silent(CRITICAL))
        stack.enter_context(silent(CRITICAL, root="distributed.client"))
        try:
            client = Client(place, set_as_default=False, name="fedsim")
        except (OSError, ValueError, TypeError) as error:
            text = f"no scheduler answers at {where} ({error}); expected {CHOICES}"
            raise DataError("cluster", text) from None
        yield stack.enter_context(client).get_executor()


def check_installed() -> None:
    """Check that Dask is installed.

    Raises:
        DataError: it is not; the text has the command that installs it.
    """
    try:
        there = find_spec("distributed") is not None
    except ValueError:  # sys.modules blocks its import
        there = False
    if not there:
        raise DataError("cluster", missing("a cluster", "Dask", "dask"))


def check_choice(jobs: int, executor: Executor | None, cluster: str | None) -> None:
    """Validate that at most one of processes, executor and cluster is chosen.

    Raises:
        DataError: more than one is chosen, or Dask is not installed.
        ValueError: `jobs` is below 1.
    """
    if jobs < 1:
        raise ValueError(f"got {jobs} jobs; expected at least 1")
    if (jobs != 1) + (executor is not None) + (cluster is not None) > 1:
        raise DataError(
            "cluster", "runs are made in one place: give jobs, an executor or a cluster"
        )
    if cluster is not None:
        check_installed()


@contextmanager
def _local(count: int) -> Iterator[Any]:
    """Start a cluster of processes on this machine; only the parent handles interrupts."""
    from dask import config
    from distributed import LocalCluster

    with ExitStack() as stack:
        # The exit stack removes what was created, in whichever line an interrupt arrives.
        home = stack.enter_context(TemporaryDirectory(prefix="fedsim-"))
        stack.enter_context(config.set(_CONFIG | {"temporary-directory": home}))
        note = Path(home) / "loading"
        try:
            with postpone_signals(), mark_workers(note):
                cluster = LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=CRITICAL,  # outcomes of runs are reported anyway
                    env={VARIABLE: str(max(usable_threads() // count, 1))},
                )
                stack.callback(_close, cluster)
        except RuntimeError:
            if note.exists():
                raise RunError(UNGUARDED) from None
            raise
        yield cluster


def _close(cluster: "LocalCluster") -> None:
    with postpone_signals():
        cluster.close()
