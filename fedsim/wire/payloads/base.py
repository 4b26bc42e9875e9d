"""The interface between payloads and the codec; bytes, and updates of a receiver's vector."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np

from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array, Payload
from fedsim.wire.bitstream import Reader, varint, varint_size
from fedsim.wire.formats import ValueFormat

ANY_FORMAT = tuple(ValueFormat)
FLOAT32_ONLY = (ValueFormat.FLOAT32,)


class Encodable(Payload, Protocol):
    """A payload with an encoding: one byte for kind and format, and a body.

    Attributes:
        kind: the number of the class, 1 to 15.
        formats: the admissible formats of its numbers.
    """

    kind: ClassVar[int]
    formats: ClassVar[tuple[ValueFormat, ...]]

    @property
    def format(self) -> ValueFormat:
        """The format of one value."""
        ...

    def body(self) -> bytes:
        """Encode everything after the first byte."""
        ...

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Decode the output of `body`.

        Raises:
            DecodeError: the input is not a body of this class.
        """
        ...


def first_byte(kind: int, form: ValueFormat) -> int:
    """Return the first byte of a payload."""
    return kind << 4 | form.code


def frozen(values: Array) -> Array:
    """Return the array, made read-only: payloads are shared by all their receivers."""
    values.flags.writeable = False
    return values


# Bytes that a method encodes and decodes itself, in place of a vector.


@dataclass(frozen=True, eq=False)
class Octets:
    """Bytes, such as settings sent along with a model; they are neither compressed nor rounded.

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
        """Encode the number of bytes, and the bytes."""
        return varint(len(self.data)) + self.data

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Read the bytes."""
        return cls(bytes(reader.take(reader.varint())))


# A change of the vector that the receiver has, in place of the whole vector.

MOST_UPDATED = 16
"""The largest number of vectors of one sender that updates can change: half a byte numbers them."""


@dataclass(frozen=True, eq=False)
class Update:
    """A payload that is added to the receiver's copy of one of the sender's vectors.

    Its encoding is one byte longer than that of the added payload: the kind in the high half, and
    in the low half the number of the vector. The previous value is not sent. The receiver adds to
    its own copy (`added_to`, called by `Unpacking` of `fedsim.protocol.transport`), because the
    sender's copy, `before`, is wrong after a lost message.

    Attributes:
        sent: the payload that is added.
        number: the number of the vector among its sender's, below `MOST_UPDATED`.
        before: the vector before the update, shape (d,); None for zero.
        note: the note of the sender; it is not sent.
    """

    kind: ClassVar[int] = 10
    sent: Encodable
    number: int = 0
    before: Array | None = None
    note: object = None

    @cached_property
    def values(self) -> Array:
        """The vector after the update, read-only, shape (d,)."""
        before = 0.0 if self.before is None else self.before
        with np.errstate(invalid="ignore"):
            return frozen(np.asarray(before + self.sent.values))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 + self.sent.bits

    def added_to(self, held: Array | None) -> "Update":
        """Return the same change of the receiver's vector.

        Raises:
            DecodeError: the vector has another shape.
        """
        if held is not None and held.shape != self.sent.values.shape:
            seen = self.sent.values.shape
            raise DecodeError(f"an update of shape {seen} to a vector of shape {held.shape}")
        return Update(self.sent, self.number, held)
