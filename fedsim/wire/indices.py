"""Index codes: how a sparse payload writes which k of d coordinates it holds."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import DecodeError

Indices = NDArray[np.intp]


class IndexCode(Enum):
    """A way to write k ascending indices below d, in whole bytes.

    BITMAP: d bits, bit i set where i is present.
    FIXED: k numbers of ceil(log2 d) bits each.
    """

    BITMAP = 0
    FIXED = 1

    def size(self, count: int, dimension: int) -> int:
        """Return the bytes of the code of `count` indices below `dimension`."""
        bits = dimension if self is IndexCode.BITMAP else count * width(dimension)
        return -(-bits // 8)

    def encode(self, indices: Indices, dimension: int) -> bytes:
        """Write ascending indices."""
        if self is IndexCode.BITMAP:
            present = np.zeros(dimension, dtype=np.uint8)
            present[indices] = 1
            return np.packbits(present, bitorder="little").tobytes()
        shifts = np.arange(width(dimension))
        return np.packbits(
            (indices[:, None] >> shifts & 1).astype(np.uint8).ravel(), bitorder="little"
        ).tobytes()

    def decode(self, data: bytes, count: int, dimension: int) -> Indices:
        """Read `count` indices.

        Raises:
            DecodeError: the bytes are not the code of that many ascending indices below
                `dimension`, or their padding is not zero.
        """
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        if self is IndexCode.BITMAP:
            indices = np.flatnonzero(bits)
        else:
            used = count * width(dimension)
            table = bits[:used].reshape(count, width(dimension)).astype(np.intp)
            indices = table @ (1 << np.arange(width(dimension)))
            if bits[used:].any():
                raise DecodeError("the padding after the indices is not zero")
        if indices.size != count or (count and indices[-1] >= dimension):
            raise DecodeError(f"the indices are not {count} numbers below {dimension}")
        if (np.diff(indices) <= 0).any():
            raise DecodeError("the indices do not ascend")
        return indices


def width(dimension: int) -> int:
    """Return ceil(log2 d), the bits of one index below d; 0 where there is no choice."""
    return max(dimension - 1, 0).bit_length()


def shortest(count: int, dimension: int) -> IndexCode:
    """Return the shorter code; the bitmap where both are as long."""
    return min(IndexCode, key=lambda code: code.size(count, dimension))
