"""Losses of linear models: a function of the products A w, summed over the rows."""

# ruff: noqa: ARG002 - a kernel takes what any loss may need

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.features import (
    Features,
    gram,
    laid_out,
    transposed_product,
)
from fedsim.problems.losses.base import Loss, half_square
from fedsim.problems.losses.rows import Rows, State

LARGEST_HESSIAN = 5000
"""Up to this length of the model a Hessian is computed: 200 MB of numbers."""


class LinearLoss(Loss):
    """f(w) = s sum_i phi_i(a_i.w) + l1 |w|_1 + l2/2 |w|^2, with s set by the scale.

    A gradient on m rows of d features costs 4 m d floating-point operations: 2 m d for
    A w and as many for A^T phi'; of sparse rows only what they store counts. The l1 term
    enters by its subgradient, with sign(0) = 0.
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
        """Return the rows as A, laid out for products with vectors, and the targets."""
        return super().arrange(laid_out(X), t, total)

    def dimension(self, features: int, outputs: int) -> int:
        """Return d: one weight a feature."""
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
            DataError: it is too large to be held.
        """
        check_hessian(len(w))
        hessian = gram(rows.X, rows.factor * self.curvatures(state))
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c = s max phi'' and A."""
        return rows.factor * self.steepest, rows.X


def check_hessian(length: int) -> None:
    """See to it that a Hessian of so many rows and columns can be held.

    Raises:
        DataError: it is larger than `LARGEST_HESSIAN`.
    """
    if length > LARGEST_HESSIAN:
        raise DataError(
            "loss",
            f"the model has {length} numbers; a Hessian is computed of {LARGEST_HESSIAN} at most",
        )
