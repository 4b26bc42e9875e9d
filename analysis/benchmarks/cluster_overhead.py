"""What a cluster of Dask's costs beside the runs that it makes, in seconds of processors.

    python analysis/benchmarks/cluster_overhead.py --runs 200

One worker makes many short runs of the quickstart, and so does one process without it, in turns;
both are warm. Seconds are those in which a process was at work, so other programs of the machine
count little; the least of several repeats is taken. Told are those of the worker, by which the
study ends later than it would without a cluster, and those of parent and scheduler together, which
are at work meanwhile.
"""

import argparse
import time
from tempfile import TemporaryDirectory
from typing import Any

from distributed import Client, LocalCluster

import fedsim
from fedsim.running import batches


def made(runs: int, rounds: int, **options: Any) -> None:
    """Make some runs."""
    overrides = ["variants={}", f"seeds={runs}", f"stop={{rounds: {rounds}}}"]
    with TemporaryDirectory() as out:
        fedsim.run("quickstart", out=out, overrides=overrides, **options)


def of_worker(client: Client) -> float:
    """Return the seconds for which the worker has been at work."""
    (seconds,) = client.run(time.process_time).values()
    return float(seconds)


def main() -> None:
    """Print the seconds of a run, and their ratios to those of one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
        Client(local, set_as_default=False) as client,
    ):
        executor = client.get_executor()
        lasting = {"in batches": batches.LASTING, "one by one": 1e-9}
        took: dict[str, list[tuple[float, float]]] = {
            "one process": [],
            **{key: [] for key in lasting},
        }
        for repeat in range(given.repeats + 1):
            before = time.process_time()
            made(given.runs, given.rounds)
            plain = time.process_time() - before
            if repeat:  # the first is to warm up
                took["one process"].append((plain, 0.0))
            for name, batches.LASTING in lasting.items():
                here, there = time.process_time(), of_worker(client)
                made(given.runs, given.rounds, executor=executor)
                worked = of_worker(client) - there
                if repeat:
                    took[name].append((worked, time.process_time() - here))
    least = {name: tuple(map(min, zip(*each, strict=True))) for name, each in took.items()}
    whole = least["one process"][0]
    print("             worker, ms a run      ratio   parent and scheduler, ms a run")
    for name, (worked, beside) in least.items():
        print(
            f"{name:12} {worked / given.runs * 1e3:16.2f} {worked / whole:10.3f}"
            f" {beside / given.runs * 1e3:32.2f}"
        )


if __name__ == "__main__":
    main()
