"""Losses of a block of rows as the kernels compute them, without a compiler: closed forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled import loss_functions
from fedsim.problems.evaluators.compiled.loss_functions import (
    LOGISTIC,
    MLP_SIGMOID,
    MLP_SOFTMAX,
    MLP_SQUARED,
    SOFTMAX,
    SQUARED,
    Block,
)
from tests.tiers import every

HIDDEN, OUTPUTS = 4, 3
ROWS, ROOM = 5, 8
KINDS = {
    "squared": (SQUARED, 1, 0, 1),
    "logistic": (LOGISTIC, 1, 0, 1),
    "softmax": (SOFTMAX, OUTPUTS, 0, OUTPUTS),
    "perceptron, squared": (MLP_SQUARED, HIDDEN, HIDDEN + HIDDEN + 1, 1),
    "perceptron, sigmoid": (MLP_SIGMOID, HIDDEN, HIDDEN + HIDDEN + 1, 1),
    "perceptron, softmax": (MLP_SOFTMAX, HIDDEN, HIDDEN + (HIDDEN + 1) * OUTPUTS, OUTPUTS),
}
"""Each kind of loss: its number, and how many products, weights of its head and outputs it has."""


@pytest.fixture(autouse=True)
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python run the functions: they call each other by their names in the module."""
    for name, each in list(vars(loss_functions).items()):
        if hasattr(each, "py_func"):
            monkeypatch.setattr(loss_functions, name, each.py_func)


def sigmoid(u: Any) -> Any:
    return 1 / (1 + np.exp(-u))


def cross_entropy(scores: Array, t: Array) -> float:
    return float(np.log(np.exp(scores).sum()) - scores @ t)


def outputs(a: Array, head: Array, count: int) -> Array:
    """Return the outputs of a perceptron with these inputs of its hidden units."""
    biases, weights, last = np.split(head, [len(a), len(a) * (1 + count)])
    return np.asarray(sigmoid(a + biases) @ weights.reshape(len(a), count) + last)


EXPECTED: dict[int, Callable[[Array, Array, Array], float]] = {
    SQUARED: lambda a, t, _: float((a[0] - t[0]) ** 2 / 2),
    LOGISTIC: lambda a, t, _: float(np.log(1 + np.exp(a[0]))),
    SOFTMAX: lambda a, t, _: cross_entropy(a, t),
    MLP_SQUARED: lambda a, t, head: float((outputs(a, head, 1)[0] - t[0]) ** 2 / 2),
    MLP_SIGMOID: lambda a, t, head: float((sigmoid(outputs(a, head, 1)[0]) - t[0]) ** 2 / 2),
    MLP_SOFTMAX: lambda a, t, head: cross_entropy(outputs(a, head, OUTPUTS), t),
}


def rows(name: str, seed: int) -> tuple[int, Array, Array, Array]:
    """Return a kind, products (rows, m), targets (rows, c), and a head."""
    kind, products, weights, c = KINDS[name]
    rng = np.random.default_rng(seed)
    t = np.eye(2)[:, :1] if c == 1 else np.eye(c)
    t = t[rng.integers(len(t), size=ROWS)]
    return kind, rng.normal(size=(ROWS, products)), t, rng.normal(size=weights)


def block_of(a: Array, t: Array) -> Block:
    """Return a block with room for more rows than these, whose places hold no number."""
    m, c = a.shape[1], t.shape[1]
    A, T, O, Z = (np.full((k, ROOM), np.nan) for k in (m, c, c, 2))  # noqa: E741
    block = Block(A, T, O, Z, np.empty(0))
    block.A[:, : len(a)], block.T[:, : len(a)] = a.T, t.T
    return block


@every("seed", range(3))
@every("name", KINDS)
def test_the_value_of_rows_is_the_sum_of_closed_forms(name: str, seed: int) -> None:
    kind, a, t, head = rows(name, seed)
    expected = sum(EXPECTED[kind](*row, head) for row in zip(a, t, strict=True))
    found = loss_functions.value(kind, ROWS, block_of(a, t), head)
    assert found == pytest.approx(expected, rel=1e-12)


@every("seed", range(3))
@every("name", KINDS)
def test_slopes_are_differences_of_the_value(name: str, seed: int) -> None:
    kind, a, t, head = rows(name, seed)
    both, split, step = np.concatenate((a.ravel(), head)), a.size, 1e-6

    def sum_of(w: Array) -> float:
        each = zip(w[:split].reshape(a.shape), t, strict=True)
        return sum(EXPECTED[kind](*row, w[split:]) for row in each)

    expected = [
        (sum_of(both + change) - sum_of(both - change)) / (2 * step)
        for change in step * np.eye(len(both))
    ]
    block, to_head = block_of(a, t), np.ones(len(head))  # what other blocks have added
    loss_functions.slopes(kind, ROWS, block, head, to_head)
    assert np.isnan(block.A[:, ROWS:]).all()
    found = np.concatenate((block.A[:, :ROWS].T.ravel(), to_head - 1))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("u", [-800.0, 800.0])
def test_products_however_large_overflow_nowhere(u: float) -> None:
    none, above = np.empty(0), float(u > 0)
    one = np.ones((1, 1))
    assert loss_functions.value(LOGISTIC, 1, block_of(u * one, one), none) == max(u, 0.0)
    block = block_of(u * one, one)
    loss_functions.slopes(LOGISTIC, 1, block, none, none)
    assert block.A[0, 0] == pytest.approx(above)
    best = np.array([[above, 1 - above]])
    block = block_of(np.array([[u, 0.0]]), best)
    assert loss_functions.value(SOFTMAX, 1, block, none) == pytest.approx(0, abs=1e-12)


@every("name", KINDS)
def test_what_is_no_number_stays_none(name: str) -> None:
    """A method that diverges is reported by it."""
    kind, a, t, head = rows(name, 0)
    a[1, -1] = np.nan
    assert np.isnan(loss_functions.value(kind, ROWS, block_of(a, t), head))
    block = block_of(a, t)
    loss_functions.slopes(kind, ROWS, block, head, np.zeros(len(head)))
    assert np.isnan(block.A[:, 1]).any()
    assert np.isfinite(block.A[:, [0, 2]]).all()
