"""Penalised problems in plain NumPy, and a link that delivers at once."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fedsim.algorithms import Algorithm, ProblemInfo
from fedsim.core.ports import DENSE, Array, ClientId, Message, Reply, Structure, Work
from fedsim.core.streams import stream
from fedsim.problems import Penalty, Problem, Samples
from fedsim.problems.losses import Squared, TraceRegression
from fedsim.protocol.aggregation import ADDS_UP
from fedsim.protocol.estimates import Estimator
from tests.algorithms.local_loops import CLASSES, FEATURES, Local, local
from tests.works import evaluated

Prox = Callable[[Array, float], Array]
Project = Callable[[Array, float], Array]
Bound = Callable[[Array, float, Array, float], Array]
"""The prox of h in a ball: of w and a step, around a centre and of a radius."""


def soft(w: Array, t: float | Array) -> Array:
    """Soft thresholding: the prox of t |.|_1."""
    return np.sign(w) * np.maximum(np.abs(w) - t, 0.0)


def in_l1_ball(w: Array, radius: float) -> Array:
    """The threshold is a root: the l1 norm falls as it grows."""

    def excess(t: float) -> float:
        return float(np.abs(soft(w, t)).sum() - radius)

    root = brentq(excess, 0.0, np.abs(w).max(), xtol=1e-15) if excess(0.0) > 0 else 0.0
    return soft(w, root)


def on_values(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return what changes the singular values of a flat matrix, FEATURES x CLASSES."""

    def changed(w: Array) -> Array:
        U, s, Vt = np.linalg.svd(w.reshape(FEATURES, CLASSES), full_matrices=False)
        return np.asarray((U @ np.diag(change(s)) @ Vt).ravel())

    return changed


def by_rows(w: Array, t: float) -> Array:
    """Shrink the norm of each row of a flat matrix by t."""
    rows = w.reshape(FEATURES, CLASSES)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((rows * np.maximum(1 - t / norms, 0.0)).ravel())


PENALTIES: dict[str, tuple[str, float, Prox]] = {
    "none": ("logistic", 0.0, lambda w, _: w),
    "l1": ("squared", 0.2, soft),
    "elastic-net": ("logistic", 0.2, lambda w, t: soft(w, t / 2) / (1 + t / 2)),
    "group-l2": ("softmax", 0.05, lambda w, t: by_rows(w, np.sqrt(CLASSES) * t)),
    "nuclear": ("softmax", 0.1, lambda w, t: on_values(lambda s: soft(s, t))(w)),
}
"""The loss that each stands beside, its weight, and the prox of t/weight times it."""

PROJECTIONS: dict[str, Project] = {
    "l1": in_l1_ball,
    "nuclear": lambda w, radius: on_values(lambda s: in_l1_ball(s, radius))(w),
}
NORMS: dict[str, Callable[[Array], float]] = {
    "l1": lambda w: float(np.abs(w).sum()),
    "nuclear": lambda w: float(np.linalg.norm(w.reshape(FEATURES, CLASSES), "nuc")),
}


def in_ball(prox: Prox, inside: Project, norm: Callable[[Array], float]) -> Bound:
    """Return argmin step h(v) + |v - w|^2/2 under |v - c| <= R, by Dykstra's method.

    Bauschke, Combettes, "A Dykstra-like algorithm for two monotone operators", 2008.
    """

    def found(w: Array, step: float, c: Array, radius: float) -> Array:
        if norm(prox(w, step) - c) <= radius:
            return prox(w, step)
        x, a, b = w, np.zeros_like(w), np.zeros_like(w)
        for _ in range(5000):
            y = prox(x + a, step)
            new = c + inside(y + b - c, radius)
            a, b = x + a - y, y + b - new
            if np.abs(new - y).max() < 1e-14 * np.abs(w).max():
                break
            x = new
        return new

    return found


def penalised(
    folder: Path, penalty: str, batch: int | None = None
) -> tuple[Local, Callable[[Array, float], Array], Array]:
    """Return a problem that starts from normal coordinates, prox(w, step) of h, and the start."""
    loss, weight, prox = PENALTIES[penalty]
    problem = local(folder, loss, batch)
    if penalty != "none":
        problem.block["penalty"] = {"kind": penalty, "weight": weight}
    problem.block["start"] = {"kind": "normal"}
    start = stream(problem.seed, "initial model").standard_normal(problem.dimension)
    return problem, lambda w, step: prox(w, step * weight), start


def run_now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@dataclass(frozen=True, eq=False)
class Packed:
    values: Array
    bits: int = 0


class Node:
    """What server and clients have in common."""

    now = 0.0

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Packed:
        return Packed(np.array(vector))


class LinkClient(Node):
    battery = None
    weight = 1.0

    def __init__(self, number: int, problem: Problem, method: Algorithm, initial: Array) -> None:
        self.id, self.round = number, 0
        self._losses = problem.losses
        self.oracle, self.rng = problem.oracles[number], stream(1, "client", number)
        self.state = method.memory(initial)
        self.operations: list[float] = []

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        assert begun is None, "the price of every piece would be noted once"
        self.operations.append(work.operations)
        return evaluated(work, *self._losses)


class Over(Exception):
    """The rounds are over."""


class Link(Node):
    """A server whose clients reply at once, except in rounds that nobody hears of."""

    def __init__(
        self, problem: Problem, method: Algorithm, rounds: int, deaf: Collection[int] = ()
    ) -> None:
        self.method = method.configure(setting_of(problem))
        self.initial = stream(1, "initial model").standard_normal(problem.dimension)
        self.weights, self.smoothness = problem.weights, np.ones(0)
        self.clients = range(len(problem.losses))
        estimator = Estimator("self-normalised", len(self.clients))
        self.coefficients = partial(estimator.coefficients, weights=self.weights)
        self.factors, self.aggregate = estimator.factors, ADDS_UP.sum
        self.round, self.rng = 1, stream(1, "server")
        self.deaf, self.rounds = deaf, rounds
        self.models: list[Array] = []
        self.told: list[Message] = []
        self.nodes = [LinkClient(m, problem, self.method, self.initial) for m in self.clients]

    async def exchange(self, message: Any, *, to: Any = None, again: Any = None) -> list[Reply]:
        self.told.append(message)
        if self.round in self.deaf:
            return []
        replies = []
        for node in self.nodes:
            node.round = self.round
            said = run_now(self.method.handle(node, message))
            replies.append(Reply(node.id, self.round, said))
        return replies

    def commit(self, model: Array, **measures: float) -> None:
        self.models.append(model.copy())
        self.round += 1
        if self.round > self.rounds:
            raise Over

    def run(self) -> Array:
        """Return the models that it commits."""
        try:
            run_now(self.method.serve(self))
        except Over:
            return np.array(self.models)
        raise AssertionError("a server never ends by itself")


def setting_of(problem: Problem) -> ProblemInfo:
    """Return what a method may know of a problem."""
    return ProblemInfo(
        clients=len(problem.losses),
        dimension=problem.dimension,
        smoothness=problem.smoothness,
        client_smoothness=lambda: problem.client_smoothness,
        shape=problem.shape,
        regulariser=problem.regulariser,
    )


def small(
    penalty: Penalty, *, matrix: bool = False, seed: int = 0, sizes: Sequence[int] = (6, 9, 5)
) -> Problem:
    """Return least squares of some clients: of 8 coordinates, or of a 4 x 3 matrix."""
    rng = np.random.default_rng(seed)
    d = 12 if matrix else 8
    truth = np.where(np.arange(d) < 3, 2.0, 0.0)
    loss = TraceRegression(rows=4) if matrix else Squared()
    parts = []
    for rows in sizes:
        X = rng.standard_normal((rows, d))
        parts.append(Samples(X, X @ truth + 0.1 * rng.standard_normal(rows)))
    return Problem.of(loss, parts, penalty)
