"""Base class of measures: an observer's figures of a model, which take no simulated time.

observe = Support(threshold=0.01).bind(problem)
observe(w)      # {"support_precision": ..., "support_recall": ..., ...}
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array
from fedsim.core.table_columns import HIGHER_IS_BETTER
from fedsim.problems.problem import Problem

Figures = Mapping[str, float]
"""The figures of one round, by the names of their columns."""

Observer = Callable[[Array], Figures]
"""A measure bound to a problem: maps a model, shape (d,), to figures, in no simulated time."""


OwnObserver = Callable[[Sequence[Array]], Figures]
"""A measure of the clients' own models: one model per client, each of shape (d,)."""


class Measure(Spec):
    """Figures that the observer evaluates at every round's model, in addition to the objective."""

    columns: ClassVar[tuple[str, ...]]
    """The columns of the round table that it fills, in order."""

    higher: ClassVar[frozenset[str]] = HIGHER_IS_BETTER
    """Columns in which more is better: a stop at a target waits for this value or more."""

    held_out: ClassVar[bool] = False
    """Whether it needs test rows."""

    kind: str

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return the function that evaluates the clients' own models, in the order of the fleet.

        By default each figure is the mean over the clients' models, with the weights p_m.

        Raises:
            DataError: as for `bind`.
        """
        observe, weights = self.bind(problem), problem.weights

        def evaluate(models: Sequence[Array]) -> Figures:
            observed = [observe(w) for w in models]
            columns = {
                name: np.array([values[name] for values in observed]) for name in observed[0]
            }
            return {name: float(weights @ column) for name, column in columns.items()}

        return evaluate

    @abstractmethod
    def bind(self, problem: Problem) -> Observer:
        """Return the function that evaluates a model; everything it needs is precomputed.

        Args:
            problem: the problem whose models are evaluated.

        Raises:
            DataError: the problem lacks what this measure compares with; the message names what
                would provide it.
        """
