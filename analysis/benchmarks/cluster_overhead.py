"""What a cluster of Dask's costs beside the runs that it makes, in seconds of processors.

    python analysis/benchmarks/cluster_overhead.py --runs 200

One worker makes many short runs of the quickstart, and so does one process without it, in turns;
both are warm. Seconds are those in which a process was at work, so other programs of the machine
count little; the least of several repeats is taken. Told are those of the worker, by which the
study ends later than it would without a cluster; these without what Dask takes in any case, by the
clock, for heartbeats and the like, of which there is the more the longer runs wait for their turn;
and those of parent and scheduler together, which are at work meanwhile.
"""

import argparse
import time
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from distributed import Client

import fedsim
from fedsim.running import batches
from fedsim.running.cluster import opened

_IDLE = 5.0  # seconds of real time for which a worker is looked at that makes no run


def made(runs: int, rounds: int, **options: Any) -> None:
    """Make some runs."""
    overrides = ["variants={}", f"seeds={runs}", f"stop={{rounds: {rounds}}}"]
    with TemporaryDirectory() as out:
        fedsim.run("quickstart", out=out, overrides=overrides, **options)


def of_worker(client: Client) -> float:
    """Return the seconds for which the worker has been at work."""
    (seconds,) = client.run(time.process_time).values()
    return float(seconds)


class Took(NamedTuple):
    """What some runs took, in seconds of processors.

    Attributes:
        worker: by who made them.
        idle: of these, what a worker of Dask's takes in that time without a run.
        beside: by parent and scheduler.
    """

    worker: float
    idle: float = 0.0
    beside: float = 0.0


def on_cluster(client: Client, runs: int, rounds: int, idle: float) -> Took:
    """Return what runs take on a cluster, whose worker takes so much in a second without any."""
    began, here, there = time.perf_counter(), time.process_time(), of_worker(client)
    made(runs, rounds, executor=client.get_executor())
    worked, beside = of_worker(client) - there, time.process_time() - here
    return Took(worked, idle * (time.perf_counter() - began), beside)


def in_process(runs: int, rounds: int) -> Took:
    """Return what runs take without a cluster."""
    before = time.process_time()
    made(runs, rounds)
    return Took(time.process_time() - before)


def idle_share(client: Client) -> float:
    """Return for how much of a second a worker is at work that makes no run."""
    before = of_worker(client)
    time.sleep(_IDLE)
    return (of_worker(client) - before) / _IDLE


def main() -> None:
    """Print the seconds of a run, and their ratios to those of one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    lasting = {"in batches": batches.LASTING, "one by one": 1e-9}
    took: dict[str, list[Took]] = {"one process": [], **{name: [] for name in lasting}}
    with opened("local:1") as cluster:
        in_process(given.runs // 5, given.rounds)  # to warm up
        on_cluster(cluster.client, given.runs // 5, given.rounds, 0)
        idle = idle_share(cluster.client)
        for _ in range(given.repeats):
            took["one process"].append(in_process(given.runs, given.rounds))
            for name, batches.LASTING in lasting.items():
                took[name].append(on_cluster(cluster.client, given.runs, given.rounds, idle))
    least = {name: min(several) for name, several in took.items()}
    whole = least["one process"].worker
    print(f"a worker of Dask's without a run is at work {idle:.1%} of the time; ms a run:")
    print("             worker   ratio   without what is so   ratio   parent and scheduler")
    for name, each in least.items():
        own = each.worker - each.idle
        print(
            f"{name:12} {each.worker / given.runs * 1e3:6.2f} {each.worker / whole:7.3f}"
            f" {own / given.runs * 1e3:20.2f} {own / whole:7.3f}"
            f" {each.beside / given.runs * 1e3:22.2f}"
        )


if __name__ == "__main__":
    main()
