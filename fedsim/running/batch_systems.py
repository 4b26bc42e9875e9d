"""Workers as jobs of a batch system: Slurm, PBS, LSF, HTCondor, SGE or OAR, by dask-jobqueue.

What a job asks for (memory, cores, queue, account, wall time) is in dask-jobqueue's own
configuration, `~/.config/dask/jobqueue.yaml`, or in variables such as DASK_JOBQUEUE__SLURM__MEMORY.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedsim.errors import DataError
from fedsim.extras import missing

if TYPE_CHECKING:
    from dask_jobqueue.core import JobQueueCluster

CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
}
"""The class of dask-jobqueue by the name of a batch system."""

NEEDED = "memory"
"""What has no default that fits: a job that exceeds it is killed."""


@contextmanager
def submit_jobs(kind: str, count: int) -> "Iterator[JobQueueCluster]":
    """Submit jobs that are Dask's workers, one thread each; cancel them at the end.

    Args:
        kind: of the batch system, see `CLASSES`.
        count: how many.

    Yields:
        the cluster of dask-jobqueue, for a `distributed.Client`.

    Raises:
        DataError: dask-jobqueue or the batch system's command is missing, its configuration has no
            memory, or it refuses a job.
    """
    where = f"{kind}:{count}"
    if find_spec("dask_jobqueue") is None:
        raise DataError("cluster", missing(f"the cluster {where}", "dask-jobqueue", "dask"))
    import dask_jobqueue

    made = getattr(dask_jobqueue, CLASSES[kind])
    command = made.job_cls.submit_command.split()[0]
    if shutil.which(command) is None:
        raise DataError(
            "cluster",
            f"{where} submits jobs by {command}, which is not found here; expected a machine from"
            " which jobs are submitted",
        )
    with _cluster(made, kind) as cluster:
        _scale(cluster, where, count)
        yield cluster


def _cluster(made: "type[JobQueueCluster]", kind: str) -> "JobQueueCluster":
    """Return a cluster that has no jobs yet: one core a job where nothing else is configured."""
    from dask import config

    settings = config.get(f"jobqueue.{kind}")
    if settings.get(NEEDED) is None:
        name = f"DASK_JOBQUEUE__{kind.upper()}__{NEEDED.upper()}"
        raise DataError(
            "cluster",
            f"the memory of a job of {kind} is not configured; expected {name}=4GB in the"
            f" environment, or memory under jobqueue.{kind} in ~/.config/dask/jobqueue.yaml",
        )
    cores = settings.get("cores") or 1
    # A process makes one run at a time, so that there is a process for each core.
    # Dask's own page may be that of another cluster on this machine: any port will do.
    scheduler = {"dashboard_address": ":0"} | (settings.get("scheduler-options") or {})
    return made(
        cores=cores,
        processes=settings.get("processes") or cores,
        scheduler_options=scheduler,
        silence_logs="critical",
    )


def _scale(cluster: "JobQueueCluster", where: str, count: int) -> None:
    """Submit jobs, and wait until the batch system has taken them, not until they run.

    Raises:
        DataError: it takes none, with its own words.
    """

    async def send() -> None:
        cluster.scale(jobs=count)
        await cluster

    try:
        cluster.sync(send)
    except (RuntimeError, ValueError, OSError) as error:
        _mark_failed(cluster)
        words = " ".join(str(error).split())
        raise DataError("cluster", f"{where} took no job: {words}") from None


def _mark_failed(cluster: "JobQueueCluster") -> None:
    """Mark jobs that were not taken, since Dask refuses to close a cluster with one to begin."""
    from distributed import Status

    for job in cluster.workers.values():
        if job.status == Status.created:
            job.status = Status.failed
