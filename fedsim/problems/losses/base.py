"""Base class of losses: a frozen block of parameters, and pure mathematics on arrays.

A loss does not contain data. `LocalLoss` joins a loss with the samples of one client.
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

SCALE: Any = Field(
    default="mean",
    description="the sum over the client's rows, their mean, or (share) their sum over the "
    "number of rows of all clients",
)

# The input of a loss: a client's samples as the loss has arranged them.

State = tuple[Array, ...]
"""The state that value and gradient at one model share, such as residuals."""


class Rows(NamedTuple):
    """The samples of one client, as its loss has arranged them.

    The samples of k clients with equally many rows may be stacked. Then arrays, including `reach`,
    have a leading axis of length k.

    Attributes:
        X: features, possibly transformed, shape (n, d), dense or compressed sparse rows.
        t: targets, shape (n,) or (n, outputs).
        factor: the multiplier of the sum over the rows, according to the loss's scale.
        reach: the largest norm of a row of X, so that no product exceeds reach times |w|; infinite
            if it was not computed.
    """

    X: Features
    t: Array
    factor: float
    reach: float | Array = inf


class Loss(Spec):
    """A client's own loss f(w): a scaled sum over its rows, and penalties once per client.

    `encode` converts the labels of all clients to targets, so that all clients agree on the meaning
    of a label. `arrange` converts one client's samples to the form that suits the computation best.
    `forward`, `value` and `gradient` are the computation.
    """

    source: ClassVar[str]
    """Human-readable source of the loss."""

    constrained: ClassVar[bool] = False
    """Whether the loss has a constraint g(w) <= 0."""

    classifies: ClassVar[bool | str] = False
    """Whether it has `classes` and `scores`; or the parameters for which it has, such as "with l2:
    0"."""

    of_matrices: ClassVar[bool] = False
    """Whether models are matrices, whose shape `shape` returns."""

    threads: ClassVar[bool] = False
    """Whether most of its time is spent in code that releases Python's global interpreter lock."""

    converts: ClassVar[bool] = False
    """Whether it accepts features of any number type, and converts them itself."""

    kind: str
    scale: str
    l2: float = Field(
        default=0.0, ge=0, description="weight of the term l2/2 |w|^2, once per client"
    )

    def computed_in(self, precision: Precision) -> Precision:
        """Return the number type of models and gradients, given the scenario's `precision`."""
        return precision

    def storage_type(self, found: np.dtype[Any], precision: Precision) -> np.dtype[Any]:
        """Return the number type in which features are stored.

        Args:
            found: the type of the source.
            precision: the precision that the scenario requests.
        """
        return np.dtype(precision)

    @property
    def state_type(self) -> np.dtype[Any]:
        """The number type in which clients can store the state of an optimizer exactly."""
        return np.dtype(np.float64)

    @property
    def computed_with(self) -> Mapping[str, str]:
        """Versions, besides NumPy's, that determine the last bits of results; for the manifest."""
        return {}

    def encode(self, labels: Array) -> Array:
        """Return the targets, shape (n,) or (n, outputs), for the labels of all clients, (n,).

        Raises:
            DataError: the loss cannot be used with these labels.
        """
        return labels

    def flip(self, targets: Array, labels: Array) -> Array:
        """Return the targets of flipped labels, for clients that train on false ones.

        Of C classes k becomes C - 1 - k, and so -1 becomes +1; other numbers change their sign.

        Args:
            targets: those of all clients, as encoded by `encode`, shape (n,) or (n, outputs).
            labels: the labels of all clients, shape (n,).
        """
        if targets.ndim > 1:  # a column per class
            return targets[:, ::-1]
        try:
            self.classes(labels)
        except DataError:
            return -targets
        return np.asarray(targets.min() + targets.max() - targets)

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return a client's features (n, d) and targets in the form that the computation needs.

        fedsim's own losses also accept those of several clients, stacked (see `Rows`).

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

        For b of n rows the factor is multiplied by n/b. So a sum over the rows keeps its mean over
        all subsets of size b, and a mean over the rows becomes the mean over the subset. Penalties
        are not scaled.
        """
        n, b = rows.X.shape[0], len(indices)
        return rows._replace(X=rows.X[indices], t=rows.t[indices], factor=rows.factor * (n / b))

    @abstractmethod
    def dimension(self, features: int, outputs: int) -> int:
        """Return the length of w for rows with these numbers of features and targets."""

    def shape(self, features: int, outputs: int) -> tuple[int, ...]:
        """Return the shape that a flat model represents, row by row; (dimension,) for a vector.

        Raises:
            DataError: the model is a matrix, and this number of features does not fill one.
        """
        return (self.dimension(features, outputs),)

    def noisy(self, features: int, outputs: int) -> bool:
        """Return whether the loss is randomised in training, as with dropout."""
        return False

    def draws(self, features: int, outputs: int) -> bool:
        """Return whether its steps draw random numbers, by seeds within the minibatches."""
        return False

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes it."""
        return False

    def why_apart(self, features: int, outputs: int) -> str | None:
        """Return why computing several clients' steps as one operation would not be faster.

        The text is empty if it is faster, and None if the loss has no such operation.
        """
        return None

    def check_optimizer(self, optimizer: GivenOptimizer, features: int, outputs: int) -> None:
        """Check that clients can use an optimizer of PyTorch.

        Raises:
            DataError: they cannot.
        """
        text = f"{optimizer.name} is an optimizer of PyTorch, and the loss {self.kind} is not"
        own = "give one by its kind, such as adam"
        raise DataError("optimizer", f"got one, but {text} computed by it; {own}")

    def layer_shapes(self, features: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the parts of a flat model, in order."""
        return (self.shape(features, outputs),)

    def part_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of these parts; numbers from 0 if they have none."""
        return tuple(map(str, range(len(self.layer_shapes(features, outputs)))))

    def kept_names(self, features: int, outputs: int) -> tuple[str, ...]:
        """Return the names of parts without a gradient, which only local training changes."""
        return ()

    @abstractmethod
    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (dimension,)."""

    @abstractmethod
    def operations(self, rows: int, features: float, outputs: int) -> float:
        """Return the floating-point operations of one gradient on a number of rows.

        Args:
            rows: the number of rows.
            features: the stored numbers per row, which are fewer than d for sparse rows.
            outputs: targets per row.
        """

    @abstractmethod
    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the state that value and gradient at `w` share."""

    @abstractmethod
    def value(self, rows: Rows, w: Array, state: State) -> float:
        """Return f(w), from the forward state at `w`."""

    @abstractmethod
    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        """Return a (sub)gradient of f at `w`, shape (dimension,), from the forward state at `w`."""

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array | None:
        """Return the loss of each row at `w`, unscaled and without penalties, shape (n,).

        None if the loss does not have them. Then a client only knows f(w).
        """
        return None

    def minibatch_gradient(self, rows: Rows, w: Array, indices: NDArray[np.intp]) -> Array:
        """Return the stochastic (sub)gradient at `w` on some of a client's rows."""
        part = self.subset(rows, indices)
        return self.gradient(part, w, self.forward(part, w))

    def hessian(self, rows: Rows, w: Array, state: State) -> Array:
        """Return the Hessian at `w` of the smooth part of f, shape (dimension, dimension).

        Raises:
            DataError: the loss does not provide one.
        """
        raise DataError("loss", f"the loss {self.kind} does not provide its Hessian")

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c and A for which c A^T A + l2 I is a tight bound of the Hessian at every w.

        For a model with several columns, one per class, the bound holds for each of them: with C
        classes kron(c A^T A, I_C) + l2 I bounds the Hessian.

        Raises:
            DataError: the loss has no such bound.
        """
        raise DataError(
            "loss",
            f"the loss {self.kind} has no smoothness constant (it is not convex, and its "
            "gradient is not Lipschitz); give the step size as a number",
        )

    def constraint(self, rows: Rows, w: Array) -> float:
        """Return g(w) of the constraint g(w) <= 0.

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
        """Return the distinct labels of the training data, in the order of the columns of `scores`.

        Args:
            labels: the labels of all clients, shape (n,), as in the data.

        Raises:
            DataError: the loss does not classify, or not with these labels.
        """
        raise self._unclassifying()

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the logits for features (n, d).

        They are those of each class, shape (n, C), the arguments of softmax; or those of the second
        of two classes against the first, shape (n,), the arguments of the sigmoid.

        Args:
            X: features, as in the data.
            w: the model, shape (dimension,).
            classes: the labels to choose from, as returned by `classes`.

        Raises:
            DataError: the loss does not classify.
        """
        raise self._unclassifying()

    def predict(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the labels that a model predicts for features (n, d), shape (n,).

        The label is the class with the largest logit; of two classes with one logit, the second if
        the logit is above 0. Arguments and errors as for `scores`.
        """
        scores = self.scores(X, w, classes)
        places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        chosen: Array = classes[places]
        return chosen

    def regress(self, X: Features, w: Array) -> Array:
        """Return the numbers that a model predicts for features (n, d), shape (n,).

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
    """Return |w|^2/2; the rounding does not depend on the memory layout of `w`."""
    v = np.ascontiguousarray(w)
    return 0.5 * float(v.dot(v))


def _factor(scale: str, own: int, total: int) -> float:
    """Return the factor by which a scale multiplies the sum over a client's own rows."""
    if scale == "sum":
        return 1.0
    return 1.0 / total if scale == "share" else (1.0 if scale == "mean" else 2.0) / own
