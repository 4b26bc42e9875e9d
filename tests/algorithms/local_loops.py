"""Methods with local steps once more: their problems and clients as plain NumPy.

Clients of very different sizes, written to a file that a scenario names; gradients from the
formulas; minibatches drawn from the clients' own streams, by their names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.results.record.parts import read_table
from tests.algorithms.harness import Trajectory, trajectory

ROUNDS = 8
SIZES = (5, 9, 14, 24, 8)
FEATURES, CLASSES, L2 = 6, 3, 0.05

RowGradient = Callable[[Array, Array, Array], Array]
"""The gradient of the mean loss over rows X, y at w, all shapes flat."""


def logistic(X: Array, y: Array, w: Array) -> Array:
    """The mean of log(1 + exp(-y x.w)), and L2/2 |w|^2."""
    return np.asarray(-X.T @ (y * expit(-y * (X @ w))) / len(y) + L2 * w)


def squared(X: Array, y: Array, w: Array) -> Array:
    """The mean of (x.w - y)^2/2."""
    return np.asarray(X.T @ (X @ w - y) / len(y))


def classes(X: Array, y: Array, w: Array) -> Array:
    """The mean cross entropy, W of shape (FEATURES, CLASSES) row by row."""
    P = softmax(X @ w.reshape(FEATURES, CLASSES), axis=1)
    return np.asarray(X.T @ (P - np.eye(CLASSES)[y.astype(int)]) / len(y)).ravel()


LOSSES: dict[str, tuple[dict[str, Any], RowGradient, int]] = {
    "logistic": (
        {"kind": "logistic", "scale": "mean", "l2": L2, "labels": "as-given"},
        logistic,
        FEATURES,
    ),
    "squared": ({"kind": "squared", "scale": "mean"}, squared, FEATURES),
    "softmax": ({"kind": "softmax", "scale": "mean"}, classes, FEATURES * CLASSES),
}


@dataclass
class Local:
    """The clients of a problem.

    Attributes:
        block: the `problem` of a scenario.
        parts: X and y of each client.
        row_gradient: of the loss.
        dimension: of the model.
        batch: samples of a stochastic gradient; all of them for None.
        seed: of the streams.
    """

    block: dict[str, Any]
    parts: list[tuple[Array, Array]]
    row_gradient: RowGradient
    dimension: int
    batch: int | None = None
    seed: int = 1
    draws: dict[int, np.random.Generator] = field(default_factory=dict)

    @property
    def weights(self) -> Array:
        """Shares of all rows, or equal ones where the problem asks for those."""
        if self.block.get("weights") == "equal":
            return np.full(len(self.parts), 1 / len(self.parts))
        rows = np.array([len(y) for _, y in self.parts])
        return np.asarray(rows / rows.sum())

    def gradient(self, m: int, w: Array) -> Array:
        """Return client m's next stochastic gradient."""
        X, y = self.parts[m]
        if self.batch is not None and self.batch < len(y):
            rng = self.draws.setdefault(m, stream(self.seed, "client", m))
            rows = rng.choice(len(y), self.batch, replace=False, shuffle=False)
            X, y = X[rows], y[rows]
        return self.row_gradient(X, y, w)

    def mean_gradient(self, w: Array) -> Array:
        """Return that of the weighted mean of all."""
        grads = [self.row_gradient(X, y, w) for X, y in self.parts]
        return np.asarray(np.tensordot(self.weights, np.array(grads), 1))

    def descend(self, m: int, w: Array, eta: float, steps: int, mu: float = 0.0) -> Array:
        """Return where so many local steps lead, each pulled back to w by mu."""
        own = w
        for _ in range(steps):
            own = own - eta * (self.gradient(m, own) + mu * (own - w))
        return own

    def smoothness(self) -> Array:
        """Return the L_m of the squared and the logistic loss."""
        steep = 1.0 if self.row_gradient is squared else 0.25
        l2 = 0.0 if self.row_gradient is squared else L2
        norms = [np.linalg.norm(X, 2) ** 2 / len(y) for X, y in self.parts]
        return steep * np.array(norms) + l2


def local(folder: Path, loss: str = "logistic", batch: int | None = None) -> Local:
    """Write a problem of clients that differ in size and in what is to be learnt."""
    spec, row_gradient, dimension = LOSSES[loss]
    rng, parts = np.random.default_rng(11), []
    for m, size in enumerate(SIZES):
        X = rng.standard_normal((size, FEATURES)) + 0.5 * rng.standard_normal(FEATURES)
        score = X @ (rng.standard_normal(FEATURES) + m / 3) + 0.3 * rng.standard_normal(size)
        y = np.arange(size) % CLASSES if loss == "softmax" else score
        parts.append((X, np.sign(y) if loss == "logistic" else y.astype(float)))
    client = np.repeat(np.arange(len(SIZES)), SIZES)
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", X=X, y=y, client=client)
    data = {"kind": "npz", "path": str(folder / "data.npz")}
    block = {"loss": spec, "data": data, "split": {"kind": "groups"}}
    return Local(block, parts, row_gradient, dimension, batch)


@dataclass(frozen=True)
class Told:
    """A run and what its log has.

    Attributes:
        run: its models.
        cohorts: who was drawn, by round; all of them where nobody was drawn.
        arrivals: client and the round that it answers, in the order of arrival.
        rounds: the rows of the round table.
        events: those of the log.
    """

    run: Trajectory
    cohorts: list[list[int]]
    arrivals: list[tuple[int, int]]
    rounds: list[dict[str, Any]]
    events: list[dict[str, Any]]


def told(problem: Local, algorithm: dict[str, Any], folder: Path, **blocks: Any) -> Told:
    """Run a scenario of a few rounds in full precision, and read its log."""
    scenario = {
        "problem": problem.block,
        "algorithm": algorithm,
        "wire": {"values": "float64"},
        "stop": {"rounds": ROUNDS},
    } | blocks
    if "batch" not in algorithm and problem.batch is not None:
        scenario["algorithm"] = algorithm | {"batch": problem.batch}
    run = trajectory(scenario, folder / "run")
    events = read_table(folder / "run", "events").to_pylist()
    cohorts: list[list[int]] = [[] for _ in run.models]
    for event in events:
        if event["event"] == "sampled":
            cohorts[event["round"] - 1].append(number(event["node"]))
    everybody = list(range(len(problem.parts)))
    return Told(
        run,
        [cohort or everybody for cohort in cohorts],
        [
            (number(event["peer"]), event["round"])
            for event in events
            if (event["event"], event["node"]) == ("receive", "server")
        ],
        read_table(folder / "run", "rounds").to_pylist()[1:],  # without the start
        events,
    )


def number(node: str) -> int:
    """Return the number of a client by its name in the log."""
    return int(node.removeprefix("client-"))


def shares(weights: Array, cohort: Sequence[int]) -> Array:
    """Return the weights of a cohort, scaled to add up to one."""
    own = weights[list(cohort)]
    return np.asarray(own / own.sum())


def check_near(seen: Array, expected: Sequence[Array]) -> None:
    """Compare iterates to 1e-10 relative."""
    models = np.array(expected)
    assert seen.shape == models.shape
    assert np.abs(seen - models).max() <= 1e-10 * np.linalg.norm(models, axis=1).max()
