"""Arrays as Flower serialises them, NumPy's own format, without parsing a header every time.

A model's arrays have the same few headers in every message; NumPy makes and parses each of them
anew, which takes longer than all else that becomes of a small array.
"""

from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array
from numpy.typing import NDArray

_MOST = 4096
"""How many headers are kept."""

_known: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}
"""What the headers say that were written here."""


def write(array: NDArray[Any]) -> bytes:
    """Return an array in NumPy's format."""
    return _header(array.dtype, array.shape) + array.tobytes()


def read(array: Array) -> NDArray[Any]:
    """Return an array of Flower's; what has no header that is known, as Flower reads it."""
    data = array.data
    known = _known.get(data[: 10 + int.from_bytes(data[8:10], "little")])
    if known is None:
        return array.numpy()
    dtype, shape = known
    start = len(data) - dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


@lru_cache(maxsize=_MOST)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what stands in front of the numbers of an array in C order."""
    stream = BytesIO()
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    header = stream.getvalue()
    if len(_known) < _MOST:
        _known[header] = dtype, shape
    return header
