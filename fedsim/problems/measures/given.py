"""A measure passed in from Python: a function of the user's, under a name of the user's."""

from collections.abc import Callable
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from fedsim.blocks.in_memory import Holding
from fedsim.ports import Array
from fedsim.problems.measures.base import Measure, Observer
from fedsim.problems.problem import Objective, Problem
from fedsim.record.columns import higher_is_better

NAME = "[a-z][a-z0-9_]*"
"""The names of columns that are accepted, a regular expression."""


class PassedFunction(Protocol):
    """A function of a user's, ready to be bound to a problem."""

    def bind(self, problem: Problem) -> Callable[[Array], float]:
        """Return the function that maps a model, shape (d,), to the figure.

        Raises:
            DataError: the problem lacks what it needs.
        """


class _OwnColumns:
    """The columns of the class, of which there are none, and of each instance."""

    def __get__(self, instance: "GivenMeasure | None", owner: type) -> tuple[str, ...]:
        return () if instance is None else (instance.name,)


class _OwnHigher:
    """The columns of which more is better, likewise."""

    def __get__(self, instance: "GivenMeasure | None", owner: type) -> frozenset[str]:
        if instance is None or not higher_is_better(instance.name):
            return frozenset()
        return frozenset({instance.name})


class GivenMeasure(Holding, Measure):
    """A function passed in from Python by `fedsim.torch.metric`: a column of its own name.

    More of it is better where the name ends in accuracy, acc, precision, recall, f1, auc, r2, score
    or iou.
    """

    columns: ClassVar[tuple[str, ...]] = _OwnColumns()  # type: ignore[assignment]  # see there
    higher: ClassVar[frozenset[str]] = _OwnHigher()  # type: ignore[assignment]  # likewise

    kind: Literal["given"] = "given"
    name: str = Field(pattern=f"^{NAME}$", description="of the column")

    def bind(self, problem: Problem, objective: Objective) -> Observer:  # noqa: ARG002
        """Return the function's value; see `Measure.bind`."""
        figure: PassedFunction = self.value("measures")
        found = figure.bind(problem)
        return lambda w: {self.name: found(w)}
