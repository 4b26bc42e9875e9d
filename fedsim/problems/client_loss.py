"""A client's loss on its own samples, f_m."""

from collections.abc import Callable
from copy import copy
from functools import cache, cached_property, partial
from typing import Protocol, Self, TypeVar, cast
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Basis, alike
from fedsim.problems.losses import Loss, Rows, State
from fedsim.problems.optimizers import Training
from fedsim.problems.parts import ModelPart, parts_of
from fedsim.problems.projections import largest_eigenvalue
from fedsim.problems.samples import Features, Minibatches, Precision, entries, wide

# A cache of the state that two evaluations of one loss share.


class Based(Protocol):
    """A loss restricted to a basis."""

    basis: Basis


Part = TypeVar("Part", bound=Based)


LONG = 2**16
"""Models with at least this many numbers are not copied as cache keys."""


def _key(w: Array) -> bytes | Array:
    """Return a cache key for a model: itself if it is long and read-only, else its bytes."""
    fixed = not w.flags.writeable and w.base is None and w.dtype == np.float64  # see `constant`
    return w if fixed and w.ndim == 1 and w.size >= LONG else w.tobytes()


def _are_equal(one: bytes | Array, other: bytes | Array) -> bool:
    """Return whether two keys are equal bit by bit."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        return one == other
    a, b = (np.frombuffer(key, np.uint8) for key in (one, other))
    return len(a) == len(b) and np.array_equal(a.view(np.int64), b.view(np.int64))


class EvaluationCache:
    """The last forward pass of one loss, and its last restriction to a basis.

    It helps an observer, who evaluates the value at the model where the next gradient is taken, and
    a solver, which takes many gradients in one basis. Entries are keyed by content. So the order of
    requests, the identity of arrays and later changes to them do not matter, and no result depends
    on earlier requests. A long read-only model is its own key, so clients that evaluate the same
    model share one copy.
    """

    __slots__ = ("_forward", "_part")

    def __init__(self) -> None:
        self._forward: tuple[bytes | Array | None, State] = (None, ())
        self._part: ReferenceType[Based] | None = None

    def forward(self, w: Array, compute: Callable[[Array], State]) -> State:
        """Return the forward state at `w`, which is cached for repeated requests."""
        last, state = self._forward
        if last is w:  # an array used as a key is read-only
            return state
        key = _key(w)
        if last is None or not _are_equal(key, last):
            state = compute(w)
            # One assignment, so that other threads see either the old pair or the new one.
            self._forward = (key, state)
        return state

    def part(self, basis: Basis, make: Callable[[], Part]) -> Part:
        """Return the loss in a basis; it is rebuilt if the basis changed or no caller holds it.

        It may be as large as the samples, so the cache only has a weak reference.
        """
        known = None if self._part is None else self._part()
        if known is None or not alike(known.basis, basis):
            known = make()
            self._part = ref(known)
        return cast("Part", known)  # each caller builds losses of one class


class SteppingLoss(Protocol):
    """A loss with its own steps, in its own number type; it may have some of these methods."""

    def sgd_steps(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None
    ) -> Array:
        """Return the model, shape (d,), after steps on the rows from `w`; see `sgd_steps`."""
        ...

    def sgd_change(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None
    ) -> Array:
        """Return the model after steps on the rows from `w`, minus `w`, shape (d,)."""
        ...

    def optimizer_steps(
        self, rows: Rows, w: Array, drawn: Minibatches, training: Training
    ) -> Array:
        """Return the result of steps on the rows from `w`, shape (d,); see `Training.result`."""
        ...


@cache
def _provides(kind: type[Loss], method: str) -> bool:
    """Return whether a class of losses has an optional method, cached by class.

    This is asked for each piece of work. `isinstance` with a protocol takes as long as a step of a
    small loss, and a failing `hasattr` on a Pydantic model takes a tenth of that.
    """
    return hasattr(kind, method)


class LocalLoss:
    """The loss of one client on its samples: f_m.

    Models and results are float64, whatever the precision of the samples. The loss is a pure
    function without a cache; for repeated evaluations at one model use `remembering`.

    Args:
        loss: the mathematics.
        X: the client's features, shape (n, d).
        targets: its labels as encoded by `loss.encode`, shape (n,) or (n, outputs).
        total: the number of rows of all clients; by default the client's own.

    Attributes:
        loss: the mathematics.
        arranged: the samples as the loss arranged them.
        outputs: targets per row.
        memory: the evaluation cache; None if there is none.
    """

    memory: EvaluationCache | None = None
    _held: Features | None = None

    def __init__(self, loss: Loss, X: Features, targets: Array, total: int | None = None) -> None:
        self.loss = loss
        self.outputs = 1 if targets.ndim == 1 else int(targets.shape[1])
        self.arranged = loss.arrange(X, targets, total or X.shape[0])

    @classmethod
    def of(cls, loss: Loss, X: Features, targets: Array, total: int) -> Self:
        """Return a loss in float64 for features that may be stored in another precision.

        A loss that converts features itself gets them as they are stored.
        """
        taken = X if loss.converts else wide(X)
        local = cls(loss, taken, targets, total)
        # The stored features are kept, so that `with_precision` can return to them without
        # conversion.
        if local.arranged.X is taken:
            local._held = X
        return local

    def with_precision(self, precision: Precision) -> Self:
        """Return the same loss, with samples in and computations in another precision."""
        if self.loss.converts:
            return self
        kind, same = np.dtype(precision), copy(self)
        if kind != self.arranged.X.dtype:
            held = self._held
            X = self.arranged.X.astype(kind) if held is None or held.dtype != kind else held
            t = self.arranged.t.astype(kind)
            same.arranged = self.arranged._replace(X=X, t=t)
        return same

    def remembering(self) -> Self:
        """Return the same loss with its own evaluation cache."""
        same = copy(self)
        same.memory = EvaluationCache()
        return same

    def copy_uncached(self) -> Self:
        """Return the same loss without an evaluation cache."""
        if self.memory is None:
            return self
        same = copy(self)
        same.memory = None
        return same

    @property
    def rows(self) -> int:
        """The number of samples, n_m."""
        return int(self.arranged.X.shape[0])

    @property
    def features(self) -> int:
        """The number of features of a sample."""
        return int(self.arranged.X.shape[1])

    @property
    def dimension(self) -> int:
        """The length of the model."""
        return self.loss.dimension(self.features, self.outputs)

    @property
    def noisy(self) -> bool:
        """Whether the training loss is stochastic; see `Loss.noisy`."""
        overrides = type(self.loss).noisy is not Loss.noisy  # if not, no row needs to be read
        return overrides and self.loss.noisy(self.features, self.outputs)

    @property
    def draws(self) -> bool:
        """Whether its steps draw random numbers; see `Loss.draws`."""
        overrides = type(self.loss).draws is not Loss.draws
        return overrides and self.loss.draws(self.features, self.outputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the flat model represents."""
        return self.loss.shape(self.features, self.outputs)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parts of the flat model, in order."""
        return self.loss.layer_shapes(self.features, self.outputs)

    @property
    def parts(self) -> tuple[ModelPart, ...]:
        """The named parts of the flat model, in order."""
        return parts_of(self.loss.part_names(self.features, self.outputs), self.layers)

    def at(self, w: Array) -> Array:
        """Return `w` in the precision of the samples, in which results are computed."""
        if self.loss.converts:
            return w
        return w.astype(self.arranged.X.dtype, copy=False)

    def forward(self, w: Array) -> State:
        """Return the state that value and derivatives at `w` share, in the samples' precision."""
        if self.memory is None:
            return self.loss.forward(self.arranged, w)
        return self.memory.forward(w, partial(self.loss.forward, self.arranged))

    def value(self, w: Array) -> float:
        """Return f_m(w) for `w` of shape (d,)."""
        v = self.at(w)
        return self.loss.value(self.arranged, v, self.forward(v))

    def root_mean_square(self, w: Array) -> float:
        """Return sqrt(sum_i l_i^2 / n) of the losses l_i of the client's rows at `w`.

        Penalties are not included. If the loss has no losses per row, the result is |f_m(w)|.
        """
        v = self.at(w)
        losses = self.loss.row_losses(self.arranged, v, self.forward(v))
        if losses is None:
            return abs(self.value(w))
        return float(np.sqrt(np.mean(np.square(losses, dtype=np.float64))))

    def gradient(self, w: Array) -> Array:
        """Return a (sub)gradient of f_m at `w`, shape (d,), as a new array."""
        v = self.at(w)
        return _wide(self.loss.gradient(self.arranged, v, self.forward(v)))

    def minibatch_gradient(self, w: Array, rows: NDArray[np.intp]) -> Array:
        """Return the stochastic gradient of some rows at `w`, shape (d,).

        Its mean over all minibatches of one size is the full gradient.

        Args:
            w: the model, shape (d,).
            rows: the indices of the rows in the minibatch.
        """
        return _wide(self.loss.minibatch_gradient(self.arranged, self.at(w), rows))

    def sgd_steps(self, w: Array, eta: float, drawn: Minibatches, pull: float | None) -> Array:
        """Return the model, shape (d,), after gradient steps from `w`; see `sgd_steps`."""
        if _provides(type(self.loss), "sgd_steps"):
            own = cast("SteppingLoss", self.loss)
            return own.sgd_steps(self.arranged, w, eta, drawn, pull)
        return sgd_steps(self, w, eta, drawn, pull)

    def sgd_change(self, w: Array, eta: float, drawn: Minibatches, pull: float | None) -> Array:
        """Return the model after gradient steps from `w`, minus `w`, shape (d,)."""
        if _provides(type(self.loss), "sgd_change"):
            own = cast("SteppingLoss", self.loss)
            return own.sgd_change(self.arranged, w, eta, drawn, pull)
        reached = self.sgd_steps(w, eta, drawn, pull)
        fresh = not _provides(type(self.loss), "sgd_steps")  # then no other object holds the array
        return np.subtract(reached, w, out=reached if fresh else None)

    def optimizer_steps(self, w: Array, drawn: Minibatches, training: Training) -> Array:
        """Return the result of an optimizer's steps from `w`; see `optimizer_steps`."""
        if _provides(type(self.loss), "optimizer_steps"):
            own = cast("SteppingLoss", self.loss)
            return own.optimizer_steps(self.arranged, w, drawn, training)
        return optimizer_steps(self, w, drawn, training)

    def constraint(self, w: Array) -> float:
        """Return g_m(w) of the constraint g(w) <= 0.

        Raises:
            DataError: the loss has no constraint.
        """
        return self.loss.constraint(self.arranged, self.at(w))

    def constraint_gradient(self, w: Array) -> Array:
        """Return the gradient of g_m at `w`, shape (d,); errors as for `constraint`."""
        return _wide(self.loss.constraint_gradient(self.arranged, self.at(w)))

    def hessian(self, w: Array) -> Array:
        """Return the Hessian at `w` of the smooth part of f_m, shape (d, d).

        Raises:
            DataError: the loss does not provide one.
        """
        v = self.at(w)
        return _wide(self.loss.hessian(self.arranged, v, self.forward(v)))

    def initial(self, rng: np.random.Generator) -> Array:
        """Return an initial model, shape (d,)."""
        return self.loss.initial(self.features, self.outputs, rng)

    @property
    def gradient_operations(self) -> float:
        """The floating-point operations of one gradient on all rows; unstored zeros cost none."""
        return self.loss.operations(self.rows, entries(self.arranged.X), self.outputs)

    @cached_property
    def majorant(self) -> tuple[float, Features]:
        """The c and A for which c A^T A + l2 I bounds the Hessian of f_m everywhere.

        Raises:
            DataError: the loss has no such bound.
        """
        return self.loss.majorant(self.arranged)

    @cached_property
    def smoothness(self) -> float:
        """The smoothness constant L_m of the smooth part of f_m.

        Raises:
            DataError: the loss has none, since it is not convex.
        """
        c, A = self.majorant
        return largest_eigenvalue([c], [A]) + self.loss.l2


def sgd_steps(
    loss: LocalLoss, w: Array, eta: float, drawn: Minibatches, pull: float | None
) -> Array:
    """Return the model after stochastic gradient steps from `w`, shape (d,).

    Args:
        loss: f_m.
        w: the initial model, shape (d,).
        eta: the step size.
        drawn: the minibatch of each step; None for all rows.
        pull: mu, for steps on f_m + mu/2 |. - w|^2; None for steps on f_m.
    """
    # With a long model, memory traffic dominates: two arrays serve all the steps.
    v, step = w.copy(), np.empty_like(w)
    every = np.arange(loss.rows) if loss.noisy else None
    for number, some in enumerate(drawn):
        if number == 1:
            loss = loss.copy_uncached()  # the observer never evaluates the models in between
        at = v if number else w  # others may have evaluated `w`, or hold it in their caches
        g = _step_gradient(loss, at, every if some is None else some)
        np.multiply(g if pull is None else g + pull * (v - w), eta, out=step)
        np.subtract(v, step, out=v)
    return v


def optimizer_steps(loss: LocalLoss, w: Array, drawn: Minibatches, training: Training) -> Array:
    """Return the result of an optimizer's steps from `w`, shape (d,); see `Training.result`.

    Args:
        loss: f_m.
        w: the initial model, shape (d,).
        drawn: the minibatch of each step; None for all rows.
        training: the optimizer, with a step size for each minibatch.
    """
    v, state = w.copy(), training.begin(w)
    anchor = w if training.anchor is None else training.anchor
    every = np.arange(loss.rows) if loss.noisy else None
    for some, eta in zip(drawn, training.rates, strict=True):
        g = _step_gradient(loss, v, every if some is None else some)
        if training.pull is not None:
            g = g + training.pull * (v - anchor)
        training.step(v, g, eta, state)
    return training.result(v, state)


def _step_gradient(loss: LocalLoss, w: Array, rows: NDArray[np.intp] | None) -> Array:
    return loss.gradient(w) if rows is None else loss.minibatch_gradient(w, rows)


def _wide(result: Array) -> Array:
    """Return a result of any precision as float64."""
    return result.astype(np.float64, copy=False)
