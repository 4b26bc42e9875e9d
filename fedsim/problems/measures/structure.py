"""How simple a model is: its non-zeros, its rank."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.ports import Array
from fedsim.problems.measures.base import Figures, Measure, Observer, matrix_shape
from fedsim.problems.problem import Objective, Problem


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
