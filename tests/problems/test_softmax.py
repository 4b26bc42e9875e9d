"""Softmax regression: against scikit-learn, and by what sets cross entropy apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from fedsim.core.ports import Array
from fedsim.problems import LocalLoss, Logistic, Problem, Samples, Softmax

from .examples import local, samples

DATA = samples(rows=30, features=4)
THREE = Samples(DATA.X, np.array([7.0, -2.0, 3.0])[np.arange(30) % 3])


def probabilities(W: Array) -> Array:
    likelihoods = np.exp(THREE.X @ W)
    return np.asarray(likelihoods / likelihoods.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(("scale", "share"), [("mean", 1.0), ("sum", 30.0), ("share", 1.0)])
def test_the_value_is_the_log_loss_of_scikit_learn(
    scale: str, share: float, rng: np.random.Generator
) -> None:
    W = rng.standard_normal((4, 3))
    f = local(Softmax.model_validate({"scale": scale, "l2": 0.3}), THREE)
    expected = share * log_loss(THREE.y, probabilities(W)) + 0.15 * (W**2).sum()
    assert f.value(W.ravel()) == pytest.approx(expected, rel=1e-12)


def test_the_model_has_a_row_a_feature_and_a_column_a_class() -> None:
    f = local(Softmax(), THREE)
    assert f.dimension == 12
    assert f.loss.shape(f.features, f.outputs) == (4, 3)
    assert f.initial(np.random.default_rng(0)).tolist() == [0.0] * 12


def test_two_classes_are_logistic_regression_on_the_difference_of_the_columns(
    rng: np.random.Generator,
) -> None:
    W = rng.standard_normal((4, 2))
    expected = local(Logistic(), DATA).value(W[:, 1] - W[:, 0])
    assert local(Softmax(), DATA).value(W.ravel()) == pytest.approx(expected, rel=1e-13)


@given(seed=st.integers(0, 2**32 - 1), size=st.floats(0, 100))
def test_a_vector_added_to_every_column_changes_nothing(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    f, W = local(Softmax(), THREE), rng.standard_normal((4, 3))
    moved = W + size * rng.standard_normal((4, 1))
    assert f.value(moved.ravel()) == pytest.approx(f.value(W.ravel()), rel=1e-9)
    gradient = f.gradient(W.ravel()).reshape(4, 3)
    assert gradient.sum(axis=1) == pytest.approx(0, abs=1e-14)


def test_at_zero_every_class_is_as_likely() -> None:
    f = local(Softmax(), THREE)
    assert f.value(np.zeros(12)) == pytest.approx(np.log(3))
    targets = (THREE.y[:, None] == np.unique(THREE.y)).astype(float)
    expected = THREE.X.T @ (1 / 3 - targets) / 30
    assert f.gradient(np.zeros(12)) == pytest.approx(expected.ravel())


@pytest.mark.parametrize("margin", [1e4, 700.0, 1e-300])
def test_huge_margins_neither_overflow_nor_warn(margin: float) -> None:
    f = LocalLoss(Softmax(scale="sum"), np.array([[margin], [-margin]]), np.eye(2))
    assert f.value(np.array([1.0, 0.0])) == pytest.approx(2 * np.log1p(np.exp(-margin)))
    assert f.value(np.array([0.0, 1.0])) == pytest.approx(2 * np.logaddexp(0, margin))
    assert np.isfinite(f.gradient(np.array([0.0, 1.0]))).all()


def test_the_smoothness_constant_is_attained_where_two_classes_share_all_likelihood() -> None:
    # One feature, three classes, the third of which is out of the question.
    f = LocalLoss(Softmax(scale="sum"), np.ones((1, 1)), np.eye(3)[:1])
    largest = np.linalg.eigvalsh(f.hessian(np.array([0.0, 0.0, -800.0])))[-1]
    assert f.smoothness == pytest.approx(largest)


def test_a_gradient_costs_four_operations_an_entry_and_class() -> None:
    assert local(Softmax(), THREE).gradient_operations == 4 * 30 * 4 * 3


def test_classes_are_those_of_all_clients() -> None:
    parts = [THREE.take(np.flatnonzero(THREE.y == label)) for label in (7, -2, 3)]
    problem = Problem.of(Softmax(), parts)
    assert problem.dimension == 12
    whole = local(Softmax(), THREE)
    w = np.linspace(-1, 1, 12)
    assert problem.value(w) == pytest.approx(whole.value(w))


def test_the_likeliest_class_is_predicted(rng: np.random.Generator) -> None:
    loss, W = Softmax(), rng.standard_normal((4, 3))
    classes = loss.classes(THREE.y)
    assert classes.tolist() == [-2, 3, 7]
    predicted = loss.predict(THREE.X, W.ravel(), classes)
    assert np.array_equal(predicted, classes[probabilities(W).argmax(axis=1)])
