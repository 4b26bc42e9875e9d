"""Payloads that write a sign and an exponent: a power of two, or zero."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import DecodeError
from fedsim.ports import Array
from fedsim.wire.bitstream import Numbers, fixed, packed, varint, varint_size, whole_bytes
from fedsim.wire.formats import ValueFormat
from fedsim.wire.indices import IndexSet, most_bits, read
from fedsim.wire.payloads.base import FLOAT32_ONLY, frozen
from fedsim.wire.payloads.sparse import scattered
from fedsim.wire.reader import Reader

_EXPONENT_BITS = 9


@dataclass(frozen=True, eq=False)
class Powers:
    """A power of two with a sign for each coordinate, or zero: a float32 without its fraction.

    Attributes:
        codes: the upper nine bits of each float32, shape (d,): 256 for a minus, and the
            exponent plus 127, from 1 to 254; 0 is zero and 255 infinite.
    """

    kind: ClassVar[int] = 7
    formats: ClassVar[tuple[ValueFormat, ...]] = FLOAT32_ONLY
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT32
    codes: NDArray[np.intp]

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        return frozen(_numbers(self.codes))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        size = self.codes.size
        return 8 * (1 + varint_size(size) + whole_bytes(_EXPONENT_BITS * size))

    def body(self) -> bytes:
        """Write the dimension and the codes."""
        return varint(self.codes.size) + packed(fixed(self.codes, _EXPONENT_BITS))

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:  # noqa: ARG003 - as of any payload
        """Read the dimension and the codes."""
        codes = reader.fixed(reader.dimension(), _EXPONENT_BITS)
        reader.align()
        return cls(codes)


@dataclass(frozen=True, eq=False)
class SparsePowers:
    """The codes of `Powers` that are not 0, and where they stand.

    Attributes:
        indices: where, ascending, shape (k,).
        codes: the upper nine bits of each float32 there, shape (k,), none of them 0.
        dimension: d.
    """

    kind: ClassVar[int] = 9
    formats: ClassVar[tuple[ValueFormat, ...]] = FLOAT32_ONLY
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT32
    indices: Numbers
    codes: Numbers
    dimension: int

    @classmethod
    def of(cls, codes: Numbers) -> Self:
        """Take the code of each coordinate, shape (d,)."""
        indices = np.flatnonzero(codes)
        return cls(indices, codes[indices], codes.size)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        return scattered(self.indices, _numbers(self.codes), self.dimension)

    @cached_property
    def bits(self) -> int:
        """The length of the encoding."""
        return self._length(IndexSet.of(self.indices, self.dimension).bits)

    @property
    def longest(self) -> int:
        """The bits that no codes exceed that are 0 wherever these are."""
        return self._length(most_bits(self.indices.size, self.dimension))

    def _length(self, where: int) -> int:
        count = self.indices.size
        sizes = varint_size(self.dimension) + varint_size(count)
        return 8 * (2 + sizes + whole_bytes(where + _EXPONENT_BITS * count))

    def body(self) -> bytes:
        """Write the sizes, the indices and the codes."""
        where = IndexSet.of(self.indices, self.dimension)
        code = where.code
        sizes = varint(self.dimension) + varint(self.indices.size) + bytes([where.tag(code)])
        return sizes + packed(where.write(code), fixed(self.codes, _EXPONENT_BITS))

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:  # noqa: ARG003 - as of any payload
        """Read the sizes, the indices and the codes."""
        dimension, count, tag = reader.dimension(), reader.varint(), reader.byte()
        reader.expect(_EXPONENT_BITS * count)
        indices = read(reader, tag, count, dimension)
        codes = reader.fixed(count, _EXPONENT_BITS)
        reader.align()
        if not codes.all():
            raise DecodeError("a coordinate that is zero among those that are not")
        return cls(indices, codes, dimension)


def _numbers(codes: NDArray[np.intp]) -> Array:
    """Return what the codes stand for."""
    return (codes << 23).astype("<u4").view("<f4").astype(np.float64)
