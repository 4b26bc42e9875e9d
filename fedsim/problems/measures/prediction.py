"""Prediction measures: accuracy and loss on the training rows and on held-out rows."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.measures.base import Figures, Measure, Observer
from fedsim.problems.problem import Objective, Problem
from fedsim.problems.samples import Samples


class TrainingAccuracy(Measure):
    """Share of all clients' rows whose label the model predicts."""

    columns: ClassVar[tuple[str, ...]] = ("train_accuracy",)

    kind: Literal["train_accuracy"] = "train_accuracy"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the share; see `Measure.bind`."""
        classes = problem.loss.classes(problem.labels)
        return _accuracy(problem, problem.samples, classes, self.kind)


class HeldOutAccuracy(Measure):
    """Share of the test rows whose label the model predicts."""

    columns: ClassVar[tuple[str, ...]] = ("test_accuracy",)

    kind: Literal["test_accuracy"] = "test_accuracy"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the share; see `Measure.bind`."""
        test, classes = _test(problem, self.kind), problem.loss.classes(problem.labels)
        _check_seen(*(problem.loss.told_apart(labels) for labels in (test.y, problem.labels)))
        return _accuracy(problem, (test,), classes, self.kind)


class HeldOutLoss(Measure):
    """Mean over the test rows of the loss, without the l1 and l2 terms of the clients."""

    columns: ClassVar[tuple[str, ...]] = ("test_loss",)

    kind: Literal["test_loss"] = "test_loss"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the mean; see `Measure.bind`.

        It is half the mean squared error for the squared loss, or all of it where the scale
        is mean-square; for the others the mean of the rows' losses.
        """
        test = _test(problem, self.kind)
        loss = problem.loss
        scale = loss.scale if loss.scale == "mean-square" else "mean"
        none = dict.fromkeys({"l1", "l2"} & type(loss).model_fields.keys(), 0.0)
        plain = loss.model_copy(update={"scale": scale, **none})
        held = LocalLoss(plain, test.X, _targets(problem, test))

        def evaluate(w: Array) -> Figures:
            return {"test_loss": held.value(w)}

        return evaluate


def _test(problem: Problem, kind: str) -> Samples:
    """Return the test rows.

    Raises:
        DataError: there are none.
    """
    if problem.test is None:
        text = f"{kind} takes rows to test on; give problem.test, such as {{fraction: 0.2}}"
        raise DataError("test", text)
    return problem.test


def _accuracy(problem: Problem, parts: Sequence[Samples], classes: Array, column: str) -> Observer:
    rows = sum(part.rows for part in parts)
    known = [(part, problem.loss.told_apart(part.y)) for part in parts]

    def evaluate(w: Array) -> Figures:
        right = [
            int(np.count_nonzero(problem.loss.predict(part.X, w, classes) == labels))
            for part, labels in known
        ]
        return {column: sum(right) / rows}

    return evaluate


def _targets(problem: Problem, test: Samples) -> Array:
    """Return the targets of test rows, each label encoded as it is among the training rows.

    Raises:
        DataError: a class is among the test rows only.
    """
    try:
        problem.loss.classes(problem.labels)
    except DataError:  # no classifier: a label is a number and is used as it is
        return problem.loss.encode(test.y)
    asked, known = (problem.loss.told_apart(labels) for labels in (test.y, problem.labels))
    _check_seen(asked, known)
    distinct, rows = np.unique(known, return_index=True)
    encoded: Array = problem.loss.encode(problem.labels)[rows]
    return encoded[np.searchsorted(distinct, asked)]


def _check_seen(labels: Array, known: Array) -> None:
    """Check that every class of the test rows occurs among the training rows."""
    unseen = np.setdiff1d(labels, known)
    if unseen.size:
        text = (
            f"the label {unseen[0]:g} is among the test rows only; every class takes a row to"
            " train on"
        )
        raise DataError("test", text)
