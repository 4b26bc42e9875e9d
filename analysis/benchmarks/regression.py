"""Has something become slower, in units of something else that was measured in the same run?

Each ratio is that of two processor times, taken in turn in one process, so that the speed of the
machine and its other programs leave it nearly as it is: what a message, a round, a log or a payload
costs, over a loop of SimPy or NumPy, or how much more a larger case takes than a smaller one. The
median of the turns is held against `regression.csv`. A ratio may be up to twice what is stored;
one below half of it asks to be stored anew.

    python analysis/benchmarks/regression.py            exits with 1 where a ratio has doubled
    python analysis/benchmarks/regression.py --store    writes what is measured as the new ratios
"""

import argparse
import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import client_round
import numpy as np
import star_scaling
import tcp_messages
import wire

import fedsim

STORED = Path(__file__).with_name("regression.csv")
BAND, TURNS = 2.0, 5

Turn = Callable[[], float]
"""Measures a ratio once."""


def seconds(job: Callable[[], object]) -> float:
    """Return the processor time of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


def client_rounds(rounds: int = 200) -> float:
    """Return a client-round with its log, in bare timeouts of SimPy."""
    count = client_round.CLIENTS * rounds
    unit = seconds(partial(client_round.bare_timeouts, 4 * count)) / 4
    return seconds(partial(client_round.client_rounds, client_round.SHARED, rounds)) / unit


def shared_link(name: str, transfers: int = 1000) -> float:
    """Return what so many transfers at once over one link cost, over ten times as few, each."""
    add = star_scaling.CASES[name]
    few = sum(seconds(partial(star_scaling.star, add, transfers // 10)) for _ in range(10))
    return seconds(partial(star_scaling.star, add, transfers)) / few


def tcp(bits: float = 8e4, queue: int = 1000) -> float:
    """Return a message under `model: tcp` that is simulated, over one under `fluid`."""
    fluid = sum(tcp_messages.seconds("fluid", queue, bits)[0] for _ in range(5)) / 5
    return float(tcp_messages.seconds("tcp", queue, bits)[0] / fluid)


def payload(coordinates: int = 100_000) -> float:
    """Return the bits of a sparse payload over its encoding."""
    bits, encoding, _ = wire.costs(wire.drawn(coordinates // 10, coordinates), 3)
    return float(bits / encoding)


def study(clients: int, rounds: int, **keys: object) -> None:
    """Run a small study whole, with its log, audit and tables."""
    scenario = {
        "name": "regression",
        "problem": {
            "loss": {"kind": "squared"},
            "data": {
                "kind": "shifted-mean",
                "clients": clients,
                "rows": 20,
                "features": 50,
                "sparsity": 5,
            },
            "split": {"kind": "groups"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "fedavg", "step_size": 1e-3, "local_steps": 5},
        "stop": {"rounds": rounds},
        **keys,
    }
    with tempfile.TemporaryDirectory() as folder:
        fedsim.run(scenario, out=folder)


def plain(clients: int, rounds: int) -> None:
    """Take the local steps of such a study in a plain loop."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((20, 50)) for _ in range(clients)]
    model = np.zeros(50)
    for _ in range(rounds):
        models = []
        for rows in data:
            own = model.copy()
            for _ in range(5):
                own -= 1e-3 * rows.T @ (rows @ own)
            models.append(own)
        model = np.mean(models, axis=0)


def whole_run(clients: int = 100, rounds: int = 40) -> float:
    """Return a whole study over its numerical work in a plain loop of NumPy."""
    return seconds(partial(study, clients, rounds)) / seconds(partial(plain, clients, rounds))


def rounds(many: int = 400) -> float:
    """Return what a round costs in a run of many, over one in a run of a quarter of them."""
    return seconds(partial(study, 10, many)) / seconds(partial(study, 10, many // 4)) / 4


RATIOS: dict[str, Turn] = {
    "a client-round, in bare timeouts of SimPy": client_rounds,
    "1,000 transfers over one link, to ten times 100": partial(shared_link, "fair link"),
    "the same in a network of links": partial(shared_link, "fluid network"),
    "a message of 10 kB under tcp, to one under fluid": tcp,
    "the bits of a sparse payload, to its encoding": payload,
    "a study of 100 clients, to its arithmetic in NumPy": whole_run,
    "a round of 400, to a round of 100": rounds,
}
"""What is measured."""


def measure(turns: int = TURNS) -> dict[str, float]:
    """Return the median of each ratio over some turns, the first of which does not count."""
    found: dict[str, list[float]] = {name: [] for name in RATIOS}
    for turn in range(turns + 1):
        for name, ratio in RATIOS.items():
            one = ratio()
            if turn:
                found[name].append(one)
    return {name: statistics.median(each) for name, each in found.items()}


def stored(file: Path = STORED) -> dict[str, float]:
    """Return the stored ratios."""
    with file.open(newline="", encoding="utf-8") as text:
        return {row["what"]: float(row["ratio"]) for row in csv.DictReader(text)}


def store(ratios: Mapping[str, float], file: Path = STORED) -> None:
    """Write ratios to the file of stored ones."""
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("what", "ratio"))
        writer.writerows((name, f"{ratio:.3g}") for name, ratio in ratios.items())


def slower(found: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Return the names of the ratios that are above the band, or that nothing is stored of."""
    return [name for name, ratio in found.items() if not ratio <= BAND * before.get(name, 0.0)]


def main() -> int:
    """Measure, print, and return 1 where something has become slower."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", action="store_true", help="as the new ratios")
    parser.add_argument("--turns", type=int, default=TURNS, help="of which the median is taken")
    given = parser.parse_args()
    found = measure(given.turns)
    if given.store:
        store(found)
    before = stored()
    for name, ratio in found.items():
        print(f"{name:<52}{ratio:>9.3g}   stored {before.get(name, 0.0):.3g}")
    worse = slower(found, before)
    for name in worse:
        print(f"slower: {name}: more than {BAND:g} times what is stored", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
