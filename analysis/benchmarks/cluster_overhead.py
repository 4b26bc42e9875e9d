"""The overhead of a Dask cluster beside its runs, in seconds of processors.

    python analysis/benchmarks/cluster_overhead.py --runs 200

One worker makes many short runs of `censoring`, and so does one process without it, in turns;
both are warm. Seconds are those in which a processor was at work, so other programs of the machine
count little; it reports medians over the turns, and the quartiles of their differences.

The engine's part is what the worker's process does outside the runs that it makes: it unpacks
tasks, answers the scheduler, and has a heartbeat. Beside it, the same runs take the worker longer
than one process, since they are made aside and then moved to where they belong. The parent and the
scheduler are at work meanwhile, on a processor of their own.
"""

import argparse
import time
from collections.abc import Iterable
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol
from unittest import mock

from distributed import Client

import fedsim
from fedsim.running import workers
from fedsim.running.cluster import open_cluster


def made(runs: int, rounds: int, **options: Any) -> None:
    """Make some runs."""
    overrides = ["variants={}", f"seeds={runs}", f"stop={{rounds: {rounds}}}"]
    with TemporaryDirectory() as out:
        fedsim.run("censoring", out=out, overrides=overrides, **options)


class Spent(NamedTuple):
    """The processor time of a worker, in seconds.

    Attributes:
        whole: since it began.
        runs: of these, on runs.
    """

    whole: float
    runs: float


class Counting(Protocol):
    """A worker of Dask's on which it is noted what runs have taken."""

    on_runs: float


def watch_runs(dask_worker: "Counting") -> None:
    """Count from now on, on a worker, what its runs take."""
    make = workers.make
    dask_worker.on_runs = 0.0

    def counted(*given: Any) -> workers.Outcome:
        before = time.thread_time()
        outcome = make(*given)
        dask_worker.on_runs += time.thread_time() - before
        return outcome

    mock.patch.object(workers, "make", counted).start()


def spent(dask_worker: "Counting") -> Spent:
    """Return the processor time of a worker."""
    return Spent(time.process_time(), dask_worker.on_runs)


class Took(NamedTuple):
    """What some runs took, in seconds of processors.

    Attributes:
        worker: by the worker that made them.
        runs: of these, the runs themselves.
        beside: by parent and scheduler.
    """

    worker: float
    runs: float
    beside: float = 0.0


def on_cluster(client: Client, runs: int, rounds: int) -> Took:
    """Return what runs take on a cluster."""
    here, before = time.process_time(), of_worker(client)
    made(runs, rounds, executor=client.get_executor())
    after = of_worker(client)
    whole, on_runs = after.whole - before.whole, after.runs - before.runs
    return Took(whole, on_runs, time.process_time() - here)


def of_worker(client: Client) -> Spent:
    """Return what the only worker has spent."""
    (seen,) = client.run(spent).values()
    return Spent(*seen)


def in_process(runs: int, rounds: int) -> Took:
    """Return what runs take without a cluster."""
    before = time.process_time()
    made(runs, rounds)
    taken = time.process_time() - before
    return Took(taken, taken)


def main() -> None:
    """Print the seconds of a run, and their ratios to those of one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    took: dict[str, list[Took]] = {"one process": [], "cluster": []}
    with open_cluster("local:1") as executor:
        client = vars(executor)["_client"]
        client.run(watch_runs)
        in_process(given.runs // 5, given.rounds)  # to warm up
        on_cluster(client, given.runs // 5, given.rounds)
        for _ in range(given.repeats):
            took["one process"].append(in_process(given.runs, given.rounds))
            took["cluster"].append(on_cluster(client, given.runs, given.rounds))
    print("             ms a run  engine's part (quartiles)  to one process (quartiles)  beside")
    for name, several in took.items():
        alone = took["one process"]
        part = format_quartiles(each.worker / each.runs - 1 for each in several)
        ratio = format_quartiles(
            each.worker / one.worker for each, one in zip(several, alone, strict=True)
        )
        worker = median(each.worker for each in several) / given.runs * 1e3
        beside = median(each.beside for each in several) / given.runs * 1e3
        print(f"{name:12} {worker:8.2f} {part:>26} {ratio:>27} {beside:7.2f}")


def format_quartiles(values: Iterable[float]) -> str:
    """Return the median of some values, and their quartiles in brackets."""
    low, middle, high = quantiles(values)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
