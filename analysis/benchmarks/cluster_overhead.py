"""What a cluster of Dask's costs beside the runs that it makes: its time to that of one process.

    python analysis/benchmarks/cluster_overhead.py --runs 200

One worker makes many short runs of the quickstart, and so does one process without it; both are
warm. The ratio of their times is printed, and that of sending each run as a task of its own.
"""

import argparse
from tempfile import TemporaryDirectory
from time import perf_counter

from distributed import Client, LocalCluster

import fedsim
from fedsim.running import batches


def seconds(runs: int, rounds: int, **options: object) -> float:
    """Return how long some runs take, in seconds."""
    overrides = ["variants={}", f"seeds={runs}", f"stop={{rounds: {rounds}}}"]
    with TemporaryDirectory() as out:
        started = perf_counter()
        fedsim.run("quickstart", out=out, overrides=overrides, **options)  # type: ignore[arg-type]
        return perf_counter() - started


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    size = given.runs, given.rounds
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made,
        Client(made, set_as_default=False) as client,
    ):
        ways = {"one process": {}, "in batches": {"executor": client.get_executor()}}
        for options in ways.values():
            seconds(given.runs // 5, given.rounds, **options)
        took = {
            name: min(seconds(*size, **options) for _ in range(given.repeats))
            for name, options in ways.items()
        }
        batches.LASTING = 1e-9
        took["one by one"] = min(seconds(*size, **ways["in batches"]) for _ in range(given.repeats))
    for name, lasted in took.items():
        ratio = lasted / took["one process"]
        print(f"{name:12} {lasted / given.runs * 1e3:7.1f} ms a run, {ratio:.3f} of one process")


if __name__ == "__main__":
    main()
