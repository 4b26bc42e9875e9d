"""Losses and samples that the tests are run over, and independent ways to compute with them."""

from collections.abc import Callable

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems import (
    LinearLoss,
    LocalLoss,
    Logistic,
    Loss,
    MultilayerPerceptron,
    NeymanPearson,
    Samples,
    Softmax,
    Squared,
    TraceRegression,
)

LINEAR: list[LinearLoss] = [
    Squared(scale="sum"),
    Squared(scale="mean", l2=0.3),
    Squared(scale="mean-square", l1=0.2),
    Squared(scale="sum", l1=0.1, l2=0.05),
    Squared(scale="share"),
    Logistic(scale="sum"),
    Logistic(scale="mean", l2=0.01),
    Logistic(scale="sum", l1=0.4),
    Logistic(scale="mean", l1=0.02, l2=0.3),
    Logistic(scale="share", l2=0.01),
]

NETWORKS: list[MultilayerPerceptron] = [
    MultilayerPerceptron(hidden=4, output="squared", scale="sum", l2=0.1),
    MultilayerPerceptron(hidden=3, output="squared", scale="mean"),
    MultilayerPerceptron(hidden=4, output="sigmoid", scale="share", l2=0.01),
    MultilayerPerceptron(hidden=5, output="softmax", scale="mean", l2=0.01),
    MultilayerPerceptron(hidden=2, output="softmax", scale="sum"),
]

CLASSIFIERS: list[Loss] = [
    Softmax(scale="sum"),
    Softmax(scale="mean", l2=0.1),
    Softmax(scale="share", l2=0.02),
]

CONSTRAINED: list[LinearLoss] = [NeymanPearson(), NeymanPearson(l2=0.2)]
"""Those that take both classes at every client."""

MATRICES: list[LinearLoss] = [
    TraceRegression(scale="sum", rows=1),
    TraceRegression(scale="mean", rows=1, l2=0.4),
]

LOSSES: list[Loss] = [*LINEAR, *CLASSIFIERS, *MATRICES, *NETWORKS]
"""Those that any rows will do for."""

CONVEX: list[Loss] = [*LINEAR, *CLASSIFIERS, *MATRICES, *CONSTRAINED]
"""All that have a Hessian."""


def named(loss: Loss) -> str:
    """Return a test id: what differs from the defaults."""
    return "-".join(f"{value}" for value in loss.model_dump(exclude_defaults=True).values()) or "-"


def samples(rows: int = 40, features: int = 6, seed: int = 0) -> Samples:
    """Return Gaussian features with labels -1 and +1 that depend on them, both of them seen."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    y = np.where(X[:, 0] + rng.standard_normal(rows) > 0, 1.0, -1.0)
    y[0], y[-1] = -1.0, 1.0
    return Samples(X, y)


def local(loss: Loss, data: Samples) -> LocalLoss:
    """Join a loss and samples as if there were one client."""
    return LocalLoss(loss, data.X, loss.encode(data.y))


def plain_value(loss: LinearLoss, data: Samples, w: Array) -> float:
    """Compute a linear model's loss by the formula of its documentation."""
    z = data.X @ w
    if isinstance(loss, Squared):
        rows = (z - data.y) ** 2
        total = {"sum": rows.sum() / 2, "mean": rows.mean() / 2, "mean-square": rows.mean()}
        total["share"] = total["mean"]  # of one client that has all rows
    else:
        rows = np.logaddexp(0.0, -data.y * z)
        total = {"sum": rows.sum(), "mean": rows.mean(), "share": rows.mean()}
    penalty = loss.l1 * np.linalg.norm(w, 1) + loss.l2 / 2 * np.linalg.norm(w) ** 2
    return float(total[loss.scale] + penalty)


def differences(function: Callable[[Array], float], w: Array, step: float = 1e-6) -> Array:
    """Return the gradient of `function` at `w` by central differences."""
    steps = step * np.eye(len(w))
    return np.array([(function(w + e) - function(w - e)) / (2 * step) for e in steps])
