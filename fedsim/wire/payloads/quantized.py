"""Payloads of quantized coordinates: levels of a norm, signs, powers of two, short floats."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire.bitstream import (
    Bits,
    Numbers,
    Reader,
    concatenate,
    fixed_width,
    gamma,
    gamma_length,
    varint,
    varint_size,
    whole_bytes,
)
from fedsim.wire.formats import ValueFormat
from fedsim.wire.indices import IndexSet, most_bits, read
from fedsim.wire.indices import width as width_below
from fedsim.wire.payloads.base import FLOAT32_ONLY, frozen
from fedsim.wire.payloads.sparse import scatter

LARGEST_STEPS = 2**24
"""The largest number of steps of a norm; a float32 resolves no more."""

_FIXED = 0x80


@dataclass(frozen=True, eq=False)
class Quantized:
    """A multiple of norm/s for each coordinate, from -norm to norm.

    The levels are written by the shorter of two codes, which one byte names:

    - fixed: each level plus s, in ceil(log2(2 s + 1)) bits;
    - Elias: the number of nonzero levels and their indices (by an index code, whose tag is the
      byte), their signs, and their magnitudes by the gamma code. With s = 1 every magnitude is 1,
      and is not written.

    Attributes:
        norm: a float32, not negative.
        indices: the indices of the nonzero levels, ascending, shape (k,).
        levels: the nonzero levels, shape (k,).
        steps: s.
        dimension: d.
    """

    kind: ClassVar[int] = 5
    formats: ClassVar[tuple[ValueFormat, ...]] = FLOAT32_ONLY
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT32
    norm: float
    indices: Numbers
    levels: Numbers
    steps: int
    dimension: int

    @classmethod
    def of(cls, norm: float, levels: Numbers, steps: int) -> Self:
        """Create the payload from the level of each coordinate, shape (d,), and a float32 norm."""
        indices = np.flatnonzero(levels)
        return cls(norm, indices, levels[indices], steps, levels.size)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,); all NaN if the norm is not finite."""
        values = np.full(self.dimension, 0.0 if np.isfinite(self.norm) else np.nan)
        values[self.indices] = self.norm * self.levels / self.steps
        return frozen(values)

    @property
    def width(self) -> int:
        """The bits of a level in the fixed code."""
        return width_below(2 * self.steps + 1)

    @cached_property
    def bits(self) -> int:
        """The length of the encoding."""
        where = IndexSet.of(self.indices, self.dimension)
        return self._head + 8 * min(self._fixed_size, self._elias_size(where))

    @property
    def longest(self) -> int:
        """The length, in bits, that no payload exceeds whose levels are at most as far from zero.

        The indices are bounded by `most_bits`: another draw may round some of the levels to zero,
        and the code of fewer indices can be longer than that of these.
        """
        signs = self.indices.size
        where = most_bits(signs, self.dimension)
        elias = varint_size(signs) + whole_bytes(where + signs + self._magnitude_bits)
        return self._head + 8 * min(self._fixed_size, elias)

    @property
    def _head(self) -> int:
        return 8 * (1 + varint_size(self.dimension) + varint_size(self.steps) + 4 + 1)

    @property
    def _fixed_size(self) -> int:
        return whole_bytes(self.dimension * self.width)

    @property
    def _magnitude_bits(self) -> int:
        return gamma_length(np.abs(self.levels)) if self.steps > 1 else 0

    def _elias_size(self, where: IndexSet) -> int:
        count = self.indices.size
        return varint_size(count) + whole_bytes(where.bits + count + self._magnitude_bits)

    def body(self) -> bytes:
        """Encode the sizes, the norm and the levels."""
        norm = ValueFormat.FLOAT32.encode(np.array(self.norm))
        head = varint(self.dimension) + varint(self.steps) + norm
        where = IndexSet.of(self.indices, self.dimension)
        if self._fixed_size <= self._elias_size(where):
            levels = np.full(self.dimension, self.steps)
            levels[self.indices] += self.levels
            return head + bytes([_FIXED]) + concatenate(fixed_width(levels, self.width))
        signs = (self.levels < 0).astype(np.uint8)
        magnitudes = [gamma(np.abs(self.levels))] if self.steps > 1 else []
        code, count = where.code, varint(self.indices.size)
        stream = concatenate(where.write(code), signs, *magnitudes)
        return head + bytes([where.tag(code)]) + count + stream

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the sizes, the norm and the levels."""
        dimension, steps = reader.dimension(), reader.varint()
        if not 0 < steps <= LARGEST_STEPS:
            raise DecodeError(f"{steps} steps of a norm; 1 to {LARGEST_STEPS}")
        norm = float(reader.values(1, form)[0])
        if np.signbit(norm) and not np.isnan(norm):
            raise DecodeError(f"a norm of {norm}")
        tag = reader.byte()
        indices, levels = (
            _read_fixed(reader, dimension, steps)
            if tag == _FIXED
            else _read_elias(reader, tag, dimension, steps)
        )
        if np.abs(levels).max(initial=0) > steps:
            raise DecodeError(f"a level beyond {steps} steps")
        reader.align()
        return cls(norm, indices, levels, steps, dimension)


def _read_fixed(reader: Reader, dimension: int, steps: int) -> tuple[Numbers, Numbers]:
    levels = reader.fixed_width(dimension, width_below(2 * steps + 1)) - steps
    indices = np.flatnonzero(levels)
    return indices, levels[indices]


def _read_elias(reader: Reader, tag: int, dimension: int, steps: int) -> tuple[Numbers, Numbers]:
    count = reader.varint()
    reader.expect(count)
    indices = read(reader, tag, count, dimension)
    negative = reader.bits(count) == 1
    magnitudes = reader.gamma(count) if steps > 1 else np.ones(count, dtype=np.intp)
    return indices, np.where(negative, -magnitudes, magnitudes)


@dataclass(frozen=True, eq=False)
class Sign:
    """The sign of each coordinate, and one scale for all.

    Attributes:
        scale: a float32.
        negative: 1 for a negative coordinate, else 0; shape (d,).
    """

    kind: ClassVar[int] = 6
    formats: ClassVar[tuple[ValueFormat, ...]] = FLOAT32_ONLY
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT32
    scale: float
    negative: Bits

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,): plus or minus the scale."""
        return frozen(np.where(self.negative, -self.scale, self.scale))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (1 + varint_size(self.negative.size) + 4 + whole_bytes(self.negative.size))

    def body(self) -> bytes:
        """Encode the dimension, the scale and the signs."""
        scale = ValueFormat.FLOAT32.encode(np.array(self.scale))
        return varint(self.negative.size) + scale + concatenate(self.negative)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the dimension, the scale and the signs."""
        dimension, scale = reader.dimension(), float(reader.values(1, form)[0])
        negative = reader.bits(dimension)
        reader.align()
        return cls(scale, negative)


# Payloads of floats of four bits.

_E3M0_BITS = 4
_E3M0_LEVELS = 7
"""Magnitudes above zero: a float of three bits of exponent and none of significand."""


@dataclass(frozen=True, eq=False)
class FourBits:
    """A float of four bits for each coordinate, E3M0, times one scale for all.

    The sign is one bit, and three are the exponent k: a magnitude is scale 2^(k - 7) for k = 1 to
    7, and 0 for k = 0.

    Attributes:
        scale: the largest magnitude, a float32, not negative.
        codes: 8 if negative, plus k, shape (d,); never 8 alone.
    """

    kind: ClassVar[int] = 13
    formats: ClassVar[tuple[ValueFormat, ...]] = FLOAT32_ONLY
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT32
    scale: float
    codes: Numbers

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,); all NaN if the scale is not finite."""
        if not np.isfinite(self.scale):
            return frozen(np.full(self.codes.size, np.nan))
        exponents = self.codes & 7
        sizes = np.where(exponents, np.ldexp(self.scale, exponents - _E3M0_LEVELS), 0.0)
        return frozen(np.where(self.codes & 8, -sizes, sizes))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        size = self.codes.size
        return 8 * (1 + varint_size(size) + 4 + whole_bytes(_E3M0_BITS * size))

    def body(self) -> bytes:
        """Encode the dimension, the scale and the codes."""
        scale = ValueFormat.FLOAT32.encode(np.array(self.scale))
        codes = concatenate(fixed_width(self.codes, _E3M0_BITS))
        return varint(self.codes.size) + scale + codes

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the dimension, the scale and the codes."""
        dimension, scale = reader.dimension(), float(reader.values(1, form)[0])
        if np.signbit(scale) and not np.isnan(scale):
            raise DecodeError(f"a scale of {scale}")
        codes = reader.fixed_width(dimension, _E3M0_BITS)
        reader.align()
        if (codes == 8).any():
            raise DecodeError("a negative zero among floats of four bits")
        return cls(scale, codes)


# Payloads of powers of two: sign and exponent of a float32, nine bits per coordinate.

_EXPONENT_BITS = 9


@dataclass(frozen=True, eq=False)
class Powers:
    """A signed power of two, or zero, for each coordinate: a float32 without its fraction.

    Attributes:
        codes: the upper nine bits of each float32, shape (d,): 256 if negative, plus the biased
            exponent, 1 to 254; 0 is zero and 255 infinite.
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
        """Encode the dimension and the codes."""
        return varint(self.codes.size) + concatenate(fixed_width(self.codes, _EXPONENT_BITS))

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the dimension and the codes."""
        codes = reader.fixed_width(reader.dimension(), _EXPONENT_BITS)
        reader.align()
        return cls(codes)


@dataclass(frozen=True, eq=False)
class SparsePowers:
    """The nonzero codes of `Powers`, and their indices.

    Attributes:
        indices: the indices of the nonzero codes, ascending, shape (k,).
        codes: the upper nine bits of each float32, shape (k,), none of them 0.
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
        """Create the payload from the code of each coordinate, shape (d,)."""
        indices = np.flatnonzero(codes)
        return cls(indices, codes[indices], codes.size)

    @cached_property
    def values(self) -> Array:
        """The decoded vector, read-only, shape (d,)."""
        return scatter(self.indices, _numbers(self.codes), self.dimension)

    @cached_property
    def bits(self) -> int:
        """The length of the encoding."""
        return self._length(IndexSet.of(self.indices, self.dimension).bits)

    @property
    def longest(self) -> int:
        """The largest length, in bits, of a payload with nonzero codes at some of these indices."""
        return self._length(most_bits(self.indices.size, self.dimension))

    def _length(self, where: int) -> int:
        count = self.indices.size
        sizes = varint_size(self.dimension) + varint_size(count)
        return 8 * (2 + sizes + whole_bytes(where + _EXPONENT_BITS * count))

    def body(self) -> bytes:
        """Encode the sizes, the indices and the codes."""
        where = IndexSet.of(self.indices, self.dimension)
        code = where.code
        sizes = varint(self.dimension) + varint(self.indices.size) + bytes([where.tag(code)])
        return sizes + concatenate(where.write(code), fixed_width(self.codes, _EXPONENT_BITS))

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the sizes, the indices and the codes."""
        dimension, count, tag = reader.dimension(), reader.varint(), reader.byte()
        reader.expect(_EXPONENT_BITS * count)
        indices = read(reader, tag, count, dimension)
        codes = reader.fixed_width(count, _EXPONENT_BITS)
        reader.align()
        if not codes.all():
            raise DecodeError("a zero among the nonzero coordinates")
        return cls(indices, codes, dimension)


def _numbers(codes: NDArray[np.intp]) -> Array:
    """Return the decoded numbers."""
    return (codes << 23).astype("<u4").view("<f4").astype(np.float64)
