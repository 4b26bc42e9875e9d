"""Optimizers of a scenario: all rules, those of PyTorch that are handed over, and training."""

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
        make: a class of `torch.optim`, or a function like one: of parameters, `lr` and `options`.
        options: further arguments by name.
        schedule: a function of the optimizer that returns a `torch.optim.lr_scheduler`; None for
            none.
        by: whether that takes a step after each local step, or between rounds.
    """

    make: Callable[..., Any]
    options: Mapping[str, Any] = {}
    schedule: Callable[[Any], Any] | None = None
    by: Literal["round", "step"] = "step"

    def of(self, parameters: Sequence[Any], eta: float) -> Any:
        """Return an optimizer of parameters of PyTorch, of the step size eta."""
        return self.make(parameters, lr=eta, **self.options)


class HeldOptimizer(Holding, Optimizer):
    """An optimizer of another library, passed in from Python: what a trial has found."""

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
        """As found in a trial."""
        return self.vectors

    @property
    def operations(self) -> float:
        """As found in a trial, or as given."""
        return self.charged


class GivenOptimizer(HeldOptimizer):
    """An optimizer of PyTorch passed in from Python by `fedsim.torch.optimizer`."""

    kind: Literal["given"] = "given"
    scheduled: bool = Field(default=False, description="whether it has a schedule of its own")

    @property
    def passed(self) -> PassedOptimizer:
        """What was passed.

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
        """Return the optimizer in the type of the problem, unless it has one of its own."""
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
        """As found in a trial, or as given, beside those of decay."""
        return super().operations + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return the state of optax; see `VectorOptimizer.begin`."""
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
"""Every optimizer that a scenario can name."""

AnyOptimizer = Given[Annotated[Optimizer, OneOf(OPTIMIZERS)] | None, Optimizer | Block | None]
"""A field for an optimizer; None for plain gradient steps."""

COMPILED: frozenset[type[Optimizer]] = frozenset({SGD, Adam, AdamW, Yogi, Adagrad})
"""The rules that compiled kernels have, where they have a loss; of subclasses they know nothing."""

ROUNDING = 1e-6
"""What `clip` adds to a norm, as `torch.nn.utils.clip_grad_norm_` does."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of coordinates, from the first one to before the last one."""


class Training(NamedTuple):
    """How a client moves its model by gradients.

    Attributes:
        optimizer: the rule.
        rates: the step size of each step.
        clip: the largest norm of a gradient; None for no limit.
        pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
        state: of the optimizer from an earlier round, see `join_state`; None for a new one.
        kept: whether the result has the state behind the model, see `join_state`.
        rounds: before this one, for the schedule of an optimizer that was passed in.
        anchor: a, where the pull is that of mu/2 |. - a|^2, shape (d,); None for the first model.
        moved: the ranges of coordinates that steps move; None for all of them.
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
        """Operations a value of the model and step, beyond the gradient's."""
        clipped = 0.0 if self.clip is None else 3.0
        return self.optimizer.operations + clipped

    @property
    def rule(self) -> VectorOptimizer:
        """The optimizer.

        Raises:
            TypeError: it is one of PyTorch, which takes parameters of a module only.
        """
        if not isinstance(self.optimizer, VectorOptimizer):
            raise TypeError(f"the optimizer {self.optimizer.kind} takes no vectors")
        return self.optimizer

    def begin(self, w: Vector) -> OptimizerState:
        """Return the state to begin with, for a model of shape (d,)."""
        w = self.pick(w)
        if self.state is None:
            return self.rule.begin(w)
        parts = self.state[1:].reshape(self.optimizer.moments, len(w))
        return OptimizerState([like(w, part) for part in parts], int(self.state[0]))

    def limit(self, g: Vector) -> Vector:
        """Return a gradient of norm `clip` at most; of several, shape (clients, d), each."""
        if self.clip is None:
            return g
        norms = (g * g).sum(axis=-1, keepdims=True) ** 0.5
        return g * (self.clip / (norms + ROUNDING)).clip(max=1.0)

    def pick(self, v: Vector) -> Vector:
        """Return the coordinates that steps move, of a vector of shape (d,); itself if it is all.

        >>> Training(SGD(), (), moved=((0, 1), (3, 5))).pick(np.arange(5.0))
        array([0., 3., 4.])
        """
        return v if self.moved is None else v[self._places(self.moved)]

    def _places(self, moved: Ranges) -> NDArray[np.intp]:
        return np.concatenate([np.arange(start, stop) for start, stop in moved])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step on the coordinates that are moved; see `VectorOptimizer.step`."""
        if self.moved is None:
            self.rule.step(w, self.limit(g), eta, state)
            return
        places = self._places(self.moved)
        part = w[places]
        self.rule.step(part, self.limit(g[places]), eta, state)
        w[places] = part

    def among(self, trained: int) -> "Training":
        """Return the same steps on the first `trained` coordinates: the others have no gradient."""
        ranges = [(start, min(stop, trained)) for start, stop in self.moved or ()]
        return self._replace(moved=tuple(bounds for bounds in ranges if bounds[0] < bounds[1]))

    @property
    def alone(self) -> bool:
        """Whether its steps cannot be taken together with those of other clients."""
        return self.optimizer.whole or self.anchor is not None or self.moved is not None

    @property
    def compilable(self) -> bool:
        """Whether its steps move the whole model number by number, by a rule of `COMPILED`."""
        return type(self.optimizer) in COMPILED and self.moved is None

    @property
    def own(self) -> bool:
        """Whether it has vectors of one client: a state that is kept, or the model of its pull."""
        return self.kept or self.state is not None or self.anchor is not None

    @property
    def batched(self) -> Hashable:
        """Equal for trainings whose steps can be taken together: all but the moments."""
        steps = None if self.state is None else float(self.state[0])
        return self._replace(state=None), steps

    def result(self, w: Array, state: OptimizerState) -> Array:
        """Return the model, shape (d,); with the state behind it if that is kept."""
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
    """Return a state of `join_state` for a client's memory: in float32 where that is exact.

    It is where PyTorch trains in float32, and then takes half the memory. No bit of later steps
    depends on it.

    >>> pack_state(np.array([3.0, 0.5])).dtype, pack_state(np.array([3.0, 0.1])).dtype
    (dtype('float32'), dtype('float64'))
    """
    with np.errstate(over="ignore"):
        narrow: Any = state.astype(np.float32)
    kept: Array = narrow if np.array_equal(narrow, state) else state.copy()  # frees the model
    return kept
