"""What does a client-update cost in compiled kernels, in NumPy, and in BLAS over several clients?

    python analysis/benchmarks/kernels.py [--folder DIR] [--turns 5]
    python analysis/benchmarks/kernels.py --gradients [--turns 100]

No simulator takes part. Each way computes the same clients' work, in turn, in one process; what is
printed is the median over turns of the processor time of a client-update, in microseconds: of the
compiled kernels; of NumPy with BLAS, one client after the other; and of BLAS over stacks of five
clients, or of SciPy's sparse rows over all steps of a client. All on one thread.

With `--gradients`: the time of a full gradient in NumPy over that in the kernels, which compute
nine or more of them a call, by loss, features and rows. The shortest of some turns counts.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedsim
from fedsim.core.ports import Work
from fedsim.problems import Logistic, Loss, MultilayerPerceptron, Problem, Samples, Softmax, Squared
from fedsim.problems.evaluators.compiled import CompiledProgram, WorkQueue
from fedsim.problems.kernels import gradient, sgd_steps
from fedsim.scenario.building import Builder

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from contestant_numpy import logistic_steps, softmax_steps
from workloads import ROWS, prepare, read

UPDATES = {"w1": 20, "w2": 200, "w3": 200, "w4": 100}
STEPS = {"w1": 40, "w2": 1, "w3": 1, "w4": 5}
STACK, BATCH, ETA = 5, 50, 0.01

Way = Callable[[], object]
"""Does the work of `UPDATES` clients."""


def compiled(name: str, folder: Path) -> Way:
    """Return the way of the compiled kernels."""
    plan = fedsim.load(folder / f"{name}.yaml", overrides=["sweep=null"])
    problem = Builder(plan).build(plan.variants[0], 1).problem
    program, w = CompiledProgram(problem.losses), np.zeros(problem.dimension)
    rng, steps = np.random.default_rng(1), STEPS[name]

    def work(client: int) -> Work:
        if name == "w2":
            return Work(gradient, client, (w,), 1.0)
        drawn = [rng.choice(ROWS, BATCH, replace=False, shuffle=False) for _ in range(steps)]
        rows: Any = (None,) * steps if name == "w4" else drawn
        return Work(sgd_steps, client, (w, ETA, rows, None), 1.0)

    return lambda: program.run([work(client) for client in range(UPDATES[name])])


def one_by_one(name: str, X: Any, y: Any) -> Way:
    """Return the way of a plain loop in NumPy."""
    rng = np.random.default_rng(1)
    w: Any = np.zeros((X[0].shape[1], 10) if name in {"w1", "w3"} else X[0].shape[1])

    def update(i: int) -> Any:
        if name == "w2":
            return X[i].T @ (X[i] @ w - y[i]) / ROWS
        if name == "w4":
            return logistic_steps(X[i], y[i], w, STEPS[name])
        return softmax_steps(X[i], y[i], w, STEPS[name], rng)

    return lambda: [update(i) for i in range(UPDATES[name])]


def stacked(name: str, X: Any, y: Any) -> Way:
    """Return the way of products over stacks of clients; for sparse rows, of SciPy's blocks."""
    if name == "w4":
        return _blocks(X, y)
    rng = np.random.default_rng(1)
    d = X[0].shape[1]

    def softmax(first: int) -> Any:
        own, labels = X[first : first + STACK], y[first : first + STACK]
        w = np.zeros((STACK, d, 10))
        for _ in range(STEPS[name]):
            drawn = np.stack(
                [rng.choice(ROWS, BATCH, replace=False, shuffle=False) for _ in range(STACK)]
            )
            x = np.take_along_axis(own, drawn[:, :, None], axis=1)
            P = x @ w
            P -= P.max(axis=2, keepdims=True)
            np.exp(P, out=P)
            P /= P.sum(axis=2, keepdims=True)
            which = np.take_along_axis(labels, drawn, axis=1)
            P[np.arange(STACK)[:, None], np.arange(BATCH), which] -= 1.0
            w = w - ETA / BATCH * (x.transpose(0, 2, 1) @ P)
        return w

    def squared(first: int) -> Any:
        own = X[first : first + STACK]
        slopes = own @ np.zeros(d) - y[first : first + STACK]
        return np.einsum("crd,cr->cd", own, slopes, optimize=True) / ROWS

    update = squared if name == "w2" else softmax
    return lambda: [update(first) for first in range(0, UPDATES[name], STACK)]


def _blocks(X: Any, y: Any) -> Way:
    """Return the way of SciPy's sparse rows, those of several clients one block-diagonal matrix."""
    from scipy.sparse import block_diag  # not all need it

    stacks = []
    for first in range(0, UPDATES["w4"], STACK):
        own = block_diag(X[first : first + STACK], format="csr")
        stacks.append((own, own.T.tocsr(), np.concatenate(y[first : first + STACK])))

    def update(own: Any, transposed: Any, labels: Any) -> Any:
        w = np.zeros(own.shape[1])
        for _ in range(STEPS["w4"]):
            slopes = labels / (1.0 + np.exp(labels * (own @ w)))
            w = w + transposed @ slopes * (STACK / len(labels))
        return w

    return lambda: [update(*stack) for stack in stacks]


def measure(name: str, folder: Path, turns: int) -> list[float]:
    """Return the processor time of a client-update in each way, us."""
    prepare(name, folder)
    X, y = read(name, folder)
    ways = [compiled(name, folder), one_by_one(name, X, y), stacked(name, X, y)]
    found: list[list[float]] = [[] for _ in ways]
    for turn in range(turns + 1):
        for way, own in zip(ways, found, strict=True):
            begin = time.process_time()
            way()
            if turn:
                own.append(1e6 * (time.process_time() - begin) / UPDATES[name])
    return [statistics.median(own) for own in found]


FEATURES, SIZES = (5, 22, 54, 123, 784), (50, 500, 5500)

LOSSES: dict[str, tuple[Loss, int]] = {
    "squared": (Squared(), 2),
    "logistic": (Logistic(), 2),
    "softmax, 10 classes": (Softmax(), 10),
    "perceptron, 16 hidden units": (MultilayerPerceptron(hidden=16), 2),
}
"""Losses, with the number of different labels."""


def speedup(loss: Loss, labels: int, features: int, rows: int, turns: int) -> float:
    """Return the time of a gradient in NumPy over that in the kernels."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((rows, features)), np.asarray(np.arange(rows) % labels, float)
    losses = Problem.of(loss, [Samples(X, y if labels > 2 else 2.0 * y - 1.0)]).losses
    program, (local,) = CompiledProgram(losses), losses
    many = max(9, min(50, 44_000 // (rows * features)))
    models = rng.standard_normal((many, local.dimension)) / features
    room, best = program.room(), [inf, inf]
    for _ in range(turns + 1):
        page = WorkQueue(many)
        for w in models:
            program.add(Work(gradient, 0, (w,), 1.0), page)
        page.publish()
        ways: tuple[Way, Way] = (
            lambda: [local.gradient(w) for w in models],
            partial(program.evaluate, page, room),
        )
        for number, way in enumerate(ways):
            begin = time.perf_counter()
            way()
            best[number] = min(best[number], time.perf_counter() - begin)
    return best[0] / best[1]


def gradients(turns: int) -> None:
    """Print the table of ratios."""
    print(f"| features | {' | '.join(LOSSES)} |\n|---|{'---|' * len(LOSSES)}")
    for features in FEATURES:
        cells = [
            ", ".join(f"{speedup(*loss, features, rows, turns):.2g}" for rows in SIZES)
            for loss in LOSSES.values()
        ]
        print(f"| {features} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="keeps the data")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--gradients", action="store_true", help="the table by loss and size")
    given = parser.parse_args()
    if given.gradients:
        with threadpool_limits(limits=1):
            gradients(given.turns)
        return
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(limits=1):
        folder = (given.folder or Path(temporary)).resolve()
        found = [measure(name, folder, given.turns) for name in UPDATES]
    print("| | W1 | W2 | W3 | W4 |\n|---|---|---|---|---|")
    names = "compiled", "NumPy, one by one", "BLAS over stacked clients; SciPy for W4"
    for name, costs in zip(names, zip(*found, strict=True), strict=True):
        print(f"| {name} | {' | '.join(f'{cost:,.0f}' for cost in costs)} |")


if __name__ == "__main__":
    main()
