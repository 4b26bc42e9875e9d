"""Distances between a model and the truth that a generator has planted in the data."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.measures.base import Figures, Measure, Observer, matrix_shape
from fedsim.problems.problem import Objective, Problem


class Distance(Measure):
    """Euclidean distance of the model from the planted truth; of matrices, Frobenius."""

    columns: ClassVar[tuple[str, ...]] = ("distance",)

    kind: Literal["distance"] = "distance"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return |w - truth|; see `Measure.bind`."""
        truth = _truth(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            return {"distance": float(np.linalg.norm(w - truth))}

        return evaluate


class RelativeDistance(Measure):
    """Distance of the model from the planted truth, over the norm of the truth."""

    columns: ClassVar[tuple[str, ...]] = ("relative_distance",)

    kind: Literal["relative_distance"] = "relative_distance"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return |w - truth|/|truth|; see `Measure.bind`."""
        truth = _not_zero(_truth(problem, self.kind), self.kind)
        norm = float(np.linalg.norm(truth))

        def evaluate(w: Array) -> Figures:
            return {"relative_distance": float(np.linalg.norm(w - truth)) / norm}

        return evaluate


class OperatorDistance(Measure):
    """Distance of a model that is a matrix from the planted truth, in the operator norm.

    It is the largest singular value of their difference.
    """

    columns: ClassVar[tuple[str, ...]] = ("operator_distance",)

    kind: Literal["operator_distance"] = "operator_distance"

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return |W - truth|_2; see `Measure.bind`."""
        shape = matrix_shape(problem, self.kind)
        truth = _truth(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            return {"operator_distance": float(np.linalg.norm((w - truth).reshape(shape), 2))}

        return evaluate


class Support(Measure):
    """Precision, recall and F1 of the model's support, against that of the planted truth.

    The support of the model are the entries above a threshold in magnitude, that of the truth
    its non-zeros. A model with an empty support has precision 0.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "support_precision",
        "support_recall",
        "support_f1",
        "support_size",
    )

    kind: Literal["support"] = "support"
    threshold: float = Field(
        default=0.0, ge=0, description="entries of at most this magnitude are not in the support"
    )

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the scores; see `Measure.bind`."""
        planted = _not_zero(_truth(problem, self.kind), self.kind) != 0
        wanted = int(np.count_nonzero(planted))

        def evaluate(w: Array) -> Figures:
            found = np.abs(w) > self.threshold
            size, hits = int(np.count_nonzero(found)), int(np.count_nonzero(found & planted))
            return {
                "support_precision": hits / max(size, 1),
                "support_recall": hits / wanted,
                "support_f1": 2 * hits / (size + wanted),
                "support_size": size,
            }

        return evaluate


def _truth(problem: Problem, kind: str) -> Array:
    """Return the planted model, shape (d,).

    Raises:
        DataError: the problem has none, or it is no model of this loss.
    """
    truth = problem.truth
    if truth is None:
        text = (
            f"{kind} compares with a planted truth, and this data has none; it takes a"
            " generator that plants one (see `fedsim list data`), without preprocess"
        )
        raise DataError("data", text)
    if truth.size != problem.dimension:
        text = (
            f"{kind} compares with the truth that the data plants, of {truth.size} entries, but"
            f" the model of the loss {problem.loss.kind} has {problem.dimension}; use the loss"
            " that the generator is meant for"
        )
        raise DataError("loss", text)
    return truth.ravel()


def _not_zero(truth: Array, kind: str) -> Array:
    if not truth.any():
        raise DataError("data", f"{kind} takes a truth that is not zero; the one planted here is")
    return truth
