"""What every loss is: a frozen block of parameters, and pure mathematics on arrays.

A loss does not hold data. `LocalLoss` joins a loss and the samples of one client.
"""

from abc import abstractmethod
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.blocks.registry import kinds_where
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import joined
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.samples import Features, Precision

# What the kernels of losses take: a client's samples as its loss has arranged them.

State = tuple[Array, ...]
"""What value and gradient at one model have in common, such as residuals."""


class Rows(NamedTuple):
    """The samples of one client as a loss has arranged them for its kernels.

    Those of k clients with as many rows each may be stacked: then arrays have an axis more in
    front, of length k, and so has `reach`.

    Attributes:
        X: features or what was made of them, shape (n, d), dense or compressed sparse rows.
        t: targets, shape (n,) or (n, outputs).
        factor: what the sum over the rows is multiplied with, as the scale says.
        reach: the largest norm of a row of X, so that no product exceeds it times |w|;
            infinite where it was not computed.
    """

    X: Features
    t: Array
    factor: float
    reach: float | Array = inf


# ruff: noqa: ARG002 - a loss may need less than its base hands over


class Loss(Spec):
    """A client's own loss f(w): over its rows a sum, scaled, and penalties once per client.

    How it is used: `encode` turns the labels of all clients into targets, so that all
    agree on what a label means; `arrange` puts one client's samples in the form that
    serves the kernels best; `forward`, `value` and `gradient` are those kernels.
    """

    source: ClassVar[str]
    """Where the loss is from, for people to read."""

    constrained: ClassVar[bool] = False
    """Whether there is a constraint g(w) <= 0 beside the loss."""

    classifies: ClassVar[bool | str] = False
    """Whether there are `classes` and `predict`; or with which parameters, such as "with l2: 0"."""

    of_matrices: ClassVar[bool] = False
    """Whether models are matrices, whose shape `shape` returns."""

    threads: ClassVar[bool] = False
    """Whether most of its time is spent where other threads of Python can compute, too."""

    converts: ClassVar[bool] = False
    """Whether it takes features of any type, and itself converts those that it computes with."""

    kind: str
    scale: str
    l2: float = Field(
        default=0.0, ge=0, description="weight of the term l2/2 |w|^2, once per client"
    )

    def held(self, found: np.dtype[Any], precision: Precision) -> np.dtype[Any]:
        """Return the type that features are held in.

        Args:
            found: their own.
            precision: what the scenario asks for.
        """
        return np.dtype(precision)

    @property
    def computed_with(self) -> Mapping[str, str]:
        """What decides the last bits of what it computes, beside NumPy: for the manifest."""
        return {}

    def encode(self, labels: Array) -> Array:
        """Return the targets, shape (n,) or (n, outputs), of the labels of all clients, (n,).

        Raises:
            DataError: the loss cannot be used with these labels.
        """
        return labels

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return a client's features (n, d) and targets as the kernels take them.

        fedsim's own losses also take those of several clients, stacked (see `Rows`).

        Args:
            X: features.
            t: targets, as `encode` made them.
            total: the number of rows of all clients together.

        Raises:
            DataError: the loss cannot be used with these rows.
        """
        return Rows(X, t, _factor(self.scale, X.shape[-2], total))

    def subset(self, rows: Rows, indices: NDArray[np.intp]) -> Rows:
        """Return some of a client's rows, to be used in place of all of them.

        Their factor is n/b times that of all n rows, for b indices. So what is summed over
        the rows has all rows' sum as its mean over the subsets of size b, and a mean over the
        rows becomes the mean over the subset. Penalties stay whole.
        """
        n, b = rows.X.shape[0], len(indices)
        return rows._replace(X=rows.X[indices], t=rows.t[indices], factor=rows.factor * (n / b))

    @abstractmethod
    def dimension(self, features: int, outputs: int) -> int:
        """Return the length of w for rows of so many features and targets."""

    def shape(self, features: int, outputs: int) -> tuple[int, ...]:
        """Return the shape that a model is read in, row by row; (dimension,) for a vector.

        Raises:
            DataError: the model is a matrix, and the features do not fill one.
        """
        return (self.dimension(features, outputs),)

    def noisy(self, features: int, outputs: int) -> bool:
        """Return whether stochastic gradients are those of another loss, as with dropout."""
        return False

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the parts that a flat model is made of, in their order."""
        return (self.shape(features, outputs),)

    @abstractmethod
    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the model to start from, shape (dimension,)."""

    @abstractmethod
    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return the floating-point operations of one gradient on so many rows.

        Args:
            rows: how many rows the gradient passes over.
            features: how many numbers a row stores: fewer than d where it is sparse.
            outputs: targets a row.
        """

    @abstractmethod
    def forward(self, rows: Rows, w: Array) -> State:
        """Compute what the value and the gradient at `w` have in common."""

    @abstractmethod
    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w), given the forward state at `w`."""

    @abstractmethod
    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return a (sub)gradient of f at `w`, given the forward state at `w`."""

    def minibatch_gradient(self, rows: Rows, w: Array, indices: NDArray[np.intp]) -> Array:
        """Return the stochastic (sub)gradient at `w` of some of a client's rows."""
        part = self.subset(rows, indices)
        return self.gradient(part, w, self.forward(part, w))

    def hessian(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the Hessian at `w` of the smooth part of f, shape (dimension, dimension).

        Raises:
            DataError: the loss does not provide one.
        """
        raise DataError("loss", f"the loss {self.kind} does not provide its Hessian")

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c and A so that c A^T A + l2 I bounds the Hessian at every w, tightly.

        For a model of several columns, one a class, it is the bound for each of them: with
        C classes kron(c A^T A, I_C) + l2 I bounds the Hessian.

        Raises:
            DataError: there is no such bound.
        """
        raise DataError(
            "loss",
            f"the loss {self.kind} has no smoothness constant (it is not convex, and its "
            "gradient is not Lipschitz); give the step size as a number",
        )

    def constraint(self, rows: Rows, w: Array) -> float:
        """Return g(w), of the constraint g(w) <= 0.

        Raises:
            DataError: the loss has no constraint.
        """
        raise self._unconstrained()

    def constraint_gradient(self, rows: Rows, w: Array) -> Array:
        """Return the gradient of g at `w`, shape (dimension,); errors as for `constraint`."""
        raise self._unconstrained()

    def told_apart(self, labels: Array) -> Array:
        """Return labels (n,) as far as the loss tells them apart: alike where they are one class.

        `classes` and `predict` speak of these.
        """
        return labels

    def classes(self, labels: Array) -> Array:
        """Return the distinct labels of the training data in the order that `predict` takes.

        Args:
            labels: the labels of all clients, shape (n,), as the data has them.

        Raises:
            DataError: the loss does not classify, or not with these labels.
        """
        raise self._unclassifying()

    def predict(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the labels that a model gives to features (n, d), shape (n,).

        Args:
            X: features, as the data has them.
            w: the model, shape (dimension,).
            classes: the labels to choose from, as `classes` returned them.

        Raises:
            DataError: the loss does not classify.
        """
        raise self._unclassifying()

    def _unconstrained(self) -> DataError:
        others = joined(constrained_losses(), "or")
        return DataError("loss", f"the loss {self.kind} has no constraint; take {others}")

    def _unclassifying(self) -> DataError:
        others = joined(kinds_where(Loss, lambda loss: loss.classifies), "and")
        return DataError("loss", f"the loss {self.kind} does not classify; {others} do")


def matrix_losses() -> tuple[str, ...]:
    """Return the kinds of fedsim's own losses whose models are matrices."""
    return kinds_where(Loss, lambda loss: loss.of_matrices)


def constrained_losses() -> tuple[str, ...]:
    """Return the kinds of those that come with a constraint."""
    return kinds_where(Loss, lambda loss: loss.constrained)


def half_square(w: Array) -> float:
    """Return |w|^2/2, rounded alike however `w` lies in memory."""
    v = np.ascontiguousarray(w)
    return 0.5 * float(v.dot(v))


def _factor(scale: str, own: int, total: int) -> float:
    """Return what a scale multiplies a sum over the client's own rows with."""
    if scale == "sum":
        return 1.0
    return 1.0 / total if scale == "share" else (1.0 if scale == "mean" else 2.0) / own
