"""The payload of what is no vector: bytes that a method has written, and reads as they are."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from fedsim.ports import Array
from fedsim.wire.bitstream import varint, varint_size
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.base import frozen
from fedsim.wire.reader import Reader


@dataclass(frozen=True, eq=False)
class Octets:
    """Bytes, such as the settings that go with a model; nothing compresses or rounds them.

    Attributes:
        data: the bytes.
    """

    kind: ClassVar[int] = 11
    formats: ClassVar[tuple[ValueFormat, ...]] = (ValueFormat.FLOAT64,)
    format: ClassVar[ValueFormat] = ValueFormat.FLOAT64
    data: bytes

    @cached_property
    def values(self) -> Array:
        """The bytes as numbers, read-only, shape (n,)."""
        return frozen(np.frombuffer(self.data, np.uint8).astype(np.float64))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 * (1 + varint_size(len(self.data)) + len(self.data))

    def body(self) -> bytes:
        """Write how many there are, and the bytes."""
        return varint(len(self.data)) + self.data

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:  # noqa: ARG003
        """Read the bytes."""
        return cls(bytes(reader.take(reader.varint())))
