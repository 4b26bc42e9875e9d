"""Messages: payloads with exact bits, their packers, and the messages made of them."""

from dataclasses import Field, dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

Array = NDArray[np.float64]
"""Models, gradients and what arrives of them: always float64 when computed with."""

ClientId = int
"""Clients are numbered 0 .. M-1 in the order of the fleet; `SERVER` is the other node."""

SERVER: ClientId = -1


def node_name(node: int) -> str:
    """Return what a node is called: "server" for -1, "client-3" for 3."""
    return "server" if node < 0 else f"client-{node}"


class Payload(Protocol):
    """What a message carries: exact bits on the wire, and the value that arrives."""

    @property
    def values(self) -> Array:
        """The decoded array, read-only: what the receiver computes with."""
        ...

    @property
    def bits(self) -> int:
        """The length of the encoding in bits, header excluded."""
        ...


Note_co = TypeVar("Note_co", covariant=True, default=object)


@dataclass(frozen=True, eq=False)
class Noted(Generic[Note_co]):
    """A payload, and what its sender has noted of it, for the case that it is lost.

    The note goes where the payload goes on the sender's side, and is not sent.

    Attributes:
        sent: the payload.
        note: whatever the sender has to know to take it back.
    """

    sent: Payload
    note: Note_co

    @property
    def values(self) -> Array:
        """What arrives."""
        return self.sent.values

    @property
    def bits(self) -> int:
        """The length of the encoding, which has no note."""
        return self.sent.bits


@dataclass(frozen=True, slots=True)
class Structure:
    """What a sender knows of its vectors beside their values, so that fewer bits say them.

    Attributes:
        kind: nothing (dense), that zeros abound (sparse), that all entries have one magnitude
            (sign), or that the vector is a matrix of low rank, read row by row (low-rank).
        rows: of that matrix.
    """

    kind: Literal["dense", "sparse", "sign", "low-rank"] = "dense"
    rows: int = 0


DENSE = Structure()
SPARSE = Structure("sparse")
SIGNS = Structure("sign")


class Meaning(Enum):
    """What its receiver does with a vector, from which follows what may become of it on the way.

    STATE: it replaces what was there, as a model does. Errors that are kept would be added to
        what follows over and over; of two that come out of order, the older one is wrong.
    INCREMENT: it is added to what is there, as a gradient step is. An error that is kept and
        added to a later one is made good, and one that comes late is as good as late gradients.
    DIFFERENCE: it is added to what both sides keep account of, which it is the difference to.
        Errors are part of the next difference; but a single one that is left out is missed for
        ever, unless its sender knows and takes it back.
    ESTIMATE: more than a sum is made of it, so that it has to be right in the mean by itself.
    EXACT: nothing may compress it.
    """

    STATE = "state"
    INCREMENT = "increment"
    DIFFERENCE = "difference"
    ESTIMATE = "estimate"
    EXACT = "exact"


class Packer(Protocol):
    """Turns the vectors of one sender into payloads, one after the other."""

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return what is sent for a vector, shape (d,); its `values` are what arrives.

        A number, shape (), goes as it is. So does a vector that nothing compresses, in the
        shortest way that its structure allows.
        """
        ...

    def take_back(self, payload: Payload) -> None:
        """Forget a payload that is known to be lost, as if it had never been packed."""
        ...


class Message:
    """What one node tells another: a frozen dataclass, every field of it a payload.

    A class of messages is named after what it says. Its `label`, the class name in
    lower case, is the name that the event log knows it by.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Payload]]]
    label: ClassVar[str] = "message"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.label = cls.__name__.lower()

    def payloads(self) -> tuple[Payload, ...]:
        """Return the payloads in the order of the fields."""
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])

    @property
    def bits(self) -> int:
        """The payload bits of the whole message, header excluded."""
        bits = 0
        for name in self.__dataclass_fields__:
            bits += getattr(self, name).bits
        return bits


@dataclass(frozen=True, slots=True)
class Beacon(Message):
    """An empty message: "I am here and have nothing to send". Only its header is charged."""


class Silence(Enum):
    """The type of `SILENCE`."""

    SILENCE = "silence"


SILENCE = Silence.SILENCE
"""What a handler returns when its client keeps quiet this round."""


class Reply(NamedTuple):
    """What reached the server from a client.

    Attributes:
        client: the sender.
        round: the round whose broadcast it answers; smaller than the current one when late.
        message: what was said, of one of the classes that the method's clients answer with.
    """

    client: ClientId
    round: int
    message: Any
