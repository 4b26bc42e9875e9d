"""Losses of single rows: their mean is the loss without penalties, and what clients report."""

from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems import (
    LocalLoss,
    Logistic,
    Loss,
    LossOracle,
    MultilayerPerceptron,
    NeymanPearson,
    Softmax,
    Squared,
)
from fedsim.problems.restricted import restrict
from tests.tiers import every

ROWS, FEATURES, CLASSES = 9, 4, 3


def samples(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return features and classes from 0."""
    return rng.standard_normal((ROWS, FEATURES)), (np.arange(ROWS) % CLASSES).astype(np.float64)


def logistic_losses(X: Array, labels: Array, w: Array) -> list[float]:
    signs = np.where(labels > 0, 1.0, -1.0)
    return [float(np.log1p(np.exp(-y * x.dot(w)))) for x, y in zip(X, signs, strict=True)]


def squared_losses(X: Array, labels: Array, w: Array) -> list[float]:
    return [0.5 * float(x.dot(w) - y) ** 2 for x, y in zip(X, labels, strict=True)]


def softmax_losses(X: Array, labels: Array, w: Array) -> list[float]:
    found = []
    for x, y in zip(X, labels, strict=True):
        scores = x @ w.reshape(FEATURES, CLASSES)
        found.append(float(np.log(np.exp(scores).sum()) - scores[int(y)]))
    return found


LOOPS: list[tuple[Loss, Any]] = [
    (Logistic(labels={"positive": 0}, l1=0.1, l2=0.3), logistic_losses),  # type: ignore[arg-type]
    (Squared(scale="mean", l2=0.3), squared_losses),
    (Squared(scale="mean-square"), squared_losses),
    (Softmax(l2=0.3), softmax_losses),
]


@every(("loss", "loop"), LOOPS)
def test_the_root_mean_square_is_that_of_a_loop_over_the_rows(
    loss: Loss, loop: Any, rng: np.random.Generator
) -> None:
    X, labels = samples(rng)
    seen = np.where(labels == 0, 1.0, -1.0) if isinstance(loss, Logistic) else labels
    local = LocalLoss(loss, X, loss.encode(labels))
    w = rng.standard_normal(local.dimension)
    due = np.sqrt(sum(each**2 for each in loop(X, seen, w)) / ROWS)
    assert local.root_mean_square(w) == pytest.approx(due, rel=1e-12)
    assert local.root_mean_square(w) >= np.mean(loop(X, seen, w))
    work = LossOracle(local).root_mean_square(w)
    assert float(work.kernel(local, *work.arguments)) == local.root_mean_square(w)
    whole = LossOracle(local).value(w)
    assert (work.operations, work.samples) == (whole.operations, whole.samples)


@every(
    "loss",
    [Logistic(labels="as-given"), Squared(), Softmax(), MultilayerPerceptron(hidden=3)],
)
def test_the_mean_of_the_rows_losses_is_the_loss(loss: Loss, rng: np.random.Generator) -> None:
    X, labels = samples(rng)
    local = LocalLoss(loss, X, loss.encode(labels))
    w = rng.standard_normal(local.dimension)
    each = loss.row_losses(local.arranged, w, local.forward(w))
    assert each is not None
    assert each.shape == (ROWS,)
    assert each.mean() == pytest.approx(local.value(w), rel=1e-12)


def test_a_loss_without_those_of_rows_has_its_own_value(rng: np.random.Generator) -> None:
    X, labels = samples(rng)
    loss = NeymanPearson(l2=0.1)
    local = LocalLoss(loss, X, loss.encode((labels > 0).astype(float)))
    w = rng.standard_normal(FEATURES)
    assert local.root_mean_square(w) == local.value(w)


def test_on_some_coordinates_it_is_that_of_the_whole_model(rng: np.random.Generator) -> None:
    X, labels = samples(rng)
    for loss in (Squared(), MultilayerPerceptron(hidden=3)):
        local = LocalLoss(loss, X, loss.encode(labels))
        basis = np.array([2, 0])
        w = np.zeros(local.dimension)
        w[basis] = 1.5, -0.5
        part = restrict(local, basis)
        found = part.root_mean_square(np.array([1.5, -0.5]))
        assert found == pytest.approx(local.root_mean_square(w), rel=1e-12)
