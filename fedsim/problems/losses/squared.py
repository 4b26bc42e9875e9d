"""The squared loss: least squares, ridge regression and, with l1, the lasso."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.ports import Array
from fedsim.problems.losses.base import Rows, State
from fedsim.problems.losses.linear import LinearLoss


class Squared(LinearLoss):
    """Squared error of a linear model; with `l1` the lasso, with `l2` ridge regression."""

    source: ClassVar[str] = (
        "Legendre 1805; lasso: Tibshirani, J. R. Stat. Soc. B 1996; ridge: Hoerl, Kennard 1970"
    )
    steepest: ClassVar[float] = 1.0

    kind: Literal["squared"] = "squared"
    scale: Literal["sum", "mean", "mean-square", "share"] = Field(
        default="mean",
        description="sum: |Xw-y|^2/2; mean: |Xw-y|^2/(2n) and mean-square: |Xw-y|^2/n with the "
        "client's own number of rows n; share: |Xw-y|^2/(2n) with that of all clients",
    )

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the residuals X w - t, shape (n,)."""
        residuals = rows.X @ w
        residuals -= rows.t
        return (residuals,)

    def total(self, state: State) -> float:
        """Return |r|^2/2."""
        return 0.5 * float(state[0].dot(state[0]))

    def slopes(self, state: State) -> Array:
        """Return r."""
        return state[0]

    def curvatures(self, state: State) -> Array:
        """Return ones."""
        return np.ones_like(state[0])
