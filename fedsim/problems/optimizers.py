"""Optimizers: the rule by which a gradient moves a model, at a client or at the server.

A rule works on vectors of NumPy and of PyTorch alike, and has the definitions of `torch.optim`:
with the gradient g, the step size eta, lambda = `weight_decay`, and d = g + lambda w,

    sgd      b <- mu b + d;  w <- w - eta b, or w - eta (d + mu b) with `nesterov`;
    adam     m <- beta1 m + (1 - beta1) d,  v <- beta2 v + (1 - beta2) d^2,
             w <- w - eta m'/(sqrt(v') + epsilon),
             m' = m/(1 - beta1^t) and v' = v/(1 - beta2^t) in step t = 1, 2, ...;
    adamw    the same with d = g, after w <- (1 - eta lambda) w;
    yogi     adam with v <- v - (1 - beta2) d^2 sign(v - d^2);
    adagrad  v <- v + d^2,  w <- w - eta d/(sqrt(v) + epsilon).

Sources: Sutskever, Martens, Dahl, Hinton, "On the Importance of Initialization and Momentum in Deep
Learning", ICML 2013; Kingma, Ba, "Adam", ICLR 2015; Loshchilov, Hutter, "Decoupled Weight Decay
Regularization", ICLR 2019; Zaheer, Reddi, Sachan, Kale, Kumar, "Adaptive Methods for Nonconvex
Optimization", NeurIPS 2018; Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 2011.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, model_validator

from fedsim.blocks.choice import OneOf
from fedsim.blocks.in_memory import Holding
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Block, Given, KindFirst
from fedsim.ports import Array

Vector: TypeAlias = Any
"""An array of NumPy or a tensor of PyTorch, of any shape: every rule works number by number."""


class OptimizerState:
    """The state of an optimizer between its steps.

    Attributes:
        moments: its vectors, each of the model's shape.
        steps: the number of steps taken.
    """

    __slots__ = ("moments", "steps")

    def __init__(self, moments: Sequence[Vector], steps: int = 0) -> None:
        self.moments = moments
        self.steps = steps


class Optimizer(KindFirst):
    """A rule by which gradients move a model."""

    kind: str

    @property
    def plain(self) -> bool:
        """Whether a step is w - eta g."""
        return False

    @property
    @abstractmethod
    def moments(self) -> int:
        """The number of vectors of the model's size in its state."""

    @property
    @abstractmethod
    def operations(self) -> float:
        """Operations a value of the model and step, beyond those of w - eta g, which are free."""


class VectorOptimizer(Optimizer):
    """A rule on vectors of NumPy and PyTorch alike, number by number."""

    weight_decay: float = Field(default=0.0, ge=0, description="lambda, the weight of |w|^2/2")

    def begin(self, w: Vector) -> OptimizerState:
        """Return the state before the first step for a model like `w`."""
        return OptimizerState([_fill(w, 0.0) for _ in range(self.moments)])

    @abstractmethod
    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step: `w` and `state` are changed in place, and `g` is not.

        Args:
            w: the model.
            g: the gradient, of the same shape.
            eta: the step size.
            state: of `begin`, after the steps until now.
        """

    def _add_decay(self, w: Vector, g: Vector) -> Vector:
        """Return d = g + lambda w."""
        return g + self.weight_decay * w if self.weight_decay else g

    @property
    def _decay_operations(self) -> float:
        return 2.0 if self.weight_decay else 0.0


class SGD(VectorOptimizer):
    """Stochastic gradient descent, with momentum (heavy ball or Nesterov's) or without."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.0, ge=0, lt=1, description="mu, of the mean of gradients")
    nesterov: bool = Field(default=False, description="whether momentum is Nesterov's")

    @model_validator(mode="after")
    def _has_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0, such as momentum: 0.9")
        return self

    @property
    def plain(self) -> bool:
        """Whether there is neither momentum nor decay."""
        return not self.momentum and not self.weight_decay

    @property
    def moments(self) -> int:
        """1 with momentum."""
        return int(self.momentum > 0)

    @property
    def operations(self) -> float:
        """2 each for decay, momentum and Nesterov's sum."""
        return self._decay_operations + 2.0 * bool(self.momentum) + 2.0 * self.nesterov

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        d = self._add_decay(w, g)
        if self.momentum:
            (b,) = state.moments
            b *= self.momentum
            b += d
            d = d + self.momentum * b if self.nesterov else b
        w -= eta * d


class Adam(VectorOptimizer):
    """Adam: a mean of gradients, scaled by a mean of their squares in each coordinate."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean gradient m")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="decay of the mean square v")
    epsilon: float = Field(default=1e-8, gt=0, description="epsilon, which bounds the adaptivity")
    bias_correction: bool = Field(
        default=True, description="whether m and v are divided by 1 - beta^t"
    )
    initial: float = Field(default=0.0, ge=0, description="v before the first step")

    @property
    def moments(self) -> int:
        """2: m and v."""
        return 2

    @property
    def operations(self) -> float:
        """3 for m, 4 for v, and 3 for root, epsilon and quotient, beside corrections and decay."""
        return 10.0 + self.bias_correction + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return m = 0 and v = `initial`."""
        return OptimizerState([_fill(w, 0.0), _fill(w, self.initial)])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        self._adapted_step(w, self._add_decay(w, g), eta, state)

    def _adapted_step(self, w: Vector, d: Vector, eta: float, state: OptimizerState) -> None:
        state.steps += 1
        m, v = state.moments
        m *= self.beta1
        m += (1 - self.beta1) * d
        self.add_square(v, d * d)
        root = _root(v)
        if self.bias_correction:
            eta = eta / (1 - self.beta1**state.steps)
            root /= (1 - self.beta2**state.steps) ** 0.5
        root += self.epsilon
        w -= eta * m / root

    def add_square(self, v: Vector, square: Vector) -> None:
        """Move v towards the square of a gradient, in place."""
        v *= self.beta2
        v += (1 - self.beta2) * square


class AdamW(Adam):
    """AdamW: Adam with a decay of the model itself, apart from the gradient."""

    kind: Literal["adamw"] = "adamw"  # type: ignore[assignment]  # each has its own name
    weight_decay: float = Field(default=0.01, ge=0, description="lambda, of w <- (1 - eta lambda)w")

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        if self.weight_decay:
            w *= 1 - eta * self.weight_decay
        self._adapted_step(w, g, eta, state)


class Yogi(Adam):
    """Yogi: Adam whose v moves by amounts that depend on the gradients alone."""

    kind: Literal["yogi"] = "yogi"  # type: ignore[assignment]  # each has its own name
    epsilon: float = Field(default=1e-3, gt=0, description="epsilon, which bounds the adaptivity")
    initial: float = Field(default=1e-6, ge=0, description="v before the first step")

    @property
    def operations(self) -> float:
        """Those of Adam, and one for the sign."""
        return super().operations + 1.0

    def add_square(self, v: Vector, square: Vector) -> None:
        """Move v towards the square of a gradient, in place."""
        v -= (1 - self.beta2) * square * _sign(v - square)


class Adagrad(VectorOptimizer):
    """Adagrad: steps that shrink with the sum of squared gradients in each coordinate."""

    kind: Literal["adagrad"] = "adagrad"
    epsilon: float = Field(default=1e-10, gt=0, description="epsilon, which bounds the adaptivity")
    initial: float = Field(default=0.0, ge=0, description="v before the first step")

    @property
    def moments(self) -> int:
        """1: v."""
        return 1

    @property
    def operations(self) -> float:
        """2 for v, and 3 for root, epsilon and quotient, beside those of decay."""
        return 5.0 + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return v = `initial`."""
        return OptimizerState([_fill(w, self.initial)])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        d = self._add_decay(w, g)
        (v,) = state.moments
        v += d * d
        root = _root(v)
        root += self.epsilon
        w -= eta * d / root


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

    def of(self, parameters: Sequence[Any], eta: float) -> Any:  # noqa: ANN401 - of PyTorch
        """Return an optimizer of parameters of PyTorch, of the step size eta."""
        return self.make(parameters, lr=eta, **self.options)


class GivenOptimizer(Holding, Optimizer):
    """An optimizer of PyTorch passed in from Python by `fedsim.torch.optimizer`."""

    kind: Literal["given"] = "given"
    name: str = Field(description="the name of its class")
    vectors: NonNegativeInt = Field(description="vectors of the model's size in its state")
    charged: float = Field(ge=0, description="operations a value of the model and step")
    scheduled: bool = Field(default=False, description="whether it has a schedule of its own")

    @property
    def moments(self) -> int:
        """As found in a trial."""
        return self.vectors

    @property
    def operations(self) -> float:
        """As found in a trial, or as given."""
        return self.charged

    @property
    def passed(self) -> PassedOptimizer:
        """What was passed.

        Raises:
            DataError: this process does not have it.
        """
        found: PassedOptimizer = self.value("optimizer")
        return found


OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer", (SGD, Adam, AdamW, Yogi, Adagrad, GivenOptimizer)
)
"""Every optimizer that a scenario can name."""

AnyOptimizer = Given[Annotated[Optimizer, OneOf(OPTIMIZERS)] | None, Optimizer | Block | None]
"""A field for an optimizer; None for plain gradient steps."""

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
        return OptimizerState([_like(w, part) for part in parts], int(self.state[0]))

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
        return self._replace(moved=tuple(each for each in ranges if each[0] < each[1]))

    @property
    def alone(self) -> bool:
        """Whether its steps cannot be taken together with those of other clients."""
        given = isinstance(self.optimizer, GivenOptimizer)
        return given or self.anchor is not None or self.moved is not None

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
    moments = [_numpy(each).astype(np.float64) for each in state.moments]
    return np.concatenate([w, [float(state.steps)], *moments])


def _fill(like: Vector, value: float) -> Vector:
    if isinstance(like, np.ndarray):
        return np.full_like(like, value)
    return like.new_full(like.shape, value)


def _like(w: Vector, part: Array) -> Vector:
    """Return numbers as a vector of the type of `w`, of its own memory."""
    if isinstance(w, np.ndarray):
        return part.astype(w.dtype)
    return w.new_tensor(part)


def _numpy(vector: Vector) -> Array:
    found = vector if isinstance(vector, np.ndarray) else vector.detach().cpu().numpy()
    return np.asarray(found)


def _root(v: Vector) -> Vector:
    return np.sqrt(v) if isinstance(v, np.ndarray) else v.sqrt()


def _sign(v: Vector) -> Vector:
    return np.sign(v) if isinstance(v, np.ndarray) else v.sign()
