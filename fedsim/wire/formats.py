"""Value formats: how one number of a payload is written."""

from enum import Enum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array


class ValueFormat(Enum):
    """A floating-point format of IEEE 754, little-endian on the wire.

    A value that is sent is rounded to the nearest value of its format; what does not fit
    becomes infinite, as it would in a real packet.

    Attributes:
        code: the number that stands for this format in an encoding.
        dtype: how NumPy names it.
        size: the bytes of one value.
    """

    code: int
    dtype: np.dtype[np.floating]
    size: int

    def __new__(cls, name: str, code: int, dtype: str) -> Self:
        """Make a member whose value is its name in a scenario."""
        member = object.__new__(cls)
        member._value_ = name
        member.code = code
        member.dtype = np.dtype(dtype)
        member.size = member.dtype.itemsize
        return member

    FLOAT64 = ("float64", 0, "<f8")
    FLOAT32 = ("float32", 1, "<f4")

    def round(self, values: NDArray[np.floating]) -> Array:
        """Return a read-only float64 copy of what arrives when `values` are sent."""
        if self is ValueFormat.FLOAT64:
            rounded = np.array(values, dtype=np.float64)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = np.asarray(values).astype(np.float32).astype(np.float64)
        rounded.flags.writeable = False
        return rounded

    def encode(self, values: Array) -> bytes:
        """Write values that are already rounded, in C order."""
        return values.astype(self.dtype).tobytes()

    def decode(self, data: bytes) -> Array:
        """Read what `encode` wrote: a flat, read-only float64 array."""
        return self.round(np.frombuffer(data, dtype=self.dtype))
