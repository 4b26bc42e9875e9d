"""The logistic loss of a linear classifier, and Neyman-Pearson classification with it."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses import linear
from fedsim.problems.losses.base import SCALE, Rows, State
from fedsim.problems.losses.linear import LinearLoss, distinct_pair, format_labels, two_labels
from fedsim.problems.samples import (
    Features,
    longest_row,
    product,
    scaled_rows,
    transposed_product,
)


class Positive(Spec):
    """One label against all others."""

    positive: float = Field(description="the label that becomes +1; every other one becomes -1")


class Logistic(LinearLoss):
    """Logistic loss log(1 + exp(-y x.w)) of a linear classifier.

    With a_i = -y_i x_i and u = A w the loss of a row is log(1 + exp(u)), and its derivative is the
    sigmoid of u. Labels are multiplied into the rows once, when they are arranged.
    """

    source: ClassVar[str] = "Cox, The Regression Analysis of Binary Sequences, 1958"
    classifies: ClassVar[bool | str] = True
    steepest: ClassVar[float] = 0.25

    kind: Literal["logistic"] = "logistic"
    scale: Literal["sum", "mean", "share"] = SCALE
    labels: Literal["signs", "plus-minus", "as-given"] | Positive = Field(
        default="signs",
        description="signs: the data has -1 and 1; plus-minus: the smaller of exactly two distinct "
        "labels becomes -1, the larger +1; {positive: 3}: that label becomes +1, all others -1; "
        "as-given: y is whatever number the data has, which is no classification",
    )

    def encode(self, labels: Array) -> Array:
        """Return the labels as -1 and +1, or unchanged for `as-given`.

        Raises:
            DataError: the labels do not have the configured form.
        """
        if self.labels == "plus-minus":
            return two_labels(labels, -1.0, 1.0, "loss.labels")
        if isinstance(self.labels, Positive) and not (labels == self.labels.positive).any():
            seen = f"no row has the label {self.labels.positive:g}"
            raise DataError(
                "loss.labels", f"{seen}; the data has {format_labels(np.unique(labels))}"
            )
        if self.labels == "signs" and not are_signs(labels):
            raise DataError("loss.labels", _other_labels(np.unique(labels)))
        return self.class_labels(labels)

    def class_labels(self, labels: Array) -> Array:
        """Return -1 and +1 if one label is set against all others; otherwise the labels."""
        if isinstance(self.labels, Positive):
            return np.where(labels == self.labels.positive, 1.0, -1.0)
        return labels

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return A = -diag(t) X, and the targets."""
        # With the labels' signs in A, the loss of a row is log(1 + exp(u)) with u = A w.
        A = scaled_rows(X, -t)
        return super().arrange(A, t, total)._replace(reach=longest_row(A))

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the state that the sigmoid of A w and log(1 + exp(A w)) share."""
        return linear.forward(rows, w)

    def total(self, state: State) -> float:
        """Return the sum of log(1 + exp(u))."""
        return linear.total(state)

    def row_losses(self, rows: Rows, w: Array, state: State) -> Array:
        """Return log(1 + exp(u)) of each row."""
        return linear.each(state)

    def slopes(self, state: State) -> Array:
        """Return the sigmoid of u."""
        return linear.slopes(state)

    def curvatures(self, state: State) -> Array:
        """Return sigmoid(u) sigmoid(-u)."""
        return linear.curvatures(state)

    def classes(self, labels: Array) -> Array:
        """Return the two labels for plus-minus, ascending, and otherwise -1 and +1.

        Raises:
            DataError: labels other than -1 and +1 are used as given, or there are not two labels.
        """
        if self.labels == "plus-minus":
            return distinct_pair(labels, "loss.labels")
        if not isinstance(self.labels, Positive) and not are_signs(labels):
            raise DataError("loss.labels", _other_labels(np.unique(labels)))
        return np.array([-1.0, 1.0])

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return x.w: the larger label is predicted if it is above 0, otherwise the smaller one."""
        return product(X, w)


def are_signs(labels: Array) -> bool:
    """Return whether all labels are -1 or 1."""
    return bool(np.isin(labels, (-1.0, 1.0)).all())


def _other_labels(distinct: Array) -> str:
    """Return an error with the settings that accept other labels than -1 and 1."""
    seen = f"-1 and 1 tell two classes apart; the data has {format_labels(distinct)}"
    one = f"{{positive: {distinct[-1]:g}}}, which sets one label against all others"
    if len(distinct) == 2:
        return f"{seen}; give plus-minus, which makes them -1 and 1, or {one}"
    return (
        f"{seen}; give {one}, or the loss softmax, which has a class for each, or squared, which"
        " takes any number"
    )


class NeymanPearson(LinearLoss):
    """Logistic loss of class 0 under a bound on that of class 1: Neyman-Pearson classification.

    f(w) is the mean of log(1 + exp(x.w)) over the client's rows of class 0. g(w) is the mean of
    log(1 + exp(-x.w)) over its rows of class 1. l1 and l2 belong to f. Class 0 is the majority
    among all clients' labels (the smaller label if both are equally frequent), unless `bounded` is
    majority. Computations pass over all rows, with weight 0 for the other class, and are charged
    for all rows. Minibatches are also drawn from all rows. A client without rows of one class is
    refused: its mean over no rows is undefined, and 0 in its place would change the objective.
    """

    source: ClassVar[str] = "Rigollet, Tong, Neyman-Pearson Classification, JMLR 2011"
    classifies: ClassVar[bool | str] = True
    steepest: ClassVar[float] = 0.25
    constrained: ClassVar[bool] = True

    kind: Literal["neyman-pearson"] = "neyman-pearson"
    scale: Literal["mean"] = Field(
        default="mean", description="the mean over the client's rows of a class"
    )
    bounded: Literal["minority", "majority"] = Field(
        default="minority", description="the class whose loss is g; it becomes class 1"
    )

    def encode(self, labels: Array) -> Array:
        """Return the class of each row: 1 for the label whose loss is bounded, 0 for the other.

        Raises:
            DataError: there are not two distinct labels.
        """
        return np.asarray(labels == self.classes(labels)[1], dtype=np.float64)

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return the rows, with those of class 1 negated, and their weights in f and in g (n, 2).

        Raises:
            DataError: the client has no rows of one of the classes.
        """
        ones = float(t.sum())
        zeros = len(t) - ones
        if not ones or not zeros:
            lacking = int(not ones)
            raise DataError(
                "split",
                f"a client of {len(t)} rows has none with the {self._names[lacking]} "
                f"(class {lacking}) label; neyman-pearson "
                "takes rows of both at each client, as a stratified split gives",
            )
        weights = np.column_stack([(1.0 - t) / zeros, t / ones])
        A = scaled_rows(X, 1.0 - 2.0 * t)
        return super().arrange(A, weights, total)._replace(factor=1.0, reach=longest_row(A))

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the state that the sigmoid and log(1 + exp) share, and the weights in f."""
        return *linear.forward(rows, w), rows.t[:, 0]

    def total(self, state: State) -> float:
        """Return the weighted sum of log(1 + exp(u)) over class 0."""
        return float(state[3].dot(linear.each(state[:3])))

    def slopes(self, state: State) -> Array:
        """Return the weighted sigmoids, zero for class 1."""
        return state[3] * linear.slopes(state[:3])

    def curvatures(self, state: State) -> Array:
        """Return the weighted sigmoid(u) sigmoid(-u), zero for class 1."""
        return state[3] * linear.curvatures(state[:3])

    def majorant(self, rows: Rows) -> tuple[float, Features]:
        """Return c = 1/(4 n_0) and the rows of class 0."""
        weights = rows.t[:, 0]
        own = weights > 0
        return rows.factor * self.steepest * float(weights.max()), rows.X[own]

    def constraint(self, rows: Rows, w: Array) -> float:
        """Return g(w)."""
        return rows.factor * float(rows.t[:, 1].dot(linear.each(linear.forward(rows, w))))

    def constraint_gradient(self, rows: Rows, w: Array) -> Array:
        """Return the gradient of g at `w`, shape (d,)."""
        slopes = rows.t[:, 1] * linear.slopes(linear.forward(rows, w))
        gradient = transposed_product(rows.X, slopes)
        gradient *= rows.factor
        return gradient

    def classes(self, labels: Array) -> Array:
        """Return the label of class 0, and then that of class 1, whose loss is bounded.

        Raises:
            DataError: there are not two distinct labels.
        """
        pair = distinct_pair(labels, "loss.kind")
        # If both labels are equally frequent, the smaller one counts as the majority.
        majority = int(2 * np.count_nonzero(labels == pair[1]) > len(labels))
        bounded = majority if self.bounded == "majority" else 1 - majority
        return pair if bounded else pair[::-1]

    def scores(self, X: Features, w: Array, classes: Array) -> Array:
        """Return x.w: class 1 is predicted if it is above 0, otherwise class 0."""
        return product(X, w)

    @property
    def _names(self) -> tuple[str, str]:
        """Describe classes 0 and 1 by their frequency among all clients' labels."""
        names = ("majority", "minority")
        return names if self.bounded == "minority" else names[::-1]
