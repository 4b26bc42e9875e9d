"""Clients of unequal sizes, and their minibatch gradients in plain NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.core.streams import stream

SIZES = (9, 14, 20, 7)
FEATURES = 20
CLASSES = 3
FULL_PRECISION = {"values": "float64"}

Part = Callable[[Array, Array, Array], Array]
"""The gradient of a mean over rows: of features, labels and a model."""


@dataclass(frozen=True)
class Unequal:
    """A problem of unequal clients.

    Attributes:
        block: the scenario's `problem`.
        rows: features and labels of each client.
        gradient: of a mean over rows.
        shape: of a model.
    """

    block: dict[str, Any]
    rows: list[tuple[Array, Array]]
    gradient: Part
    shape: tuple[int, ...]

    @property
    def shares(self) -> Array:
        """p_m."""
        sizes = np.array([len(y) for _, y in self.rows], dtype=np.float64)
        return np.asarray(sizes / sizes.sum())

    def stochastic(self, seed: int = 1) -> Callable[[int, Array, int | None], Array]:
        """Return a minibatch gradient of client m at w: draws go on where they were left."""
        streams = [stream(seed, "client", m) for m in range(len(self.rows))]

        def gradient(m: int, w: Array, batch: int | None) -> Array:
            X, y = self.rows[m]
            if batch is None or batch >= len(y):
                return self.gradient(X, y, w)
            drawn = streams[m].choice(len(y), batch, replace=False, shuffle=False)
            return self.gradient(X[drawn], y[drawn], w)

        return gradient


def squared(X: Array, y: Array, w: Array) -> Array:
    """Of |Xw - y|^2/(2n)."""
    return np.asarray(X.T @ (X @ w - y) / len(y))


def logistic(X: Array, y: Array, w: Array) -> Array:
    """Of the mean of log(1 + exp(-y x.w)) + 0.05 |w|^2, labels -1 and 1."""
    return np.asarray(X.T @ (-y / (1 + np.exp(y * (X @ w)))) / len(y) + 0.1 * w)


def softmax(X: Array, y: Array, w: Array) -> Array:
    """Of the mean cross entropy, w flat row by row."""
    scores = np.exp(X @ w.reshape(X.shape[1], CLASSES))
    wrong = scores / scores.sum(axis=1, keepdims=True) - (y[:, None] == np.arange(CLASSES))
    return np.asarray((X.T @ wrong / len(y)).ravel())


LOSSES: dict[str, tuple[dict[str, Any], Part]] = {
    "squared": ({"kind": "squared", "scale": "mean"}, squared),
    "logistic": ({"kind": "logistic", "scale": "mean", "l2": 0.1, "labels": "as-given"}, logistic),
    "softmax": ({"kind": "softmax"}, softmax),
}


def unequal(loss: str, folder: Path) -> Unequal:
    """Write the data of a problem into a folder, and return it."""
    rng = np.random.default_rng(7)
    client: NDArray[np.int64] = np.repeat(np.arange(len(SIZES)), SIZES)
    X = rng.standard_normal((len(client), FEATURES)) + 0.3 * client[:, None]
    truth = np.where(np.arange(FEATURES) < 4, 2.0, 0.0)
    scores = X @ truth + 0.1 * rng.standard_normal(len(client))
    y = {
        "squared": scores,
        "logistic": np.where(scores > 0, 1.0, -1.0),
        "softmax": np.arange(len(client)) % CLASSES * 1.0,
    }[loss]
    folder.mkdir(exist_ok=True)
    np.savez(folder / "rows.npz", X=X, y=y, client=client)
    spec, gradient = LOSSES[loss]
    data = {"kind": "npz", "path": str(folder / "rows.npz")}
    block = {"loss": spec, "data": data, "split": {"kind": "groups"}}
    rows = [(X[client == m], y[client == m]) for m in range(len(SIZES))]
    return Unequal(block, rows, gradient, (FEATURES, CLASSES) if loss == "softmax" else (FEATURES,))


def cohorts(events: list[dict[str, Any]]) -> list[list[int]]:
    """Return the clients that every round of a run has asked, in order."""
    drawn: dict[int, list[int]] = {}
    for row in events:
        if row["event"] == "sampled":
            drawn.setdefault(row["round"], []).append(int(row["node"].removeprefix("client-")))
    return [sorted(drawn[number]) for number in sorted(drawn)]


def check_near(seen: Array, expected: Array) -> None:
    """Compare iterates to 1e-10 relative."""
    assert seen.shape == expected.shape
    assert np.abs(seen - expected).max() <= 1e-10 * np.linalg.norm(expected, axis=1).max()
