"""Steps of optax optimizers on a flat model, whose parts optax sees as a list of arrays."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import ceil, prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.parts import ModelPart, parts_of

Tensor: TypeAlias = Any
"""An array of JAX, whose types say nothing about its shape."""

_TRIED = parts_of(["w"], [(16, 16)])
"""The model that an optimizer is tried on."""


class Transformation:
    """An optax optimizer for a model of some parts.

    Its state consists of arrays of real numbers, and of whole numbers that count its steps.

    Args:
        make: a function of a step size; it returns the optimizer.
        name: the name of the optimizer.
        numbers: the type to compute in.
        parts: the parts of the model.
    """

    def __init__(
        self, make: Callable[[Any], Any], name: str, numbers: str, parts: Sequence[ModelPart]
    ) -> None:
        self._make, self._name, self._numbers = make, name, np.dtype(numbers)
        self._shapes = [part.shape for part in parts]
        self._size = sum(prod(shape) for shape in self._shapes)
        self._advance = jax.jit(self._step)
        self._form, self._leaves, self._real = self._try()

    @cached_property
    def vectors(self) -> int:
        """The number of vectors of the model's size that hold the real numbers of the state."""
        reals: int = sum(each.size for each, so in zip(self._leaves, self._real, strict=True) if so)
        return ceil(reals / self._size)

    def begin(self, w: Array) -> list[Array]:
        """Return the state before the first step, as vectors of the model's size."""
        with self._number_types():
            state = self._make(0.1).init(self._tree(self._narrow(w)))
            return self._pack(jax.tree_util.tree_leaves(state))

    def step(self, w: Array, g: Array, eta: float, moments: Sequence[Array], taken: int) -> Any:
        """Return the model and the state after a step.

        Args:
            w: the model, shape (d,).
            g: the gradient, shape (d,).
            eta: the step size.
            moments: the state.
            taken: the number of steps before this one.
        """
        with self._number_types():
            moved, leaves = self._advance(
                self._narrow(w), self._narrow(g), eta, self._unpack(moments, taken)
            )
            return np.asarray(moved, dtype=np.float64), self._pack(leaves)

    @cached_property
    def operations(self) -> float:
        """Operations per value of the model, as XLA counts them, minus the 2 of w - eta g."""
        flat = self._narrow(np.zeros(self._size))
        with self._number_types():
            leaves = self._unpack(self.begin(flat), 0)
            counts: Any = self._advance.lower(flat, flat, 0.1, leaves).compile().cost_analysis()
        costs = counts[0] if isinstance(counts, list) else counts
        # XLA may have no cost analysis on a device.
        return max(round(float((costs or {}).get("flops", 0.0)) / self._size) - 2.0, 0.0)

    def _try(self) -> tuple[Any, list[Any], list[bool]]:
        """Return the form of the state, its leaves, and which of them are real.

        Raises:
            DataError: the optimizer cannot be made, or cannot take two steps.
        """
        wanted = "an optimizer of optax is a function of a step size that returns init and update"
        flat = self._narrow(np.linspace(-1.0, 1.0, self._size))
        with self._number_types():
            try:
                state = self._make(0.1).init(self._tree(jnp.asarray(flat)))
                leaves, form = jax.tree_util.tree_flatten(state)
                self._form = form
                for _ in range(2):
                    _, leaves = self._advance(flat, np.full_like(flat, 0.5), 0.1, leaves)
            except Exception as error:  # noqa: BLE001 - the code of a user's factory
                text = f"{wanted}; {self._name} fails in a trial: {named_line(error)}"
                raise DataError("optimizer", text) from None
        real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
        others = [leaf for leaf, so in zip(leaves, real, strict=True) if not so]
        if not all(_counts(leaf, 2) for leaf in others):
            text = f"the state of {self._name} has other numbers than real ones and counts of steps"
            raise DataError("optimizer", f"{text}; give one without")
        return form, leaves, real

    def _step(self, w: Tensor, g: Tensor, eta: Tensor, leaves: list[Tensor]) -> tuple[Any, Any]:
        rule, tree = self._make(eta), self._tree(w)
        state = jax.tree_util.tree_unflatten(self._form, leaves)
        changes, state = rule.update(self._tree(g), state, tree)
        moved = [each + change for each, change in zip(tree, changes, strict=True)]
        return jnp.concatenate([leaf.ravel() for leaf in moved]), jax.tree_util.tree_leaves(state)

    def _number_types(self) -> Any:
        return jax.enable_x64(self._numbers == np.float64)

    def _narrow(self, flat: Array) -> Array:
        return flat.astype(self._numbers)

    def _tree(self, flat: Tensor) -> list[Tensor]:
        ends = np.cumsum([prod(shape) for shape in self._shapes])[:-1]
        parts = jnp.split(jnp.asarray(flat), ends)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _pack(self, leaves: Sequence[Tensor]) -> list[Array]:
        """Return the real leaves of a state as vectors of the model's size, zeros at the end."""
        whole, at = np.zeros((self.vectors, self._size)), 0
        for each, so in zip(leaves, self._real, strict=True):
            if so:
                whole.reshape(-1)[at : at + each.size] = np.asarray(each).ravel()
                at += each.size
        return list(whole)

    def _unpack(self, moments: Sequence[Array], taken: int) -> list[Tensor]:
        """Return the leaves of a state from its vectors (see `_pack`) and its number of steps."""
        # An empty array is added, since NumPy cannot join an empty list.
        whole, at, leaves = np.concatenate([*moments, np.zeros(0)]), 0, []
        for each, so in zip(self._leaves, self._real, strict=True):
            if so:
                leaves.append(whole[at : at + each.size].reshape(each.shape).astype(each.dtype))
                at += each.size
            else:
                leaves.append(np.asarray(taken, dtype=each.dtype))
        return leaves


@lru_cache(maxsize=16)
def transformation(
    make: Callable[[Any], Any], name: str, numbers: str, parts: tuple[ModelPart, ...] = _TRIED
) -> Transformation:
    """Return a `Transformation`, which is compiled once; errors as for its constructor."""
    return Transformation(make, name, numbers, parts)


def _counts(leaf: Tensor, steps: int) -> bool:
    """Return whether a leaf of a state is the number of steps."""
    return bool(jnp.issubdtype(leaf.dtype, jnp.integer) and not leaf.shape and int(leaf) == steps)
