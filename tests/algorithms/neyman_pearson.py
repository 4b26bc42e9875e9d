"""Neyman-Pearson problems in plain NumPy: what FedSGM is checked with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize
from scipy.special import expit

from fedsim.core.ports import Array
from tests.algorithms.local_loops import FEATURES, SIZES, Local, local, shares


@dataclass
class Pair:
    """Neyman-Pearson on clients that differ: f of the majority, g of the others.

    Attributes:
        problem: its block, and the weights of its clients.
        zeros, ones: the rows of either class, by client.
    """

    problem: Local
    zeros: list[Array]
    ones: list[Array]

    def f(self, w: Array) -> float:
        return self._mean(w, self.zeros, 1)

    def g(self, w: Array, cohort: list[int] | None = None) -> float:
        return self._mean(w, self.ones, -1, cohort)

    def _mean(
        self, w: Array, rows: list[Array], sign: int, cohort: list[int] | None = None
    ) -> float:
        cohort = list(range(len(SIZES))) if cohort is None else cohort
        each = [np.logaddexp(0, sign * rows[m] @ w).mean() for m in cohort]
        return float(shares(self.problem.weights, cohort) @ each)

    def f_slope(self, m: int, w: Array) -> Array:
        return np.asarray(self.zeros[m].T @ expit(self.zeros[m] @ w) / len(self.zeros[m]))

    def g_slope(self, m: int, w: Array) -> Array:
        return np.asarray(-self.ones[m].T @ expit(-self.ones[m] @ w) / len(self.ones[m]))


def pair(folder: Path) -> Pair:
    """Write a problem whose clients have rows of both classes."""
    problem = local(folder, "logistic")
    rng = np.random.default_rng(3)
    zeros, ones, labels = [], [], []
    for X, _ in problem.parts:
        ending = max(1, len(X) // 3)
        X[:ending] += 1.5 + 0.3 * rng.standard_normal(FEATURES)
        ones.append(X[:ending])
        zeros.append(X[ending:])
        labels += [1.0] * ending + [0.0] * (len(X) - ending)
    X = np.concatenate([X for X, _ in problem.parts])
    client = np.repeat(np.arange(len(SIZES)), SIZES)
    np.savez(folder / "data.npz", X=X, y=np.array(labels), client=client)
    problem.block["loss"] = {"kind": "neyman-pearson"}
    return Pair(problem, zeros, ones)


def solved(two: Pair, level: float) -> Array:
    """Return the least f with g <= level, as SciPy finds it."""

    def g(w: Array) -> Array:
        return np.array([two.g(w)])

    near = NonlinearConstraint(g, -np.inf, level)
    found = minimize(two.f, np.zeros(FEATURES), constraints=[near], method="SLSQP", tol=1e-10)
    assert found.success
    return np.asarray(found.x)
