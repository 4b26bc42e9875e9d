"""The smoothness constants of a problem for a method.

A method whose clients weigh their losses (`Algorithm.weighs_losses`) adds up the w_m f_m, and takes
steps on F. A method with a weighted mean at the server takes steps on the f_m, and so on F/W, where
W is the sum of the w_m. A step of 1/L with the L of F/W moves the model as far as a step on F with
the L of F. So methods that are equal in theory are equal with the same `step_size: 1/L`.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fedsim.algorithms import Algorithm, PeerAlgorithm
from fedsim.algorithms.base import resolve
from fedsim.core.ports import Array
from fedsim.problems import Problem
from fedsim.problems.problem import largest_smoothness


@dataclass(frozen=True, eq=False)
class SmoothnessConstants:
    """The constants of the losses on which a method takes steps, computed on demand.

    Attributes:
        problem: the problem of the run.
        factors: the method's factors on the clients' losses, shape (M,); None for 1.
        divisor: the method's divisor of F.
    """

    problem: Problem
    factors: Array | None
    divisor: float

    @classmethod
    def of(cls, problem: Problem, method: Algorithm) -> Self:
        """Return the constants for a method."""
        if not method.weighs_losses:
            return cls(problem, None, problem.total_weight)
        peers = isinstance(method, PeerAlgorithm)
        return cls(problem, problem.node_coefficients if peers else problem.coefficients, 1.0)

    def whole(self) -> float:
        """Return L; raises the errors of `Problem.smoothness`."""
        return self.problem.smoothness() / self.divisor

    def clients(self) -> Array:
        """Return the constant of each client, shape (M,); raises the same errors."""
        constants = self.problem.client_smoothness
        return constants if self.factors is None else self.factors * constants

    def largest(self) -> float:
        """Return the largest of these, L_max; raises the same errors."""
        if self.factors is None:
            return largest_smoothness(self.problem)
        first = float(self.factors[0])
        if (self.factors == first).all():  # the largest one can be computed without the others
            return first * largest_smoothness(self.problem)
        return float(self.clients().max())

    def step(self, name: str) -> float:
        """Return 1/L or 1/L_max, by the name of the constant.

        Raises:
            DataError: the problem does not have the constant.
            ParameterError: it is zero, or so small that the step overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float64 it is infinite
            return resolve(f"1/{name}", {"L": self.whole, "L_max": self.largest})
