"""Bit streams: arrays of numbers written with few bits each, and a reader for untrusted bytes.

While it is assembled, a stream is an array of zeros and ones. On the wire it fills whole bytes, the
first bit lowest, with zeros after the last bit. The bits of a number are written lowest first.

Codes of variable length are written in two runs: first the unary parts of all numbers, which give
the lengths, then the remaining bits of all numbers. The stream has the same length as if each
number were written as a whole, but both runs can be encoded and decoded by array operations,
without a loop over the numbers.
"""

from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire.formats import ValueFormat

Bits = NDArray[np.uint8]
"""Zeros and ones."""

Numbers = NDArray[np.intp]
"""Numbers from 0 to below 2^32."""


def concatenate(*parts: Bits) -> bytes:
    """Return the stream of all parts, in whole bytes."""
    return np.packbits(np.concatenate(parts), bitorder="little").tobytes()


def whole_bytes(bits: int) -> int:
    """Return the number of bytes that a number of bits fills."""
    return -(-bits // 8)


def fixed_width(numbers: Numbers, width: int) -> Bits:
    """Write each number with `width` bits.

    >>> fixed_width(np.array([1, 6]), 3).tolist()
    [1, 0, 0, 0, 1, 1]
    """
    return _table(numbers, width)[:, :width].ravel()


def unary(numbers: Numbers) -> Bits:
    """Write each number n as n zeros and a one.

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
    """Return the length of `gamma`'s output in bits: the sum of 2 floor(log2 g) + 1."""
    return numbers.size + 2 * int(floor_log2(numbers).sum())


def floor_log2(numbers: Numbers) -> Numbers:
    """Return floor(log2 g) of each number g >= 1."""
    # The exponent field of the float64, with its bias of 1023 removed. The result is exact because
    # the numbers are below 2^53; a logarithm would be rounded, and wrong just below a power of two.
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
    """Return the length of `varint`'s output in bytes."""
    return max(-(-number.bit_length() // 7), 1)


def word(width: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest little-endian unsigned type with at least `width` bits.

    >>> word(3).itemsize, word(9).itemsize, word(32).itemsize
    (1, 2, 4)
    """
    return np.dtype("<u1" if width <= 8 else "<u2" if width <= 16 else "<u4")


def within(table: Bits, widths: Numbers) -> NDArray[np.bool_]:
    """Return a mask of the first widths[i] columns of row i."""
    return np.arange(table.shape[1], dtype=np.uint8) < widths.astype(np.uint8)[:, None]


def _table(numbers: Numbers, width: int) -> Bits:
    """Return the bits of each number as a row, at least `width` of them."""
    form = word(width)
    rows = numbers.astype(form).view(np.uint8).reshape(numbers.size, form.itemsize)
    return np.unpackbits(rows, axis=1, bitorder="little")


# Reading of untrusted input: bytes and bits, from the first to the last.
#
# A count in the input is checked against the number of bits that remain before an array of that
# size is allocated. Otherwise a message of a few bytes could announce 2^32 numbers and exhaust the
# memory. So the memory and time of decoding are at most proportional to the length of the input.

LARGEST_DIMENSION = 2**28
"""The largest dimension of an encoded vector. The check against the remaining bits does not bound
the dimension of a sparse vector, which may be far larger than its encoding."""

_LONGEST_VARINT = 5
_LONGEST_TAIL = 31


class Reader:
    """Bytes and a position in them.

    Methods that read whole bytes need a position at the start of a byte; after reading bits,
    `align` advances to the next one. Every method raises DecodeError if too few bytes remain.

    Attributes:
        largest: the largest accepted dimension of a vector.
    """

    def __init__(self, data: bytes | memoryview, largest: int = LARGEST_DIMENSION) -> None:
        self.largest = largest
        self._data = memoryview(data)
        self._at = 0  # in bits

    @property
    def left(self) -> int:
        """The number of bits that remain."""
        return 8 * len(self._data) - self._at

    def expect(self, bits: int) -> None:
        """Check that at least `bits` bits remain.

        Raises:
            DecodeError: fewer remain.
        """
        if bits > self.left:
            raise DecodeError(f"{bits} bits are announced, {self.left} follow")

    def take(self, length: int) -> memoryview:
        """Read `length` bytes."""
        self.expect(8 * length)
        start = self._at // 8
        self._at += 8 * length
        return self._data[start : start + length]

    def last(self, length: int) -> bytes:
        """Return the last `length` bytes read."""
        end = self._at // 8
        return bytes(self._data[end - length : end])

    def byte(self) -> int:
        """Read one byte as a number."""
        return self.take(1)[0]

    def unpack(self, struct: Struct) -> tuple[Any, ...]:
        """Read the fields of a struct."""
        return struct.unpack(self.take(struct.size))

    def values(self, count: int, form: ValueFormat) -> Array:
        """Read `count` values, as a flat, read-only array."""
        return form.decode(self.take(count * form.size))

    def varint(self) -> int:
        """Read the output of `varint`.

        Raises:
            DecodeError: it has more than five bytes, or more than the number needs.
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
            DecodeError: it is above `largest`.
        """
        dimension = self.varint()
        if dimension > self.largest:
            raise DecodeError(f"{dimension} coordinates; at most {self.largest}")
        return dimension

    def bits(self, count: int) -> Bits:
        """Read `count` bits."""
        bits = self._ahead(count)
        self._at += count
        return bits

    def fixed_width(self, count: int, width: int) -> Numbers:
        """Read the output of `fixed_width`: `count` numbers of at most 32 bits each."""
        bits = self.bits(count * width).reshape(count, width)
        table = np.zeros((count, 8 * word(width).itemsize), dtype=np.uint8)
        table[:, :width] = bits
        return _numbers(table)

    def unary(self, count: int) -> Numbers:
        """Read the output of `unary`."""
        # The length of the run is unknown: it ends at the bit of the count-th one. Doubling the
        # window keeps the total cost proportional to that length; unpacking the whole rest of the
        # message for every run would be quadratic in the number of runs.
        window = 2 * count
        while True:
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
        """Read the output of `gamma`.

        Raises:
            DecodeError: a number is 2^32 or larger.
        """
        widths = self.unary(count)
        widest = int(widths.max(initial=0))
        if widest > _LONGEST_TAIL:
            raise DecodeError(f"a number of {widest + 1} bits; at most {_LONGEST_TAIL + 1}")
        bits = self.bits(int(widths.sum()))
        numbers = 1 << widths
        # Numbers of width 0 are 1 and have no further bits, so they have no row in the table.
        some = np.flatnonzero(widths)
        table = np.zeros((some.size, 8 * word(widest).itemsize), dtype=np.uint8)
        table[within(table, widths[some])] = bits
        numbers[some] += _numbers(table)
        return numbers

    def align(self) -> None:
        """Advance to the start of the next byte.

        Raises:
            DecodeError: a skipped bit is not zero.
        """
        if self.bits(-self._at % 8).any():
            raise DecodeError("the padding after the last bit is not zero")

    def _ahead(self, count: int) -> Bits:
        """Return the next `count` bits without advancing."""
        self.expect(count)
        first, skipped = divmod(self._at, 8)
        last = first - (-(skipped + count) // 8)
        some = np.frombuffer(self._data[first:last], dtype=np.uint8)
        return np.unpackbits(some, count=skipped + count, bitorder="little")[skipped:]


def _numbers(table: Bits) -> Numbers:
    """Return the number whose bits each row has."""
    rows = np.packbits(table, axis=1, bitorder="little")
    return rows.view(word(table.shape[1])).ravel().astype(np.intp)
