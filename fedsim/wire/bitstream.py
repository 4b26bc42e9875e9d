"""Bits: numbers written with as few bits as they need, many at once.

While a stream is put together it is an array of zeros and ones. On the wire it fills whole
bytes, the first bit lowest, with zeros behind the last bit. A number's own bits come lowest
first. Codes of varying length are written in two runs: first the unary parts of all numbers,
which tell the lengths, then the rest of all. That is as long as one number after the other,
and it can be read without going from number to number.
"""

from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import DecodeError
from fedsim.ports import Array
from fedsim.wire.formats import ValueFormat

Bits = NDArray[np.uint8]
"""Zeros and ones."""

Numbers = NDArray[np.intp]
"""Numbers from 0 to below 2^32."""


def concatenate(*parts: Bits) -> bytes:
    """Return the stream of all parts, in whole bytes."""
    return np.packbits(np.concatenate(parts), bitorder="little").tobytes()


def whole_bytes(bits: int) -> int:
    """Return the bytes that so many bits fill."""
    return -(-bits // 8)


def fixed_width(numbers: Numbers, width: int) -> Bits:
    """Write each number with `width` bits.

    >>> fixed_width(np.array([1, 6]), 3).tolist()
    [1, 0, 0, 0, 1, 1]
    """
    return _table(numbers, width)[:, :width].ravel()


def unary(numbers: Numbers) -> Bits:
    """Write each number as so many zeros and a one.

    >>> unary(np.array([2, 0, 1])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    ends = np.cumsum(numbers + 1)
    bits = np.zeros(ends[-1] if ends.size else 0, dtype=np.uint8)
    bits[ends - 1] = 1
    return bits


def gamma(numbers: Numbers) -> Bits:
    """Write each number g >= 1 by Elias's gamma code.

    That is w = floor(log2 g) in unary, and g - 2^w in w bits.

    >>> gamma(np.array([1, 5, 2])).tolist()  # w = 0, 2, 1, then 1 in two bits and 0 in one
    [1, 0, 0, 1, 0, 1, 1, 0, 0]
    """
    widths = floor_log2(numbers)
    widest = int(widths.max(initial=0))
    table = _table(numbers, widest)
    return np.concatenate([unary(widths), table[within(table, widths)]])


def gamma_length(numbers: Numbers) -> int:
    """Return the bits that `gamma` takes: the sum of 2 floor(log2 g) + 1."""
    return numbers.size + 2 * int(floor_log2(numbers).sum())


def floor_log2(numbers: Numbers) -> Numbers:
    """Return floor(log2 g) of each number g >= 1: the exponent of g as a float64."""
    exponents: Numbers = (numbers.astype(np.float64).view(np.int64) >> 52).astype(np.intp) - 1023
    return exponents


def varint(number: int) -> bytes:
    """Write a number below 2^35 in groups of seven bits, lowest first (LEB128).

    Every byte but the last has its highest bit set.

    >>> varint(5).hex(), varint(300).hex()
    ('05', 'ac02')
    """
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def varint_size(number: int) -> int:
    """Return the bytes that `varint` takes."""
    return max(-(-number.bit_length() // 7), 1)


def word(width: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type, lowest byte first, with so many bits.

    >>> word(3).itemsize, word(9).itemsize, word(32).itemsize
    (1, 2, 4)
    """
    return np.dtype("<u1" if width <= 8 else "<u2" if width <= 16 else "<u4")


def within(table: Bits, widths: Numbers) -> NDArray[np.bool_]:
    """Return where the first widths[i] places of row i are."""
    return np.arange(table.shape[1], dtype=np.uint8) < widths.astype(np.uint8)[:, None]


def _table(numbers: Numbers, width: int) -> Bits:
    """Return the bits of each number as a row, at least `width` of them."""
    form = word(width)
    rows = numbers.astype(form).view(np.uint8).reshape(numbers.size, form.itemsize)
    return np.unpackbits(rows, axis=1, bitorder="little")


# Reading of untrusted input: bytes and bits, from the front to the end.
#
# Every count is held against what is left before anything of its size is made, so the memory
# and time that reading takes are at most proportional to the bytes that came.

LARGEST_DIMENSION = 2**28
"""The most coordinates of a vector whose encoding may be shorter than they are many."""

_LONGEST_VARINT = 5
_LONGEST_TAIL = 31


class Reader:
    """Bytes, and how far they have been read.

    Numbers of whole bytes are read where a byte begins; after bits, `align` goes there.
    Every method raises DecodeError where too few bytes follow.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0  # in bits

    @property
    def left(self) -> int:
        """The bits that follow."""
        return 8 * len(self._data) - self._at

    def expect(self, bits: int) -> None:
        """Check that at least so many bits follow.

        Raises:
            DecodeError: fewer do.
        """
        if bits > self.left:
            raise DecodeError(f"{bits} bits are announced, {self.left} follow")

    def take(self, length: int) -> memoryview:
        """Read so many bytes."""
        self.expect(8 * length)
        start = self._at // 8
        self._at += 8 * length
        return self._data[start : start + length]

    def last(self, length: int) -> bytes:
        """Return the bytes that were read last, so many of them."""
        end = self._at // 8
        return bytes(self._data[end - length : end])

    def byte(self) -> int:
        """Read one byte as a number."""
        return self.take(1)[0]

    def unpack(self, struct: Struct) -> tuple[Any, ...]:
        """Read the fields of a struct."""
        return struct.unpack(self.take(struct.size))

    def values(self, count: int, form: ValueFormat) -> Array:
        """Read so many values: a flat, read-only array."""
        return form.decode(self.take(count * form.size))

    def varint(self) -> int:
        """Read what `varint` wrote.

        Raises:
            DecodeError: it is longer than five bytes, or than it has to be.
        """
        number = 0
        for place in range(_LONGEST_VARINT):
            group = self.byte()
            number |= (group & 127) << 7 * place
            if group < 128:
                if place and not group:
                    raise DecodeError(f"the number {number} is longer than it has to be")
                return number
        raise DecodeError(f"a number of more than {_LONGEST_VARINT} bytes")

    def dimension(self) -> int:
        """Read the number of coordinates of a vector.

        Raises:
            DecodeError: it is above `LARGEST_DIMENSION`.
        """
        dimension = self.varint()
        if dimension > LARGEST_DIMENSION:
            raise DecodeError(f"{dimension} coordinates; at most {LARGEST_DIMENSION}")
        return dimension

    def bits(self, count: int) -> Bits:
        """Read so many bits."""
        bits = self._ahead(count)
        self._at += count
        return bits

    def fixed_width(self, count: int, width: int) -> Numbers:
        """Read what `fixed_width` wrote: `count` numbers of at most 32 bits each."""
        bits = self.bits(count * width).reshape(count, width)
        table = np.zeros((count, 8 * word(width).itemsize), dtype=np.uint8)
        table[:, :width] = bits
        return _numbers(table)

    def unary(self, count: int) -> Numbers:
        """Read what `unary` wrote."""
        window = 2 * count
        while True:  # twice as far every time: reading ahead costs as much as what is read
            self.expect(count)
            ends = np.flatnonzero(self._ahead(min(window, self.left)))[:count]
            if ends.size == count:
                break
            if window >= self.left:
                raise DecodeError(f"{count} numbers are announced, {ends.size} follow")
            window *= 2
        self._at += int(ends[-1]) + 1 if count else 0
        return np.diff(ends, prepend=-1) - 1

    def gamma(self, count: int) -> Numbers:
        """Read what `gamma` wrote.

        Raises:
            DecodeError: a number is 2^32 or larger.
        """
        widths = self.unary(count)
        widest = int(widths.max(initial=0))
        if widest > _LONGEST_TAIL:
            raise DecodeError(f"a number of {widest + 1} bits; at most {_LONGEST_TAIL + 1}")
        bits = self.bits(int(widths.sum()))
        numbers = 1 << widths
        some = np.flatnonzero(widths)
        table = np.zeros((some.size, 8 * word(widest).itemsize), dtype=np.uint8)
        table[within(table, widths[some])] = bits
        numbers[some] += _numbers(table)
        return numbers

    def align(self) -> None:
        """Go on to where the next byte begins.

        Raises:
            DecodeError: what stands between is not zero.
        """
        if self.bits(-self._at % 8).any():
            raise DecodeError("the padding behind the last bit is not zero")

    def _ahead(self, count: int) -> Bits:
        """Return so many of the bits that follow, without going on."""
        self.expect(count)
        first, skipped = divmod(self._at, 8)
        last = first - (-(skipped + count) // 8)
        some = np.frombuffer(self._data[first:last], dtype=np.uint8)
        return np.unpackbits(some, count=skipped + count, bitorder="little")[skipped:]


def _numbers(table: Bits) -> Numbers:
    """Return the number that each row holds."""
    rows = np.packbits(table, axis=1, bitorder="little")
    return rows.view(word(table.shape[1])).ravel().astype(np.intp)
