"""Base class of measures: a frozen block, bound to a problem before the run."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import join_names
from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.problems.losses.base import matrix_losses
from fedsim.problems.problem import Objective, Problem
from fedsim.record.columns import HIGHER_IS_BETTER

Figures = Mapping[str, float]
"""The figures of one round by the names of their columns."""

Observer = Callable[[Array], Figures]
"""A measure bound to a problem: maps a model, shape (d,), to figures, at no simulated time."""


class Measure(Spec):
    """A figure that the observer evaluates at every round's model, beside the objective."""

    columns: ClassVar[tuple[str, ...]]
    """The columns of the round table that it fills, in order."""

    higher: ClassVar[frozenset[str]] = HIGHER_IS_BETTER
    """Columns of which more is better: a stop at a target waits for that value or more."""

    kind: str

    @abstractmethod
    def bind(self, problem: Problem, objective: Objective) -> Observer:
        """Return the function that evaluates a model, with everything it needs precomputed.

        Args:
            problem: whose models are evaluated.
            objective: what the method minimises.

        Raises:
            DataError: the problem lacks what this measure compares with; the message names what
                would provide it.
        """


def matrix_shape(problem: Problem, kind: str) -> tuple[int, ...]:
    """Return the two sides of a matrix model, for a measure of this kind.

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
