"""What every measure is: a frozen block, bound to a problem before the run."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from fedsim.blocks.spec import Spec
from fedsim.ports import Array
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
