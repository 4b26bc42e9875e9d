"""Is a run that names no evaluator as fast as one that names the better of the two?

    python analysis/benchmarks/evaluators.py [--turns 3]

Twelve kinds of work: four losses, each with full gradients on narrow rows, the same on wide ones,
and local steps on minibatches. A kind is a scenario of so many rounds. Short runs of it with either
evaluator take turns in one process; of each the shortest counts. Printed are the costs of the
longer run, in seconds of processor time, of which the kernels' include loading them; and what is
chosen. Exits with 1 where the chosen evaluator takes more than a quarter longer than the other.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedsim
from fedsim.scenario.building import Builder

EVALUATORS = "one-by-one", "compiled"
CLIENTS, BAND, LOADING = 9, 1.25, 0.7
"""The clients of a run, what the chosen evaluator may take, and seconds for loading kernels."""

LOSSES: Mapping[str, dict[str, Any]] = {
    "squared": {"kind": "squared"},
    "logistic": {"kind": "logistic"},
    "softmax": {"kind": "softmax"},
    "perceptron": {"kind": "mlp", "hidden": 16},
}

GRADIENT = {"kind": "gd", "step_size": 1e-3}
STEPS = {"kind": "fedavg", "step_size": 1e-3, "local_steps": 20, "batch": 32}


class Work(NamedTuple):
    """What a client computes in a round.

    Attributes:
        rows, features: of a client's data.
        algorithm: full gradients or steps.
        rounds: of the run that the evaluator is chosen for.
        short: of the runs that are measured.
    """

    rows: int
    features: int
    algorithm: dict[str, Any]
    rounds: int
    short: int


WORKS: Mapping[str, Work] = {
    "narrow rows": Work(5500, 22, GRADIENT, 1500, 20),
    "wide rows": Work(500, 784, GRADIENT, 1500, 20),
    "steps on minibatches": Work(500, 54, STEPS, 1500, 20),
}


def scenarios(folder: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the name of each kind, how many rounds are measured of it, and its scenario."""
    rng = np.random.default_rng(1)
    for name, work in WORKS.items():
        X = rng.standard_normal((CLIENTS * work.rows, work.features)) / np.sqrt(work.features)
        for loss, keys in LOSSES.items():
            classes = 10 if loss == "softmax" else 2
            y = rng.integers(classes, size=len(X)) * 1.0
            file = folder / f"{name}-{classes}.npz"
            np.savez(file, X=X, y=y if classes > 2 else 2 * y - 1)
            problem = {
                "loss": keys,
                "data": {"kind": "npz", "path": str(file)},
                "split": {"kind": "contiguous", "clients": CLIENTS},
                "optimum": "unknown",
            }
            scenario = {
                "name": "evaluators",
                "problem": problem,
                "algorithm": work.algorithm,
                "stop": {"rounds": work.rounds},
            }
            yield f"{loss}, {name}", work.short, scenario


def chosen(scenario: dict[str, Any]) -> str:
    """Return the evaluator of a scenario that names none."""
    plan = fedsim.load(scenario)
    return str(Builder(plan).build(plan.variants[0], 1).computing["evaluator"])


def seconds(scenario: dict[str, Any], rounds: int, evaluator: str) -> float:
    """Return the processor time of a short run with an evaluator."""
    own = {**scenario, "evaluator": evaluator, "stop": {"rounds": rounds}}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        fedsim.run(own, out=folder)
        return time.process_time() - begin


def costs(scenario: dict[str, Any], short: int, turns: int) -> dict[str, float]:
    """Return the processor time of the whole run with each evaluator.

    A round costs what a run of three times as many rounds takes longer.
    """
    best: dict[tuple[str, int], float] = {}
    for turn in range(turns + 1):
        for evaluator in EVALUATORS:
            for rounds in (short, 3 * short):
                one = seconds(scenario, rounds, evaluator)
                if turn:  # the first one loads
                    best[evaluator, rounds] = min(one, best.get((evaluator, rounds), inf))
    rounds = scenario["stop"]["rounds"]
    found = {
        name: best[name, short]
        + (rounds - short) * (best[name, 3 * short] - best[name, short]) / (2 * short)
        for name in EVALUATORS
    }
    return found | {"compiled": found["compiled"] + LOADING}


def main() -> int:
    """Print the table, and return 1 where what is chosen is slower than what may be named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="of which the shortest counts")
    given = parser.parse_args()
    slower = []
    print(f"| kind of work | {' | '.join(EVALUATORS)} | chosen |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, short, scenario in scenarios(Path(folder)):
            which, found = chosen(scenario), costs(scenario, short, given.turns)
            cells = " | ".join(f"{found[each]:.2f} s" for each in EVALUATORS)
            print(f"| {name} | {cells} | {which} |", flush=True)
            if found[which] > BAND * min(found.values()):
                slower.append(name)
    for name in slower:
        print(f"slower than what may be named: {name}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
