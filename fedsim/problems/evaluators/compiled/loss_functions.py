"""Values and derivatives of each loss, for a block of rows at once.

They are functions of the products of rows with the columns of the model: a matrix (m, B) with one
column per row, so that loops over rows are vectorised. The products are replaced in place by the
derivatives ("slopes") of the rows' losses with respect to them. For a perceptron the products are
the inputs of the hidden units. The rest of its model, the head, has their biases (h,), the weights
of the outputs (h, c), row by row, and the biases of the outputs (c,).
"""

import math
from typing import Final, NamedTuple

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import part
from fedsim.problems.evaluators.compiled.exponentials import exponential, sigmoid, softplus

SQUARED: Final = 0
LOGISTIC: Final = 1
SOFTMAX: Final = 2
MLP_SQUARED: Final = 3
MLP_SIGMOID: Final = 4
MLP_SOFTMAX: Final = 5


class Block(NamedTuple):
    """Buffers for a block of rows.

    Attributes:
        A: the products, and then the slopes, (m, B).
        T: the targets, (c, B).
        O: the outputs of a perceptron, (c, B).
        Z: two numbers per row, (2, B).
        rest: space that depends on how rows are stored.
    """

    A: Array
    T: Array
    O: Array  # noqa: E741 - beside A and T
    Z: Array
    rest: Array


def numbers_of_a_row(m: int, c: int) -> int:
    """Return how many numbers a row occupies in a block, without the rest."""
    return m + 2 * c + 2


@part
def slopes(kind: int, count: int, block: Block, head: Array, to_head: Array) -> None:
    """Replace the products of rows by slopes.

    Args:
        kind: the number of the loss.
        count: the number of rows; the block may have room for more.
        block: the buffers, with products and targets.
        head: the head of the model; empty without hidden units.
        to_head: the gradient of the rows' losses with respect to the head is added to it.
    """
    scores = block.A
    # For a perceptron the products are hidden inputs; its scores are the outputs.
    if kind >= MLP_SQUARED:
        _outputs(block, count, head)
        scores = block.O
    if kind in (SOFTMAX, MLP_SOFTMAX):
        _from_targets(scores, block, count)
    else:
        a, t = scores[0], block.T[0]
        # For the logistic loss of a product u, log(1 + exp(u)), the sigmoid is the slope itself.
        if kind in (LOGISTIC, MLP_SIGMOID):
            for r in range(count):
                a[r] = sigmoid(a[r])
        if kind == MLP_SIGMOID:
            for r in range(count):
                # Derivative of the squared error of a sigmoid.
                a[r] = (a[r] - t[r]) * a[r] * (1 - a[r])
        elif kind != LOGISTIC:  # whose targets are folded into the rows
            for r in range(count):
                a[r] -= t[r]
    if kind >= MLP_SQUARED:
        _back(block, count, head, to_head)


@part
def value(kind: int, count: int, block: Block, head: Array) -> float:
    """Return the sum of the rows' losses; overwrites the products. Arguments as for `slopes`."""
    total, scores = 0.0, block.A
    if kind >= MLP_SQUARED:
        _outputs(block, count, head)
        scores = block.O
    if kind in (SOFTMAX, MLP_SOFTMAX):
        return _cross_entropy(scores, block, count)
    a, t = scores[0], block.T[0]
    # Targets are folded into the rows: the loss is log(1 + exp(product)).
    if kind == LOGISTIC:
        for r in range(count):
            total += softplus(a[r])
        return total
    if kind == MLP_SIGMOID:
        for r in range(count):
            a[r] = sigmoid(a[r])
    for r in range(count):
        total += 0.5 * (a[r] - t[r]) ** 2
    return total


@part
def _find_largest(scores: Array, block: Block, count: int) -> None:
    """Set Z[0] to the largest score of each row."""
    largest = block.Z[0]
    for r in range(count):
        largest[r] = scores[0, r]
    for c in range(1, len(scores)):
        a = scores[c]
        for r in range(count):
            largest[r] = max(largest[r], a[r])


@part
def _exponentials(scores: Array, block: Block, count: int) -> None:
    """Replace scores (c, B) by their exponentials over those of the largest; sum them in Z[1]."""
    largest, total = block.Z[0], block.Z[1]
    for r in range(count):
        total[r] = 0
    for c in range(len(scores)):
        a = scores[c]
        for r in range(count):
            # Relative to the largest score no exponential overflows.
            a[r] = exponential(np.float64(a[r] - largest[r]))
            total[r] += a[r]


@part
def _from_targets(scores: Array, block: Block, count: int) -> None:
    """Replace scores (c, B) by probabilities minus targets."""
    _find_largest(scores, block, count)
    _exponentials(scores, block, count)
    total = block.Z[1]
    for r in range(count):
        # One division per row instead of one per score.
        total[r] = 1 / total[r]
    for c in range(len(scores)):
        a, t = scores[c], block.T[c]
        for r in range(count):
            a[r] = a[r] * total[r] - t[r]


@part
def _cross_entropy(scores: Array, block: Block, count: int) -> float:
    """Return the sum of the cross entropies of scores (c, B), which are overwritten."""
    entropy, largest, total = 0.0, block.Z[0], block.Z[1]
    _find_largest(scores, block, count)
    for c in range(len(scores)):
        a, t = scores[c], block.T[c]
        for r in range(count):
            # -log softmax = largest - score + log(sum of exp(score - largest)); the log follows
            # below.
            entropy += (largest[r] - a[r]) * t[r]
    _exponentials(scores, block, count)
    for r in range(count):
        entropy += math.log(total[r])
    return entropy


@part
def _outputs(block: Block, count: int, head: Array) -> None:
    """Replace the products (h, B) by the hidden units, and compute the outputs (c, B)."""
    A, O = block.A, block.O  # noqa: E741
    h, c = len(A), len(O)
    weights, biases = head[h : h + h * c].reshape(h, c), head[h + h * c :]
    # Sums start from the biases.
    for k in range(c):
        o = O[k]
        for r in range(count):
            o[r] = biases[k]
    for j in range(h):
        a, bias = A[j], head[j]
        for r in range(count):
            a[r] = sigmoid(a[r] + bias)
        for k in range(c):
            o, weight = O[k], weights[j, k]
            for r in range(count):
                o[r] += a[r] * weight


@part
def _back(block: Block, count: int, head: Array, to_head: Array) -> None:
    """Replace the hidden units by slopes, given those of the outputs, by back-propagation."""
    A, O = block.A, block.O  # noqa: E741
    # Summed in the type of the rows, as in the forward pass.
    h, c, zero = len(A), len(O), A.dtype.type(0)
    weights, back = head[h : h + h * c].reshape(h, c), block.Z[0]
    to_weights, to_biases = to_head[h : h + h * c].reshape(h, c), to_head[h + h * c :]
    for k in range(c):
        o, total = O[k], zero
        for r in range(count):
            total += o[r]
        to_biases[k] += total
    for j in range(h):
        a = A[j]
        for r in range(count):
            # `back` collects the slope of a hidden unit over all outputs.
            back[r] = 0
        for k in range(c):
            # The gradient of a weight needs the hidden unit, which its slope replaces only after
            # this loop.
            o, weight, total = O[k], weights[j, k], zero
            for r in range(count):
                back[r] += o[r] * weight
                total += a[r] * o[r]
            to_weights[j, k] += total
        total = zero
        for r in range(count):
            # Derivative of the sigmoid: a (1 - a).
            a[r] = back[r] * a[r] * (1 - a[r])
            total += a[r]
        to_head[j] += total


def code(kind: str, output: str) -> int:
    """Return the number of a kind of loss; that of a perceptron depends on its output."""
    names = {"logistic": LOGISTIC, "softmax": SOFTMAX, "mlp": MLP_SQUARED}
    heads = {"squared": MLP_SQUARED, "sigmoid": MLP_SIGMOID, "softmax": MLP_SOFTMAX}
    return heads[output] if kind == "mlp" else names.get(kind, SQUARED)
