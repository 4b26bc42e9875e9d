"""Values and derivatives of each loss as functions of the products of a row with the model.

The products of a row with the columns of the model are replaced, in place, by the derivatives
("slopes") of its loss with respect to them. For a perceptron the products are the inputs of the
hidden units; the rest of the model, its head, has their biases (h,), the weights of the outputs
(h, c), row by row, and the biases of the outputs (c,).
"""

import math
from typing import Final

import numpy as np

from fedsim.computing.compiled.compiler import part
from fedsim.ports import Array

SQUARED: Final = 0
LOGISTIC: Final = 1
SOFTMAX: Final = 2
MLP_SQUARED: Final = 3
MLP_SIGMOID: Final = 4
MLP_SOFTMAX: Final = 5


@part
def slopes(kind: int, a: Array, t: Array, head: Array, to_head: Array, o: Array) -> None:
    """Replace the products of a row by slopes.

    Args:
        kind: of the loss.
        a: the products, shape (m,), replaced by the slopes.
        t: the row's targets, shape (c,).
        head: of the model; empty without hidden units.
        to_head: the gradient of the row's loss with respect to the head is added to it.
        o: a buffer for the outputs of a perceptron, shape (c,).
    """
    if kind == SQUARED:
        a[0] -= t[0]
    elif kind == LOGISTIC:
        a[0] = _sigmoid(a[0])
    elif kind == SOFTMAX:
        _cross_entropy(a, t)
    else:
        _back(kind, a, t, head, to_head, o)


@part
def value(kind: int, a: Array, t: Array, head: Array, o: Array) -> float:
    """Return the loss of a row; overwrites its products. Arguments as for `slopes`."""
    if kind == SQUARED:
        return float(0.5 * (a[0] - t[0]) ** 2)
    if kind == LOGISTIC:
        # log(1 + exp(u)) without overflow, and without cancellation for u far below 0.
        return float(max(a[0], a.dtype.type(0)) + math.log1p(math.exp(-abs(a[0]))))
    if kind == SOFTMAX:
        return _cross_entropy(a, t)
    _outputs(a, head, o)
    if kind == MLP_SOFTMAX:
        return _cross_entropy(o, t)
    unit = _sigmoid(o[0]) if kind == MLP_SIGMOID else o[0]
    return float(0.5 * (unit - t[0]) ** 2)


@part
def _sigmoid(u: float) -> float:
    """Return 1/(1 + exp(-u)) without overflow."""
    e = math.exp(-abs(u))
    return 1 / (1 + e) if u >= 0 else e / (1 + e)


@part
def _cross_entropy(a: Array, t: Array) -> float:
    """Return the cross entropy of scores (c,); replace them by probabilities minus targets."""
    largest, score, total = a[0], a.dtype.type(0), a.dtype.type(0)
    for c in range(1, len(a)):
        largest = max(largest, a[c])
    for c in range(len(a)):
        shifted = a[c] - largest
        score += shifted * t[c]
        a[c] = math.exp(shifted)
        total += a[c]
    for c in range(len(a)):
        a[c] = a[c] / total - t[c]
    return float(math.log(total) - score)


@part
def _outputs(a: Array, head: Array, o: Array) -> None:
    """Replace the products (h,) by the hidden units, and set `o`, shape (c,), to the outputs."""
    h, c = len(a), len(o)
    weights, biases = head[h : h + h * c].reshape(h, c), head[h + h * c :]
    for k in range(c):
        o[k] = biases[k]
    for j in range(h):
        a[j] = _sigmoid(a[j] + head[j])
        for k in range(c):
            o[k] += a[j] * weights[j, k]


@part
def _back(kind: int, a: Array, t: Array, head: Array, to_head: Array, o: Array) -> None:
    """Replace the products of the hidden units by slopes, by back-propagation."""
    h, c = len(a), len(o)
    _outputs(a, head, o)
    if kind == MLP_SOFTMAX:
        _cross_entropy(o, t)
    elif kind == MLP_SIGMOID:
        unit = _sigmoid(o[0])
        o[0] = (unit - t[0]) * unit * (1 - unit)
    else:
        o[0] -= t[0]
    weights = head[h : h + h * c].reshape(h, c)
    to_weights, to_biases = to_head[h : h + h * c].reshape(h, c), to_head[h + h * c :]
    for k in range(c):
        to_biases[k] += o[k]
    for j in range(h):
        back = a.dtype.type(0)
        for k in range(c):
            back += o[k] * weights[j, k]
            to_weights[j, k] += a[j] * o[k]
        a[j] = back * a[j] * (1 - a[j])
        to_head[j] += a[j]


def code(kind: str, output: str) -> int:
    """Return the number of a kind of loss; that of a perceptron depends on its output."""
    names = {"logistic": LOGISTIC, "softmax": SOFTMAX, "mlp": MLP_SQUARED}
    heads = {"squared": MLP_SQUARED, "sigmoid": MLP_SIGMOID, "softmax": MLP_SOFTMAX}
    return heads[output] if kind == "mlp" else names.get(kind, SQUARED)


EMPTY = np.zeros(0)
