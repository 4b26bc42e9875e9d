"""Constrained optima: duality as an independent certificate, and the path of tolerances."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

from fedsim.core.ports import Array
from fedsim.problems import Logistic, Problem, Reference, Samples, constrained_optimum
from fedsim.problems.losses import NeymanPearson
from fedsim.problems.penalties import L1


def overlapping(rows: int = 240, features: int = 4) -> Samples:
    """Return two classes that no plane separates."""
    rng = np.random.default_rng(3)
    y = (rng.random(rows) < 0.4).astype(np.float64)
    X = rng.standard_normal((rows, features)) + 0.7 * y[:, None]
    return Samples(np.ascontiguousarray(np.column_stack([X, np.ones(rows)])), y)


def problem(clients: int = 3) -> Problem:
    data = overlapping()
    parts = np.array_split(np.arange(data.rows), clients)
    return Problem.of(NeymanPearson(), [data.take(rows) for rows in parts])


def constraint(task: Problem, w: Array) -> float:
    return float(np.mean([loss.constraint(w) for loss in task.losses]))


def solved(task: Problem, tolerance: float) -> Reference:
    found = constrained_optimum(task, tolerance)
    assert found is not None
    assert found.value == task.value(found.model)
    return found


@pytest.mark.parametrize("tolerance", [0.2, 0.4, 0.6])
def test_no_lower_bound_by_duality_is_above_the_optimum_and_one_meets_it(tolerance: float) -> None:
    task = problem()
    found = solved(task, tolerance)
    assert not found.method.startswith("best value")
    assert found.residual <= 1e-12
    assert constraint(task, found.model) <= tolerance + 1e-12

    def lagrangian(w: Array, multiplier: float) -> tuple[float, Array]:
        slopes = [loss.constraint_gradient(w) for loss in task.losses]
        value = task.value(w) + multiplier * (constraint(task, w) - tolerance)
        return value, task.gradient(w) + multiplier * np.mean(slopes, axis=0)

    def bound(logarithm: float) -> float:
        start, multiplier = np.zeros(task.dimension), float(np.exp(logarithm))
        least = minimize(
            lagrangian, start, (multiplier,), "L-BFGS-B", jac=True, options={"gtol": 1e-10}
        )
        return float(least.fun)

    bounds = [bound(logarithm) for logarithm in np.linspace(-3, 3, 13)]
    assert max(bounds) <= found.value + 1e-9
    slope, lift = (
        task.gradient(found.model),
        np.mean([loss.constraint_gradient(found.model) for loss in task.losses], axis=0),
    )
    multiplier = -(slope @ lift) / (lift @ lift)
    assert multiplier > 0
    assert bound(np.log(multiplier)) == pytest.approx(found.value, rel=1e-8)


def test_the_optimum_falls_as_the_tolerance_grows() -> None:
    task = problem()
    values = [solved(task, tolerance).value for tolerance in (0.1, 0.2, 0.4, 0.8)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 4


def test_feasible_moves_do_not_lower_the_objective(rng: np.random.Generator) -> None:
    task = problem()
    found = solved(task, 0.3)
    feasible = 0
    for size in (1e-4, 1e-2, 0.3):
        for _ in range(60):
            moved = found.model + size * rng.standard_normal(task.dimension)
            if constraint(task, moved) <= 0.3:
                feasible += 1
                assert task.value(moved) >= found.value - 1e-12
    assert feasible > 20


def test_breast_cancer_at_the_tolerance_of_the_paper() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    data = Samples((X - X.mean(axis=0)) / X.std(axis=0), y.astype(np.float64))
    task = Problem.of(NeymanPearson(), [data])
    found = solved(task, 0.1)
    assert not found.method.startswith("best value")
    assert constraint(task, found.model) == pytest.approx(0.1, abs=1e-9)
    assert found.residual <= 1e-12


def test_other_problems_have_no_constrained_optimum() -> None:
    data = overlapping()
    assert constrained_optimum(Problem.of(Logistic(labels="plus-minus"), [data]), 0.1) is None
    assert constrained_optimum(Problem.of(NeymanPearson(l1=0.1), [data]), 0.1) is None
    assert constrained_optimum(Problem.of(NeymanPearson(), [data], L1(weight=0.1)), 0.1) is None


def test_the_cache_goes_by_the_tolerance() -> None:
    task = problem()
    first = solved(task, 0.3)
    assert solved(task, 0.5).value < first.value
    again = solved(task, 0.3)
    assert np.array_equal(again.model, first.model)
    assert again.residual == first.residual
