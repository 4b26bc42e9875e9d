"""Held-out rows and their targets, as measures need them.

A label of a test row is encoded as in the training rows, whichever labels the test rows have.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.problem import Problem
from fedsim.problems.samples import Samples


def lacks_test_rows(kind: str) -> str:
    """Return the message that a measure needs test rows.

    >>> lacks_test_rows("test_loss")
    'test_loss needs test rows; give problem.test, such as {fraction: 0.2}'
    """
    return f"{kind} needs test rows; give problem.test, such as {{fraction: 0.2}}"


def held_out_rows(problem: Problem, kind: str) -> Samples:
    """Return the test rows.

    Raises:
        DataError: there are none.
    """
    if problem.test is None:
        raise DataError("test", lacks_test_rows(kind))
    return problem.test


def held_out_targets(problem: Problem, test: Samples) -> Array:
    """Return the targets of test rows, with each label encoded as in the training rows.

    Raises:
        DataError: a class occurs among the test rows only.
    """
    try:
        problem.loss.classes(problem.labels)
    except DataError:  # no classifier: labels are numbers, used unchanged
        return problem.loss.encode(test.y)
    asked, known = (problem.loss.class_labels(labels) for labels in (test.y, problem.labels))
    check_classes_seen(asked, known)
    distinct, rows = np.unique(known, return_index=True)
    encoded: Array = problem.loss.encode(problem.labels)[rows]
    return encoded[np.searchsorted(distinct, asked)]


def check_classes_seen(labels: Array, known: Array) -> None:
    """Check that every class of the test rows occurs among the training rows.

    Raises:
        DataError: one does not.
    """
    unseen = np.setdiff1d(labels, known)
    if unseen.size:
        text = (
            f"the label {unseen[0]:g} is among the test rows only; every class needs a training row"
        )
        raise DataError("test", text)


def held_out_labels(problem: Problem, kind: str) -> tuple[Samples, Array, Array]:
    """Return the test rows, their labels as the loss distinguishes them, and the classes.

    Raises:
        DataError: there are no test rows, the loss does not classify, or a class occurs among the
            test rows only.
    """
    test, classes = held_out_rows(problem, kind), problem.loss.classes(problem.labels)
    labels = problem.loss.class_labels(test.y)
    check_classes_seen(labels, problem.loss.class_labels(problem.labels))
    return test, labels, classes


def class_places(labels: Array, classes: Array) -> NDArray[np.intp]:
    """Return the index of each row's label among the classes, shape (n,)."""
    order = np.argsort(classes)
    places: NDArray[np.intp] = order[np.searchsorted(classes, labels, sorter=order)]
    return places
