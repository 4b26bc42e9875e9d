"""What every loss is: a frozen block of parameters, and pure mathematics on arrays.

A loss does not hold data. `LocalLoss` joins a loss and the samples of one client.
"""

# ruff: noqa: ARG002 - a loss may need less than its base hands over

from abc import abstractmethod
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.spec import Spec

State = tuple[Array, ...]
"""What value and gradient at one model have in common, such as residuals."""


class Rows(NamedTuple):
    """The samples of one client as a loss has arranged them for its kernels.

    Attributes:
        X: features or what was made of them, shape (n, d).
        t: targets, shape (n,) or (n, outputs).
        factor: what the sum over the rows is multiplied with, as the scale says.
        reach: the largest norm of a row of X, so that no product exceeds it times |w|;
            infinite where it was not computed.
    """

    X: Array
    t: Array
    factor: float
    reach: float = inf


class Loss(Spec):
    """A client's own loss f(w): over its rows a sum, scaled, and penalties once per client.

    How it is used: `encode` turns the labels of all clients into targets, so that all
    agree on what a label means; `arrange` puts one client's samples in the form that
    serves the kernels best; `forward`, `value` and `gradient` are those kernels.
    """

    source: ClassVar[str]
    """Where the loss is from, for people to read."""

    kind: str
    scale: str
    l2: float = Field(
        default=0.0, ge=0, description="weight of the term l2/2 |w|^2, once per client"
    )

    def encode(self, labels: Array) -> Array:
        """Return the targets, shape (n,) or (n, outputs), of the labels of all clients, (n,).

        Raises:
            DataError: the loss cannot be used with these labels.
        """
        return labels

    def arrange(self, X: Array, t: Array, total: int) -> Rows:
        """Return a client's features (n, d) and targets as the kernels take them.

        Args:
            X: features.
            t: targets, as `encode` made them.
            total: the number of rows of all clients together.
        """
        return Rows(X, t, _factor(self.scale, len(X), total))

    @abstractmethod
    def dimension(self, features: int, outputs: int) -> int:
        """Return the length of w for rows of so many features and targets."""

    @abstractmethod
    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the model to start from, shape (dimension,)."""

    @abstractmethod
    def operations(self, rows: int, features: int, outputs: int) -> float:
        """Return the floating-point operations of one gradient on so many rows."""

    @abstractmethod
    def forward(self, rows: Rows, w: Array) -> State:
        """Compute what the value and the gradient at `w` have in common."""

    @abstractmethod
    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w), given the forward state at `w`."""

    @abstractmethod
    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return a (sub)gradient of f at `w`, given the forward state at `w`."""

    def hessian(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the Hessian at `w` of the smooth part of f, shape (dimension, dimension).

        Raises:
            DataError: the loss does not provide one.
        """
        raise DataError("loss", f"the loss {self.kind} does not provide its Hessian")

    def majorant(self, rows: Rows) -> tuple[float, Array]:
        """Return c and A so that c A^T A + l2 I bounds the Hessian at every w, tightly.

        Raises:
            DataError: there is no such bound.
        """
        raise DataError(
            "loss",
            f"the loss {self.kind} has no smoothness constant (it is not convex, and its "
            "gradient is not Lipschitz); give the step size as a number",
        )


def two_labels(labels: Array, low: float, high: float, key: str) -> Array:
    """Return `low` for the smaller of two distinct labels and `high` for the larger.

    Raises:
        DataError: there are not two distinct labels; `key` is what asked for them.
    """
    distinct = np.unique(labels)
    if len(distinct) != 2:
        seen = ", ".join(f"{label:g}" for label in distinct[:5])
        more = ", ..." if len(distinct) > 5 else ""
        raise DataError(
            key, f"two distinct labels are needed; the data has {len(distinct)} ({seen}{more})"
        )
    return np.where(labels == distinct[0], low, high)


def _factor(scale: str, own: int, total: int) -> float:
    """Return what a scale multiplies a sum over the client's own rows with."""
    return {"sum": 1.0, "mean": 1.0 / own, "mean-square": 2.0 / own, "share": 1.0 / total}[scale]


def long_side_contiguous(X: Array) -> Array:
    """Return X with its longer side contiguous in memory.

    Products of a tall matrix with vectors run about a quarter faster column by column.
    """
    return np.asfortranarray(X) if len(X) > X.shape[1] else np.ascontiguousarray(X)
