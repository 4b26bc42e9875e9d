"""Sparse features: the numbers of dense ones, in memory of the order of the non-zeros."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack, random_array

from fedsim.core.ports import Array
from fedsim.problems import (
    LocalLoss,
    Logistic,
    Loss,
    NeymanPearson,
    Samples,
    Softmax,
    Squared,
    projections,
)
from fedsim.problems.projections import largest_eigenvalue
from fedsim.problems.restricted import restrict
from fedsim.problems.samples import Sparse, entries, scaled_rows
from tests.tiers import every

from .examples import CONSTRAINED, CONVEX, LOSSES, named

EVERY = [*LOSSES, *CONSTRAINED]
each_loss = every("loss", EVERY)


def sparse(rows: int, features: int, density: float, seed: int = 0) -> Sparse:
    rng = np.random.default_rng(seed)
    shape = (rows, features)
    return csr_array(random_array(shape, density=density, rng=rng, data_sampler=rng.normal))


def labels(rows: int) -> Array:
    return np.where(np.arange(rows) % 3 == 1, 1.0, -1.0)


def pair(loss: Loss, rows: int = 20, features: int = 6) -> tuple[LocalLoss, LocalLoss]:
    """A loss on the same rows, dense and sparse; the first of the rows has no entries."""
    X: Sparse = scaled_rows(sparse(rows, features, 0.3), np.minimum(np.arange(rows), 1.0))
    X.eliminate_zeros()
    assert X.indptr[1] == 0
    targets = loss.encode(labels(rows))
    return LocalLoss(loss, X.toarray(), targets), LocalLoss(loss, X, targets)


@each_loss
def test_values_and_gradients_are_those_of_dense_rows(loss: Loss, rng: np.random.Generator) -> None:
    dense, own = pair(loss)
    assert not isinstance(own.arranged.X, np.ndarray)
    for size in (0.0, 1.0, 100.0):
        w = size * rng.standard_normal(dense.dimension)
        assert own.value(w) == pytest.approx(dense.value(w), rel=1e-13)
        assert own.gradient(w) == pytest.approx(dense.gradient(w), rel=1e-12, abs=1e-13)
        rows = np.array([0, 7, 19, 4])
        drawn = dense.minibatch_gradient(w, rows)
        assert own.minibatch_gradient(w, rows) == pytest.approx(drawn, rel=1e-12, abs=1e-13)


@every("loss", CONVEX)
def test_hessians_and_smoothness_are_those_of_dense_rows(loss: Loss) -> None:
    dense, own = pair(loss)
    w = np.linspace(-1, 1, dense.dimension)
    assert own.hessian(w) == pytest.approx(dense.hessian(w), rel=1e-12, abs=1e-14)
    assert own.smoothness == pytest.approx(dense.smoothness, rel=1e-12)


@pytest.mark.parametrize("loss", CONSTRAINED, ids=named)
def test_constraints_are_those_of_dense_rows(loss: Loss) -> None:
    dense, own = pair(loss)
    w = np.linspace(-1, 1, 6)
    assert own.constraint(w) == pytest.approx(dense.constraint(w), rel=1e-13)
    assert own.constraint_gradient(w) == pytest.approx(dense.constraint_gradient(w), rel=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(), NeymanPearson()])
def test_predictions_are_those_of_dense_rows(loss: Loss) -> None:
    X, y = sparse(20, 6, 0.3), labels(20)
    w = np.linspace(-1, 2, loss.dimension(6, 2))
    classes = loss.classes(y)
    assert np.array_equal(loss.predict(X, w, classes), loss.predict(X.toarray(), w, classes))


@each_loss
def test_the_features_are_left_as_they_were(loss: Loss) -> None:
    X = sparse(20, 6, 0.4)
    before = X.copy()
    f = LocalLoss(loss, X, loss.encode(labels(20)))
    f.gradient(np.ones(f.dimension))
    assert np.array_equal(X.toarray(), before.toarray())


def test_restricted_rows_are_dense_and_few() -> None:
    dense, own = pair(Logistic(l2=0.1))
    few, same = restrict(own, np.array([4, 0])), restrict(dense, np.array([4, 0]))
    assert isinstance(few.arranged.X, np.ndarray)
    assert few.gradient(np.ones(2)) == pytest.approx(same.gradient(np.ones(2)), rel=1e-12)
    B = np.linspace(-1, 1, 12).reshape(6, 2)
    skew, like = restrict(pair(Logistic())[1], B), restrict(pair(Logistic())[0], B)
    assert skew.gradient(np.ones(2)) == pytest.approx(like.gradient(np.ones(2)), rel=1e-12)
    assert skew.forming_operations == pytest.approx(2 * 2 * 20 * entries(own.arranged.X))


@pytest.mark.parametrize("shape", [(30, 12), (12, 30), (30, 30)])
@pytest.mark.parametrize("limit", [2000, 5], ids=["matrix", "Lanczos"])
def test_the_largest_eigenvalue_is_that_of_dense_blocks(
    shape: tuple[int, int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [sparse(*shape, 0.2, seed) for seed in (1, 2, 3)]
    weights = [1.0, 0.0, 2.5]
    whole = sum(c * (A.T @ A).toarray() for c, A in zip(weights, blocks, strict=True))
    monkeypatch.setattr(projections, "_DENSE", limit)
    expected = np.linalg.eigvalsh(whole)[-1]
    assert largest_eigenvalue(weights, blocks) == pytest.approx(expected, rel=1e-10)


@pytest.fixture(scope="module")
def data() -> Samples:
    """As many rows and features as rcv1 has: 7.6 GB if they were dense, 18 MB as they are."""
    return Samples(sparse(20_242, 47_236, 0.0016), labels(20_242))


class TestMemory:
    @every("loss", [Squared(), Logistic(l2=0.1), NeymanPearson(), Softmax()])
    def test_it_is_of_the_order_of_the_non_zeros(self, loss: Loss, data: Samples) -> None:
        assert not isinstance(data.X, np.ndarray)
        stored = data.X.data.nbytes + data.X.indices.nbytes + data.X.indptr.nbytes
        tracemalloc.start()
        f = LocalLoss(loss, data.X, loss.encode(data.y))
        w = np.full(f.dimension, 0.1)
        f.value(w)
        f.gradient(w)
        f.minibatch_gradient(w, np.arange(0, 20_242, 500))
        restrict(f, np.arange(20)).gradient(np.ones(20))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 3 * stored + 20 * w.nbytes

    def test_so_is_that_of_a_smoothness_constant(self, data: Samples) -> None:
        # A column of ones sets the largest eigenvalue apart, so that few steps find it.
        rows: Sparse = data.X[:2500]
        X: Sparse = csr_array(hstack([rows, csr_array(np.ones((2500, 1)))]))
        f = LocalLoss(Logistic(), X, np.ones(2500))
        tracemalloc.start()
        assert f.smoothness > 0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 100 * 8 * 47_236
