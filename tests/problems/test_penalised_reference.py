"""Optima under penalties: orthogonal designs, scikit-learn, and the dual norm as oracles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.linear_model import ElasticNet as Oracle
from sklearn.linear_model import LogisticRegression, MultiTaskLasso

from fedsim.core.ports import Array
from fedsim.problems import (
    LinearLoss,
    Logistic,
    MultilayerPerceptron,
    Problem,
    Reference,
    Samples,
    Squared,
    optimum,
)
from fedsim.problems.losses import NeymanPearson, Softmax, TraceRegression
from fedsim.problems.penalties import L1, L2, ElasticNet, GroupL2, NoPenalty, Nuclear, Penalty
from tests.tiers import every

from .examples import samples

SEPARABLE = [NoPenalty(), L1(weight=0.05), L2(weight=0.2), ElasticNet(weight=0.1, ratio=0.4)]
STRUCTURED = [GroupL2(weight=0.02), GroupL2(weight=0.03, size=5), Nuclear(weight=0.04)]


def kinds(penalty: Penalty) -> str:
    return penalty.kind


def split(data: Samples, *cuts: int) -> list[Samples]:
    return [data.take(rows) for rows in np.split(np.arange(data.rows), cuts)]


def solved(problem: Problem) -> Reference:
    found = optimum(problem)
    assert found is not None
    assert not found.method.startswith("best value")
    assert found.value == problem.value(found.model)
    return found


def digits(rows: int = 300) -> Samples:
    X, y = load_digits(n_class=4, return_X_y=True)
    return Samples(np.ascontiguousarray(X[:rows, 2:30] / 16), y[:rows].astype(np.float64))


def orthogonal(rng: np.random.Generator, rows: int, features: int) -> Samples:
    """Return features with X^T X = n I, for which (1/2n)|Xw - y|^2 = |w - X^T y/n|^2/2 + c."""
    Q = np.linalg.qr(rng.standard_normal((rows, features)))[0]
    return Samples(np.ascontiguousarray(np.sqrt(rows) * Q), rng.standard_normal(rows))


def soft(b: Array, t: float) -> Array:
    return np.asarray(np.sign(b) * np.maximum(np.abs(b) - t, 0))


def blocks(b: Array, t: float) -> Array:
    parts = [
        part * max(0.0, 1 - t * np.sqrt(len(part)) / np.linalg.norm(part))
        for part in np.split(b, range(4, len(b), 4))
    ]
    return np.concatenate(parts)


def spectral(b: Array, t: float) -> Array:
    U, s, Vt = np.linalg.svd(b.reshape(5, -1), full_matrices=False)
    return np.asarray((U * np.maximum(s - t, 0)) @ Vt).ravel()


@every(
    ("penalty", "closed"),
    [
        (L1(weight=0.1), lambda b: soft(b, 0.1)),
        (L2(weight=0.3), lambda b: b / 1.3),
        (ElasticNet(weight=0.2, ratio=0.5), lambda b: soft(b, 0.1) / 1.1),
        (GroupL2(weight=0.08, size=4), lambda b: blocks(b, 0.08)),
        (Nuclear(weight=0.25), lambda b: spectral(b, 0.25)),
    ],
)
def test_an_orthogonal_design_has_the_prox_as_its_optimum(
    penalty: Penalty, closed: Callable[[Array], Array], rng: np.random.Generator
) -> None:
    data = orthogonal(rng, 60, 30)
    loss: LinearLoss = TraceRegression(rows=5) if isinstance(penalty, Nuclear) else Squared()
    found = solved(Problem.of(loss, split(data, 20, 45), penalty))
    expected = closed(data.X.T @ data.y / 60)
    assert found.model == pytest.approx(expected, abs=1e-12)
    assert np.abs(expected).max() > 0


@every("penalty", SEPARABLE[1:])
@every("l1", [0.0, 0.03])
def test_penalties_and_the_clients_own_terms_add_up(penalty: Penalty, l1: float) -> None:
    data = samples(80, 12)
    # The penalty is there once, the loss's terms with every client: 3 times in a sum.
    problem = Problem.of(Squared(scale="sum", l1=l1, l2=0.1), split(data, 30, 50), penalty)
    found = solved(problem)
    weight = penalty.model_dump()["weight"]
    ratio = {"l1": 1.0, "l2": 0.0}.get(penalty.kind, 0.4)
    first, second = 3 * l1 + weight * ratio, 3 * 0.1 + weight * (1 - ratio)
    oracle = Oracle(
        alpha=(first + second) / 80,
        l1_ratio=first / (first + second),
        fit_intercept=False,
        tol=1e-14,
        max_iter=10**5,
    ).fit(data.X, data.y)
    assert found.model == pytest.approx(oracle.coef_, rel=1e-7, abs=1e-9)
    assert found.residual <= 1e-12


@pytest.mark.parametrize("l2", [0.01, 1.0])
def test_softmax_regression_agrees_with_scikit_learn(l2: float) -> None:
    data = digits()
    problem = Problem.of(Softmax(scale="sum"), split(data, 100), L2(weight=l2))
    oracle = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-10, max_iter=10**4)
    coefficients = oracle.fit(data.X, data.y).coef_.T.ravel()
    found = solved(problem)
    assert found.model == pytest.approx(coefficients, abs=1e-4)
    assert found.value <= problem.value(coefficients) * (1 + 1e-14)


def test_groups_of_a_matrix_agree_with_the_multi_task_lasso(rng: np.random.Generator) -> None:
    # |Y - XW|^2/(2n) of two tasks is least squares with a block of rows for each task.
    X, Y = rng.standard_normal((40, 10)), rng.standard_normal((40, 2))
    oracle = MultiTaskLasso(alpha=0.1, fit_intercept=False, tol=1e-14, max_iter=10**5).fit(X, Y)
    rows = np.vstack([np.kron(X, np.array([1.0, 0.0])), np.kron(X, np.array([0.0, 1.0]))])
    data = Samples(rows, Y.T.ravel())
    penalty = GroupL2(weight=0.1 / np.sqrt(2) / 2)
    found = solved(Problem.of(TraceRegression(rows=10), [data], penalty))
    assert found.model.reshape(10, 2) == pytest.approx(oracle.coef_.T, abs=1e-7)
    assert 0 < (found.model == 0).sum() < 20


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [*SEPARABLE[1:], *STRUCTURED], ids=kinds)
@pytest.mark.parametrize("loss", [Softmax(), Softmax(scale="share", l2=0.05)], ids=["", "l2"])
def test_no_step_lowers_the_penalised_objective(
    loss: Softmax, penalty: Penalty, rng: np.random.Generator
) -> None:
    problem = Problem.of(loss, split(digits(120), 50), penalty)
    found = solved(problem)
    for size in (1e-6, 1e-3, 1.0):
        for _ in range(5):
            moved = found.model + size * rng.standard_normal(problem.dimension)
            assert problem.value(moved) >= found.value


@pytest.mark.slow
@pytest.mark.parametrize("penalty", STRUCTURED, ids=kinds)
def test_the_dual_norm_certifies_the_optimum(penalty: Penalty) -> None:
    # At a minimiser of f + weight |.| the dual norm of grad f is at most the weight, and
    # <-grad f, W> = weight |W|.
    problem = Problem.of(Softmax(), split(digits(), 100), penalty)
    found = solved(problem)
    W = found.model.reshape(problem.shape)
    G = problem.gradient(found.model).reshape(problem.shape)
    if isinstance(penalty, GroupL2):
        cuts = range(0, W.size, penalty.size or 4)[1:]
        dual = max(np.linalg.norm(g) / np.sqrt(len(g)) for g in np.split(G.ravel(), cuts))
    else:
        dual = np.linalg.norm(G, 2)
    assert dual <= penalty.model_dump()["weight"] * (1 + 1e-10)
    assert -(G * W).sum() == pytest.approx(penalty.value(W), rel=1e-10)


def test_a_nuclear_penalty_finds_the_planted_rank(rng: np.random.Generator) -> None:
    truth = np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).ravel()
    X = rng.standard_normal((400, 64))
    data = Samples(X, X @ truth + 0.1 * rng.standard_normal(400))
    found = solved(Problem.of(TraceRegression(rows=8), split(data, 100), Nuclear(weight=0.1)))
    assert np.linalg.matrix_rank(found.model.reshape(8, 8), tol=1e-9) == 3


@pytest.mark.parametrize(
    "penalty",
    [NoPenalty(), L1(weight=2e-3), GroupL2(weight=1e-3, size=4), L2(weight=0.01)],
    ids=kinds,
)
def test_sparse_rows_have_the_optimum_of_dense_ones(
    penalty: Penalty, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def square(matrix: Any) -> Array:
        # A Hessian may be dense, but nothing that has as many rows as the data.
        assert matrix.shape[0] == matrix.shape[1]
        return np.asarray(matrix.todense())

    rows = rng.standard_normal((60, 40)) * (rng.random((60, 40)) < 0.2)
    X, y = csr_array(rows), rng.choice([-1.0, 1.0], 60)
    for loss in (Logistic(l2=0.01), Squared(l2=0.01)):
        with monkeypatch.context() as patch:
            patch.setattr(csr_array, "toarray", square)
            sparse = solved(Problem.of(loss, split(Samples(X, y), 25), penalty))
        dense = solved(Problem.of(loss, split(Samples(rows, y), 25), penalty))
        assert sparse.model == pytest.approx(dense.model, abs=1e-9)
        assert sparse.value == pytest.approx(dense.value, rel=1e-13)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (MultilayerPerceptron(), L1(weight=0.1)),
        (NeymanPearson(), NoPenalty()),
        (Squared(l1=0.1), GroupL2(weight=0.1, size=2)),
    ],
    ids=["network", "constraint", "two terms"],
)
def test_what_has_no_known_optimum_has_none(
    loss: MultilayerPerceptron | LinearLoss, penalty: Penalty
) -> None:
    assert optimum(Problem.of(loss, [samples(30, 4)], penalty)) is None


def test_penalties_have_optima_of_their_own_in_the_cache() -> None:
    data = split(samples(60, 6), 20)
    values = [solved(Problem.of(Logistic(), data, penalty)).value for penalty in SEPARABLE]
    assert len(set(values)) == len(values)
    again = [solved(Problem.of(Logistic(), data, penalty)).value for penalty in SEPARABLE]
    assert again == values
