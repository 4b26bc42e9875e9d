"""The payload of a vector that is encoded in parts, such as the layers of a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np

from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire.bitstream import Reader, varint, varint_size
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.base import Encodable, first_byte, frozen
from fedsim.wire.payloads.dense import Dense, LowRank
from fedsim.wire.payloads.quantized import FourBits, Powers, Quantized, Sign, SparsePowers
from fedsim.wire.payloads.sparse import SeededSparse, Sparse

_KINDS: tuple[type[Encodable], ...] = (
    Dense,
    Sparse,
    SeededSparse,
    Quantized,
    Sign,
    Powers,
    SparsePowers,
    LowRank,
    FourBits,
)
_READERS: Mapping[int, tuple[type[Encodable], ValueFormat]] = MappingProxyType(
    {first_byte(kind.kind, form): (kind, form) for kind in _KINDS for form in kind.formats}
)


@dataclass(frozen=True, eq=False)
class PartsPayload:
    """Consecutive parts of a vector, each with a payload of its own.

    Attributes:
        parts: the payloads, each of a vector.
    """

    kind: ClassVar[int] = 12
    formats: ClassVar[tuple[ValueFormat, ...]] = (ValueFormat.FLOAT64,)
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT64
    parts: tuple[Encodable, ...]

    @property
    def dimension(self) -> int:
        """The number of coordinates, d."""
        return sum(map(_coordinates, self.parts))

    @cached_property
    def values(self) -> Array:
        """The concatenated parts, read-only, shape (d,)."""
        return frozen(np.concatenate([np.zeros(0), *(part.values for part in self.parts)]))

    @cached_property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (1 + varint_size(len(self.parts))) + sum(part.bits for part in self.parts)

    def body(self) -> bytes:
        """Encode the number of parts, and each part with its first byte."""
        bodies = (bytes([first_byte(part.kind, part.format)]) + part.body() for part in self.parts)
        return varint(len(self.parts)) + b"".join(bodies)

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the parts; the limit of a vector's dimension holds for all of them together."""
        count = reader.varint()
        reader.expect(8 * count)
        # A part of a few bytes may announce `LARGEST_DIMENSION` coordinates. Without a limit on the
        # sum, a short message of many parts would decode to a vector that exhausts the memory.
        parts, coordinates = [], 0
        for _ in range(count):
            part = _part(reader)
            coordinates += _coordinates(part)
            if coordinates > reader.largest:
                raise DecodeError(f"parts of {coordinates} coordinates; at most {reader.largest}")
            parts.append(part)
        return cls(tuple(parts))


def _part(reader: Reader) -> Encodable:
    first = reader.byte()
    if first not in _READERS:
        raise DecodeError(f"no part starts with byte {first:#04x}")
    kind, form = _READERS[first]
    part = kind.read(reader, form)
    if isinstance(part, Dense) and part.values.ndim != 1:
        raise DecodeError(f"a part of shape {part.values.shape} is no vector")
    return part


def _coordinates(part: Encodable) -> int:
    """Return the number of coordinates of a part, without decoding them where possible."""
    if isinstance(part, Sparse | SeededSparse | SparsePowers | Quantized | LowRank):
        return part.dimension
    return part.values.size
