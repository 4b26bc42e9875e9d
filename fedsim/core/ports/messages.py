"""Messages, their payloads with exact bits, and the packers that create payloads."""

from dataclasses import Field, dataclass
from enum import Enum
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

Array = NDArray[np.float64]
"""Models, gradients and decoded values: always float64, whatever the format on the wire."""


def constant(values: NDArray[np.floating]) -> Array:
    """Return an array that nothing changes: the same one if it is constant already, else a copy.

    An array is constant if it is read-only and owns its memory. A caller that passes an array on
    and does not change it any more can make it read-only, which saves the copy of a long vector.

    Args:
        values: numbers of any shape.

    >>> model = np.ones(3)
    >>> constant(model) is model
    False
    >>> model.flags.writeable = False
    >>> constant(model) is model
    True
    """
    if not values.flags.writeable and values.base is None and values.dtype == np.float64:
        return cast("Array", values)
    copy = np.array(values, dtype=np.float64)
    copy.flags.writeable = False
    return copy


ClientId = int
"""The number of a client, 0 to M - 1 in fleet order; `SERVER` is the number of the server."""

SERVER: ClientId = -1


def node_name(node: int, clients: float = inf) -> str:
    """Return the name of a node: "server" for -1, "client-3" for 3, "gateway-3" beyond clients.

    Args:
        node: the number of the node.
        clients: the number of clients, if gateways have the numbers after theirs.
    """
    return "server" if node < 0 else f"{'client' if node < clients else 'gateway'}-{node}"


def clients_behind(clients: int, gateways: int) -> list[int]:
    """Return how many clients are behind each gateway of a tree, in contiguous blocks.

    >>> clients_behind(8, 5)
    [1, 2, 1, 2, 2]
    """
    ends = (number * clients // gateways for number in range(gateways + 1))
    return [end - begin for begin, end in pairwise(ends)]


class Payload(Protocol):
    """The content of a message: its exact length on the wire, and the decoded value."""

    @property
    def values(self) -> Array:
        """The decoded array, read-only, as the receiver computes with it."""
        ...

    @property
    def bits(self) -> int:
        """The length of the encoding in bits, header excluded."""
        ...


Note_co = TypeVar("Note_co", covariant=True, default=object)


@dataclass(frozen=True, eq=False)
class Noted(Generic[Note_co]):
    """A payload with a note of its sender, which the sender needs if the payload is lost.

    The note stays at the sender.

    Attributes:
        sent: the payload.
        note: the information with which the sender takes the payload back.
    """

    sent: Payload
    note: Note_co

    @property
    def values(self) -> Array:
        """The decoded array."""
        return self.sent.values

    @property
    def bits(self) -> int:
        """The length of the encoding, without the note."""
        return self.sent.bits


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of a vector, which may shorten its encoding.

    Attributes:
        kind: none (dense), many zeros (sparse), entries of equal magnitude (sign), or a matrix of
            low rank, flattened row by row (low-rank).
        rows: the number of rows of that matrix.
    """

    kind: Literal["dense", "sparse", "sign", "low-rank"] = "dense"
    rows: int = 0


DENSE = Structure()
SPARSE = Structure("sparse")
SIGNS = Structure("sign")


class Meaning(Enum):
    """How the receiver uses a vector, which determines the admissible compression and feedback.

    STATE: it replaces the receiver's vector, as a model does. Error feedback would add the same
        errors again and again; of two states that arrive out of order, the older one is wrong.
    INCREMENT: it is added to the receiver's vector, as a gradient step is. Error feedback corrects
        an error by a later increment, and a late increment is as useful as a late gradient.
    DIFFERENCE: it is the difference to a vector that sender and receiver both have, and is added to
        it. The next difference contains the error; but a lost one makes the two vectors differ for
        good, unless the sender detects the loss and takes it back.
    ESTIMATE: it enters expressions other than sums, so it must be unbiased by itself.
    EXACT: it must not be compressed.
    """

    STATE = "state"
    INCREMENT = "increment"
    DIFFERENCE = "difference"
    ESTIMATE = "estimate"
    EXACT = "exact"


class Packer(Protocol):
    """Converts the vectors of one sender into payloads; may keep state between them."""

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the payload of a vector, shape (d,); its `values` are the decoded vector.

        A number, shape (), is not compressed. Without a compressor, a vector is encoded in the
        shortest form that its structure allows.
        """
        ...

    def take_back(self, payload: Payload) -> None:
        """Undo the packing of a payload that is known to be lost."""
        ...


class Message:
    """A message between two nodes: a frozen dataclass whose fields are payloads.

    A class of messages is named after its content. Its `label`, the class name in lower case, is
    its name in the event log.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Payload]]]
    label: ClassVar[str] = "message"
    carries_reports: ClassVar[bool] = True
    """Whether a participation policy may add reports to it, if a client replies with it."""

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
"""Returned by a handler whose client does not transmit in this round (censoring)."""


class Reply(NamedTuple):
    """A message that the server has received from a client.

    Attributes:
        client: the sender.
        round: the round whose broadcast it answers; smaller than the current one for a late reply.
        message: of one of the classes that the method's clients answer with.
    """

    client: ClientId
    round: int
    message: Any
