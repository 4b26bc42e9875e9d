"""Losses of linear models: a function of the products A w, summed over the rows."""

from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses.base import Loss, Rows, State, half_square
from fedsim.problems.samples import Features, gram, laid_out, product, transposed_product

LARGEST_HESSIAN = 5000
"""The largest length of a model whose Hessian is computed: 200 MB of numbers."""


class LinearLoss(Loss):
    """f(w) = s sum_i phi_i(a_i.w) + l1 |w|_1 + l2/2 |w|^2, where s follows from the scale.

    A gradient on m rows with d features costs 4 m d floating-point operations: 2 m d for A w and as
    many for A^T phi'. For sparse rows only stored numbers count. The l1 term has the subgradient
    with sign(0) = 0.
    """

    steepest: ClassVar[float]
    """The least upper bound of phi''."""

    l1: float = Field(default=0.0, ge=0, description="weight of the term l1 |w|_1, once per client")

    @abstractmethod
    def total(self, state: State) -> float:
        """Return sum_i phi_i."""

    @abstractmethod
    def slopes(self, state: State) -> Array:
        """Return the derivatives phi_i', shape (n,)."""

    @abstractmethod
    def curvatures(self, state: State) -> Array:
        """Return the second derivatives phi_i'', shape (n,)."""

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return A, laid out for products with vectors, and the targets."""
        return super().arrange(laid_out(X), t, total)

    def dimension(self, features: int, outputs: int) -> int:
        """Return d: one weight per feature."""
        return features

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return zeros."""
        return np.zeros(features)

    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return 4 m d."""
        return 4.0 * rows * features

    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w)."""
        value = rows.factor * self.total(state)
        if self.l2:
            value += self.l2 * half_square(w)
        if self.l1:
            value += self.l1 * float(np.abs(w).sum())
        return value

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return a subgradient of f at `w`, shape (d,)."""
        gradient = transposed_product(rows.X, self.slopes(state))
        if rows.factor != 1.0:
            gradient *= rows.factor
        if self.l2:
            gradient += self.l2 * w
        if self.l1:
            gradient += self.l1 * np.sign(w)
        return gradient

    def hessian(self, rows: Rows, w: Array, state: State) -> Array:
        """Return s A^T diag(phi'') A + l2 I, shape (d, d).

        Raises:
            DataError: it exceeds the memory limit.
        """
        check_hessian(len(w))
        hessian = gram(rows.X, rows.factor * self.curvatures(state))
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c = s max phi'' and A."""
        return rows.factor * self.steepest, rows.X


def check_hessian(length: int) -> None:
    """Check that a Hessian with `length` rows and columns fits into memory.

    Raises:
        DataError: it is larger than `LARGEST_HESSIAN`.
    """
    if length > LARGEST_HESSIAN:
        raise DataError(
            "loss",
            f"the model has {length} numbers; a Hessian is computed of {LARGEST_HESSIAN} at most",
        )


# The function log(1 + exp(u)) per row, and its derivative, the sigmoid, to full accuracy.

STEEP = 40.0
"""Up to this u, exp(u) and a product of `_BLOCK` factors 1 + exp(u) stay below 1e278."""

_BLOCK = 16
"""The number of factors 1 + exp(u) that are multiplied before taking a logarithm."""


def forward(rows: Rows, w: Array) -> State:
    """Compute p, q and h of u = A w, with sigmoid p/q and log(1 + exp(u)) = h + log q.

    If every u is moderate, p = exp(u), q = 1 + p and h = 0 (an empty array). Otherwise h = max(u,
    0), p = exp(u - h) and q = p + exp(-h), none of which can overflow.
    """
    u = product(rows.X, w)
    if _is_moderate(rows, w, u):
        # u is not needed any more, so its memory is reused.
        p = np.exp(u, out=u)
        return p, p + 1.0, u[:0]
    hinge = np.maximum(u, 0.0)
    # Neither exponent is above 0, so neither exponential can overflow.
    p = np.exp(u - hinge)
    return p, p + np.exp(-hinge), hinge


def _is_moderate(rows: Rows, w: Array, u: Array) -> bool:
    """Return whether no u is too large; the cheaper of u and its bound is checked first."""
    looked = len(u) < len(w) and bool(u[u.argmax()] <= STEEP)
    return looked or bool(rows.reach**2 * w.dot(w) <= STEEP**2 or u[u.argmax()] <= STEEP)


def total(state: State) -> float:
    """Return the sum of log(1 + exp(u))."""
    _, q, hinge = state
    sum_of_logarithms = float(logarithms(q))
    return sum_of_logarithms + float(hinge.sum()) if hinge.size else sum_of_logarithms


def logarithms(q: Array) -> Array:
    """Return the sum of log q over the last axis, with one logarithm per `_BLOCK` rows.

    The factors lie in [1, 2], or below 1 + exp(STEEP), so no product overflows. Each of them is
    rounded once, as in log(1 + e).
    """
    # A product of this many factors would overflow in float32.
    products = np.multiply.reduceat(q, _starts(q.shape[-1]), axis=-1, dtype=np.float64)
    sums: Array = np.add.reduce(np.log(products), axis=-1)
    return sums


def each(state: State) -> Array:
    """Return log(1 + exp(u)) of each row, shape (n,)."""
    _, q, hinge = state
    values: Array = np.log(q)
    return values + hinge if hinge.size else values


def slopes(state: State) -> Array:
    """Return the sigmoid of u, shape (n,)."""
    p, q, _ = state
    return p / q


def curvatures(state: State) -> Array:
    """Return sigmoid(u) sigmoid(-u), shape (n,)."""
    p, q, hinge = state
    other = np.exp(-hinge) if hinge.size else 1.0
    return p * other / (q * q)


@lru_cache(maxsize=64)
def _starts(rows: int) -> NDArray[np.intp]:
    """Return the index at which each block of rows begins."""
    return np.arange(0, rows, _BLOCK)


# Class labels, and errors for data with other labels.


def distinct_pair(labels: Array, key: str) -> Array:
    """Return the two distinct labels, ascending.

    Args:
        labels: the labels, shape (n,).
        key: the key of the setting that requires two labels, for errors.

    Raises:
        DataError: the number of distinct labels is not two.
    """
    distinct = np.unique(labels)
    if len(distinct) != 2:
        raise DataError(
            key,
            f"two distinct labels are needed; the data has {len(distinct)} "
            f"({format_labels(distinct)})",
        )
    return distinct


def two_labels(labels: Array, low: float, high: float, key: str) -> Array:
    """Return `low` for the smaller of two labels and `high` for the larger; same errors."""
    return np.where(labels == distinct_pair(labels, key)[0], low, high)


def whole_labels(labels: Array, key: str) -> Array:
    """Return labels after checking that they are whole numbers, as class labels are.

    Args:
        labels: the labels, shape (n,).
        key: the key of the setting that treats labels as classes, for errors.

    Raises:
        DataError: a label is no whole number.
    """
    if not np.array_equal(labels, np.rint(labels)):
        seen = labels[labels != np.rint(labels)][0]
        raise DataError(
            key,
            f"classes have whole numbers as labels; the data has {seen:g} among its "
            f"{len(np.unique(labels))} distinct labels; the loss squared takes any number",
        )
    return labels


def format_labels(distinct: Array) -> str:
    """Return the first five distinct labels, for errors."""
    return ", ".join(f"{label:g}" for label in distinct[:5]) + (
        ", ..." if len(distinct) > 5 else ""
    )
