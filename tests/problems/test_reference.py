"""Reference optima: conditions of optimality, scikit-learn and closed forms as oracles."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge

from fedsim.core.ports import Array
from fedsim.problems import (
    LinearLoss,
    Logistic,
    MultilayerPerceptron,
    Problem,
    Reference,
    Samples,
    Squared,
    Weighting,
    optimum,
)
from fedsim.problems.references import composite, convex
from tests.tiers import every, examples

from .examples import LINEAR, named, samples

each_weighting = pytest.mark.parametrize("weighting", ["sum", "rows", "equal"])


def split(data: Samples, *cuts: int) -> list[Samples]:
    return [data.take(rows) for rows in np.split(np.arange(data.rows), cuts)]


def solved(problem: Problem) -> Reference:
    found = optimum(problem)
    assert found is not None
    return found


def regression(rows: int, features: int, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return Samples(X, X @ rng.standard_normal(features) + rng.standard_normal(rows) + 1.0)


@pytest.mark.parametrize("loss", LINEAR, ids=named)
@each_weighting
def test_no_step_away_from_the_optimum_lowers_the_objective(
    loss: LinearLoss, weighting: Weighting, rng: np.random.Generator
) -> None:
    problem = Problem.of(loss, split(samples(120, 7), 20, 90), weighting=weighting)
    found = solved(problem)
    assert found.value == problem.value(found.model)
    for size in (1e-6, 1e-3, 1.0):
        for _ in range(20):
            moved = found.model + size * rng.standard_normal(7)
            assert problem.value(moved) >= found.value


@pytest.mark.parametrize("loss", LINEAR, ids=named)
@each_weighting
def test_the_conditions_of_optimality_hold_to_rounding(
    loss: LinearLoss, weighting: Weighting
) -> None:
    problem = Problem.of(loss, split(samples(120, 7), 20, 90), weighting=weighting)
    found = solved(problem)
    weight = float(problem.coefficients.sum())
    smooth = loss.model_copy(update={"l1": 0.0})
    parts = split(samples(120, 7), 20, 90)
    slope = Problem.of(smooth, parts, weighting=weighting).gradient(found.model)
    zero = found.model == 0
    assert slope[~zero] == pytest.approx(-weight * loss.l1 * np.sign(found.model[~zero]), abs=1e-12)
    assert (np.abs(slope[zero]) <= weight * loss.l1 * (1 + 1e-9)).all()
    assert found.residual <= 1e-12
    assert not found.method.startswith("best value")


def test_least_squares_agree_with_scikit_learn() -> None:
    data = regression(80, 6)
    found = solved(Problem.of(Squared(scale="sum"), split(data, 30)))
    oracle = LinearRegression(fit_intercept=False).fit(data.X, data.y)
    assert found.model == pytest.approx(oracle.coef_, rel=1e-10)
    assert found.method == "closed form"


@pytest.mark.parametrize("shape", [(80, 6), (10, 30)], ids=["tall", "wide"])
def test_ridge_regression_agrees_with_scikit_learn(shape: tuple[int, int]) -> None:
    data = regression(*shape)
    found = solved(Problem.of(Squared(scale="sum", l2=0.7), split(data, 4)))
    # Two clients have the penalty each.
    oracle = Ridge(alpha=2 * 0.7, fit_intercept=False, tol=1e-14).fit(data.X, data.y)
    assert found.model == pytest.approx(oracle.coef_, rel=1e-8, abs=1e-10)


@every("shape", [(80, 12), (30, 60)])
@every(("l1", "l2"), [(0.05, 0.0), (0.3, 0.0), (0.1, 0.2), (50.0, 0.0)])
def test_the_lasso_agrees_with_scikit_learn(shape: tuple[int, int], l1: float, l2: float) -> None:
    data = regression(*shape)
    problem = Problem.of(Squared(scale="mean", l1=l1, l2=l2), split(data, 11))
    found = solved(problem)
    oracle = ElasticNet(
        alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-14, max_iter=10**6
    ).fit(data.X, data.y)
    assert found.model == pytest.approx(oracle.coef_, rel=1e-6, abs=1e-8)
    assert found.value <= problem.value(oracle.coef_) * (1 + 1e-14)
    assert found.residual <= 1e-12


@pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-4])
def test_logistic_regression_agrees_with_scikit_learn(l2: float) -> None:
    data = samples(150, 8)
    problem = Problem.of(Logistic(scale="sum", l2=l2), [data])
    oracle = LogisticRegression(
        C=1 / l2, fit_intercept=False, solver="newton-cholesky", tol=1e-12
    ).fit(data.X, data.y)
    assert solved(problem).model == pytest.approx(oracle.coef_[0], rel=1e-7, abs=1e-9)


def test_sparse_logistic_regression_agrees_with_scikit_learn() -> None:
    data = samples(150, 20)
    problem = Problem.of(Logistic(scale="sum", l1=3.0), [data])
    found = solved(problem)
    oracle = LogisticRegression(
        C=1 / 3.0, l1_ratio=1.0, fit_intercept=False, solver="saga", tol=1e-12, max_iter=10**5
    ).fit(data.X, data.y)
    assert found.model == pytest.approx(oracle.coef_[0], abs=1e-6)
    assert np.array_equal(found.model == 0, np.abs(oracle.coef_[0]) < 1e-9)
    assert 0 < (found.model == 0).sum() < 20


def test_a_large_penalty_leaves_zero() -> None:
    data = samples(60, 5)
    bound = np.abs(data.X.T @ data.y).max() / 2
    for share, zero in ((1.001, True), (0.999, False)):
        found = solved(Problem.of(Logistic(scale="sum", l1=share * bound), [data]))
        assert (not found.model.any()) == zero


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    features=st.integers(1, 60),
    l1=st.sampled_from([1e-5, 1e-3, 0.1, 10.0]),
    l2=st.sampled_from([0.0, 1e-6, 0.1]),
    spread=st.sampled_from([0.0, 2.0]),
    kind=st.sampled_from([Squared, Logistic]),
)
def test_optima_are_certified_however_degenerate_the_data(
    seed: int,
    features: int,
    l1: float,
    l2: float,
    spread: float,
    kind: type[Squared] | type[Logistic],
) -> None:
    # Wide data, columns of very different sizes and one twice: supports are not unique.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, features)) * np.exp(spread * rng.standard_normal(features))
    X[:, -1] = X[:, 0]
    data = Samples(X, rng.choice([-1.0, 1.0], 20))
    problem = Problem.of(kind(scale="sum", l1=l1, l2=l2), split(data, 8))
    scale = float(np.linalg.norm(problem.gradient(np.zeros(features))))
    assert solved(problem).residual <= 1e-10 * scale


def test_features_of_very_different_sizes_are_coped_with() -> None:
    # Columns from about 1e-3 to 1e3, not standardised: a condition number beyond 1e10.
    X, y = load_breast_cancer(return_X_y=True)
    data = Samples(X, 2.0 * y - 1.0)
    found = solved(Problem.of(Logistic(scale="mean", l2=1e-6), split(data, 300)))
    assert not found.method.startswith("best value")
    assert found.residual <= 1e-10


def test_duplicated_features_are_coped_with() -> None:
    data = samples(50, 3)
    twice = Samples(np.hstack([data.X, data.X]), data.y)
    for loss in (Logistic(scale="sum"), Squared(scale="sum")):
        once = solved(Problem.of(loss, [data]))
        assert solved(Problem.of(loss, [twice])).value == pytest.approx(once.value, rel=1e-12)


def test_separable_data_has_an_infimum_of_zero() -> None:
    X = np.array([[1.0, 0.2], [2.0, -1.0], [-1.0, 0.3], [-3.0, 0.0]])
    found = solved(Problem.of(Logistic(scale="sum"), [Samples(X, np.sign(X[:, 0]))]))
    assert 0 <= found.value < 1e-12


@each_weighting
def test_gaps_are_resolved_on_a_large_sum(weighting: Weighting, rng: np.random.Generator) -> None:
    data = regression(20_000, 10)
    parts = split(data, *range(2000, 20_000, 2000))
    problem = Problem.of(Squared(scale="sum"), parts, weighting=weighting)
    found = solved(problem)
    hessian = problem.hessian(found.model)
    step = rng.standard_normal(10)
    for size in (1e-6, 1e-5, 1e-4):
        gap = problem.value(found.model + size * step) - found.value
        assert gap == pytest.approx(size**2 * step @ hessian @ step / 2, abs=1e-10, rel=1e-3)


@pytest.mark.parametrize("loss", LINEAR, ids=named)
@each_weighting
def test_beyond_the_limit_of_newton_products_serve_as_well(
    loss: LinearLoss, weighting: Weighting, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem.of(loss, split(samples(60, 6), 20), weighting=weighting)
    exact = solved(problem)
    for module in (composite, convex):
        monkeypatch.setattr(module, "NEWTON_LIMIT", 0)
    monkeypatch.setenv("FEDSIM_CACHE", str(cache / "another"))
    truncated = solved(problem)
    assert truncated.method == "L-BFGS, then truncated Newton" + " on the support" * (loss.l1 > 0)
    assert truncated.value == pytest.approx(exact.value, rel=1e-14)
    assert truncated.model == pytest.approx(exact.model, rel=1e-9, abs=1e-11)
    assert np.array_equal(truncated.model == 0, exact.model == 0)
    assert truncated.residual <= 1e-12


def test_a_network_has_no_known_optimum() -> None:
    assert optimum(Problem.of(MultilayerPerceptron(), [samples()])) is None


@every("size", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_a_truncated_step_solves_newton_s_system_whatever_the_size_of_the_features(
    size: float, rng: np.random.Generator
) -> None:
    data = Samples(size * rng.standard_normal((30, 6)), rng.standard_normal(30))
    f = composite.CompositeForm.of(Problem.of(Squared(), [data]))
    assert f is not None
    gradient = f.smooth(np.zeros(6))[1]
    step = composite._truncate(f, np.zeros(6), gradient, np.ones(6, dtype=np.bool_))
    hessian = data.X.T @ data.X / 30
    assert np.linalg.norm(hessian @ step + gradient) <= 0.1 * np.linalg.norm(gradient)


@every("w", [-2.3524025573445106, 2.3306865798474337])
@every("off", [-1e-6, 1e-6])
def test_a_damped_newton_step_lowers_the_value_or_the_gradient(w: float, off: float) -> None:
    """At these points Newton's step crosses the minimum and ends at the value that it came from."""
    data = Samples(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]))
    f = composite.CompositeForm.of(Problem.of(Logistic(), [data]))
    assert f is not None
    begin, free = np.array([w + off]), np.ones(1, dtype=np.bool_)
    end, progress = composite._newton(f, begin, np.sign(begin), free)
    assert progress
    halved = f.residual(end) <= f.residual(begin) / 2
    assert halved or f.value(end) < f.value(begin)


def test_truncated_newton_steps_are_as_many_as_gradients_can_be_afforded_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a step may take a hundred gradients; one that is solved directly takes about one."""
    limits, polish = list[int](), composite.polish

    def watched(f: composite.CompositeForm, model: Array, *, limit: int) -> Array:
        limits.append(limit)
        return polish(f, model, limit=limit)

    monkeypatch.setattr(convex, "polish", watched)
    monkeypatch.setattr(convex, "affordable", lambda _: 300)
    problem = Problem.of(Logistic(l2=0.1), [samples()])
    solved(problem)
    for module in (composite, convex):
        monkeypatch.setattr(module, "NEWTON_LIMIT", 0)
    monkeypatch.setenv("FEDSIM_CACHE", str(cache / "another"))
    solved(problem)
    direct, truncated = limits
    assert direct >= 100
    assert 1 <= truncated <= 300 / 100
