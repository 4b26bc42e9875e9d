"""Problems whose clients run their own programs; only these programs know the data and the loss.

Such a client does not evaluate gradients or values on request. It receives a model and trains it,
or reports the model's quality. The other properties that a problem needs are declared in the block
of the loss: the number of samples of each client, and the cost of training.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Never

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.errors import DataError
from fedsim.core.ports import Array, Basis, Oracle, Work
from fedsim.problems.losses import Loss, Rows, State
from fedsim.problems.measures import Observer
from fedsim.problems.problem import Problem
from fedsim.problems.samples import Draw, Minibatches, Precision


class ProgramLoss(Loss):
    """A loss known only to the clients' own programs."""

    kind: str
    scale: str = Field(
        default="mean", pattern="^mean$", description="mean: over the samples of each client"
    )
    l2: float = Field(
        default=0.0, ge=0, le=0, description="0: a program may have such a term itself"
    )

    def computed_in(self, precision: Precision) -> Precision:
        """Return float32, the usual precision of programs."""
        return "float32"

    @abstractmethod
    def problem(self, clients: int | None, seed: int, folder: Path) -> "ProgramProblem":
        """Return the problem that the clients minimise.

        Args:
            clients: the size of the fleet; None if the block itself determines it.
            seed: the seed of all randomness.
            folder: the folder of the scenario file, to which paths are relative.

        Raises:
            DataError: the clients' programs cannot be used like this.
        """

    def problem_for(
        self,
        method: object,
        clients: int | None,
        seed: int,
        folder: Path,
    ) -> "ProgramProblem":
        """Return the problem for a method whose server contributes to it, as an initial model does.

        Args:
            method: not yet configured.
            clients: the size of the fleet; None if the block itself determines it.
            seed: the seed of all randomness.
            folder: the folder of the scenario file.

        Raises:
            DataError: the clients' programs cannot be used like this.
            ParameterError: the method cannot be used with them.
        """
        return self.problem(clients, seed, folder)

    @property
    @abstractmethod
    def reports(self) -> Mapping[str, bool]:
        """The figures that clients report for a model, by name, and whether more is better."""

    def dimension(self, features: int, outputs: int) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("the number of parameters")

    def initial(self, features: int, outputs: int, rng: np.random.Generator) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("the initial model")

    def operations(self, rows: int, features: float, outputs: int) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("its gradient")

    def forward(self, rows: Rows, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("its value")

    def value(self, rows: Rows, w: Array, state: State) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("its value")

    def gradient(self, rows: Rows, w: Array, state: State) -> Never:
        """Not available: raises a DataError."""
        raise self.unknown("its gradient")

    def unknown(self, what: str) -> DataError:
        """Return the error that says that fedsim does not know a property."""
        text = f"the clients of {self.kind} run their own programs, and fedsim does not know {what}"
        return DataError("loss", text)


class ProgramOracle(ABC):
    """The `Oracle` of a client that runs its own program, which can only train.

    Args:
        loss: the loss of the client.
        rows: the number of its samples.
    """

    weight = 1.0  # the server takes a weighted mean of the results itself
    random = False  # the program does not draw from the client's stream

    def __init__(self, loss: ProgramLoss, rows: int) -> None:
        self.rows = rows
        self._loss = loss

    @abstractmethod
    def sgd_steps(
        self,
        w: Array,
        eta: float,
        drawn: Minibatches,
        pull: float | None = None,
        *,
        change: bool = False,
    ) -> Work:
        """Describe training from `w`, shape (d,), in place of gradient steps."""

    def draws(self, count: int, batch: int | None, rng: np.random.Generator) -> Minibatches:
        """Draw nothing: the program selects its samples itself."""
        return (None,) * count

    def later_draws(self, count: int, batch: int, rng: np.random.Generator) -> None:
        """Draw nothing: the program selects its samples itself."""
        return None  # noqa: RET501 - not abstract

    def passes(
        self,
        count: int,
        batch: int | None,
        rng: np.random.Generator,
        *,
        drop_last: bool = False,
    ) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its samples")

    def optimizer_steps(self, w: Array, drawn: Minibatches, training: object) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its gradient")

    def gradient(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its gradient")

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its gradient")

    def minibatch_change(
        self,
        w: Array,
        old: Array,
        batch: int | None,
        rng: np.random.Generator,
    ) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its gradient")

    def strong_convexity(self) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its convexity")

    def value(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its value")

    def root_mean_square(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("the losses of its samples")

    def constraint(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("a constraint")

    def constraint_gradient(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("a constraint")

    def newton(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its Hessian")

    def restricted(self, basis: Basis) -> Never:
        """Not available: raises a DataError."""
        raise self._loss.unknown("its restriction to a subspace")


def reports(loss: Loss) -> Mapping[str, bool]:
    """Return the figures that clients report for a model; none if the loss is no `ProgramLoss`."""
    return loss.reports if isinstance(loss, ProgramLoss) else {}


@dataclass(frozen=True, eq=False)
class ProgramProblem(Problem):
    """The problem minimised by clients that run their own programs.

    Its `losses` have only `rows` and `gradient_operations`: the number of samples of a client, and
    the cost of a pass over them.
    """

    loss: ProgramLoss

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length d of the model."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a model: a vector, (d,)."""
        return (self.dimension,)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of a model's parts: a single part."""
        return (self.shape,)

    @cached_property
    def labels(self) -> Array:
        """The labels of the clients' rows, which are unknown.

        Raises:
            DataError: always.
        """
        raise self.loss.unknown("labels")

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The declared number of samples of each client, n_m, shape (M,)."""
        return np.array([loss.rows for loss in self.losses])

    @property
    @abstractmethod
    def number_bytes(self) -> int:
        """The number of bytes that the clients use for one number of the model."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (d,)."""

    @abstractmethod
    def fresh_oracles(self, draw: Draw, *, among_peers: bool = False) -> Sequence[Oracle]:
        """Return the clients of a new world; their state belongs to that world."""

    @abstractmethod
    def looked_at(self, w: Array, values: Callable[[Array], Sequence[float] | Array]) -> float:
        """Return the objective at `w` as clients report it; NaN if no client evaluates it."""

    @property
    @abstractmethod
    def valued(self) -> bool:
        """Whether any client evaluates models."""

    @property
    @abstractmethod
    def observers(self) -> Sequence[Observer]:
        """Observers of the figures that clients report beside the objective."""

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield notes on what programs did in the last world, each a key and a sentence."""
        yield from ()

    def value(self, w: Array) -> float:
        """Return the objective at `w` as clients report it."""
        return self.looked_at(w, lambda _: ())

    def gradient(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self.loss.unknown("its gradient")

    def hessian(self, w: Array) -> Never:
        """Not available: raises a DataError."""
        raise self.loss.unknown("its Hessian")

    def smoothness(self) -> Never:
        """Not available: raises a DataError."""
        raise self.loss.unknown("its smoothness constant")

    @cached_property
    def client_smoothness(self) -> Array:
        """The smoothness constants of the clients' losses, which are unknown.

        Raises:
            DataError: always.
        """
        raise self.loss.unknown("its smoothness constant")
