"""Index codes: encodings of the positions of k of d coordinates.

If k > d/2, the absent indices are written in place of the present ones: the receiver has k and d,
and can tell which. The n ascending numbers below d are written by the shortest of four codes:

BITMAP: d bits, bit i set if i is among the numbers.
FIXED: ceil(log2 d) bits each.
GAMMA: the gaps, by Elias's gamma code; the first gap counts from -1.
RICE: the gaps minus one, by the code of Golomb and Rice: floor((g - 1)/2^r) in unary, and the
remainder in r bits.

A tag byte names the code: the code's number in its two lowest bits, r above them.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import floor, lgamma, log, log1p, log2, sqrt
from typing import Self

import numpy as np

from fedsim.core.errors import DecodeError
from fedsim.wire.bitstream import Bits, Numbers, Reader, fixed_width, gamma, gamma_length, unary

_LOG_PHI = log((1 + sqrt(5)) / 2)


class IndexCode(IntEnum):
    """A code of ascending numbers; see the module's description."""

    BITMAP = 0
    FIXED = 1
    GAMMA = 2
    RICE = 3


@dataclass(frozen=True, eq=False)
class IndexSet:
    """k ascending indices below d, and the lengths of their codes.

    Attributes:
        written: the indices, or the absent ones if 2 k > d; shape (n,), ascending.
        dimension: d.
    """

    written: Numbers
    dimension: int

    @classmethod
    def of(cls, indices: Numbers, dimension: int) -> Self:
        """Create the set from ascending indices, shape (k,)."""
        few = 2 * indices.size <= dimension
        return cls(indices if few else absent(indices, dimension), dimension)

    @cached_property
    def gaps(self) -> Numbers:
        """The differences of successive numbers, each at least 1; the first counts from -1."""
        gaps = self.written.copy()
        gaps[1:] -= self.written[:-1]
        gaps[:1] += 1
        return gaps

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The length of each code in bits, in the order of `IndexCode`."""
        count, low = self.written.size, self.parameter
        return (
            self.dimension,
            count * width(self.dimension),
            gamma_length(self.gaps),
            count * (1 + low) + int(((self.gaps - 1) >> low).sum()),
        )

    @property
    def parameter(self) -> int:
        """The parameter r of the Rice code."""
        return rice_parameter(self.written.size, self.dimension)

    @property
    def code(self) -> IndexCode:
        """The shortest code; the first one of equal length."""
        return IndexCode(self.sizes.index(min(self.sizes)))

    @property
    def bits(self) -> int:
        """The length of the shortest code in bits, without the tag byte."""
        return min(self.sizes)

    def tag(self, code: IndexCode) -> int:
        """Return the tag byte of a code, with r for the Rice code; it is below 128."""
        return code | self.parameter << 2 if code is IndexCode.RICE else code

    def write(self, code: IndexCode) -> Bits:
        """Encode the numbers by a code."""
        match code:
            case IndexCode.BITMAP:
                present = np.zeros(self.dimension, dtype=np.uint8)
                present[self.written] = 1
                return present
            case IndexCode.FIXED:
                return fixed_width(self.written, width(self.dimension))
            case IndexCode.GAMMA:
                return gamma(self.gaps)
            case IndexCode.RICE:
                low = self.parameter
                rests = fixed_width(self.gaps - 1 & (1 << low) - 1, low)
                return np.concatenate([unary((self.gaps - 1) >> low), rests])


def read(reader: Reader, tag: int, count: int, dimension: int) -> Numbers:
    """Decode `count` ascending indices below `dimension` by the code of a tag byte.

    The caller has checked that at least `count` bits remain.

    Raises:
        DecodeError: the input is not the code of that many indices.
    """
    code, low = IndexCode(tag & 3), tag >> 2
    most = width(dimension) if code is IndexCode.RICE else 0
    if count > dimension or low > most:
        raise DecodeError(f"no index code {tag:#04x} of {count} out of {dimension}")
    few = min(count, dimension - count)
    written = _read_written(reader, code, low, few, dimension)
    if written.size != few or (few and written[-1] >= dimension):
        raise DecodeError(f"the indices are not {few} numbers below {dimension}")
    if (np.diff(written) <= 0).any():
        raise DecodeError("the indices do not ascend")
    return written if few == count else absent(written, dimension)


def _read_written(reader: Reader, code: IndexCode, low: int, count: int, dimension: int) -> Numbers:
    match code:
        case IndexCode.BITMAP:
            return np.flatnonzero(reader.bits(dimension))
        case IndexCode.FIXED:
            return reader.fixed_width(count, width(dimension))
        case IndexCode.GAMMA:
            return np.cumsum(reader.gamma(count)) - 1
        case IndexCode.RICE:
            high = reader.unary(count)
            # Checked before the shift below, which could overflow to an index that looks valid.
            if high.max(initial=0) > dimension >> low:
                raise DecodeError(f"a gap leads beyond {dimension}")
            return np.cumsum((high << low) + reader.fixed_width(count, low) + 1) - 1


def absent(indices: Numbers, dimension: int) -> Numbers:
    """Return the numbers below d that are not among the indices, ascending."""
    out = np.ones(dimension, dtype=np.bool_)
    out[indices] = False
    return np.flatnonzero(out)


def most_bits(count: int, dimension: int) -> int:
    """Return a bound, in bits, of the shortest code of any set of at most k of d indices."""
    return min(dimension, count * width(dimension))


def width(dimension: int) -> int:
    """Return ceil(log2 d), the bits of one index below d; 0 for d of at most 1."""
    return max(dimension - 1, 0).bit_length()


def rice_parameter(count: int, dimension: int) -> int:
    """Return the best r for the gaps between `count` random numbers below d.

    The gaps are geometric, with p = count/d; the best r is from Kiely, "Selecting the
    Golomb Parameter in Rice Coding", IPN Progress Report 42-159, 2004.

    >>> [rice_parameter(count, 1000) for count in (0, 1, 10, 100, 300, 500)]
    [0, 9, 6, 3, 1, 0]
    """
    if not 0 < count < dimension:
        return 0
    return max(0, 1 + floor(log2(_LOG_PHI / -log1p(-count / dimension))))


def entropy(count: int, dimension: int) -> float:
    """Return log2 C(d, k), in bits: the lower bound of any code of all sets of k out of d."""
    choices = lgamma(dimension + 1) - lgamma(count + 1) - lgamma(dimension - count + 1)
    return choices / log(2)
