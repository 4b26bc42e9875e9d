"""Dask clusters: their workers make the runs and report progress.

Reports are Dask's own events, which pass through the scheduler.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from logging import CRITICAL
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedsim.errors import DataError, RunError
from fedsim.extras import missing
from fedsim.running.batch_systems import CLASSES, submit_jobs
from fedsim.running.batches import Batches, Sending
from fedsim.running.main_guard import UNGUARDED, mark_workers
from fedsim.running.run import RunProgress, Watch
from fedsim.running.workers import Known, Order, Outcome
from fedsim.signals import postpone_signals
from fedsim.threads import VARIABLE, usable_threads

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

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

CHOICES = f"tcp://HOST:PORT, local:N, or N jobs by {', '.join(f'{kind}:N' for kind in CLASSES)}"
"""The clusters there are, for an error."""


@dataclass(frozen=True)
class Cluster:
    """An engine that makes runs on Dask's workers.

    Attributes:
        client: connected to their scheduler.
    """

    client: "Client"

    def outcomes(self, order: Order, runs: Sequence[Known], watch: Watch) -> Iterator[Outcome]:
        """Make runs in batches; yield the outcome of each.

        Raises:
            RunError: the scheduler is gone, or its workers cannot make runs.
        """
        topic, batches = f"fedsim-{token_hex(8)}", Batches(order, runs)

        def on_event(event: tuple[float, Sequence[Any]]) -> None:
            progress = RunProgress(*event[1])
            batches.report_progress(progress)
            watch(progress)

        self.client.subscribe_topic(topic, on_event)
        try:
            yield from Sending(self.client, order, topic, batches).all()
        finally:
            if self.client.status == "running":
                self.client.unsubscribe_topic(topic)


@contextmanager
def open_cluster(where: str) -> "Iterator[Cluster]":
    """Connect to the cluster at an address, or start one on this machine.

    Args:
        where: "tcp://host:8786", "local:4", or a batch system's jobs such as "slurm:20".

    Raises:
        DataError: Dask is not installed, no scheduler answers, or a batch system takes no job.
    """
    check_installed()
    from distributed import Client
    from distributed.utils import silence_logging_cmgr as silent

    kind, _, count = where.partition(":")
    if kind in {"local", *CLASSES}:
        jobs = "" if kind == "local" else " jobs,"
        if not count.isdecimal() or int(count) < 1:
            text = f"got {where!r}; expected {kind}:N with N{jobs} at least 1"
            raise DataError("cluster", text)
        opened = submit_jobs(kind, int(count)) if jobs else _local(int(count))
        with opened as made, Client(made, set_as_default=False) as client:
            yield Cluster(client)
        return
    # Dask logs every lost connection. One that comes back does not concern the user; one that does
    # not is reported as an error of the campaign.
    with silent(CRITICAL), silent(CRITICAL, root="distributed.client"):
        try:
            connected = Client(where, set_as_default=False, name="fedsim")
        except (OSError, ValueError, TypeError) as error:
            text = f"no scheduler answers at {where} ({error}); expected {CHOICES}"
            raise DataError("cluster", text) from None
        with connected as client:
            yield Cluster(client)


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


def client_of(executor: Executor) -> "Client | None":
    """Return the client of this executor; None if it is not Dask's."""
    if type(executor).__module__.partition(".")[0] != "distributed":
        return None
    found: Client = vars(executor)["_client"]  # Dask has no public attribute for it
    return found
