"""Measures of the model itself: stationarity, constraint, structure, distance from the truth."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses.base import constrained_losses, matrix_losses
from fedsim.problems.measures.base import Figures, Measure, Observer, OwnObserver
from fedsim.problems.problem import Problem


def matrix_shape(problem: Problem, kind: str) -> tuple[int, ...]:
    """Return the two sides of a matrix model, for a measure of some kind.

    Raises:
        DataError: the model is no matrix.
    """
    if len(problem.shape) != 2:
        losses = join_names(matrix_losses(), "or")
        text = (
            f"{kind} takes a model that is a matrix: use the loss {losses};"
            f" the model of the loss {problem.loss.kind} has the shape {problem.shape}"
        )
        raise DataError("loss", text)
    return problem.shape


class GradientNorm(Measure):
    """Norm of the objective's gradient; with a penalty, of its smallest subgradient.

    This is the Euclidean distance between minus the gradient of the clients' losses and the
    subdifferential of the penalty. It is zero exactly if the model is stationary. An l1 term within
    the clients' losses enters by their own subgradients, with sign(0) = 0.
    """

    columns: ClassVar[tuple[str, ...]] = ("gradient_norm",)

    kind: Literal["gradient_norm"] = "gradient_norm"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the norm; see `Measure.bind`."""

        def evaluate(w: Array) -> Figures:
            gradient = problem.gradient(w)
            return {"gradient_norm": problem.regulariser.residual(w, gradient)}

        return evaluate

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Refuse clients' own models, whose gradients do not belong to one objective.

        Raises:
            DataError: always.
        """
        text = "gradient_norm is of one model for all clients, and each has its own here"
        raise DataError("measures", f"{text}; leave it out")


class ConstraintValue(Measure):
    """Value of the constraint, the mean of the clients' g_m, and whether it is violated.

    Clients have the weights of the objective: their shares of the rows if it is a weighted mean,
    equal ones if it is a sum. The sum of the column `violated` is the number of rounds in
    violation.
    """

    columns: ClassVar[tuple[str, ...]] = ("constraint", "violated")

    kind: Literal["constraint"] = "constraint"
    tolerance: float = Field(
        default=0.0, ge=0, description="violated is 1 where the constraint is above this, else 0"
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the mean constraint; see `Measure.bind`."""
        if not problem.loss.constrained:
            text = (
                "constraint takes a loss with one, "
                f"{join_names(constrained_losses(), 'or')}; the loss"
                f" here is {problem.loss.kind}"
            )
            raise DataError("loss", text)
        # The constraint is a mean over clients, even if the objective is a sum.
        coefficients = problem.coefficients
        shares = coefficients / coefficients.sum()

        def evaluate(w: Array) -> Figures:
            values = np.array([loss.constraint(w) for loss in problem.losses])
            g = float(shares @ values)
            return {"constraint": g, "violated": int(g > self.tolerance)}

        return evaluate


# Structure of a model: its non-zeros and its rank.


class Sparsity(Measure):
    """Number of nonzero entries of the model."""

    columns: ClassVar[tuple[str, ...]] = ("nonzeros",)

    kind: Literal["sparsity"] = "sparsity"
    threshold: float = Field(
        default=0.0, ge=0, description="entries of at most this magnitude count as zero"
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the count; see `Measure.bind`."""

        def evaluate(w: Array) -> Figures:
            return {"nonzeros": int(np.count_nonzero(np.abs(w) > self.threshold))}

        return evaluate


class Rank(Measure):
    """Numerical rank of a matrix model, from its singular values."""

    columns: ClassVar[tuple[str, ...]] = ("rank",)

    kind: Literal["rank"] = "rank"
    tolerance: float = Field(
        default=1e-3,
        ge=0,
        lt=1,
        description="singular values of at most this share of the largest count as zero",
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the rank; see `Measure.bind`."""
        shape = matrix_shape(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            values = np.linalg.svd(w.reshape(shape), compute_uv=False)
            return {"rank": int(np.count_nonzero(values > self.tolerance * values[0]))}

        return evaluate


class FromTruth(Measure):
    """A norm of the difference between the model and the planted truth, as vectors."""

    order: ClassVar[float]
    """The order of the norm, as in `numpy.linalg.norm` for vectors."""

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the norm of w - truth; see `Measure.bind`."""
        truth = _truth(problem, self.kind)
        (column,) = self.columns

        def evaluate(w: Array) -> Figures:
            return {column: float(np.linalg.norm(w - truth, self.order))}

        return evaluate


class Distance(FromTruth):
    """Euclidean distance (Frobenius for matrices) of the model from the planted truth."""

    columns: ClassVar[tuple[str, ...]] = ("distance",)
    order: ClassVar[float] = 2

    kind: Literal["distance"] = "distance"


class L1Distance(FromTruth):
    """Sum of the absolute differences between the model's entries and the planted truth's."""

    columns: ClassVar[tuple[str, ...]] = ("l1_distance",)
    order: ClassVar[float] = 1

    kind: Literal["l1_distance"] = "l1_distance"


class MaxDistance(FromTruth):
    """Largest absolute difference between an entry of the model and the planted truth's."""

    columns: ClassVar[tuple[str, ...]] = ("max_distance",)
    order: ClassVar[float] = np.inf

    kind: Literal["max_distance"] = "max_distance"


class RelativeDistance(Measure):
    """Distance of the model from the planted truth, divided by the norm of the truth."""

    columns: ClassVar[tuple[str, ...]] = ("relative_distance",)

    kind: Literal["relative_distance"] = "relative_distance"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for |w - truth|/|truth|; see `Measure.bind`."""
        truth = _not_zero(_truth(problem, self.kind), self.kind)
        norm = float(np.linalg.norm(truth))

        def evaluate(w: Array) -> Figures:
            return {"relative_distance": float(np.linalg.norm(w - truth)) / norm}

        return evaluate


class OperatorDistance(Measure):
    """Distance of a matrix model from the planted truth in the operator norm.

    It is the largest singular value of their difference.
    """

    columns: ClassVar[tuple[str, ...]] = ("operator_distance",)

    kind: Literal["operator_distance"] = "operator_distance"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for |W - truth|_2; see `Measure.bind`."""
        shape = matrix_shape(problem, self.kind)
        truth = _truth(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            return {"operator_distance": float(np.linalg.norm((w - truth).reshape(shape), 2))}

        return evaluate


class Support(Measure):
    """Precision, recall and F1 of the model's support against that of the planted truth.

    The support of the model consists of the entries above a threshold in magnitude, that of the
    truth of its non-zeros. A model with an empty support has precision 0.
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

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the scores; see `Measure.bind`."""
        planted = _not_zero(_truth(problem, self.kind), self.kind) != 0
        wanted = int(np.count_nonzero(planted))

        def evaluate(w: Array) -> Figures:
            nonzero = np.abs(w) > self.threshold
            size, hits = int(np.count_nonzero(nonzero)), int(np.count_nonzero(nonzero & planted))
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
        DataError: the problem has none, or it does not fit models of this loss.
    """
    truth = problem.truth
    if truth is None:
        text = (
            f"{kind} compares with a planted truth, and this data has none; use a generator"
            " with one (see `fedsim list data`), without preprocess"
        )
        raise DataError("data", text)
    if truth.size != problem.dimension:
        text = (
            f"{kind} compares with the planted truth of the data, with {truth.size} entries, but"
            f" the model of the loss {problem.loss.kind} has {problem.dimension}; use the loss"
            " that matches the generator"
        )
        raise DataError("loss", text)
    return truth.ravel()


def _not_zero(truth: Array, kind: str) -> Array:
    if not truth.any():
        raise DataError("data", f"{kind} needs a planted truth that is not zero")
    return truth
