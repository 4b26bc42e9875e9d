"""A measure passed in from Python: a user's function, with a column name of the user's choice."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from fedsim.core.blocks.in_memory import Holding
from fedsim.core.ports import Array
from fedsim.core.table_columns import higher_is_better
from fedsim.problems.measures.base import Figures, Measure, Observer, OwnObserver
from fedsim.problems.problem import Problem

OVER_CLIENTS = ("worst", "tenth", "median", "mean")
"""The statistics over the clients of a figure per client."""

NAME = "[a-z][a-z0-9_]*"
"""The accepted names of columns, as a regular expression."""


class PassedFunction(Protocol):
    """A user's function, ready to be bound to a problem."""

    def bind(self, problem: Problem) -> Callable[[Array], float]:
        """Return the function that maps a model, shape (d,), to the figure.

        Raises:
            DataError: the problem lacks what it needs.
        """

    def bind_clients(self, problem: Problem) -> Callable[[Sequence[Array]], Array]:
        """Return the function that maps one model per client to their figures, shape (M,)."""


class _OwnColumns:
    """The attribute `columns`: empty for the class, and by name for each instance."""

    def __get__(self, instance: "GivenMeasure | None", owner: type) -> tuple[str, ...]:
        if instance is None:
            return ()
        if instance.on == "test":
            return (instance.name,)
        return tuple(f"{which}_{instance.name}" for which in OVER_CLIENTS)


class _OwnHigher:
    """The attribute `higher`, likewise: the columns in which more is better."""

    def __get__(self, instance: "GivenMeasure | None", owner: type) -> frozenset[str]:
        if instance is None or not higher_is_better(instance.name):
            return frozenset()
        return frozenset(instance.columns)


class GivenMeasure(Holding, Measure):
    """A function passed in from Python by `fedsim.torch.metric`, with a column of its own name.

    More of it is better if the name ends in accuracy, acc, precision, recall, f1, auc, auroc, r2,
    score, iou or kappa.
    """

    columns: ClassVar[tuple[str, ...]] = _OwnColumns()  # type: ignore[assignment]  # see there
    higher: ClassVar[frozenset[str]] = _OwnHigher()  # type: ignore[assignment]  # likewise

    kind: Literal["given"] = "given"
    name: str = Field(pattern=f"^{NAME}$", description="name of the column")
    on: Literal["test", "clients"] = Field(
        default="test", description="the rows: the held-out ones, or each client's own"
    )

    @model_serializer(mode="wrap")
    def _without_test(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit the default rows, so that older scenarios keep their bytes."""
        written: dict[str, object] = write(self)
        if self.on == "test":
            written.pop("on", None)
        return written

    @property
    def _figure(self) -> PassedFunction:
        found: PassedFunction = self.value("measures")
        return found

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the figure, or for its statistics over the clients."""
        if self.on == "clients":
            observe, count = self.bind_own(problem), len(problem.samples)
            return lambda w: observe([w] * count)
        figure = self._figure.bind(problem)
        return lambda w: {self.name: figure(w)}

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return a function for the statistics over the figures of the clients' own models."""
        if self.on == "test":
            return super().bind_own(problem)
        figure = self._figure.bind_clients(problem)

        def evaluate(models: Sequence[Array]) -> Figures:
            values = np.sort(figure(models))  # the worst first, if more is better
            values = values if higher_is_better(self.name) else values[::-1]
            # Rounded up, this is at least one client.
            tenth = -(-len(values) // 10)
            figures = values[0], values[:tenth].mean(), np.median(values), values.mean()
            return dict(zip(self.columns, map(float, figures), strict=True))

        return evaluate
