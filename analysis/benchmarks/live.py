"""How many rounds a minute does a live run of 200 clients make, of small messages?

CHB on a squared loss of 20 coordinates: a round is a broadcast to 200 clients over TCP, and a
reply, or a beacon, of each. Once all are in one process, and once the clients are in a second one,
as on two cores. What is started once does not count: both times are differences between a long and
a short run. The wall clock is of use on an idle machine; the processor time of the busier process
bounds the rounds that are possible on a core of its own.

    python analysis/benchmarks/live.py [--clients 200] [--rounds 600]
"""

import argparse
import os
import resource
import tempfile
import time
from math import inf
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from fedsim.live import run_live

SHORT = 40
"""Rounds of the run that is subtracted."""


class Cost(NamedTuple):
    """What a run has cost.

    Attributes:
        wall: from the first round to the last, s.
        own, others: processor time of this process, and of those that it has started, s.
    """

    wall: float
    own: float
    others: float


def write_scenario(folder: Path, clients: int, rounds: int) -> Path:
    """Write the scenario of a run, and return its file."""
    data = {"kind": "sparse-linear", "clients": clients, "rows": 4, "features": 20, "ones": 3}
    scenario = {
        "problem": {
            "loss": {"kind": "squared", "l2": 1.0},
            "data": data,
            "split": {"kind": "groups"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "chb", "step_size": "0.5/L"},
        "fleet": [{"count": clients}],
        "observe": {"every": 100},
        "stop": {"rounds": rounds},
    }
    file = folder / f"{rounds}.yaml"
    with file.open("w") as stream:
        YAML(typ="safe").dump(scenario, stream)
    return file


def measure(file: Path, processes: int) -> Cost:
    """Return what a run costs."""
    before, others = time.process_time(), _others()
    made = run_live(file, processes=processes)
    wall = float(made.summary["t"][0])
    return Cost(wall, time.process_time() - before, _others() - others)


def _others() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def rates(clients: int, rounds: int, processes: int) -> dict[str, float]:
    """Return rounds a minute: by the wall clock, and by the processor time of the busier process.

    Args:
        clients: their number.
        rounds: of the longer run, above `SHORT`.
        processes: for the clients; 0 for the one of the server.

    Returns:
        The rates; infinite where the longer run took no longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        short, long = (
            measure(write_scenario(Path(folder), clients, each), processes)
            for each in (SHORT, rounds)
        )
    spent = [after - before for before, after in zip(short, long, strict=True)]
    seconds = {"wall clock": spent[0], "processor": max(spent[1:])}
    made = 60 * (rounds - SHORT)
    return {name: made / took if took > 0 else inf for name, took in seconds.items()}


def main(clients: int, rounds: int) -> list[dict[str, float]]:
    """Print the rates of both arrangements, and return them."""
    print(f"{clients} clients, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found = []
    for processes, where in ((0, "all in one process"), (1, "clients in a second process")):
        found.append(rates(clients, rounds, processes))
        text = ", ".join(f"{rate:,.0f} by {name}" for name, rate in found[-1].items())
        print(f"{where}: rounds a minute {text}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=600)
    given = parser.parse_args()
    main(given.clients, given.rounds)
