"""Solvers of a client's problem: when a step is halved, when they stop, what they refuse."""

import asyncio
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fedsim import ScenarioError
from fedsim.algorithms import ProblemInfo
from fedsim.algorithms.solvers import (
    DescentSolver,
    Exact,
    Newton,
    Solver,
    VarianceReduced,
)
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array, Client, Work
from fedsim.problems import LocalLoss, Logistic, LossOracle, Squared
from tests.algorithms.harness import trajectory
from tests.algorithms.unequal import unequal
from tests.works import evaluated

RNG = np.random.default_rng(5)
X, NOISE = RNG.standard_normal((40, 3)), RNG.standard_normal(40)
LABELS = np.where(X[:, 0] + NOISE > 0, 1.0, -1.0)


def logistic(features: Array, labels: Array, l2: float = 0.0) -> LocalLoss:
    loss = Logistic(scale="mean", l2=l2)
    return LocalLoss(loss, features, loss.encode(labels))


def squared() -> LocalLoss:
    return LocalLoss(Squared(scale="mean"), X, X[:, 1] - 2 * X[:, 2] + NOISE)


class Asked(LossOracle):
    """An oracle that notes where it is asked for what."""

    def __init__(self, loss: LocalLoss) -> None:
        super().__init__(loss)
        self.loss = loss
        self.steps: list[Array] = []
        self.values: list[Array] = []
        self.gradients: list[Array] = []

    def newton(self, w: Array) -> Work:
        self.steps.append(w.copy())
        return super().newton(w)

    def value(self, w: Array) -> Work:
        self.values.append(w.copy())
        return super().value(w)

    def gradient(self, w: Array) -> Work:
        self.gradients.append(w.copy())
        return super().gradient(w)


class Computer:
    """A client that computes, and nothing else."""

    def __init__(self, loss: LocalLoss) -> None:
        self.loss, self.rng = loss, np.random.default_rng(3)

    async def compute(self, work: Work) -> Array:
        return evaluated(work, self.loss)


def solved(solver: Solver, oracle: Asked, start: Array) -> Array:
    client = cast("Client", Computer(oracle.loss))
    return asyncio.run(solver.minimise(client, oracle, start))


def test_a_newton_step_that_raises_the_loss_is_halved_until_it_does_not() -> None:
    """Far out the curvature of log(1 + exp(-u)) vanishes, and a full step goes too far."""
    f = logistic(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]))
    oracle, start = Asked(f), np.array([8.0])
    found = solved(Newton(accuracy=1e-10), oracle, start)
    assert found == pytest.approx(np.log(2), rel=1e-9)
    accepted = [f.value(w) for w in [*oracle.steps, found]]
    assert np.diff(accepted).max() <= 1e-12 * accepted[0]
    full = oracle.values[1]
    assert f.value(full) > 10 * f.value(start)
    tried = np.array([value - start for value in oracle.values[1:9]]).ravel()
    first = np.flatnonzero([f.value(start + step) <= f.value(start) for step in tried])[0]
    assert tried[: first + 1] == pytest.approx((full - start) / 2.0 ** np.arange(first + 1))
    assert np.array_equal(oracle.steps[1], start + tried[first])


@pytest.mark.parametrize("accuracy", [1e-1, 1e-3, 1e-8])
def test_newton_ends_with_the_first_step_that_is_no_longer_than_its_accuracy(
    accuracy: float,
) -> None:
    oracle = Asked(logistic(X, LABELS))
    found = solved(Newton(accuracy=accuracy, steps=50), oracle, np.zeros(3))
    lengths = np.linalg.norm(np.diff([*oracle.steps, found], axis=0), axis=1)
    assert lengths[-1] <= accuracy < lengths[:-1].min()
    assert len(lengths) < 10


def narrow() -> LocalLoss:
    """Least squares in a narrow valley: mu = 1e-4 of an L of about 1."""
    features = X * np.array([1.0, 0.1, 0.01])
    return LocalLoss(Squared(scale="mean"), features, X[:, 1] - 2 * X[:, 2] + NOISE)


def minimiser(f: LocalLoss) -> Array:
    w = np.zeros(f.dimension)
    for _ in range(50):
        w = w - np.linalg.solve(f.hessian(w), f.gradient(w))
    return w


ROUND = logistic(X, LABELS, l2=0.01)
STEPS: list[tuple[LocalLoss, float]] = [(narrow(), 1e-1), (ROUND, 1e-3)]


@pytest.mark.slow
@pytest.mark.parametrize(("f", "accuracy"), STEPS)
def test_descent_ends_within_delta_of_the_minimiser(f: LocalLoss, accuracy: float) -> None:
    """A gradient as short as delta may be far off: in a narrow valley 1/mu times as far."""
    oracle = Asked(f)
    solver = DescentSolver(accuracy=accuracy, steps=500_000, step_size=1 / f.smoothness)
    found = solved(solver, oracle, np.zeros(3))
    best = minimiser(f)
    assert np.linalg.norm(found - best) <= accuracy
    assert len(oracle.gradients) < 500_000
    short = next(w for w in oracle.gradients if np.linalg.norm(f.gradient(w)) <= accuracy)
    assert np.linalg.norm(short - best) > accuracy


@pytest.mark.parametrize(("f", "accuracy"), [(squared(), 1e-6), (ROUND, 1e-2)])
def test_svrg_ends_within_delta_of_the_minimiser(f: LocalLoss, accuracy: float) -> None:
    oracle = Asked(f)
    solver = VarianceReduced(
        accuracy=accuracy, epochs=3000, inner=40, batch=8, step_size=0.2 / f.smoothness
    )
    found = solved(solver, oracle, np.zeros(3))
    assert np.linalg.norm(found - minimiser(f)) <= accuracy
    assert len(oracle.gradients) < 3000


def test_without_known_curvature_all_steps_are_made() -> None:
    """Logistic regression alone is as flat as one likes far out."""
    for solver, steps in (
        (DescentSolver(accuracy=1e3, steps=7, step_size=0.1), 7),
        (VarianceReduced(accuracy=1e3, epochs=4, inner=2, step_size=0.1), 4),
    ):
        oracle = Asked(logistic(X, LABELS))
        solved(solver, oracle, np.zeros(3))
        assert len(oracle.gradients) == steps
        (seen,) = solver.concerns(ProblemInfo(2, 3, lambda: 1.0))
        assert seen.key == "solver.accuracy"
        assert "an l2 term of the loss gives a bound" in seen.text
        for known in ({"quadratic": True}, {"strongly_convex": True}):
            assert not list(solver.concerns(ProblemInfo(2, 3, lambda: 1.0, **known)))  # type: ignore[arg-type]


def test_newton_does_not_take_a_halved_step_for_a_short_one() -> None:
    """The full step from 8 is some 500 long; one that fits is below 20."""
    f = logistic(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]))
    oracle = Asked(f)
    solved(Newton(accuracy=20.0, steps=50), oracle, np.array([8.0]))
    assert len(oracle.steps) == 2


@pytest.mark.parametrize("solver", [Newton(steps=2), DescentSolver(steps=2, step_size=0.1)])
def test_steps_are_no_more_than_allowed(solver: Solver) -> None:
    oracle = Asked(logistic(X, LABELS))
    solved(solver, oracle, np.zeros(3))
    assert len(oracle.steps) + len(oracle.gradients) == 2


# -- What they refuse ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "offered"),
    [
        ({"hessian": True}, "give newton, gradient-descent, svrg or sgd"),
        ({"hessian": True, "has_l1": True}, "give gradient-descent, svrg or sgd"),
        ({}, "give gradient-descent, svrg or sgd"),
    ],
)
def test_exact_offers_what_would_do(parts: dict[str, bool], offered: str) -> None:
    info = ProblemInfo(2, 3, lambda: 1.0, **parts)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=offered) as caught:
        Exact().configure(info, lambda: 1.0)
    assert caught.value.key == "solver.kind"


SQUARED: dict[str, Any] = {"kind": "squared", "scale": "mean"}
LOGISTIC: dict[str, Any] = {"kind": "logistic", "scale": "mean", "labels": "as-given"}


def built(loss: dict[str, Any], folder: Path) -> None:
    """Run one round with Newton's method at the clients."""
    problem = unequal("logistic", folder).block | {"loss": loss, "optimum": "unknown"}
    algorithm = {"kind": "fedgradmp", "sparsity": 2, "solver": {"kind": "newton"}}
    blocks = {"problem": problem, "algorithm": algorithm, "stop": {"rounds": 1}}
    trajectory(blocks, folder / "run")


@pytest.mark.parametrize(
    ("loss", "seen"),
    [
        ({"kind": "mlp", "hidden": 2}, "does not provide its Hessian"),
        (SQUARED | {"l1": 0.1}, "has an l1 term"),
        (LOGISTIC | {"l1": 0.1}, "has an l1 term"),
    ],
)
def test_newton_refuses_a_loss_without_a_hessian_everywhere(
    loss: dict[str, Any], seen: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=f"algorithm.solver.kind: newton needs .* {seen}"):
        built(loss, tmp_path)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC | {"l2": 0.1}, {"kind": "softmax"}])
def test_newton_takes_a_loss_with_a_hessian(loss: dict[str, Any], tmp_path: Path) -> None:
    built(loss, tmp_path)
