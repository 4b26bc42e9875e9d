"""Least squares: the squared loss of a linear model, and of a matrix (trace regression)."""

from math import isqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses.base import Rows, State
from fedsim.problems.losses.linear import LinearLoss
from fedsim.problems.samples import Features, product


class LeastSquares(LinearLoss):
    """phi(u) = (u - t)^2/2, the same for every row; a least-squares solver can solve it."""

    steepest: ClassVar[float] = 1.0

    scale: Literal["sum", "mean", "mean-square", "share"] = Field(
        default="mean",
        description="sum: |Xw-y|^2/2; mean: |Xw-y|^2/(2n) and mean-square: |Xw-y|^2/n with the "
        "client's own number of rows n; share: |Xw-y|^2/(2n) with that of all clients",
    )

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the residuals X w - t, shape (n,)."""
        residuals = product(rows.X, w)
        residuals -= rows.t
        return (residuals,)

    def total(self, state: State) -> float:
        """Return |r|^2/2."""
        return 0.5 * float(state[0].dot(state[0]))

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array:
        """Return r^2/2 of each row."""
        return np.asarray(0.5 * state[0] ** 2)

    def slopes(self, state: State) -> Array:
        """Return r."""
        return state[0]

    def curvatures(self, state: State) -> Array:
        """Return ones."""
        return np.ones_like(state[0])

    def regress(self, X: Features, w: Array) -> Array:
        """Return X w."""
        return product(X, w)


class Squared(LeastSquares):
    """Squared error of a linear model; with `l1` the lasso, with `l2` ridge regression."""

    source: ClassVar[str] = (
        "Legendre 1805; lasso: Tibshirani, J. R. Stat. Soc. B 1996; ridge: Hoerl, Kennard 1970"
    )

    kind: Literal["squared"] = "squared"


class TraceRegression(LeastSquares):
    """Squared error of a matrix model, <X, W> - y; features are flattened matrices."""

    source: ClassVar[str] = (
        "Rohde, Tsybakov, Estimation of High-Dimensional Low-Rank Matrices, Ann. Stat. 2011"
    )
    of_matrices: ClassVar[bool] = True

    kind: Literal["trace-regression"] = "trace-regression"
    rows: int | None = Field(
        default=None,
        ge=1,
        description="rows m of the matrix W, which is m x n for m n features, row by row; a "
        "square matrix when not given",
    )

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return A and the targets.

        Raises:
            DataError: this number of features does not fill such a matrix.
        """
        self.shape(X.shape[-1], 1)
        return super().arrange(X, t, total)

    def shape(self, features: int, outputs: int) -> tuple[int, ...]:
        """Return (m, n).

        Raises:
            DataError: this number of features does not fill such a matrix.
        """
        rows = self.rows or isqrt(features)
        if features % rows or not (self.rows or rows * rows == features):
            given = f"{rows} rows do not divide" if self.rows else "a square matrix does not take"
            raise DataError(
                "loss.rows", f"{given} the {features} features of the data; give a divisor of them"
            )
        return rows, features // rows
