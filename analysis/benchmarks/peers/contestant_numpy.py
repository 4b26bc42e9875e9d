"""A plain loop in NumPy: no simulator, no messages, no observer.

python contestant_numpy.py WORKLOAD FOLDER
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from turns import Turn, take_turns
from workloads import CLASSES, ROWS, SPARSE_CLIENTS, read

UPDATES = {"w1": 30, "w2": 500, "w3": 500, "w4": 200}


def softmax_steps(X: Any, y: Any, w: Any, steps: int, rng: np.random.Generator) -> Any:
    """Return where steps of batch 50 and length 0.01 lead from a model (d, C)."""
    for _ in range(steps):
        drawn = rng.choice(ROWS, 50, replace=False, shuffle=False)
        x = X[drawn]
        P = x @ w
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        P /= P.sum(axis=1, keepdims=True)
        P[np.arange(50), y[drawn]] -= 1.0
        w = w - 0.01 / 50 * (x.T @ P)
    return w


def logistic_steps(X: Any, y: Any, w: Any, steps: int) -> Any:
    """Return where full gradient steps of length 1 lead from a model (d,), rows sparse."""
    for _ in range(steps):
        w = w + X.T @ (y / (1.0 + np.exp(y * (X @ w)))) / len(y)
    return w


def main() -> None:
    """Take turns: each is the work of some clients, one after the other."""
    name, folder = sys.argv[1:]
    X, y = read(name, Path(folder))
    rng, clients = np.random.default_rng(1), len(X) if name != "w4" else SPARSE_CLIENTS
    w = np.zeros((784, CLASSES)) if name in {"w1", "w3"} else np.zeros(X[0].shape[1])

    def update(i: int) -> Any:
        if name == "w2":
            return w - 0.1 * (X[i].T @ (X[i] @ w - y[i])) / ROWS
        if name == "w4":
            return logistic_steps(X[i], y[i], w, 5)
        return softmax_steps(X[i], y[i], w, 40 if name == "w1" else 1, rng)

    def turn() -> Turn:
        begin, spent = time.perf_counter(), time.process_time()
        total = np.zeros_like(w)
        for i in range(UPDATES[name]):
            total += update(i % clients)
        took = time.perf_counter() - begin
        return Turn(UPDATES[name], took, time.process_time() - spent)

    with threadpool_limits(limits=1):
        take_turns(turn)


if __name__ == "__main__":
    main()
