"""The logistic loss of a linear classifier."""

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.ports import Array
from fedsim.problems.losses.base import Rows, State, two_labels
from fedsim.problems.losses.linear import LinearLoss

_STEEP = 40.0
"""Up to this u, exp(u) and a product of `_BLOCK` factors 1 + exp(u) stay below 1e278."""

_BLOCK = 16
"""So many factors 1 + exp(u) are multiplied before a logarithm is taken of them."""


class Logistic(LinearLoss):
    """Logistic loss log(1 + exp(-y x.w)) of a linear classifier.

    With a_i = -y_i x_i and u = A w a row's loss is log(1 + exp(u)), its derivative the
    sigmoid of u. The labels are folded into the rows once, when they are arranged.
    """

    source: ClassVar[str] = "Cox, The Regression Analysis of Binary Sequences, 1958"
    steepest: ClassVar[float] = 0.25

    kind: Literal["logistic"] = "logistic"
    scale: Literal["sum", "mean", "share"] = Field(
        default="mean",
        description="the sum over the client's rows, their mean, or (share) their sum over the "
        "number of rows of all clients",
    )
    labels: Literal["as-given", "plus-minus"] = Field(
        default="as-given",
        description="as-given: y is used as the data has it; plus-minus: the smaller of "
        "exactly two distinct labels becomes -1, the larger +1",
    )

    def encode(self, labels: Array) -> Array:
        """Return the labels as given, or as -1 and +1.

        Raises:
            DataError: plus-minus is asked for and there are not two distinct labels.
        """
        if self.labels == "as-given":
            return labels
        return two_labels(labels, -1.0, 1.0, "loss.labels")

    def arrange(self, X: Array, t: Array, total: int) -> Rows:
        """Return A = -diag(t) X, and the targets."""
        return super().arrange(-t[:, None] * X, t, total)

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute p, q and h, so that the sigmoid is p/q and log(1 + exp(u)) = h + log q.

        Where every u is moderate p = exp(u), q = 1 + p and h = 0 (left empty). Otherwise
        h = max(u, 0), p = exp(u - h) and q = p + exp(-h), of which nothing can overflow.
        """
        u = rows.X.dot(w)
        if rows.reach**2 * w.dot(w) <= _STEEP**2 or u[u.argmax()] <= _STEEP:
            p = np.exp(u, out=u)
            return p, p + 1.0, u[:0]
        hinge = np.maximum(u, 0.0)
        p = np.exp(u - hinge)
        return p, p + np.exp(-hinge), hinge

    def total(self, state: State) -> float:
        """Return the sum of log(1 + exp(u)), by one logarithm for `_BLOCK` rows.

        The factors lie in [1, 2], or below 1 + exp(_STEEP), so no product overflows; each
        is rounded once, as in log(1 + e).
        """
        _, q, hinge = state
        products = np.multiply.reduceat(q, _starts(len(q)))
        total = float(np.add.reduce(np.log(products)))
        return total + float(hinge.sum()) if hinge.size else total

    def slopes(self, state: State) -> Array:
        """Return the sigmoid of u."""
        p, q, _ = state
        return p / q

    def curvatures(self, state: State) -> Array:
        """Return sigmoid(u) sigmoid(-u)."""
        p, q, hinge = state
        other = np.exp(-hinge) if hinge.size else 1.0
        return p * other / (q * q)


@lru_cache(maxsize=64)
def _starts(rows: int) -> NDArray[np.intp]:
    """Return where each block of so many rows begins."""
    return np.arange(0, rows, _BLOCK)
