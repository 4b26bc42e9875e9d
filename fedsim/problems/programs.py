"""Problems of clients with programs of their own, which alone know their data and their loss.

Nobody can ask such a client for a gradient or for a value at will: it is sent a model and trains
on it, or says how good it is. What else a problem knows of its losses, the block of the loss has
to declare: how many samples each client has, and what it costs them to train.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Never

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import Array, Basis, Oracle, Work
from fedsim.problems.losses import Loss, Rows, State
from fedsim.problems.measures import Observer
from fedsim.problems.problem import Objective, Problem
from fedsim.problems.samples import Draw, Minibatches


class ProgramLoss(Loss):
    """A loss that the clients' own programs know alone."""

    kind: str
    scale: str = Field(
        default="mean", pattern="^mean$", description="mean: over the samples of each client"
    )
    l2: float = Field(
        default=0.0, ge=0, le=0, description="0: a term that a program has is its own affair"
    )

    @abstractmethod
    def problem(self, clients: int | None, seed: int, folder: Path) -> "ProgramProblem":
        """Return what the clients minimise.

        Args:
            clients: the size of the fleet; None where the block itself says it.
            seed: of all that is random.
            folder: that of the scenario file, which paths are relative to.

        Raises:
            DataError: their programs cannot be used so.
        """

    @property
    @abstractmethod
    def reports(self) -> Mapping[str, bool]:
        """The figures that clients say of a model, by name, and whether more of each is better."""

    def dimension(self, features: int, outputs: int) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("how many parameters")

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("where to start")

    def operations(self, rows: int, features: float, outputs: int) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("its gradient")

    def forward(self, rows: Rows, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("its value")

    def value(self, rows: Rows, w: Array, state: State) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("its value")

    def gradient(self, rows: Rows, w: Array, state: State) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.unknown("its gradient")

    def unknown(self, what: str) -> DataError:
        """Return the error that something would have to be known."""
        text = f"the clients of {self.kind} train by programs of their own, which alone know {what}"
        return DataError("loss", text)


class ProgramOracle(ABC):
    """The port `Oracle` of a client with a program of its own: it can train, and nothing else.

    Args:
        loss: of the client.
        rows: how many samples it has.
    """

    def __init__(self, loss: ProgramLoss, rows: int) -> None:
        self.rows = rows
        self._loss = loss

    @abstractmethod
    def sgd_steps(
        self, w: Array, eta: float, drawn: Minibatches, pull: float | None = None
    ) -> Work:
        """Describe training from `w`, shape (d,), in the place of so many steps."""

    def draws(self, count: int, batch: int | None, rng: np.random.Generator) -> Minibatches:  # noqa: ARG002
        """Draw nothing: the program takes the samples that it likes."""
        return (None,) * count

    def gradient(self, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("its gradient")

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("its gradient")

    def minibatch_change(
        self,
        w: Array,  # noqa: ARG002
        old: Array,  # noqa: ARG002
        batch: int | None,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Never:
        """Refuse: raise a DataError."""
        raise self._loss.unknown("its gradient")

    def strong_convexity(self) -> Never:
        """Refuse: raise a DataError."""
        raise self._loss.unknown("how convex it is")

    def value(self, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("its value")

    def constraint(self, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("a constraint")

    def constraint_gradient(self, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("a constraint")

    def newton(self, w: Array) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("its Hessian")

    def restricted(self, basis: Basis) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self._loss.unknown("it in a subspace")


def reports(loss: Loss) -> Mapping[str, bool]:
    """Return the figures that clients say of a model, where they have programs for that."""
    return loss.reports if isinstance(loss, ProgramLoss) else {}


@dataclass(frozen=True, eq=False)
class ProgramProblem(Problem):
    """What clients with programs of their own minimise.

    Of its `losses`, only `rows` and `gradient_operations` are known: how many samples a client
    has, and what a pass over them costs.
    """

    loss: ProgramLoss

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length d of the model."""

    @property
    def shape(self) -> tuple[int, ...]:
        """A model is read as a vector, (d,)."""
        return (self.dimension,)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """A model is one part."""
        return (self.shape,)

    @cached_property
    def labels(self) -> Array:
        """The labels of clients' rows, which nobody else knows.

        Raises:
            DataError: always.
        """
        raise self.loss.unknown("labels")

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many samples each client is said to have, n_m, shape (M,)."""
        return np.array([loss.rows for loss in self.losses])

    @property
    @abstractmethod
    def number_bytes(self) -> int:
        """How many bytes the clients take for a number of the model."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Array:
        """Return the model to start from, shape (d,)."""

    @abstractmethod
    def asked(self, draw: Draw) -> Sequence[Oracle]:
        """Return the clients of a world that begins: what they remember is of that world."""

    @abstractmethod
    def looked_at(
        self, w: Array, objective: Objective, values: Callable[[Array], Sequence[float]]
    ) -> float:
        """Return the objective at `w` as clients say it; NaN where nobody is asked."""

    @property
    @abstractmethod
    def valued(self) -> bool:
        """Whether anybody is asked how good a model is."""

    @property
    @abstractmethod
    def observers(self) -> Sequence[Observer]:
        """What clients say of a model beside the objective."""

    def value(self, w: Array, objective: Objective) -> float:
        """Return the objective at `w` as clients say it."""
        return self.looked_at(w, objective, lambda _: ())

    def gradient(self, w: Array, objective: Objective) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.loss.unknown("its gradient")

    def hessian(self, w: Array, objective: Objective) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.loss.unknown("its Hessian")

    def smoothness(self, objective: Objective) -> Never:  # noqa: ARG002
        """Refuse: raise a DataError."""
        raise self.loss.unknown("its smoothness constant")

    @cached_property
    def client_smoothness(self) -> Array:
        """The smoothness constants of the clients' losses, which nobody knows.

        Raises:
            DataError: always.
        """
        raise self.loss.unknown("its smoothness constant")
