"""The arrays of a model as one vector: which they are, and how they lie in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array

Arrays = Mapping[str, NDArray[Any]]
"""The arrays of a model by their names, in order."""


@dataclass(frozen=True)
class Layout:
    """The names, types and shapes of a model's arrays, which server and clients agree on.

    Those of floating-point numbers, one after the other, are the vector that methods and wires
    know as the model. The others (counters of batches, say) go with it byte by byte.

    Attributes:
        names: of the arrays, in order.
        dtypes, shapes: of each.
    """

    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, arrays: Arrays) -> "Layout":
        """Return the layout of some arrays."""
        values = list(arrays.values())
        return cls(tuple(arrays), tuple(v.dtype for v in values), tuple(v.shape for v in values))

    @cached_property
    def dimension(self) -> int:
        """The length d of the vector."""
        return sum(prod(self.shapes[place]) for place in self._floats)

    @cached_property
    def widest(self) -> np.dtype[Any]:
        """The widest type of floating-point numbers among them."""
        return max((self.dtypes[place] for place in self._floats), key=lambda kind: kind.itemsize)

    @cached_property
    def _floats(self) -> tuple[int, ...]:
        """The places of the arrays whose numbers are in the vector."""
        return tuple(n for n, dtype in enumerate(self.dtypes) if dtype.kind == "f")

    @cached_property
    def _others(self) -> tuple[int, ...]:
        return tuple(n for n in range(len(self.names)) if n not in self._floats)

    def flat(self, arrays: Arrays) -> Array:
        """Return the vector, shape (d,)."""
        values = list(arrays.values())
        parts = [np.ravel(values[place]) for place in self._floats]
        return np.concatenate(parts, dtype=np.float64) if parts else np.zeros(0)

    def rest(self, arrays: Arrays) -> bytes:
        """Return the bytes of what is not in the vector."""
        values = list(arrays.values())
        return b"".join(
            np.ascontiguousarray(values[place], self.dtypes[place]).tobytes()
            for place in self._others
        )

    def arrays(self, flat: Array, rest: bytes) -> dict[str, NDArray[Any]]:
        """Return the arrays of a vector, shape (d,), and of what is not in it."""
        made: dict[int, NDArray[Any]] = {}
        at = 0
        for place in self._floats:
            size = prod(self.shapes[place])
            made[place] = flat[at : at + size].astype(self.dtypes[place])
            at += size
        at = 0
        for place in self._others:
            dtype, count = self.dtypes[place], prod(self.shapes[place])
            made[place] = np.frombuffer(rest, dtype, count, at).copy()
            at += dtype.itemsize * count
        return {
            name: made[place].reshape(self.shapes[place]) for place, name in enumerate(self.names)
        }

    def misfit(self, arrays: Arrays, *, exact: bool = True) -> str:
        """Say how arrays differ from these; empty where they do not.

        Args:
            arrays: in order.
            exact: whether their types have to be the same.
        """
        if len(arrays) != len(self.names):
            return f"{len(arrays)} arrays, where the model has {len(self.names)}"
        if tuple(arrays) != self.names:
            seen = next(name for name, due in zip(arrays, self.names, strict=True) if name != due)
            return f"an array '{seen}', where the model has {', '.join(self.names)}"
        parts = zip(arrays.items(), self.shapes, self.dtypes, strict=True)
        for (name, array), shape, dtype in parts:
            if array.shape != shape:
                return f"array '{name}' of shape {array.shape}, where the model has {shape}"
            if exact and array.dtype != dtype:
                return f"array '{name}' of {array.dtype}, where the model has {dtype}"
        return ""
