"""The messages of secure aggregation, and their payloads.

A round of a method has four interactions (Bonawitz et al. 2017, figure 4; So et al. 2022, algorithm
1): public keys, encrypted shares, the method's own message with the answer in masked integers, and
what removes the masks. Where groups vote on their silence, or supports are united, a notice comes
before the masked integers; with the consistency check, signatures come after them. What encryption
and lists of clients add is in payloads of its own, called `framing`.
"""

from dataclasses import dataclass, make_dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fedsim.core.errors import Failed
from fedsim.core.ports import Array, Message, Payload
from fedsim.protocol.secrecy.integers import Integers

_NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False, slots=True)
class Secret:
    """Keys, shares or a list of clients, which no method reads.

    Attributes:
        bits: their exact length.
        data: what they are; None if they are only counted.
    """

    bits: int
    data: Any = None

    @property
    def values(self) -> Array:
        """No values."""
        return _NOTHING


class Part(NamedTuple):
    """A vector in a message.

    Attributes:
        name: the field of the message.
        shape: the shape of the vector.
        size: the number of its coordinates that are sent.
        packed: the name under which it was packed.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    packed: str


Layout = tuple[Part, ...]
"""The vectors of a message, in their order."""


@dataclass(frozen=True, eq=False, slots=True)
class Masked:
    """All vectors of a client's message as one vector of integers modulo R, masked.

    Attributes:
        bits: its length, that of R for every coordinate.
        integers: the coordinates; not masked if masks are only counted.
        kind: the class of the message, as its header has it; None for a zero of a silent client.
        layout: its fields.
    """

    bits: int
    integers: Integers
    kind: type[Message] | None
    layout: Layout

    @property
    def values(self) -> Array:
        """No values: `SecretServer.aggregate` has those of the sum."""
        return _NOTHING


@dataclass(frozen=True, eq=False, slots=True)
class Rounded:
    """A client's vector as integers, before they are masked; it never leaves the client.

    Attributes:
        values: the vector that the server adds up.
        integers: the integers of the coordinates that are sent, shape (size,).
        bits: their length in a masked message.
        packed: the name under which it was packed.
    """

    values: Array
    integers: Integers
    bits: int
    packed: str


@dataclass(frozen=True, eq=False, slots=True)
class Sealed:
    """A vector of a single reply, which the server has not.

    Attributes:
        bits: its length.
        reason: why it cannot be read.
    """

    bits: int
    reason: str

    @property
    def values(self) -> NoReturn:
        """Raise `Failed`: the server only has the sum."""
        raise Failed(self.reason)


@dataclass(frozen=True, slots=True)
class KeyRequest(Message):
    """Server to client: the round begins, send public keys."""


@dataclass(frozen=True, slots=True)
class PublicKeys(Message):
    """Client to server: its public keys."""

    carries_reports = False

    keys: Payload


@dataclass(frozen=True, slots=True)
class NeighbourKeys(Message):
    """Server to client: the public keys of its neighbours."""

    keys: Payload
    framing: Payload


@dataclass(frozen=True, slots=True)
class EncryptedShares(Message):
    """Client to server: a share for each neighbour, encrypted for it."""

    carries_reports = False

    shares: Payload
    framing: Payload


@dataclass(frozen=True, slots=True)
class Notice(Message):
    """Client to server, before its vectors: its vote, and where its integers are not zero."""

    carries_reports = False

    vote: Payload
    support: Payload


@dataclass(frozen=True, slots=True)
class InputRequest(Message):
    """Server to client: send the vectors, at these coordinates."""

    support: Payload
    framing: Payload


@dataclass(frozen=True, slots=True)
class MaskedInput(Message):
    """Client to server: its vectors, masked."""

    carries_reports = False

    vector: Payload


@dataclass(frozen=True, slots=True)
class ConsistencyRequest(Message):
    """Server to client: sign the list of the clients whose vectors are in the sum."""

    framing: Payload


@dataclass(frozen=True, slots=True)
class SignedList(Message):
    """Client to server: its signature of that list."""

    carries_reports = False

    signature: Payload


@dataclass(frozen=True, slots=True)
class UnmaskRequest(Message):
    """Server to client: which clients' vectors are in the sum."""

    framing: Payload


@dataclass(frozen=True, slots=True)
class SignedUnmaskRequest(UnmaskRequest):
    """Server to client: which clients have signed the list of those in the sum."""

    signatures: Payload


@dataclass(frozen=True, slots=True)
class Unmasking(Message):
    """Client to server: what removes the masks of the sum."""

    carries_reports = False

    shares: Payload


def with_shares(kind: type[Message]) -> type[Any]:
    """Return the class of a method's message together with the encrypted shares for its receiver.

    It is a subclass with two more fields, and has the same label. So handlers, updates and
    repetitions treat it as the method's message.
    """
    if kind not in _WITH_SHARES:
        fields = [("secrecy_shares", Payload), ("secrecy_framing", Payload)]
        made: Any = make_dataclass(kind.__name__, fields, bases=(kind,), frozen=True, slots=True)
        made.label = kind.label
        _WITH_SHARES[kind] = made
    return _WITH_SHARES[kind]


_WITH_SHARES: dict[type[Message], type[Any]] = {}
