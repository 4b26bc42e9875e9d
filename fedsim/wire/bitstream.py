"""Bits: numbers written with as few bits as they need, many at once.

While a stream is put together it is an array of zeros and ones. On the wire it fills whole
bytes, the first bit lowest, with zeros behind the last bit. A number's own bits come lowest
first. Codes of varying length are written in two runs: first the unary parts of all numbers,
which tell the lengths, then the rest of all. That is as long as one number after the other,
and it can be read without going from number to number.
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
"""Zeros and ones."""

Numbers = NDArray[np.intp]
"""Numbers from 0 to below 2^32."""


def packed(*parts: Bits) -> bytes:
    """Return the stream of all parts, in whole bytes."""
    return np.packbits(np.concatenate(parts), bitorder="little").tobytes()


def whole_bytes(bits: int) -> int:
    """Return the bytes that so many bits fill."""
    return -(-bits // 8)


def fixed(numbers: Numbers, width: int) -> Bits:
    """Write each number with `width` bits.

    >>> fixed(np.array([1, 6]), 3).tolist()
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
