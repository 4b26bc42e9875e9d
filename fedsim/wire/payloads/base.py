"""What the codec asks of a payload."""

from typing import ClassVar, Protocol, Self

from fedsim.ports import Array, Payload
from fedsim.wire.formats import ValueFormat
from fedsim.wire.reader import Reader

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
