"""Value formats: the floating-point formats of a payload's numbers."""

from enum import Enum
from math import isnan
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, constant


class ValueFormat(Enum):
    """A floating-point format, little-endian on the wire: those of IEEE 754, and bfloat16.

    bfloat16 is the upper half of a float32: its range, with 8 bits of significand. A value that is
    sent is rounded to the nearest value of its format; a value beyond the range becomes infinite,
    as it would in a real packet.

    Attributes:
        code: the number of this format in an encoding.
        dtype: the type of NumPy; for bfloat16, which NumPy lacks, that of its bits.
        size: the length of one value in bytes.
    """

    code: int
    dtype: np.dtype[Any]
    size: int

    def __new__(cls, name: str, code: int, dtype: str) -> Self:
        """Create a member whose value is its name in a scenario."""
        member = object.__new__(cls)
        member._value_ = name
        member.code = code
        member.dtype = np.dtype(dtype)
        member.size = member.dtype.itemsize
        return member

    FLOAT64 = ("float64", 0, "<f8")
    FLOAT32 = ("float32", 1, "<f4")
    BFLOAT16 = ("bfloat16", 2, "<u2")
    FLOAT16 = ("float16", 3, "<f2")

    def round(self, values: NDArray[np.floating]) -> Array:
        """Return the values as they arrive when they are sent: read-only float64.

        They are a copy, except for what is exact in the format and nothing changes (`constant`).
        """
        if self is ValueFormat.FLOAT64:
            return constant(values)
        if self is ValueFormat.FLOAT32 and _are_plain(values):
            rounded = np.asarray(values).astype(self.dtype).astype(np.float64)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = np.asarray(self._widen(self._narrow(np.asarray(values))))
        rounded.flags.writeable = False
        return rounded

    def narrow(self, values: NDArray[np.floating]) -> NDArray[Any]:
        """Return the values as they are sent, in the type `dtype`: read-only, as for `round`.

        What has that type already, and is constant, is not copied either.
        """
        if self is ValueFormat.FLOAT64:
            return constant(values)
        if values.dtype == self.dtype and not values.flags.writeable and values.base is None:
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            sent = self._narrow(np.asarray(values))
        sent.flags.writeable = False
        return sent

    def widen(self, sent: NDArray[Any], out: Array | None = None) -> Array:
        """Return what `narrow` has made as float64: a copy, in `out` if that is given."""
        with np.errstate(invalid="ignore"):
            if out is None:
                return self._widen(sent)
            np.copyto(out, self._widen(sent) if self is ValueFormat.BFLOAT16 else sent)
            return out

    def part(self, sent: NDArray[Any], out: Array, factor: float | None = None) -> Array:
        """Return what `narrow` has made as float64, times a factor or 1, in `out`: in one pass."""
        if factor is None:
            return self.widen(sent, out)
        wide = self._widen(sent) if self is ValueFormat.BFLOAT16 else sent
        return np.multiply(wide, factor, out=out, dtype=np.float64)

    def encode(self, values: Array) -> bytes:
        """Encode values that are already rounded, in C order; every NaN with the same bits."""
        # The sign and the payload bits of a computed NaN depend on the processor. Without this,
        # equal runs on two machines would differ in their messages' bytes.
        if values.size <= _FEW and not has_nan(values):
            return self._narrow(values).tobytes()
        unclear = np.isnan(values)
        return self._narrow(
            np.where(unclear, np.nan, values) if unclear.any() else values
        ).tobytes()

    def decode(self, data: bytes | memoryview) -> Array:
        """Decode the output of `encode`: a flat, read-only float64 array."""
        if self is ValueFormat.FLOAT64:  # a copy, and no conversion that could warn
            values = np.frombuffer(data, dtype=self.dtype).astype(np.float64)
        else:
            sent = np.frombuffer(data, dtype=self.dtype)
            if self is ValueFormat.FLOAT32 and _are_plain(sent):
                values = sent.astype(np.float64)
            else:
                with np.errstate(invalid="ignore"):  # a received signalling NaN is a NaN
                    values = self._widen(sent)
        values.flags.writeable = False
        return values

    def _narrow(self, values: NDArray[np.floating]) -> NDArray[Any]:
        """Return the values in this format, rounded to the nearest, ties to even."""
        if self is not ValueFormat.BFLOAT16:
            return values.astype(self.dtype)
        return _upper_half(values.astype(np.float64))

    def _widen(self, values: NDArray[Any]) -> Array:
        """Return the values as float64."""
        if self is ValueFormat.BFLOAT16:
            values = (values.astype("<u4") << 16).view("<f4")
        return values.astype(np.float64)


_FEW = 256
"""So many values are looked at before a conversion: to set how NumPy warns takes longer."""

_SMALL = 1e38
"""Of values whose squares sum up to less, none is near the end of the range of float32."""


def has_nan(values: NDArray[np.floating]) -> bool:
    """Return whether one of the values is NaN: their sum of squares is then, and only then."""
    return isnan(np.vdot(values, values))


def _are_plain(values: NDArray[np.floating]) -> bool:
    """Return whether these are a few values whose conversion to and from float32 never warns."""
    return values.size <= _FEW and bool(np.vdot(values, values) < _SMALL)


def _upper_half(values: Array) -> NDArray[np.uint16]:
    """Return the bits of the bfloat16 nearest to each value, ties to even.

    Rounding to float32 first and then to bfloat16 would round twice: a value just above a tie of
    bfloat16 may become exactly that tie in float32, and then go to the wrong side. So the first
    step rounds to odd: an inexact result has its last bit set, and is never a tie.
    """
    single = values.astype("<f4")
    bits = single.view("<u4")
    exact = single.astype(np.float64) == values
    # Round to odd: go back one unit where float32 rounded away from zero, then set the last bit.
    down = bits - (np.abs(single.astype(np.float64)) > np.abs(values)).astype("<u4")
    odd = np.where(exact | np.isnan(values), bits, down | 1)
    # Round to nearest, ties to even: half a unit less one, plus the last bit that is kept.
    rounded = (odd + 0x7FFF + ((odd >> 16) & 1)) >> 16
    quiet = (odd >> 16) | 0x40  # the addition would overflow some NaNs into zeros
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")
