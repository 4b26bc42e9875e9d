"""The interface of payloads for the codec."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np

from fedsim.errors import DecodeError
from fedsim.ports import Array, Payload
from fedsim.wire.bitstream import Reader, varint, varint_size
from fedsim.wire.formats import ValueFormat

ANY_FORMAT = tuple(ValueFormat)
FLOAT32_ONLY = (ValueFormat.FLOAT32,)


class Encodable(Payload, Protocol):
    """A payload with an encoding: one byte for kind and format, and a body.

    Attributes:
        kind: the number of its class, 1 to 15.
        formats: the value formats that its numbers may have.
    """

    kind: ClassVar[int]
    formats: ClassVar[tuple[ValueFormat, ...]]

    @property
    def format(self) -> ValueFormat:
        """How one value is written."""
        ...

    def body(self) -> bytes:
        """Write what follows the first byte."""
        ...

    @classmethod
    def read(cls, reader: Reader, form: ValueFormat) -> Self:
        """Read what `body` wrote.

        Raises:
            DecodeError: it is no such body.
        """
        ...


def first_byte(kind: int, form: ValueFormat) -> int:
    """Return the byte that a payload starts with."""
    return kind << 4 | form.code


def frozen(values: Array) -> Array:
    """Return the array, read-only from now on: what arrived is not for a receiver to change."""
    values.flags.writeable = False
    return values


# The payload of what is no vector: bytes that a method has written, and reads as they are.


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


# The payload that changes what its receiver holds, in place of saying it anew.

MOST_UPDATED = 16
"""How many vectors of one sender its receivers can hold: half a byte tells which it is."""


@dataclass(frozen=True, eq=False)
class Update:
    """A payload that is added to what its receiver holds of a vector of its sender.

    On the wire it is one byte more than what is added: a kind of its own in the high half, and in
    the low half which of the sender's vectors it changes. What was held before is not sent: the
    receiver knows it (`Unpacking` of `fedsim.protocol.transport`), and a sender only where nothing
    is lost on the way.

    Attributes:
        sent: what is added.
        number: which of the sender's vectors that is, below `MOST_UPDATED`.
        before: what was held until now, shape (d,); None for nothing yet, which is zero.
        note: its sender's, which is not sent.
    """

    kind: ClassVar[int] = 10
    sent: Encodable
    number: int = 0
    before: Array | None = None
    note: object = None

    @cached_property
    def values(self) -> Array:
        """What is held from now on, read-only, shape (d,)."""
        before = 0.0 if self.before is None else self.before
        with np.errstate(invalid="ignore"):
            return frozen(np.asarray(before + self.sent.values))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 + self.sent.bits

    def added_to(self, held: Array | None) -> "Update":
        """Return the same change of what a receiver holds.

        Raises:
            DecodeError: that is of another shape.
        """
        if held is not None and held.shape != self.sent.values.shape:
            seen = self.sent.values.shape
            raise DecodeError(f"an update of shape {seen} to what is held in shape {held.shape}")
        return Update(self.sent, self.number, held)
