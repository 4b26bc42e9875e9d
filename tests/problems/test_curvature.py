"""What is known of a loss's strong convexity: a bound of its Hessians, tight of a quadratic."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsim.problems import Logistic, Loss, LossOracle, MultilayerPerceptron, Softmax, Squared
from fedsim.problems.restricted import restrict, strong_convexity, strong_convexity_operations
from tests.tiers import every
from tests.works import evaluated

from .examples import CONVEX, LOSSES, local, samples

DATA = samples(rows=12, features=6)
BASES = [None, np.array([4, 0]), np.random.default_rng(2).standard_normal((6, 3))]


@every("loss", [*CONVEX, Logistic(l2=0.3), Squared(l2=0.2)])
@every("basis", BASES)
def test_no_hessian_has_less_curvature(loss: Loss, basis: np.ndarray | None) -> None:
    f = local(loss, DATA)
    if basis is not None and basis.ndim == 2 and f.dimension != len(basis):
        basis = np.random.default_rng(2).standard_normal((f.dimension, 3))
    own = f if basis is None else restrict(f, basis)
    mu, rng = strong_convexity(own), np.random.default_rng(1)
    for scale in (0.1, 3.0, 100.0):
        H = own.hessian(scale * rng.standard_normal(own.dimension))
        assert mu <= np.linalg.eigvalsh(H)[0] + 1e-10 * f.smoothness
    if isinstance(loss, Squared):
        assert mu == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-9)
    if loss.l2:
        assert mu > 0


def test_far_out_the_bound_of_logistic_regression_is_tight() -> None:
    f = local(Logistic(l2=0.3), DATA)
    H = f.hessian(1e4 * np.ones(6))
    assert np.linalg.eigvalsh(H)[0] == pytest.approx(strong_convexity(f), rel=1e-6)


def test_nothing_is_known_where_there_is_nothing_to_know() -> None:
    """A flat loss, one that is not convex, and least squares of fewer rows than columns."""
    few = samples(rows=4, features=6)
    for loss, data in (
        (Logistic(), DATA),
        (Softmax(), DATA),
        (MultilayerPerceptron(hidden=2, l2=0.1), DATA),
        (Squared(), few),
    ):
        assert strong_convexity(local(loss, data)) == 0.0


def test_columns_that_depend_on_each_other_leave_none() -> None:
    basis = np.random.default_rng(2).standard_normal((6, 3)) @ np.ones((3, 4))
    assert strong_convexity(restrict(local(Logistic(l2=0.3), DATA), basis)) == 0.0


def test_what_it_costs_is_charged() -> None:
    """Of least squares: the Hessian, 2 n k^2, and eigenvalues, 4 k^3/3; of an l2 term nothing."""
    work = LossOracle(restrict(local(Squared(), DATA), np.array([1, 3, 5]))).strong_convexity()
    assert work.operations == pytest.approx(2 * 12 * 9 + 4 * 27 / 3, rel=1e-15)
    assert strong_convexity_operations(local(Logistic(l2=0.1), DATA)) == 0.0
    skew = restrict(local(Logistic(l2=0.1), DATA), np.ones((6, 2)) + np.eye(6, 2))
    assert strong_convexity_operations(skew) == pytest.approx(2 * 6 * 2 * 2 + 4 * 8 / 3)


@every("loss", LOSSES)
def test_a_basis_of_sparse_columns_is_that_of_the_same_columns(loss: Loss) -> None:
    """And is charged for what it stores."""
    f, rng = local(loss, DATA), np.random.default_rng(4)
    B = np.where(rng.random((f.dimension, 4)) < 0.3, 1.5, 0.0)
    B[0] = 1.0
    dense, sparse = restrict(f, B), restrict(f, csr_array(B))
    c = rng.standard_normal(4)
    assert sparse.value(c) == pytest.approx(dense.value(c), rel=1e-12)
    assert np.allclose(sparse.gradient(c), dense.gradient(c), rtol=1e-10, atol=1e-12)
    rows = np.array([2, 5])
    one, two = (each.minibatch_gradient(c, rows) for each in (sparse, dense))
    assert np.allclose(one, two, rtol=1e-10, atol=1e-12)
    share = np.count_nonzero(B) / B.size
    assert sparse.span.operations == pytest.approx(share * dense.span.operations, rel=1e-12)


def test_a_change_is_that_of_one_minibatch_and_costs_two() -> None:
    f = local(Squared(), DATA)
    oracle, w, old = LossOracle(f), np.ones(6), np.arange(6.0)
    work = oracle.minibatch_change(w, old, 5, np.random.default_rng(9))
    rows = np.random.default_rng(9).choice(12, 5, replace=False, shuffle=False)
    change = f.minibatch_gradient(w, rows) - f.minibatch_gradient(old, rows)
    assert np.array_equal(evaluated(work, f), change)
    single = oracle.minibatch(w, 5, np.random.default_rng(9))
    assert (work.operations, work.samples) == (2 * single.operations, 2 * single.samples)
    whole = oracle.minibatch_change(w, old, None, np.random.default_rng(9))
    assert np.array_equal(evaluated(whole, f), f.gradient(w) - f.gradient(old))
    assert whole.operations == 2 * oracle.gradient(w).operations
