"""How far a model is from optimal and from feasible."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.blocks.wording import join_names
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.losses.base import constrained_losses
from fedsim.problems.measures.base import Figures, Measure, Observer, matrix_shape
from fedsim.problems.problem import Objective, Problem


class GradientNorm(Measure):
    """Norm of the objective's gradient; of its least subgradient if there is a penalty.

    It is the Euclidean distance of minus the gradient of the clients' losses from the
    subdifferential of the penalty: zero exactly where the model is stationary. An l1 term
    within the clients' losses enters as in their own subgradients, with sign(0) = 0.
    """

    columns: ClassVar[tuple[str, ...]] = ("gradient_norm",)

    kind: Literal["gradient_norm"] = "gradient_norm"

    def bind(self, problem: Problem, objective: Objective) -> Observer:
        """Return the norm of the objective's least subgradient."""

        def evaluate(w: Array) -> Figures:
            gradient = problem.gradient(w, objective)
            return {"gradient_norm": problem.regulariser.residual(w, gradient)}

        return evaluate


class ConstraintValue(Measure):
    """Value of the constraint, the mean of the clients' g_m, and whether it is violated.

    The clients count as in the objective: by their shares of the rows where that is a
    weighted mean, alike where it is a sum. The sum of the column `violated` is the number of
    rounds in violation.
    """

    columns: ClassVar[tuple[str, ...]] = ("constraint", "violated")

    kind: Literal["constraint"] = "constraint"
    tolerance: float = Field(
        default=0.0, ge=0, description="violated is 1 where the constraint is above this, else 0"
    )

    def bind(self, problem: Problem, objective: Objective) -> Observer:
        """Return the mean constraint; see `Measure.bind`."""
        if not problem.loss.constrained:
            text = (
                "constraint takes a loss with one, "
                f"{join_names(constrained_losses(), 'or')}; the loss"
                f" here is {problem.loss.kind}"
            )
            raise DataError("loss", text)
        coefficients = problem.coefficients(objective)
        shares = coefficients / coefficients.sum()

        def evaluate(w: Array) -> Figures:
            values = np.array([loss.constraint(w) for loss in problem.losses])
            g = float(shares @ values)
            return {"constraint": g, "violated": int(g > self.tolerance)}

        return evaluate


# Structure measures: the non-zeros and the rank of a model.


class Sparsity(Measure):
    """Number of the model's entries that are not zero."""

    columns: ClassVar[tuple[str, ...]] = ("nonzeros",)

    kind: Literal["sparsity"] = "sparsity"
    threshold: float = Field(
        default=0.0, ge=0, description="entries of at most this magnitude count as zero"
    )

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the count."""

        def evaluate(w: Array) -> Figures:
            return {"nonzeros": int(np.count_nonzero(np.abs(w) > self.threshold))}

        return evaluate


class Rank(Measure):
    """Numerical rank of a model that is a matrix, from its singular values."""

    columns: ClassVar[tuple[str, ...]] = ("rank",)

    kind: Literal["rank"] = "rank"
    tolerance: float = Field(
        default=1e-3,
        ge=0,
        lt=1,
        description="singular values of at most this share of the largest count as zero",
    )

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the rank; see `Measure.bind`."""
        shape = matrix_shape(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            values = np.linalg.svd(w.reshape(shape), compute_uv=False)
            return {"rank": int(np.count_nonzero(values > self.tolerance * values[0]))}

        return evaluate
