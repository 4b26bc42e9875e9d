"""The loss of one row as the kernels compute it, without a compiler: closed forms, differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedsim.computing.compiled import loss_functions
from fedsim.computing.compiled.loss_functions import (
    LOGISTIC,
    MLP_SIGMOID,
    MLP_SOFTMAX,
    MLP_SQUARED,
    SOFTMAX,
    SQUARED,
)
from fedsim.ports import Array

HIDDEN, OUTPUTS = 4, 3
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


def row(name: str, seed: int) -> tuple[int, Array, Array, Array, Array]:
    """Return a kind, products, targets, a head, and a buffer for the outputs."""
    kind, products, weights, c = KINDS[name]
    rng = np.random.default_rng(seed)
    t = np.eye(c)[rng.integers(c)] if c > 1 else rng.integers(2, size=1).astype(float)
    return kind, rng.normal(size=products), t, rng.normal(size=weights), np.empty(c)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KINDS)
def test_the_value_of_a_row_is_its_closed_form(name: str, seed: int) -> None:
    kind, a, t, head, o = row(name, seed)
    expected = EXPECTED[kind](a, t, head)
    assert loss_functions.value(kind, a.copy(), t, head, o) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KINDS)
def test_slopes_are_differences_of_the_value(name: str, seed: int) -> None:
    kind, a, t, head, o = row(name, seed)
    both, split, step = np.concatenate((a, head)), len(a), 1e-6
    expected = []
    for change in step * np.eye(len(both)):
        ends = [EXPECTED[kind](w[:split], t, w[split:]) for w in (both + change, both - change)]
        expected.append((ends[0] - ends[1]) / (2 * step))
    to_head = np.ones(len(head))  # what other rows have added
    loss_functions.slopes(kind, a, t, head, to_head, o)
    found = np.concatenate((a, to_head - 1))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("u", [-800.0, 800.0])
def test_products_however_large_overflow_nowhere(u: float) -> None:
    none = np.empty(0)
    assert loss_functions.value(LOGISTIC, np.array([u]), none, none, none) == max(u, 0.0)
    a = np.array([u])
    loss_functions.slopes(LOGISTIC, a, none, none, none, none)
    assert a[0] == pytest.approx(float(u > 0))
    scores = np.array([u, 0.0])
    best = np.array([1.0, 0.0]) if u > 0 else np.array([0.0, 1.0])
    assert loss_functions.value(SOFTMAX, scores, best, none, none) == pytest.approx(0, abs=1e-12)
