"""Index codes: how a payload writes which k of d coordinates it holds.

Where more than half are present, the absent ones are written: both ends know k and d. What
is written are n ascending numbers below d, in one of four ways, the shortest of them:

BITMAP: d bits, bit i set where i is among them.
FIXED: ceil(log2 d) bits each.
GAMMA: the gaps, by Elias's gamma code; the first gap counts from -1.
RICE: the gaps less one, by the code of Golomb and Rice: floor((g - 1)/2^r) in unary, and the
rest in r bits.

One byte says which: the code in its two lowest bits, r above them.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import floor, lgamma, log, log1p, log2, sqrt
from typing import Self

import numpy as np

from fedsim.errors import DecodeError
from fedsim.wire.bitstream import Bits, Numbers, Reader, fixed_width, gamma, gamma_length, unary

_LOG_PHI = log((1 + sqrt(5)) / 2)


class IndexCode(IntEnum):
    """A way to write ascending numbers; see the module's description."""

    BITMAP = 0
    FIXED = 1
    GAMMA = 2
    RICE = 3


@dataclass(frozen=True, eq=False)
class IndexSet:
    """k ascending indices below d, as they are written.

    Attributes:
        written: the indices, or those absent where 2 k > d; shape (n,), ascending.
        dimension: d.
    """

    written: Numbers
    dimension: int

    @classmethod
    def of(cls, indices: Numbers, dimension: int) -> Self:
        """Take ascending indices, shape (k,)."""
        few = 2 * indices.size <= dimension
        return cls(indices if few else absent(indices, dimension), dimension)

    @cached_property
    def gaps(self) -> Numbers:
        """From each number to the next; the first counts from -1."""
        gaps = self.written.copy()
        gaps[1:] -= self.written[:-1]
        gaps[:1] += 1
        return gaps

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The bits that each code takes, in the order of `IndexCode`."""
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
        """The shortest code; the first of those that are equally short."""
        return IndexCode(self.sizes.index(min(self.sizes)))

    @property
    def bits(self) -> int:
        """The bits of the shortest code, the byte that names it not counted."""
        return min(self.sizes)

    def tag(self, code: IndexCode) -> int:
        """Return the byte that names a code, and r where it is the Rice code: below 128."""
        return code | self.parameter << 2 if code is IndexCode.RICE else code

    def write(self, code: IndexCode) -> Bits:
        """Write the numbers by a code."""
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
    """Read `count` ascending indices below `dimension` by the code that `tag` names.

    The caller makes sure that at least `count` bits follow.

    Raises:
        DecodeError: what follows is not the code of that many indices.
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
            if high.max(initial=0) > dimension >> low:  # before it is shifted out of its word
                raise DecodeError(f"a gap leads beyond {dimension}")
            return np.cumsum((high << low) + reader.fixed_width(count, low) + 1) - 1


def absent(indices: Numbers, dimension: int) -> Numbers:
    """Return the numbers below d that are not among the indices, ascending."""
    out = np.ones(dimension, dtype=np.bool_)
    out[indices] = False
    return np.flatnonzero(out)


def most_bits(count: int, dimension: int) -> int:
    """Return bits that no set of at most k of d indices exceeds, whichever they are."""
    return min(dimension, count * width(dimension))


def width(dimension: int) -> int:
    """Return ceil(log2 d), the bits of one index below d; 0 where there is no choice."""
    return max(dimension - 1, 0).bit_length()


def rice_parameter(count: int, dimension: int) -> int:
    """Return the r that is best for the gaps between `count` of d numbers drawn at random.

    The gaps are geometric, with p = count/d; the best r is that of Kiely, "Selecting the
    Golomb Parameter in Rice Coding", IPN Progress Report 42-159, 2004.

    >>> [rice_parameter(count, 1000) for count in (0, 1, 10, 100, 300, 500)]
    [0, 9, 6, 3, 1, 0]
    """
    if not 0 < count < dimension:
        return 0
    return max(0, 1 + floor(log2(_LOG_PHI / -log1p(-count / dimension))))


def entropy(count: int, dimension: int) -> float:
    """Return log2 C(d, k), bits: what no code of all sets of k out of d can go below."""
    choices = lgamma(dimension + 1) - lgamma(count + 1) - lgamma(dimension - count + 1)
    return choices / log(2)
