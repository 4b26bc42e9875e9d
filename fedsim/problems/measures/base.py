"""What every measure is: a frozen block, bound to a problem before the run."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import joined
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.losses.base import matrix_losses
from fedsim.problems.problem import Objective, Problem
from fedsim.record.directions import HIGHER_IS_BETTER

Figures = Mapping[str, float]
"""The figures of one round by the names of their columns."""

Observer = Callable[[Array], Figures]
"""A measure bound to a problem: a model, shape (d,), to its figures; costs no simulated time."""


class Measure(Spec):
    """What the observer evaluates at the model of every round, beside the objective."""

    columns: ClassVar[tuple[str, ...]]
    """The columns of the round table that it fills, in order."""

    higher: ClassVar[frozenset[str]] = HIGHER_IS_BETTER
    """Columns of which more is better, so that a stop at one waits for that or more."""

    kind: str

    @abstractmethod
    def bind(self, problem: Problem, objective: Objective) -> Observer:
        """Return the function that evaluates a model, with all that it needs at hand.

        Args:
            problem: whose models are looked at.
            objective: what the method minimises.

        Raises:
            DataError: the problem has not what this measure compares with; the text says what
                would have.
        """


def matrix_shape(problem: Problem, kind: str) -> tuple[int, ...]:
    """Return the two sides of a model that is a matrix, for a measure of this kind.

    Raises:
        DataError: it is none.
    """
    if len(problem.shape) != 2:
        losses = joined(matrix_losses(), "or")
        text = (
            f"{kind} takes a model that is a matrix: use the loss {losses};"
            f" the model of the loss {problem.loss.kind} has the shape {problem.shape}"
        )
        raise DataError("loss", text)
    return problem.shape
