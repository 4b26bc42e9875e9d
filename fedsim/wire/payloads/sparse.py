"""Payloads of k of d coordinates; the others are zero."""

from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire.bitstream import Numbers, Reader, concatenate, varint, varint_size, whole_bytes
from fedsim.wire.formats import ValueFormat
from fedsim.wire.indices import IndexSet, absent, most_bits, read
from fedsim.wire.payloads.base import ANY_FORMAT, frozen

_SEED = Struct("<Q")


@dataclass(frozen=True, eq=False)
class Sparse:
    """k of d coordinates, and their indices.

    Attributes:
        indices: the indices of the values, ascending, shape (k,).
        entries: the rounded values, read-only, shape (k,).
        dimension: d.
        format: the format of a value.
    """

    kind: ClassVar[int] = 2
    formats: ClassVar[tuple[ValueFormat, ...]] = ANY_FORMAT
    indices: Numbers
    entries: Array
    dimension: int
    format: ValueFormat

    @classmethod
    def of(cls, values: NDArray[np.floating], format: ValueFormat) -> Self:  # noqa: A002 - the field's name
        """Create the payload of the nonzero coordinates of a vector of shape (d,)."""
        return cls.at(np.flatnonzero(values), values, format)

    @classmethod
    def at(cls, indices: Numbers, values: NDArray[np.floating], form: ValueFormat) -> Self:
        """Create the payload of a vector's coordinates at ascending indices, shape (k,)."""
        return cls(indices, form.round(values[indices]), values.size, form)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        return scatter(self.indices, self.entries, self.dimension)

    @cached_property
    def bits(self) -> int:
        """The length of the encoding."""
        return self._length(IndexSet.of(self.indices, self.dimension).bits)

    @property
    def longest(self) -> int:
        """The length, in bits, that no payload of as many coordinates exceeds."""
        return self._length(most_bits(self.indices.size, self.dimension))

    def _length(self, where: int) -> int:
        counts = varint_size(self.dimension) + varint_size(self.indices.size)
        return 8 * (2 + counts + whole_bytes(where) + self.format.size * self.indices.size)

    def body(self) -> bytes:
        """Encode the sizes, the indices and the values."""
        where = IndexSet.of(self.indices, self.dimension)
        sizes = varint(self.dimension) + varint(self.indices.size)
        code = where.code
        packed_indices = bytes([where.tag(code)]) + concatenate(where.write(code))
        return sizes + packed_indices + self.format.encode(self.entries)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the sizes, the indices and the values."""
        dimension, count, tag = reader.dimension(), reader.varint(), reader.byte()
        reader.expect(8 * form.size * count)
        indices = read(reader, tag, count, dimension)
        reader.align()
        return cls(indices, reader.values(count, form), dimension, form)


@dataclass(frozen=True, eq=False)
class SeededSparse:
    """k of d coordinates whose indices sender and receiver draw from the same seed.

    Attributes:
        seed: 64 bits.
        indices: drawn from the seed by `draw_indices`, ascending, shape (k,).
        entries: the rounded values, read-only, shape (k,).
        dimension: d.
        format: the format of a value.
    """

    kind: ClassVar[int] = 4
    formats: ClassVar[tuple[ValueFormat, ...]] = ANY_FORMAT
    seed: int
    indices: Numbers
    entries: Array
    dimension: int
    format: ValueFormat

    @classmethod
    def of(cls, seed: int, count: int, values: NDArray[np.floating], form: ValueFormat) -> Self:
        """Create the payload of k coordinates, drawn by a seed, of a vector of shape (d,)."""
        indices = draw_indices(seed, count, values.size)
        return cls(seed, indices, form.round(values[indices]), values.size, form)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        return scatter(self.indices, self.entries, self.dimension)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        counts = varint_size(self.dimension) + varint_size(self.entries.size)
        return 8 * (1 + counts + _SEED.size + self.format.size * self.entries.size)

    def body(self) -> bytes:
        """Encode the sizes, the seed and the values."""
        sizes = varint(self.dimension) + varint(self.entries.size)
        return sizes + _SEED.pack(self.seed) + self.format.encode(self.entries)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the sizes, the seed and the values."""
        dimension, count = reader.dimension(), reader.varint()
        if count > dimension:
            raise DecodeError(f"{count} values of {dimension} coordinates")
        (seed,) = reader.unpack(_SEED)
        entries = reader.values(count, form)  # checks that they are there before drawing as many
        return cls(seed, draw_indices(seed, count, dimension), entries, dimension, form)


def scatter(indices: Numbers, entries: Array, dimension: int) -> Array:
    """Return a vector, read-only, shape (d,): the entries at the indices, zeros elsewhere."""
    values = np.zeros(dimension)
    values[indices] = entries
    return frozen(values)


def draw_indices(seed: int, count: int, dimension: int) -> Numbers:
    """Return k of d indices, uniformly without replacement: a function of its arguments.

    They are the first k distinct numbers among floor(u d / 2^64), where u are the 64-bit outputs of
    PCG64 (O'Neill 2014) as NumPy seeds it; if 2 k > d, they are all numbers except the first d - k
    distinct ones. This definition is part of the wire format: another draw with the same
    distribution would decode to other coordinates.

    Args:
        seed: 64 bits.
        count: k.
        dimension: d, at most 2^31.

    Returns:
        The indices in ascending order, shape (k,).
    """
    few = min(count, dimension - count)
    if few < count:
        return absent(_first_distinct(seed, few, dimension), dimension)
    return _first_distinct(seed, few, dimension)


def _first_distinct(seed: int, count: int, dimension: int) -> Numbers:
    """Return the first `count` <= d/2 distinct numbers below d from a seed, ascending."""
    if not count:
        return np.zeros(0, dtype=np.intp)
    source = np.random.PCG64(seed)
    drawn = np.zeros(0, dtype=np.uint64)
    while True:
        # About d ln(d/(d - k)) numbers are needed on average. They form one sequence, so the size
        # of a batch affects the speed only, never the result.
        words = source.random_raw(count + count * count // dimension + 8)
        drawn = np.concatenate([drawn, _below(words, dimension)])
        numbers, places = np.unique(drawn, return_index=True)
        if numbers.size >= count:
            # `places` has the first position of each number: the k smallest of them are the result.
            last = np.partition(places, count - 1)[count - 1]
            chosen: Numbers = numbers[places <= last].astype(np.intp)
            return chosen


def _below(words: NDArray[np.uint64], dimension: int) -> NDArray[np.uint64]:
    """Return floor(u d / 2^64) of each u, from products of its two halves, which fit in 64 bits."""
    d, half = np.uint64(dimension), np.uint64(32)
    low = (words & np.uint64(2**32 - 1)) * d >> half
    return ((words >> half) * d + low) >> half
