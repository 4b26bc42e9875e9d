"""Conversion between contents of Flower messages and of fedsim messages.

The model is a vector that is packed, rounded and compressed like any other. All other parts are
sent as bytes: settings and metrics in Flower's own encoding, and arrays of other than
floating-point numbers as they lie in memory.

Arrays are serialised in NumPy's format. A model's arrays have the same few headers in every
message, and NumPy parses each of them again, which takes longer than all other steps for a small
array; so headers are cached here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.wire.bitstream import Reader, varint

_MOST = 4096
"""The largest number of cached headers."""

_known: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}
"""Type and shape by header, for headers written by this process."""


def write_npy(array: NDArray[Any]) -> bytes:
    """Return an array in NumPy's format."""
    return _header(array.dtype, array.shape) + array.tobytes()


def read_npy(array: FlowerArray) -> NDArray[Any]:
    """Read an array in NumPy's format; one with an unknown header is read by Flower."""
    data = array.data
    header = _known.get(data[: 10 + int.from_bytes(data[8:10], "little")])
    if header is None:
        return array.numpy()
    dtype, shape = header
    start = len(data) - dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


@lru_cache(maxsize=_MOST)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of an array in C order."""
    stream = BytesIO()
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    header = stream.getvalue()
    if len(_known) < _MOST:
        _known[header] = dtype, shape
    return header


# The arrays of a model as one vector: their names, types, shapes and order.

Arrays = Mapping[str, NDArray[Any]]
"""The arrays of a model by their names, in order."""


@dataclass(frozen=True)
class ArrayLayout:
    """The names, types and shapes of a model's arrays, the same for server and clients.

    The concatenated arrays of floating-point numbers are the vector that methods treat as the
    model. The others (such as counters of batches) are sent along byte by byte.

    Attributes:
        names: of the arrays, in order.
        dtypes, shapes: of each.
    """

    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, arrays: Arrays) -> "ArrayLayout":
        """Return the layout of some arrays."""
        values = list(arrays.values())
        return cls(tuple(arrays), tuple(v.dtype for v in values), tuple(v.shape for v in values))

    @cached_property
    def dimension(self) -> int:
        """The length d of the vector."""
        return sum(prod(self.shapes[place]) for place in self._floats)

    @cached_property
    def widest(self) -> np.dtype[Any]:
        """The widest floating-point type of the arrays."""
        return max((self.dtypes[place] for place in self._floats), key=lambda kind: kind.itemsize)

    @cached_property
    def _floats(self) -> tuple[int, ...]:
        """The indices of the arrays in the vector."""
        return tuple(n for n, dtype in enumerate(self.dtypes) if dtype.kind == "f")

    @cached_property
    def _others(self) -> tuple[int, ...]:
        return tuple(n for n in range(len(self.names)) if n not in self._floats)

    def flat(self, arrays: Arrays) -> Array:
        """Return the vector, shape (d,)."""
        values = list(arrays.values())
        parts = [np.ravel(values[place]) for place in self._floats]
        return np.concatenate(parts, dtype=np.float64) if parts else np.zeros(0)

    def rest(self, arrays: Arrays) -> bytes:
        """Return the bytes of the arrays that are not in the vector."""
        values = list(arrays.values())
        return b"".join(
            np.ascontiguousarray(values[place], self.dtypes[place]).tobytes()
            for place in self._others
        )

    def arrays(self, flat: Array, rest: bytes) -> dict[str, NDArray[Any]]:
        """Return the arrays from a vector, shape (d,), and the bytes of the other arrays."""
        made: dict[int, NDArray[Any]] = {}
        at = 0
        for place in self._floats:
            size = prod(self.shapes[place])
            made[place] = flat[at : at + size].astype(self.dtypes[place])
            at += size
        at = 0
        for place in self._others:
            dtype, count = self.dtypes[place], prod(self.shapes[place])
            made[place] = np.frombuffer(rest, dtype, count, at).copy()
            at += dtype.itemsize * count
        return {
            name: made[place].reshape(self.shapes[place]) for place, name in enumerate(self.names)
        }

    def misfit(self, arrays: Arrays, *, exact: bool = True) -> str:
        """Return how arrays differ from this layout; empty if they do not.

        Args:
            arrays: in order.
            exact: whether their types must be the same.
        """
        if len(arrays) != len(self.names):
            return f"{len(arrays)} arrays, where the model has {len(self.names)}"
        if tuple(arrays) != self.names:
            seen = next(name for name, due in zip(arrays, self.names, strict=True) if name != due)
            return f"an array '{seen}', where the model has {', '.join(self.names)}"
        parts = zip(arrays.items(), self.shapes, self.dtypes, strict=True)
        for (name, array), shape, dtype in parts:
            if array.shape != shape:
                return f"array '{name}' of shape {array.shape}, where the model has {shape}"
            if exact and array.dtype != dtype:
                return f"array '{name}' of {array.dtype}, where the model has {dtype}"
        return ""


_ARRAYS, _SETTINGS, _FIGURES = 0, 1, 2
_NUMPY = "numpy.ndarray"


class Misfit(ValueError):
    """Arrays do not match those of the model."""


@dataclass(frozen=True)
class FlowerContent:
    """The content of a message.

    Attributes:
        flat: the model's vector, shape (d,); None without a model.
        rest: all other parts, in bytes.
    """

    flat: Array | None
    rest: bytes


def encode(content: RecordDict, layout: ArrayLayout, *, exact: bool = True) -> FlowerContent:
    """Return a Flower content in the form for the wire.

    Args:
        content: at most one record of arrays, and any others.
        layout: of the model.
        exact: whether arrays must have the types of the model.

    Raises:
        Misfit: its arrays do not match those of the model.
    """
    flat: Array | None = None
    parts: list[bytes] = []
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            if flat is not None:
                raise Misfit(
                    f"a second record of arrays, '{name}'; only one, the model, can be sent"
                )
            arrays = numpy_of(record)
            if misfit := layout.misfit(arrays, exact=exact):
                raise Misfit(misfit)
            flat = layout.flat(arrays)
            parts.append(_part(_ARRAYS, name, layout.rest(arrays)))
        elif isinstance(record, ConfigRecord):
            parts.append(_part(_SETTINGS, name, record.deflate()))
        else:
            parts.append(_part(_FIGURES, name, record.deflate()))
    return FlowerContent(flat, b"".join(parts))


def read(content: FlowerContent, layout: ArrayLayout, *, legacy: bool) -> RecordDict:
    """Return the Flower content that `encode` converted.

    Args:
        content: as received.
        layout: of the model.
        legacy: whether arrays are in the form for clients of the older interface.
    """
    records = RecordDict()
    for kind, name, body in _parts(content.rest):
        if kind == _SETTINGS:
            records[name] = ConfigRecord.inflate(body)
        elif kind == _FIGURES:
            records[name] = MetricRecord.inflate(body)
        else:
            flat = np.zeros(layout.dimension) if content.flat is None else content.flat
            records[name] = record_of(layout.arrays(flat, body), legacy=legacy)
    return records


def numpy_of(record: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Return the arrays of a record by name."""
    return {name: read_npy(array) for name, array in record.items() if array.data}


def record_of(arrays: Arrays, *, legacy: bool) -> ArrayRecord:
    """Return a record of arrays, in the form for clients of either interface."""
    if legacy:
        made = {
            name: FlowerArray(dtype="", shape=(), stype=_NUMPY, data=write_npy(array))
            for name, array in arrays.items()
        }
    else:
        made = {
            name: FlowerArray(str(array.dtype), array.shape, _NUMPY, write_npy(array))
            for name, array in arrays.items()
        }
    return ArrayRecord(made)


def _part(kind: int, name: str, body: bytes) -> bytes:
    """Write a record: its kind, its name and its body, each with its length."""
    text = name.encode()
    return bytes([kind]) + varint(len(text)) + text + varint(len(body)) + body


def _parts(data: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Yield the records written by `_part`."""
    reader = Reader(data)
    while reader.left:
        kind = reader.byte()
        name = bytes(reader.take(reader.varint())).decode()
        yield kind, name, bytes(reader.take(reader.varint()))
