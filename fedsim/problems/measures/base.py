"""What a measure is: an observer's figures of a model, at no simulated time.

observe = Support(threshold=0.01).bind(problem, "mean")
observe(w)      # {"support_precision": ..., "support_recall": ..., ...}
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from fedsim.blocks.spec import Spec
from fedsim.ports import Array
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
