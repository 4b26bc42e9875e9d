"""Optimizers: the rule by which a gradient moves a model, at a client or at the server.

A rule works on vectors of NumPy and of PyTorch alike, and has the definitions of `torch.optim`:
with the gradient g, the step size eta, lambda = `weight_decay`, and d = g + lambda w,

    sgd      b <- mu b + d;  w <- w - eta b, or w - eta (d + mu b) with `nesterov`;
    adam     m <- beta1 m + (1 - beta1) d,  v <- beta2 v + (1 - beta2) d^2,
             w <- w - eta m'/(sqrt(v') + epsilon),
             m' = m/(1 - beta1^t) and v' = v/(1 - beta2^t) in step t = 1, 2, ...;
    adamw    the same with d = g, after w <- (1 - eta lambda) w;
    yogi     adam with v <- v - (1 - beta2) d^2 sign(v - d^2);
    adagrad  v <- v + d^2,  w <- w - eta d/(sqrt(v) + epsilon);
    muon     for a matrix  w <- (1 - eta lambda) w,  b <- b + (1 - mu) (g - b),
             w <- w - eta c O(g + mu (b - g)), see `fedsim.problems.vectors.orthogonal`;
             adamw for all other numbers.

Sources: Sutskever, Martens, Dahl, Hinton, "On the Importance of Initialization and Momentum in Deep
Learning", ICML 2013; Kingma, Ba, "Adam", ICLR 2015; Loshchilov, Hutter, "Decoupled Weight Decay
Regularization", ICLR 2019; Zaheer, Reddi, Sachan, Kale, Kumar, "Adaptive Methods for Nonconvex
Optimization", NeurIPS 2018; Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 2011;
Jordan et al., "Muon: An Optimizer for Hidden Layers in Neural Networks", 2024; Liu et al., "Muon is
Scalable for LLM Training", 2025.
"""

from abc import abstractmethod
from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import ClassVar, Literal, Self

from pydantic import Field, PositiveInt, PrivateAttr, model_validator

from fedsim.core.blocks.spec import KindFirst
from fedsim.core.errors import DataError
from fedsim.problems.parts import ModelPart
from fedsim.problems.samples import Precision
from fedsim.problems.vectors import Vector, fill, orthogonal, root, sign

_NAMED = 6
"""The number of parts listed in an error, at most."""


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

    whole: ClassVar[bool] = False
    """Whether it needs the parts of a whole model, and cannot move just some of its numbers."""

    @property
    def plain(self) -> bool:
        """Whether a step is w - eta g."""
        return False

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.kind

    def within(self, precision: Precision) -> Self:
        """Return the rule for a problem whose models and gradients are computed in this type."""
        return self

    def fit(self, parts: Sequence[ModelPart]) -> Self:
        """Return the rule for a model of these parts.

        Raises:
            DataError: it has no step for these parts.
        """
        return self

    @property
    @abstractmethod
    def moments(self) -> int:
        """The number of vectors of the model's size in its state."""

    @property
    @abstractmethod
    def operations(self) -> float:
        """Operations per value of the model and step, beyond those of w - eta g, which are free."""


class VectorOptimizer(Optimizer):
    """A rule that works number by number, on vectors of NumPy and PyTorch alike."""

    weight_decay: float = Field(default=0.0, ge=0, description="lambda, the weight of |w|^2/2")

    def begin(self, w: Vector) -> OptimizerState:
        """Return the state before the first step for a model like `w`."""
        return OptimizerState([fill(w, 0.0) for _ in range(self.moments)])

    @abstractmethod
    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step: `w` and `state` are changed in place, and `g` is not.

        Args:
            w: the model.
            g: the gradient, of the same shape.
            eta: the step size.
            state: the state from `begin`, after the steps so far.
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
    momentum: float = Field(default=0.0, ge=0, lt=1, description="mu, the momentum")
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
        """1 with momentum, else 0."""
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
        """3 for m, 4 for v, and 3 for root, epsilon and quotient, plus corrections and decay."""
        return 10.0 + self.bias_correction + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return m = 0 and v = `initial`."""
        return OptimizerState([fill(w, 0.0), fill(w, self.initial)])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        self._adapted_step(w, self._add_decay(w, g), eta, state)

    def _adapted_step(self, w: Vector, d: Vector, eta: float, state: OptimizerState) -> None:
        state.steps += 1
        m, v = state.moments
        m *= self.beta1
        m += (1 - self.beta1) * d
        self.add_square(v, d * d)
        roots = root(v)
        # Correcting eta and the roots equals dividing m and v, without further vectors.
        if self.bias_correction:
            eta = eta / (1 - self.beta1**state.steps)
            roots /= (1 - self.beta2**state.steps) ** 0.5
        roots += self.epsilon
        w -= eta * m / roots

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
        v -= (1 - self.beta2) * square * sign(v - square)


class Muon(AdamW):
    """Muon: momentum made nearly orthogonal for matrices, and AdamW for all other numbers.

    A matrix has at least two rows and two columns. An array with more axes counts as a matrix whose
    rows are its first axis. PyTorch's Muon computes O in bfloat16; here O is computed in the
    model's number type.
    """

    whole: ClassVar[bool] = True

    kind: Literal["muon"] = "muon"  # type: ignore[assignment]  # each has its own name
    weight_decay: float = Field(default=0.1, ge=0, description="lambda, of w <- (1 - eta lambda)w")
    momentum: float = Field(default=0.95, ge=0, lt=1, description="mu, the momentum of a matrix")
    nesterov: bool = Field(default=True, description="whether momentum is Nesterov's")
    iterations: PositiveInt = Field(default=5, description="Newton-Schulz iterations for O")
    scale: Literal["match-rms-adamw", "original"] = Field(
        default="match-rms-adamw",
        description="c of a matrix of m rows and n columns: 0.2 sqrt(max(m, n)), with which it"
        " moves as far as under adamw; or max(1, sqrt(m/n))",
    )
    adamw: tuple[str, ...] = Field(
        default=(), description="patterns of the names of matrices that take adamw: head, embedding"
    )

    _matrices: tuple[tuple[slice, int, int], ...] = PrivateAttr(default=())
    _others: tuple[slice, ...] = PrivateAttr(default=())

    def fit(self, parts: Sequence[ModelPart]) -> Self:
        """Return the rule with the places of the matrices; see `Optimizer.fit`."""
        matrices, others = [], []
        for part in parts:
            rows, columns = (*part.shape, 1)[0], prod(part.shape[1:])
            named = any(fnmatchcase(part.name, pattern) for pattern in self.adamw)
            place = slice(part.start, part.stop)
            if named or min(rows, columns) < 2:
                others.append(place)
            else:
                matrices.append((place, rows, columns))
        if not matrices:
            known = ", ".join(f"{part.name} {part.shape}" for part in parts[:_NAMED])
            text = f"got muon, which is for matrices, and there is none to take it among {known}"
            raise DataError("optimizer", f"{text}; take adamw")
        fitted = self.model_copy()
        fitted._matrices, fitted._others = tuple(matrices), tuple(others)  # noqa: SLF001 - its own
        return fitted

    @property
    def operations(self) -> float:
        """Those of AdamW; per matrix, 8 and decay, and 4 m^2 n + 2 m^3 per iteration, m <= n."""
        if not self._matrices:
            return super().operations
        values = sum(part.stop - part.start for part in self._others)
        total, whole = super().operations * values, values
        for place, *sides in self._matrices:
            m, n = sorted(sides)
            total += self.iterations * (4 * m * m * n + 2 * m**3)
            total += (8 + self._decay_operations) * (place.stop - place.start)
            whole += place.stop - place.start
        return float(total / whole)

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        if self.weight_decay:
            w *= 1 - eta * self.weight_decay
        m, v = state.moments
        for some in self._others:
            own = OptimizerState([m[some], v[some]], state.steps)
            self._adapted_step(w[some], g[some], eta, own)
        for some, rows, columns in self._matrices:
            b, d = m[some], g[some]
            b += (1 - self.momentum) * (d - b)
            d = d + self.momentum * (b - d) if self.nesterov else b
            c = 0.2 * max(rows, columns) ** 0.5
            if self.scale == "original":
                c = max(1.0, rows / columns) ** 0.5
            turned = orthogonal(d.reshape(rows, columns), self.iterations)
            w[some] -= eta * c * turned.reshape(-1)
        state.steps += 1


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
        """2 for v, and 3 for root, epsilon and quotient, plus those of decay."""
        return 5.0 + self._decay_operations

    def begin(self, w: Vector) -> OptimizerState:
        """Return v = `initial`."""
        return OptimizerState([fill(w, self.initial)])

    def step(self, w: Vector, g: Vector, eta: float, state: OptimizerState) -> None:
        """Take a step; see `VectorOptimizer.step`."""
        d = self._add_decay(w, g)
        (v,) = state.moments
        v += d * d
        roots = root(v)
        roots += self.epsilon
        w -= eta * d / roots
