"""Gradients, Hessians and their bounds, of every convex loss, on small random problems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import LocalLoss, Loss, Samples, Squared
from fedsim.problems.samples import dense
from tests.tiers import examples

from .examples import CONSTRAINED, CONVEX, NETWORKS, differences, local, named

each_convex = pytest.mark.parametrize("loss", CONVEX, ids=named)
seeds = st.integers(0, 2**32 - 1)
few = examples(20)  # of each loss


def draw(loss: Loss, seed: int, rows: int = 9, features: int = 3) -> tuple[LocalLoss, Array]:
    """A client with labels of three kinds where the loss takes them, and a model off the kinks."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    three = loss.kind in ("softmax", "squared", "trace-regression")
    y = np.resize([-1.0, 1.0, 2.0] if three else [-1.0, 1.0, -1.0], rows)
    f = local(loss, Samples(X, y))
    w = rng.standard_normal(f.dimension)
    return f, w + 0.01 * np.sign(w)


@pytest.mark.parametrize("loss", [*CONVEX, *NETWORKS], ids=named)
@few
@given(seed=seeds)
def test_the_gradient_is_that_of_finite_differences(loss: Loss, seed: int) -> None:
    f, w = draw(loss, seed)
    expected = differences(f.value, w)
    assert f.gradient(w) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("loss", CONSTRAINED, ids=named)
@few
@given(seed=seeds)
def test_the_gradient_of_a_constraint_is_that_of_finite_differences(loss: Loss, seed: int) -> None:
    f, w = draw(loss, seed)
    expected = differences(f.constraint, w)
    assert f.constraint_gradient(w) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@each_convex
@few
@given(seed=seeds)
def test_the_hessian_is_that_of_finite_differences(loss: Loss, seed: int) -> None:
    f, w = draw(loss, seed)
    steps = 1e-5 * np.eye(f.dimension)
    # On either side of a kink the slope of l1 |w| jumps, and says nothing of the smooth part.
    away = np.where(np.abs(w) < 0.02, 0.5, w)
    columns = [(f.gradient(away + e) - f.gradient(away - e)) / 2e-5 for e in steps]
    assert f.hessian(away) == pytest.approx(np.array(columns), rel=1e-4, abs=1e-5)


@each_convex
@few
@given(seed=seeds, size=st.floats(0, 30))
def test_the_majorant_bounds_the_hessian_at_every_model(loss: Loss, seed: int, size: float) -> None:
    f, w = draw(loss, seed)
    c, A = f.majorant
    classes = f.dimension // f.features
    bound = np.kron(c * (A.T @ A), np.eye(classes)) + loss.l2 * np.eye(f.dimension)
    smallest = np.linalg.eigvalsh(bound - f.hessian(size * w))[0]
    assert smallest >= -1e-12 * f.smoothness


@each_convex
@few
@given(seed=seeds)
def test_the_smoothness_constant_is_the_norm_of_the_majorant(loss: Loss, seed: int) -> None:
    f, _ = draw(loss, seed)
    c, A = f.majorant
    assert f.smoothness == pytest.approx(c * np.linalg.norm(dense(A), 2) ** 2 + loss.l2, rel=1e-9)


@each_convex
@few
@given(v=arrays(np.float64, 9, elements=st.floats(-20, 20)), seed=seeds)
def test_convex_functions_lie_above_their_tangents(loss: Loss, v: Array, seed: int) -> None:
    f, w = draw(loss, seed)
    v = np.resize(v, f.dimension)
    below = f.value(w) + f.gradient(w) @ (v - w)
    assert f.value(v) >= below - 1e-9 * (1 + abs(below))


@pytest.mark.parametrize("loss", CONSTRAINED, ids=named)
@few
@given(v=arrays(np.float64, 3, elements=st.floats(-20, 20)), seed=seeds)
def test_constraints_lie_above_their_tangents(loss: Loss, v: Array, seed: int) -> None:
    f, w = draw(loss, seed)
    below = f.constraint(w) + f.constraint_gradient(w) @ (v - w)
    assert f.constraint(v) >= below - 1e-9 * (1 + abs(below))


def test_a_hessian_too_large_to_hold_is_refused() -> None:
    f = LocalLoss(Squared(), np.ones((1, 5001)), np.ones(1))
    with pytest.raises(
        DataError, match="the model has 5001 numbers; a Hessian is computed of 5000"
    ):
        f.hessian(np.zeros(5001))
