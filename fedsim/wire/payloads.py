"""Payloads: what a message carries, with exact bits and the value that arrives.

Every encoding starts with one byte, the payload's kind in the high half and its value
format in the low half. `bits` is computed without encoding and equals
`8 * len(encode(payload))`: a simulation of a million messages serialises none of them.

| kind | after the first byte |
|---|---|
| Dense | dimensions (1 byte), each of them (4 bytes), the values in C order |
| Sparse | index code (1 byte), d and k (4 bytes each), the indices, the k values |
| Scalar | one value |
| Empty | nothing at all, not even the first byte: the header alone |
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.wire.formats import ValueFormat
from fedsim.wire.indices import IndexCode, shortest


@dataclass(frozen=True, eq=False)
class Dense:
    """A vector or matrix, every entry of it.

    Attributes:
        values: the rounded entries, read-only.
        format: how one value is written.
    """

    kind: ClassVar[int] = 1
    values: Array
    format: ValueFormat

    @classmethod
    def of(cls, values: NDArray[np.floating], format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Round an array to what arrives of it."""
        return cls(format.round(values), format)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (2 + 4 * self.values.ndim + self.format.size * self.values.size)


@dataclass(frozen=True, eq=False)
class Sparse:
    """k of d coordinates; the others are zero.

    Attributes:
        indices: where the values stand, ascending, shape (k,).
        entries: the rounded values, read-only, shape (k,).
        dimension: d.
        format: how one value is written.
    """

    kind: ClassVar[int] = 2
    indices: NDArray[np.intp]
    entries: Array
    dimension: int
    format: ValueFormat

    @classmethod
    def of(cls, values: NDArray[np.floating], format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Take the non-zero coordinates of a vector of shape (d,)."""
        indices = np.flatnonzero(values)
        return cls(indices, format.round(values[indices]), values.size, format)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        dense = np.zeros(self.dimension)
        dense[self.indices] = self.entries
        dense.flags.writeable = False
        return dense

    @property
    def code(self) -> IndexCode:
        """The index code that is shortest for this k and d."""
        return shortest(self.indices.size, self.dimension)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        count = self.indices.size
        index_bytes = self.code.size(count, self.dimension)
        return 8 * (10 + index_bytes + self.format.size * count)


@dataclass(frozen=True, eq=False)
class Scalar:
    """One number: a constraint's value, a norm.

    Attributes:
        values: the rounded number as a read-only array of shape ().
        format: how it is written.
    """

    kind: ClassVar[int] = 3
    values: Array
    format: ValueFormat

    @classmethod
    def of(cls, value: float, format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Round a number to what arrives of it."""
        return cls(format.round(np.array(value)), format)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (1 + self.format.size)


@dataclass(frozen=True, eq=False)
class Empty:
    """Nothing: a beacon, a request, an acknowledgement."""

    values: ClassVar[Array] = np.zeros(0)
    bits: ClassVar[int] = 0


Encodable = Dense | Sparse | Scalar | Empty
