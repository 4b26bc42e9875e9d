"""Softmax regression: cross entropy of a linear classifier of several classes."""

from itertools import combinations_with_replacement
from typing import ClassVar, Literal

import numpy as np

from fedsim.core.memory import check_budget
from fedsim.core.ports import Array
from fedsim.problems.losses.base import SCALE, Loss, Rows, State, half_square
from fedsim.problems.losses.linear import check_hessian, whole_labels
from fedsim.problems.samples import Features, gram, product, transposed_product


class Softmax(Loss):
    """Cross entropy log sum_c exp(x.w_c) - x.w_y of a linear classifier with C classes.

    The classes are the distinct labels of all clients, ascending. The model W, shape (d, C), has
    one column per class, and is flattened row by row. A gradient on m rows costs 4 m d C
    floating-point operations: 2 m d C for X W and as many for X^T (P - T).
    """

    source: ClassVar[str] = "Boehning, Multinomial logistic regression algorithm, AISM 1992"
    classifies: ClassVar[bool | str] = True
    of_matrices: ClassVar[bool] = True
    steepest: ClassVar[float] = 0.5
    """The largest eigenvalue of diag(p) - p p^T is at most 1/2 (Boehning 1992)."""

    kind: Literal["softmax"] = "softmax"
    scale: Literal["sum", "mean", "share"] = SCALE

    def encode(self, labels: Array) -> Array:
        """Return a table (n, C) with a one in the column of each row's class.

        Raises:
            DataError: a label is no whole number, so it is no class.
        """
        return indicators(whole_labels(labels, "loss.kind"))

    def dimension(self, features: int, outputs: int) -> int:
        """Return d C."""
        return features * outputs

    def shape(self, features: int, outputs: int) -> tuple[int, ...]:
        """Return (d, C)."""
        return features, outputs

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return zeros."""
        return np.zeros(features * outputs)

    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return 4 m d C."""
        return 4.0 * rows * features * outputs

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute P - T (n, C), where P are the probabilities, and the loss of each row (n,)."""
        return cross_entropy(product(rows.X, w.reshape(-1, rows.t.shape[1])), rows.t)

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        value = rows.factor * float(state[1].sum())
        return value + self.l2 * half_square(w) if self.l2 else value

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the cross entropy of each row."""
        return state[1]

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return s X^T (P - T) + l2 W, flat like `w`."""
        gradient = transposed_product(rows.X, state[0]).ravel()
        gradient *= rows.factor
        if self.l2:
            gradient += self.l2 * w
        return gradient

    def hessian(self, rows: Rows, w: Array, state: State) -> Array:
        """Return s sum_i kron(x_i x_i^T, diag(p_i) - p_i p_i^T) + l2 I, shape (d C, d C).

        Raises:
            DataError: it exceeds the memory limit.
        """
        check_hessian(len(w))
        d, C = rows.X.shape[1], rows.t.shape[1]
        # The state has P - T.
        P = state[0] + rows.t
        hessian = np.empty((d, C, d, C))
        for a, b in combinations_with_replacement(range(C), 2):
            block = gram(rows.X, rows.factor * P[:, a] * (float(a == b) - P[:, b]))
            # The block of classes (a, b) equals that of (b, a).
            hessian[:, a, :, b] = hessian[:, b, :, a] = block
        whole = hessian.reshape(d * C, d * C)
        whole[np.diag_indices_from(whole)] += self.l2
        return whole

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c = s/2 and X: the Hessian is at most kron(c X^T X, I_C) + l2 I."""
        return rows.factor * self.steepest, rows.X

    def classes(self, labels: Array) -> Array:
        """Return the distinct labels, ascending."""
        return np.unique(labels)

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return x.w_c of each class, shape (n, C)."""
        return product(X, w.reshape(-1, len(classes)))


def indicators(labels: Array) -> Array:
    """Return one column per distinct label, ascending, with ones in the rows that have it.

    Raises:
        DataError: the table exceeds the memory limit.
    """
    classes = np.unique(labels)
    what = f"{labels.size} rows with {classes.size} different labels"
    check_budget("loss.kind", what, 9 * labels.size * classes.size)
    return np.asarray(labels[:, None] == classes, dtype=np.float64)


def cross_entropy(outputs: Array, t: Array) -> tuple[Array, Array]:
    """Return the probabilities minus the targets (n, C), and the cross entropy of each row (n,).

    Rows of several clients may be stacked along a leading axis.
    """
    # Subtracting the largest output changes no probability, and keeps `exp` from overflowing.
    shifted = outputs - outputs.max(axis=-1, keepdims=True)
    likelihoods = np.exp(shifted)
    total = likelihoods.sum(axis=-1, keepdims=True)
    losses = np.log(total[..., 0]) - (shifted * t).sum(axis=-1)
    return likelihoods / total - t, losses
