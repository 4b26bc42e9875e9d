"""Optimizers of a scenario: fedsim's rules, optimizers passed in from Python, and training."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PrivateAttr

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given
from fedsim.core.ports import Array
from fedsim.problems.parts import ModelPart
from fedsim.problems.rules import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Muon,
    Optimizer,
    OptimizerState,
    VectorOptimizer,
    Yogi,
)
from fedsim.problems.samples import Precision
from fedsim.problems.vectors import Vector, like, numpy_of

if TYPE_CHECKING:
    from fedsim.problems.transformations import Transformation

__all__ = [
    "OPTIMIZERS",
    "ROUNDING",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "AnyOptimizer",
    "GivenOptimizer",
    "GivenTransformation",
    "Muon",
    "Optimizer",
    "OptimizerState",
    "PassedOptimizer",
    "Ranges",
    "Training",
    "VectorOptimizer",
    "Yogi",
    "join_state",
    "pack_state",
]


class PassedOptimizer(NamedTuple):
    """An optimizer passed in from Python.

    Attributes:
        make: a class of `torch.optim`, or a function with the same arguments: parameters, `lr` and
            `options`.
        options: further arguments by name.
        schedule: a function that maps the optimizer to a `torch.optim.lr_scheduler`; None for no
            schedule.
        by: whether the schedule takes a step after each local step, or between rounds.
    """

    make: Callable[..., Any]
    options: Mapping[str, Any] = {}
    schedule: Callable[[Any], Any] | None = None
    by: Literal["round", "step"] = "step"

    def of(self, parameters: Sequence[Any], eta: float) -> Any:
        """Return an optimizer for parameters of PyTorch, with the step size eta."""
        return self.make(parameters, lr=eta, **self.options)


class HeldOptimizer(Holding, Optimizer):
    """An optimizer of another library, passed in from Python, with the findings of a trial."""

    whole: ClassVar[bool] = True

    name: str = Field(description="the name of its class, or of the function that makes it")
    vectors: NonNegativeInt = Field(description="vectors of the model's size in its state")
    charged: float = Field(ge=0, description="operations per model value and step")

    @property
    def title(self) -> str:
        """Its own name."""
        return self.name

    @property
    def moments(self) -> int:
        """The number found in a trial."""
        return self.vectors

    @property
    def operations(self) -> float:
        """The number found in a trial, or stated by the user."""
        return self.charged


class GivenOptimizer(HeldOptimizer):
    """An optimizer of PyTorch passed in from Python by `fedsim.torch.optimizer`."""

    kind: Literal["given"] = "given"
    scheduled: bool = Field(default=False, description="whether it has a schedule of its own")

    @property
    def passed(self) -> PassedOptimizer:
        """The optimizer as passed in.

        Raises:
            DataError: this process does not have it.
        """
        found: PassedOptimizer = self.value("optimizer")
        return found


class GivenTransformation(HeldOptimizer, VectorOptimizer):
    """An optimizer of optax passed in from Python by `fedsim.jax.optimizer`."""

    kind: Literal["optax"] = "optax"
    numbers: Precision | None = Field(
        default=None, description="number type; null for that of the problem"
    )
    counted: bool = Field(default=True, description="whether these are counted for each model")

    _parts: tuple[ModelPart, ...] = PrivateAttr(default=())

    def within(self, precision: Precision) -> Self:
        """Return the optimizer in the number type of the problem, unless it has its own."""
        return self.model_copy(update={"numbers": self.numbers or precision})

    def fit(self, parts: Sequence[ModelPart]) -> Self:
        """Return the optimizer for a model of these parts; see `Optimizer.fit`."""
        fitted = self.model_copy()
        fitted._parts = tuple(parts)  # noqa: SLF001 - its own
        steps = fitted._steps  # noqa: SLF001
        charged = steps.operations if self.counted else self.charged
        return fitted.model_copy(update={"vectors": steps.vectors, "charged": charged})

    @property
    def operations(self) -> float:
        """The number found in a trial, or stated by the user, plus those of weight decay."""
        return super().operations + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return the initial state of optax; see `VectorOptimizer.begin`."""
        return OptimizerState([like(w, moment) for moment in self._steps.begin(numpy_of(w))])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        d, held = numpy_of(self._add_decay(w, g)), [numpy_of(moment) for moment in state.moments]
        moved, moments = self._steps.step(numpy_of(w), d, eta, held, state.steps)
        w[:] = like(w, moved)
        state.moments, state.steps = [like(w, moment) for moment in moments], state.steps + 1

    @property
    def _steps(self) -> "Transformation":
        from fedsim.problems.transformations import transformation  # loads JAX

        numbers = self.numbers or "float64"
        return transformation(self.value("optimizer"), self.name, numbers, self._parts)


OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer", (SGD, Adam, AdamW, Yogi, Adagrad, Muon, GivenOptimizer, GivenTransformation)
)
"""The optimizers that a scenario can name."""

AnyOptimizer = Given[Annotated[Optimizer, OneOf(OPTIMIZERS)] | None, Optimizer | Block | None]
"""A field for an optimizer; None for plain gradient steps."""

COMPILED: frozenset[type[Optimizer]] = frozenset({SGD, Adam, AdamW, Yogi, Adagrad})
"""The rules that compiled kernels implement, for losses with a kernel; exact classes only."""

ROUNDING = 1e-6
"""Added to a norm by `clip`, as in `torch.nn.utils.clip_grad_norm_`."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Half-open ranges of coordinates."""


class Training(NamedTuple):
    """How a client changes its model by gradients.

    Attributes:
        optimizer: the rule.
        rates: the step size of each step.
        clip: the largest norm of a gradient; None for no limit.
        pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
        state: the optimizer's state from an earlier round, see `join_state`; None for a new one.
        kept: whether the result has the state after the model, see `join_state`.
        rounds: the number of earlier rounds, for the schedule of an optimizer passed in from
            Python.
        anchor: a, for a pull of mu/2 |. - a|^2, shape (d,); None for the initial model.
        moved: the ranges of coordinates that steps change; None for all of them.
    """

    optimizer: Optimizer
    rates: tuple[float, ...]
    clip: float | None = None
    pull: float | None = None
    state: Array | None = None
    kept: bool = False
    rounds: int = 0
    anchor: Array | None = None
    moved: Ranges | None = None

    @property
    def operations(self) -> float:
        """Operations per value of the model and step, besides those of the gradient."""
        clipped = 0.0 if self.clip is None else 3.0
        return self.optimizer.operations + clipped

    @property
    def rule(self) -> VectorOptimizer:
        """The optimizer.

        Raises:
            TypeError: it is an optimizer of PyTorch, which needs the parameters of a module.
        """
        if not isinstance(self.optimizer, VectorOptimizer):
            raise TypeError(f"the optimizer {self.optimizer.kind} takes no vectors")
        return self.optimizer

    def begin(self, w: Vector) -> OptimizerState:
        """Return the initial state for a model of shape (d,)."""
        w = self.pick(w)
        if self.state is None:
            return self.rule.begin(w)
        parts = self.state[1:].reshape(self.optimizer.moments, len(w))
        return OptimizerState([like(w, part) for part in parts], int(self.state[0]))

    def limit(self, g: Vector) -> Vector:
        """Return a gradient whose norm is at most `clip`; for several, shape (clients, d), each."""
        if self.clip is None:
            return g
        norms = (g * g).sum(axis=-1, keepdims=True) ** 0.5
        return g * (self.clip / (norms + ROUNDING)).clip(max=1.0)

    def pick(self, v: Vector) -> Vector:
        """Return the coordinates of a vector, shape (d,), that steps change; itself if all do.

        >>> Training(SGD(), (), moved=((0, 1), (3, 5))).pick(np.arange(5.0))
        array([0., 3., 4.])
        """
        return v if self.moved is None else v[self._places(self.moved)]

    def _places(self, moved: Ranges) -> NDArray[np.intp]:
        return np.concatenate([np.arange(start, stop) for start, stop in moved])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step on the coordinates that may change; see `VectorOptimizer.step`."""
        if self.moved is None:
            self.rule.step(w, self.limit(g), eta, state)
            return
        places = self._places(self.moved)
        part = w[places]
        self.rule.step(part, self.limit(g[places]), eta, state)
        w[places] = part

    def among(self, trained: int) -> "Training":
        """Return the same steps on the first `trained` coordinates; the others have no gradient."""
        ranges = [(start, min(stop, trained)) for start, stop in self.moved or ()]
        return self._replace(moved=tuple(bounds for bounds in ranges if bounds[0] < bounds[1]))

    @property
    def alone(self) -> bool:
        """Whether its steps cannot be computed together with those of other clients."""
        return self.optimizer.whole or self.anchor is not None or self.moved is not None

    @property
    def compilable(self) -> bool:
        """Whether a rule in `COMPILED` changes each number of the whole model independently."""
        return type(self.optimizer) in COMPILED and self.moved is None

    @property
    def own(self) -> bool:
        """Whether it has vectors of a single client: a state, or the model of its pull."""
        return self.kept or self.state is not None or self.anchor is not None

    @property
    def batched(self) -> Hashable:
        """A key that is equal if steps can be computed together: everything except the moments."""
        steps = None if self.state is None else float(self.state[0])
        return self._replace(state=None), steps

    def result(self, w: Array, state: OptimizerState) -> Array:
        """Return the model, shape (d,), followed by the state if it is kept."""
        return join_state(w, state) if self.kept else w


def join_state(w: Array, state: OptimizerState) -> Array:
    """Return a model, shape (d,), the number of steps and the moments as one vector."""
    moments = [numpy_of(moment) for moment in state.moments]
    joined = np.empty(w.size + 1 + sum(moment.size for moment in moments))
    joined[: w.size], joined[w.size] = w, state.steps
    at = w.size + 1
    for moment in moments:
        joined[at : (at := at + moment.size)] = moment
    return joined


def pack_state(state: Array) -> Array:
    """Return a state from `join_state` for a client's memory, in float32 if that is exact.

    It is exact if PyTorch trains in float32, and then takes half the memory. It does not affect any
    bit of later steps.

    >>> pack_state(np.array([3.0, 0.5])).dtype, pack_state(np.array([3.0, 0.1])).dtype
    (dtype('float32'), dtype('float64'))
    """
    with np.errstate(over="ignore"):
        narrow: Any = state.astype(np.float32)
    kept: Array = narrow if np.array_equal(narrow, state) else state.copy()  # releases the model
    return kept
