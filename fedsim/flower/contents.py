"""What Flower's messages carry, as what goes over a wire of fedsim's, and back.

The model is the vector that is packed, rounded and compressed as any other. All else goes byte by
byte: settings and figures in the encoding that Flower itself gives them, and arrays that are not
of floating-point numbers as they lie in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedsim.flower import npy
from fedsim.flower.layout import Arrays, Layout
from fedsim.ports import Array
from fedsim.wire.bitstream import varint
from fedsim.wire.reader import Reader

_ARRAYS, _SETTINGS, _FIGURES = 0, 1, 2
_NUMPY = "numpy.ndarray"

Others = ConfigRecord | MetricRecord


class Misfit(ValueError):
    """Arrays are not those of the model."""


@dataclass(frozen=True)
class Content:
    """What a message says.

    Attributes:
        flat: the model's vector, shape (d,); None where it has no model.
        rest: all else, in bytes.
    """

    flat: Array | None
    rest: bytes


def written(content: RecordDict, layout: Layout, *, exact: bool = True) -> Content:
    """Return what a content of Flower's is on a wire.

    Args:
        content: at most one record of arrays, and any others.
        layout: of the model.
        exact: whether arrays have to be of the types of the model.

    Raises:
        Misfit: its arrays are not those of the model.
    """
    flat: Array | None = None
    parts: list[bytes] = []
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            if flat is not None:
                raise Misfit(f"a second record of arrays, '{name}'; one, the model, can travel")
            arrays = numpy_of(record)
            if wrong := layout.misfit(arrays, exact=exact):
                raise Misfit(wrong)
            flat = layout.flat(arrays)
            parts.append(_part(_ARRAYS, name, layout.rest(arrays)))
        elif isinstance(record, ConfigRecord):
            parts.append(_part(_SETTINGS, name, record.deflate()))
        else:
            parts.append(_part(_FIGURES, name, record.deflate()))
    return Content(flat, b"".join(parts))


def read(content: Content, layout: Layout, *, legacy: bool) -> RecordDict:
    """Return the content of Flower's that `written` was given.

    Args:
        content: as it has arrived.
        layout: of the model.
        legacy: whether arrays are written as clients of the older interface read them.
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
    return {name: npy.read(array) for name, array in record.items() if array.data}


def record_of(arrays: Arrays, *, legacy: bool) -> ArrayRecord:
    """Return a record of arrays, as clients of either interface read them."""
    if legacy:
        made = {
            name: FlowerArray(dtype="", shape=(), stype=_NUMPY, data=npy.written(array))
            for name, array in arrays.items()
        }
    else:
        made = {
            name: FlowerArray(str(array.dtype), array.shape, _NUMPY, npy.written(array))
            for name, array in arrays.items()
        }
    return ArrayRecord(made)


def _part(kind: int, name: str, body: bytes) -> bytes:
    """Write a record: its kind, its name and its body, each with its length."""
    text = name.encode()
    return bytes([kind]) + varint(len(text)) + text + varint(len(body)) + body


def _parts(data: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Yield the records that `_part` has written."""
    reader = Reader(data)
    while reader.left:
        kind = reader.byte()
        name = bytes(reader.take(reader.varint())).decode()
        yield kind, name, bytes(reader.take(reader.varint()))
