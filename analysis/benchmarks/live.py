"""How many rounds a minute does a live run of 200 clients make, of small messages?

CHB on a squared loss of 20 coordinates: a round is a broadcast to 200 clients over TCP, and a
reply, or a beacon, of each. Once all are in one process, and once the clients are in a second one,
as on two cores. What is started once does not count: both times are differences between a long and
a short run. The wall clock is of use on an idle machine; the processor time of the busier process
bounds the rounds that are possible on a core of its own. That of all processes together, for a
round, says what remains for others: 2,000 rounds a minute leave 30 ms a round on one core, and 60
on two.

A round is 200 messages down of 20 coordinates in float32, 200 gradients of four rows, and 200
reports, most of them with a reply of as many coordinates, as CHB's clients have something to say or
are silent; and the rows of the log of all that.

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

from fedsim.addons.live import run_live

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
    """Return rounds a minute: by the wall clock, and by processor time.

    The latter is that of the busier process, and that of all processes together.

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
    processor = spent[1:]
    seconds = {
        "wall clock": spent[0],
        "processor": max(processor),
        "all processors": sum(processor),
    }
    made = 60 * (rounds - SHORT)
    return {name: made / took if took > 0 else inf for name, took in seconds.items()}


def main(clients: int, rounds: int) -> list[dict[str, float]]:
    """Print the rates of both arrangements, and return them."""
    print(f"{clients} clients, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    found = []
    for processes, where in ((0, "all in one process"), (1, "clients in a second process")):
        found.append(rates(clients, rounds, processes))
        wall, busier, together = found[-1].values()
        print(
            f"{where}: rounds a minute {wall:,.0f} by wall clock, {busier:,.0f} by processor; "
            f"a round takes {6e4 / together:.1f} ms of the processor in all"
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=600)
    given = parser.parse_args()
    main(given.clients, given.rounds)
