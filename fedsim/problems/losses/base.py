"""Base class of losses: a frozen block of parameters, and pure mathematics on arrays.

A loss does not hold data. `LocalLoss` joins a loss and the samples of one client.
"""

from abc import abstractmethod
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.registry import kinds_where
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.optimizers import GivenOptimizer
from fedsim.problems.samples import Features, Precision

# The input of loss kernels: a client's samples as arranged by its loss.

State = tuple[Array, ...]
"""The state shared by value and gradient at one model, such as residuals."""


class Rows(NamedTuple):
    """The samples of one client as arranged by a loss for its kernels.

    The samples of k clients with equally many rows may be stacked: then arrays, `reach` among them,
    have a leading axis of length k.

    Attributes:
        X: features, possibly transformed, shape (n, d), dense or compressed sparse rows.
        t: targets, shape (n,) or (n, outputs).
        factor: the multiplier of the sum over the rows, by the loss's scale.
        reach: the largest norm of a row of X, so that no product exceeds it times |w|;
            infinite where it was not computed.
    """

    X: Features
    t: Array
    factor: float
    reach: float | Array = inf


class Loss(Spec):
    """A client's own loss f(w): over its rows a sum, scaled, and penalties once per client.

    Usage: `encode` turns the labels of all clients into targets, so that all
    agree on the meaning of a label; `arrange` puts one client's samples in the form that
    serves the kernels best; `forward`, `value` and `gradient` are those kernels.
    """

    source: ClassVar[str]
    """Human-readable source of the loss."""

    constrained: ClassVar[bool] = False
    """Whether the loss has a constraint g(w) <= 0."""

    classifies: ClassVar[bool | str] = False
    """Whether it has `classes` and `scores`; or with which parameters, such as "with l2: 0"."""

    of_matrices: ClassVar[bool] = False
    """Whether models are matrices, whose shape is returned by `shape`."""

    threads: ClassVar[bool] = False
    """Whether most of its time is spent in code that releases Python's global lock."""

    converts: ClassVar[bool] = False
    """Whether it takes features of any type and converts those that it computes with itself."""

    kind: str
    scale: str
    l2: float = Field(
        default=0.0, ge=0, description="weight of the term l2/2 |w|^2, once per client"
    )

    def computed_in(self, precision: Precision) -> Precision:
        """Return the number type of models and gradients, given the scenario's `precision`."""
        return precision

    def storage_type(self, found: np.dtype[Any], precision: Precision) -> np.dtype[Any]:
        """Return the number type in which features are held.

        Args:
            found: the type of the source.
            precision: requested by the scenario.
        """
        return np.dtype(precision)

    @property
    def state_type(self) -> np.dtype[Any]:
        """The number type that the state of an optimizer is exact in, as clients keep it."""
        return np.dtype(np.float64)

    @property
    def computed_with(self) -> Mapping[str, str]:
        """Versions that, beside NumPy's, fix the last bits of its results, for the manifest."""
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
            t: targets, as encoded by `encode`.
            total: the number of rows of all clients together.

        Raises:
            DataError: the loss cannot be used with these rows.
        """
        return Rows(X, t, _factor(self.scale, X.shape[-2], total))

    def subset(self, rows: Rows, indices: NDArray[np.intp]) -> Rows:
        """Return a subset of a client's rows, to be used in place of all of them.

        Their factor is n/b times that of all n rows, for b indices. So what is summed over
        the rows has all rows' sum as its mean over the subsets of size b, and a mean over the
        rows becomes the mean over the subset. Penalties stay whole.
        """
        n, b = rows.X.shape[0], len(indices)
        return rows._replace(X=rows.X[indices], t=rows.t[indices], factor=rows.factor * (n / b))

    @abstractmethod
    def dimension(self, features: int, outputs: int) -> int:
        """Return the length of w for rows with these numbers of features and targets."""

    def shape(self, features: int, outputs: int) -> tuple[int, ...]:
        """Return the shape in which a model is interpreted, row by row; (dimension,) for a vector.

        Raises:
            DataError: the model is a matrix, and the features do not fill one.
        """
        return (self.dimension(features, outputs),)

    def noisy(self, features: int, outputs: int) -> bool:
        """Return whether stochastic gradients belong to a randomised loss, as with dropout."""
        return False

    def draws(self, features: int, outputs: int) -> bool:
        """Return whether they draw random numbers, by the seed that minibatches then have."""
        return False

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes it."""
        return False

    def why_apart(self, features: int, outputs: int) -> str | None:
        """Return why steps of several clients are not as fast as one operation; empty if they are.

        None where the loss has no such operation.
        """
        return None

    def check_optimizer(self, optimizer: GivenOptimizer, features: int, outputs: int) -> None:
        """Check that clients can take the steps of an optimizer of PyTorch.

        Raises:
            DataError: they cannot.
        """
        text = f"{optimizer.name} is an optimizer of PyTorch, and the loss {self.kind} is not"
        own = "give one by its kind, such as adam"
        raise DataError("optimizer", f"got one, but {text} computed by it; {own}")

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the parts that a flat model consists of, in order."""
        return (self.shape(features, outputs),)

    def part_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of these parts; numbers from 0 where they have none."""
        return tuple(map(str, range(len(self.layer_shapes(features, outputs)))))

    def kept_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of parts without a gradient, which local training alone changes."""
        return ()

    @abstractmethod
    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (dimension,)."""

    @abstractmethod
    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return the floating-point operations of one gradient on that many rows.

        Args:
            rows: the number of rows that the gradient passes over.
            features: the stored numbers per row: fewer than d where it is sparse.
            outputs: targets per row.
        """

    @abstractmethod
    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the state shared by the value and the gradient at `w`."""

    @abstractmethod
    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w), given the forward state at `w`."""

    @abstractmethod
    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return a (sub)gradient of f at `w`, given the forward state at `w`."""

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array | None:
        """Return the loss of each row at `w`, unscaled and without penalties, shape (n,).

        None where the loss does not have them; then f(w) is all that a client knows of its rows.
        """
        return None

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
            DataError: the loss has no such bound.
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
        raise self._refuse_constraint()

    def constraint_gradient(self, rows: Rows, w: Array) -> Array:
        """Return the gradient of g at `w`, shape (dimension,); errors as for `constraint`."""
        raise self._refuse_constraint()

    def class_labels(self, labels: Array) -> Array:
        """Return labels (n,) as the loss distinguishes them: equal within a class.

        `classes` and `predict` use these labels.
        """
        return labels

    def classes(self, labels: Array) -> Array:
        """Return the distinct labels of the training data in the order that `scores` takes.

        Args:
            labels: the labels of all clients, shape (n,), as the data has them.

        Raises:
            DataError: the loss does not classify, or not with these labels.
        """
        raise self._unclassifying()

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the logits of features (n, d): of each class, shape (n, C), as softmax takes them.

        Or of the second of two classes against the first, shape (n,), as the sigmoid takes them.

        Args:
            X: features, as the data has them.
            w: the model, shape (dimension,).
            classes: the labels to choose from, as `classes` returned them.

        Raises:
            DataError: the loss does not classify.
        """
        raise self._unclassifying()

    def predict(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the labels that a model gives to features (n, d), shape (n,).

        It is the class with the largest logit; of two classes the second where its logit is above
        0. Arguments and errors as for `scores`.
        """
        scores = self.scores(X, w, classes)
        places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        chosen: Array = classes[places]
        return chosen

    def regress(self, X: Features, w: Array) -> Array:
        """Return the numbers that a model gives to features (n, d), shape (n,).

        Raises:
            DataError: the loss classifies.
        """
        raise DataError("loss", f"the loss {self.kind} predicts classes, and no numbers")

    def _refuse_constraint(self) -> DataError:
        others = join_names(constrained_losses(), "or")
        return DataError("loss", f"the loss {self.kind} has no constraint; take {others}")

    def _unclassifying(self) -> DataError:
        others = join_names(kinds_where(Loss, lambda loss: loss.classifies), "and")
        return DataError("loss", f"the loss {self.kind} does not classify; {others} do")


def matrix_losses() -> tuple[str, ...]:
    """Return the kinds of fedsim's own losses whose models are matrices."""
    return kinds_where(Loss, lambda loss: loss.of_matrices)


def constrained_losses() -> tuple[str, ...]:
    """Return the kinds of fedsim's own losses that have a constraint."""
    return kinds_where(Loss, lambda loss: loss.constrained)


def half_square(w: Array) -> float:
    """Return |w|^2/2, rounded alike however `w` lies in memory."""
    v = np.ascontiguousarray(w)
    return 0.5 * float(v.dot(v))


def _factor(scale: str, own: int, total: int) -> float:
    """Return the factor by which a scale multiplies a sum over the client's own rows."""
    if scale == "sum":
        return 1.0
    return 1.0 / total if scale == "share" else (1.0 if scale == "mean" else 2.0) / own
