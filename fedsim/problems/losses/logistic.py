"""The logistic loss of a linear classifier."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.losses import linear
from fedsim.problems.losses.base import Rows, State
from fedsim.problems.losses.linear import LinearLoss, distinct_pair, format_labels, two_labels
from fedsim.problems.samples import Features, longest_row, scaled_rows


class Positive(Spec):
    """One label against all others."""

    positive: float = Field(description="the label that becomes +1; every other one becomes -1")


class Logistic(LinearLoss):
    """Logistic loss log(1 + exp(-y x.w)) of a linear classifier.

    With a_i = -y_i x_i and u = A w a row's loss is log(1 + exp(u)), its derivative the
    sigmoid of u. The labels are folded into the rows once, when they are arranged.
    """

    source: ClassVar[str] = "Cox, The Regression Analysis of Binary Sequences, 1958"
    classifies: ClassVar[bool | str] = True
    steepest: ClassVar[float] = 0.25

    kind: Literal["logistic"] = "logistic"
    scale: Literal["sum", "mean", "share"] = Field(
        default="mean",
        description="the sum over the client's rows, their mean, or (share) their sum over the "
        "number of rows of all clients",
    )
    labels: Literal["signs", "plus-minus", "as-given"] | Positive = Field(
        default="signs",
        description="signs: the data has -1 and 1; plus-minus: the smaller of exactly two distinct "
        "labels becomes -1, the larger +1; {positive: 3}: that label becomes +1, all others -1; "
        "as-given: y is whatever number the data has, which is no classification",
    )

    def encode(self, labels: Array) -> Array:
        """Return the labels as -1 and +1, or as given if so configured.

        Raises:
            DataError: the labels are not of the configured form.
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
        return self.told_apart(labels)

    def told_apart(self, labels: Array) -> Array:
        """Return -1 and +1 where one label is set against all others."""
        if isinstance(self.labels, Positive):
            return np.where(labels == self.labels.positive, 1.0, -1.0)
        return labels

    def arrange(self, X: Features, t: Array, total: int) -> Rows:
        """Return A = -diag(t) X, and the targets."""
        A = scaled_rows(X, -t)
        return super().arrange(A, t, total)._replace(reach=longest_row(A))

    def forward(self, rows: Rows, w: Array) -> State:
        """Compute the state shared by the sigmoid of A w and log(1 + exp(A w))."""
        return linear.forward(rows, w)

    def total(self, state: State) -> float:
        """Return the sum of log(1 + exp(u))."""
        return linear.total(state)

    def slopes(self, state: State) -> Array:
        """Return the sigmoid of u."""
        return linear.slopes(state)

    def curvatures(self, state: State) -> Array:
        """Return sigmoid(u) sigmoid(-u)."""
        return linear.curvatures(state)

    def classes(self, labels: Array) -> Array:
        """Return the two labels of plus-minus, ascending, otherwise -1 and +1.

        Raises:
            DataError: labels other than -1 and +1 are used as given, or there are not two.
        """
        if self.labels == "plus-minus":
            return distinct_pair(labels, "loss.labels")
        if not isinstance(self.labels, Positive) and not are_signs(labels):
            raise DataError("loss.labels", _other_labels(np.unique(labels)))
        return np.array([-1.0, 1.0])

    def predict(self, X: Features, w: Array, classes: Array) -> Array:
        """Return the larger label where x.w > 0, the smaller elsewhere."""
        return linear.predict_classes(X, w, classes)


def are_signs(labels: Array) -> bool:
    """Return whether all labels are -1 or 1."""
    return bool(np.isin(labels, (-1.0, 1.0)).all())


def _other_labels(distinct: Array) -> str:
    """Say what takes labels that are not -1 and 1."""
    seen = f"-1 and 1 tell two classes apart; the data has {format_labels(distinct)}"
    one = f"{{positive: {distinct[-1]:g}}}, which sets one label against all others"
    if len(distinct) == 2:
        return f"{seen}; give plus-minus, which makes them -1 and 1, or {one}"
    return (
        f"{seen}; give {one}, or the loss softmax, which has a class for each, or squared, which"
        " takes any number"
    )
