"""The smoothness constants of a problem, as a method sees them.

A method whose clients weigh their losses (`Algorithm.weighs_losses`) adds up the w_m f_m, and its
steps are on F. One that takes a weighted mean at the server steps on the f_m, and so on F/W with W
the sum of the w_m. A step of 1/L with the L of F/W moves the model as far as one on F with the L of
F: methods that are equal by theory are so with the same `step_size: 1/L`.
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
    """The constants of the losses that a method steps on, each computed when it is asked for.

    Attributes:
        problem: of the run.
        factors: by which the method multiplies the clients' losses, shape (M,); None for 1.
        divisor: by which it divides F.
    """

    problem: Problem
    factors: Array | None
    divisor: float

    @classmethod
    def of(cls, problem: Problem, method: Algorithm) -> Self:
        """Return the constants as a method sees them."""
        if not method.weighs_losses:
            return cls(problem, None, problem.total_weight)
        peers = isinstance(method, PeerAlgorithm)
        return cls(problem, problem.node_coefficients if peers else problem.coefficients, 1.0)

    def whole(self) -> float:
        """Return L; errors as for `Problem.smoothness`."""
        return self.problem.smoothness() / self.divisor

    def clients(self) -> Array:
        """Return the constant of each client, shape (M,); errors alike."""
        constants = self.problem.client_smoothness
        return constants if self.factors is None else self.factors * constants

    def largest(self) -> float:
        """Return the largest of these, L_max; errors alike."""
        if self.factors is None:
            return largest_smoothness(self.problem)
        first = float(self.factors[0])
        if (self.factors == first).all():  # the largest is found without computing all of them
            return first * largest_smoothness(self.problem)
        return float(self.clients().max())

    def step(self, name: str) -> float:
        """Return 1/L or 1/L_max, by the name of the constant.

        Raises:
            DataError: the problem does not have it.
            ParameterError: it is zero, or so small that the step overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # too large for a float64 is infinite
            return resolve(f"1/{name}", {"L": self.whole, "L_max": self.largest})
