"""The named parts of a model, and which of them stay with the clients.

A model is one vector, shape (d,). That of a network consists of its parameters, one after the
other, with the names that PyTorch gives them. Patterns of names select the parts that stay local,
by the rules of `fnmatch`: `*` matches any characters.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array

_NAMED = 12
"""The largest number of names listed in an error."""


class ModelPart(NamedTuple):
    """A part of the flat model.

    Attributes:
        name: its name, such as "head.weight".
        start: the index of its first number.
        stop: the index after its last number.
        shape: its shape.
    """

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


def parts_of(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> tuple[ModelPart, ...]:
    """Return parts that follow each other in the flat model.

    >>> parts_of(["weight", "bias"], [(2, 3), (3,)])[1]
    ModelPart(name='bias', start=6, stop=9, shape=(3,))
    """
    parts, start = [], 0
    for name, shape in zip(names, shapes, strict=True):
        parts.append(ModelPart(name, start, start + prod(shape), shape))
        start += prod(shape)
    return tuple(parts)


class LocalParts:
    """The division of a model into parts that are sent and parts that stay with their client.

    Args:
        parts: the parts of the model, in order.
        local: the names of the parts that stay.
    """

    def __init__(self, parts: Sequence[ModelPart], local: frozenset[str]) -> None:
        self.parts, self.names = tuple(parts), local

    @cached_property
    def local(self) -> NDArray[np.intp]:
        """The indices of the local values, shape (own,)."""
        return self._indices(kept=True)

    @cached_property
    def shared(self) -> NDArray[np.intp]:
        """The indices of the sent values, shape (sent,)."""
        return self._indices(kept=False)

    def _indices(self, *, kept: bool) -> NDArray[np.intp]:
        chosen = [part for part in self.parts if (part.name in self.names) is kept]
        return np.concatenate([np.arange(part.start, part.stop) for part in chosen])

    @property
    def dimension(self) -> int:
        """The length d of the whole model."""
        return self.parts[-1].stop

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the sent parts, in order."""
        return tuple(part.shape for part in self.parts if part.name not in self.names)

    @property
    def sent(self) -> tuple[ModelPart, ...]:
        """The sent parts, one after the other."""
        names = [part.name for part in self.parts if part.name not in self.names]
        return parts_of(names, self.layers)

    def join(self, shared: Array, own: Array) -> Array:
        """Return the model, shape (d,), from sent values, (sent,), and local values, (own,)."""
        w = np.empty(self.dimension)
        w[self.shared], w[self.local] = shared, own
        return w

    @property
    def description(self) -> str:
        """A sentence on what is sent and what stays, for `fedsim check`."""
        names = [part.name for part in self.parts if part.name in self.names]
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        return (
            f"{len(self.shared)} of {self.dimension} values are sent; {len(self.local)} stay with"
            f" each client, in its memory: {listed}"
        )


def local_parts(patterns: Sequence[str], parts: Sequence[ModelPart]) -> LocalParts | None:
    """Return the division of a model by patterns of names that stay local; None without patterns.

    Raises:
        ParameterError: a pattern matches no part, or nothing would be sent.
    """
    if not patterns:
        return None
    names = [part.name for part in parts]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            text = f"got {pattern!r}, which is the name of no part of the model; its parts are"
            raise ParameterError("local", f"{text} {known}")
    local = frozenset(
        name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
    if len(local) == len(names):
        text = f"got {', '.join(patterns)}, which leaves nothing to send; name some parts only"
        raise ParameterError("local", f"{text}: {', '.join(names[:_NAMED])}")
    return LocalParts(parts, local)
