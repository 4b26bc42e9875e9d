"""Losses, gradients and steps of JAX functions, whose parameters are a tree of arrays.

XLA compiles a function anew for each shape. So rows are passed in batches whose size is a power of
two, filled up with copies of the first row that have the weight 0. Clients of all sizes then share
a few compilations.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.losses.base import Rows
from fedsim.problems.passed import PassedFunctions
from fedsim.problems.samples import Minibatches

AT_ONCE = 256
"""The number of rows that are computed together, at most; a power of two."""

COUNTED = 64
"""The number of rows of the batch whose operations are counted."""

_CLOSE = 1e-4
"""The largest relative difference of a row's outputs between two batches, from rounding in
float32."""

Tensor: TypeAlias = Any
"""An array of JAX, whose types say nothing about its shape."""


class Functions:
    """JAX functions as a loss of a flat model.

    Args:
        passed: the functions.
        row: the shape of a row.
        criterion: the loss of a row if no function for it was passed.
        numbers: the type to compute in.
    """

    def __init__(
        self,
        passed: PassedFunctions,
        row: tuple[int, ...],
        criterion: str,
        numbers: np.dtype[Any],
    ) -> None:
        self._passed, self._row, self._criterion = passed, row, criterion
        self._numbers = numbers
        self._wide = numbers == np.float64
        self._checked = set[int]()  # numbers of outputs
        with self._number_types():
            tree = self._call("init", passed.init, jax.random.key(0))
            flat, self._unravel = ravel_pytree(tree)
        leaves = jax.tree_util.tree_leaves(tree)
        if not flat.size:
            raise DataError("loss.init", "it returns no parameters; expected a tree of arrays")
        if not all(jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating) for leaf in leaves):
            raise DataError("loss.init", "parameters are real numbers; got an array of others")
        self.dimension = int(flat.size)
        self.shapes = tuple(tuple(np.shape(leaf)) for leaf in leaves)
        self._value = jax.jit(self._total)
        self._gradient = jax.jit(jax.grad(self._total))
        self._outputs = jax.jit(self._apply)
        self._steps = jax.jit(self._scan)

    @property
    def platform(self) -> Mapping[str, str]:
        """JAX's version and device, which determine the last bits of results."""
        device = jax.devices()[0]
        return {"jax": jax.__version__, "device": f"{device.platform}, {device.device_kind}"}

    def initial(self, seed: int) -> Array:
        """Return the initial parameters under a seed, shape (d,)."""
        with self._number_types():
            flat, _ = ravel_pytree(self._passed.init(jax.random.key(seed)))
            return np.asarray(flat, dtype=np.float64)

    def tree(self, w: Array) -> Any:
        """Return a model as the tree of parameters."""
        with self._number_types():
            return self._unravel(jnp.asarray(w, dtype=self._numbers))

    def value(self, rows: Rows, w: Array) -> float:
        """Return the sum of the rows' losses times their factor."""
        with self._number_types():
            model = self._model(w)
            parts = (float(self._value(model, *part)) for part in self._parts(rows))
            return rows.factor * sum(parts)

    def gradient(self, rows: Rows, w: Array) -> Array:
        """Return the gradient of `value`, shape (d,)."""
        vector = np.zeros(self.dimension)
        with self._number_types():
            model = self._model(w)
            for part in self._parts(rows):
                vector += np.asarray(self._gradient(model, *part), dtype=np.float64)
        return rows.factor * vector

    def steps(
        self, rows: Rows, w: Array, eta: float, drawn: Minibatches, pull: float | None, l2: float
    ) -> Array:
        """Return the model after gradient steps from `w`; see `fedsim.core.ports.Oracle`.

        Consecutive steps with minibatches of the same size are compiled as one function.
        """
        if not len(drawn):
            return w.copy()
        with self._number_types():
            start = model = self._model(w)
            further = self._number(eta), self._number(pull or 0.0), self._number(l2)
            X, t = self._inputs(rows.X, rows.t)
            for indices in _alike(drawn, len(rows.t)):
                scale = self._number(rows.factor * len(rows.t) / indices.shape[1])
                model = self._steps(model, start, X, t, jnp.asarray(indices), scale, further)
            return w + np.asarray(model - start, dtype=np.float64)

    def outputs(self, X: Array, w: Array) -> Array:
        """Return the outputs for features (n, d), shape (n, C) or (n,)."""
        found = []
        with self._number_types():
            model = self._model(w)
            for some in _slices(len(X)):
                filled = self._shape(_fill(X[some]))
                part = np.asarray(self._outputs(model, filled), dtype=np.float64)
                found.append(part[: len(X[some])])
        return np.concatenate(found)

    @cached_property
    def operations(self) -> float:
        """The floating-point operations of loss and gradient per row, as XLA counts them."""
        with self._number_types():
            X = jnp.zeros((COUNTED, *self._row), dtype=self._numbers)
            t = jnp.zeros(COUNTED, dtype=self._target_type)
            weights = jnp.ones(COUNTED, dtype=self._numbers)
            model = jnp.zeros(self.dimension, dtype=self._numbers)
            compiled = jax.jit(jax.grad(self._total)).lower(model, X, t, weights).compile()
            counts: Any = compiled.cost_analysis()
        found = counts[0] if isinstance(counts, list) else counts
        # XLA may have no cost analysis on a device.
        return float((found or {}).get("flops", 0.0)) / COUNTED

    def check(self, outputs: int) -> None:
        """Check that the functions take rows, and return one output per class and one loss per row.

        Raises:
            DataError: they do not, or a row's outputs depend on the other rows of the batch.
        """
        if outputs in self._checked:
            return
        with self._number_types():
            rng = np.random.default_rng(0)
            X = jnp.asarray(rng.random((4, *self._row)), dtype=self._numbers)
            model = self._model(self.initial(0))
            found = self._call("apply", self._apply, model, X)
            shapes = [(4, outputs), *([(4,)] if outputs == 1 else [])]
            if tuple(np.shape(found)) not in shapes:
                text = f"of 4 rows it is to return outputs of shape (4, {outputs})"
                raise DataError("loss.apply", f"{text}; got {np.shape(found)}")
            # In halves, each row is beside other rows than before.
            halves = [self._apply(model, part) for part in (X[:2], X[2:])]
            apart = np.abs(np.concatenate(halves) - np.asarray(found)).max()
            if apart > _CLOSE * max(np.abs(found).max(), 1e-30):
                text = "a row's outputs depend on the rows beside it, as under batch normalisation"
                raise DataError("loss.apply", f"{text}; take group or layer normalisation")
            t = jnp.zeros(4, dtype=self._target_type)
            losses = self._call("loss", self._row_losses, found, t)
            if tuple(np.shape(losses)) != (4,):
                text = "it is to return each row's loss, shape (b,)"
                raise DataError("loss", f"{text}; of 4 rows got {np.shape(losses)}")
        self._checked.add(outputs)

    def _number_types(self) -> Any:
        """Return a context in which JAX computes in the requested type.

        Its own setting is restored.
        """
        return jax.enable_x64(self._wide)

    def _call(self, name: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of the user.

        Raises:
            DataError: it fails.
        """
        try:
            return function(*arguments)
        except Exception as error:
            raise DataError(f"loss.{name}", f"{name} fails: {named_line(error)}") from error

    @property
    def _target_type(self) -> Any:
        return self._numbers if self._criterion == "squared" else np.int32

    def _number(self, value: float) -> Tensor:
        return jnp.asarray(value, dtype=self._numbers)

    def _model(self, w: Array) -> Tensor:
        return jnp.asarray(w, dtype=self._numbers)

    def _apply(self, model: Tensor, X: Tensor) -> Tensor:
        return self._passed.apply(self._unravel(model), X)

    def _row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row, shape (b,)."""
        shaped = outputs.reshape(targets.shape) if self._criterion == "squared" else outputs
        if self._passed.loss is not None:
            return self._passed.loss(shaped, targets)
        if self._criterion == "squared":
            return 0.5 * jnp.square(shaped - targets)
        logs = jax.nn.log_softmax(shaped, axis=1)
        return -jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0]

    def _total(self, model: Tensor, X: Tensor, t: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of the rows' losses, shape ()."""
        return jnp.sum(weights * self._row_losses(self._apply(model, X), t))

    def _scan(
        self,
        model: Tensor,
        start: Tensor,
        X: Tensor,
        t: Tensor,
        indices: Tensor,
        scale: Tensor,
        further: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        """Return the model after one step for each row of `indices`, shape (steps, b)."""
        eta, pull, l2 = further
        weights = jnp.full(indices.shape[1], 1.0, dtype=self._numbers)

        def step(w: Tensor, some: Tensor) -> tuple[Tensor, None]:
            slope = scale * jax.grad(self._total)(w, X[some], t[some], weights)
            return w - eta * (slope + l2 * w + pull * (w - start)), None

        reached, _ = jax.lax.scan(step, model, indices)
        return reached

    def _parts(self, rows: Rows) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the rows in batches: features, targets, and the weight of each."""
        for some in _slices(len(rows.t)):
            X, t = self._inputs(rows.X[some], rows.t[some])
            weights = np.zeros(len(t), dtype=self._numbers)
            weights[: len(rows.t[some])] = 1.0
            yield X, t, jnp.asarray(weights)

    def _inputs(self, X: Any, t: Array) -> tuple[Tensor, Tensor]:
        """Return features and targets, filled up to a power of two."""
        targets = t if t.ndim == 1 else t.argmax(axis=1)
        filled = jnp.asarray(_fill(targets), dtype=self._target_type)
        return self._shape(_fill(np.asarray(X))), filled

    def _shape(self, X: Array) -> Tensor:
        return jnp.asarray(X.reshape(len(X), *self._row), dtype=self._numbers)


def _slices(count: int) -> Iterator[slice]:
    return (slice(at, min(at + AT_ONCE, count)) for at in range(0, count, AT_ONCE))


def _fill(values: NDArray[Any]) -> NDArray[Any]:
    """Return values followed by copies of the first one, up to a power of two."""
    count = len(values)
    further = (1 << (count - 1).bit_length()) - count
    if not further:
        return values
    return np.concatenate([values, np.repeat(values[:1], further, axis=0)])


def _alike(drawn: Minibatches, rows: int) -> Iterator[NDArray[np.intp]]:
    """Yield consecutive minibatches of the same size together, shape (steps, b)."""
    if isinstance(drawn, np.ndarray):
        yield drawn
        return
    whole = np.arange(rows)
    together: list[NDArray[np.intp]] = []
    for minibatch in drawn:
        some = whole if minibatch is None else minibatch
        if together and len(together[0]) != len(some):
            yield np.stack(together)
            together = []
        together.append(some)
    if together:
        yield np.stack(together)
