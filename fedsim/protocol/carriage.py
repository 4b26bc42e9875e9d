"""Carriage: what becomes of a message between its sender and its receiver's handler.

A message is sealed once, where its envelope is made: a broadcast once for all. It is opened by
each of its receivers, as it arrives and whether or not anybody handles it later, by what that
receiver holds of its senders' vectors.

`Values` carries the objects themselves, and is what a simulation of many messages takes. `Bytes`
carries what would be on the air: nothing of a sender's objects reaches a receiver but bytes. The
log of a run is the same with either.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from fedsim.errors import DecodeError
from fedsim.ports import SERVER, Beacon, ClientId, Message
from fedsim.protocol.envelope import BEACON, Envelope
from fedsim.protocol.errors import LocalProtocolError
from fedsim.protocol.packing import Unpacking
from fedsim.wire import HEADER_BITS, decode_message, encode_message

Carry = Literal["values", "bytes"]
"""How messages go from node to node."""

Receive = Callable[[ClientId, Envelope], None]
"""Takes what has arrived, from the client or at the client of that number."""


class Carriage(ABC):
    """How the messages of a method are carried.

    Args:
        types: the classes of the method's messages, in the order of their numbers; a message of
            another class is refused. None where they are not known: then none is.
    """

    def __init__(self, types: Sequence[type[Message]] | None = None) -> None:
        self._known = types is not None
        self._types: tuple[type[Message], ...] = (Beacon, *(types or ()))
        self._numbers = {kind: number for number, kind in enumerate(self._types)}

    @abstractmethod
    def seal(self, envelope: Envelope, sender: ClientId) -> Envelope:
        """Make an envelope ready for its way, and return it.

        Raises:
            LocalProtocolError: its message is none of the method's.
        """

    @abstractmethod
    def open(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """Return an envelope as its receiver reads it.

        Args:
            envelope: that has arrived.
            sender: whose.
            unpacking: the receiver's.

        Raises:
            DecodeError: what has arrived is no message of the method.
        """

    def to_server(self, receive: Receive) -> Receive:
        """Return what a network calls for what arrives at the server."""
        unpacking = Unpacking()

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self.open(envelope, client, unpacking))

        return arrived

    def to_clients(self, receive: Receive) -> Receive:
        """Return what a network calls for what arrives at any of the clients."""
        unpackings = defaultdict[ClientId, Unpacking](Unpacking)

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self.open(envelope, SERVER, unpackings[client]))

        return arrived

    def _number(self, message: Message) -> int:
        number = self._numbers.get(type(message))
        if number is None:
            name, known = type(message).__name__, [kind.__name__ for kind in self._types]
            text = f"the method sends {name}, and its `messages` are {', '.join(known[1:])}"
            raise LocalProtocolError(f"{text}; add {name} to them")
        return number


class Values(Carriage):
    """Messages arrive as the objects that were sent; what is an update, their receiver adds up.

    Args:
        types: see `Carriage`.
        updates: whether vectors may come as updates, as under EF21; else nothing is opened.
    """

    def __init__(
        self, types: Sequence[type[Message]] | None = None, *, updates: bool = True
    ) -> None:
        super().__init__(types)
        self._updates = updates

    def to_server(self, receive: Receive) -> Receive:
        """See `Carriage.to_server`."""
        return super().to_server(receive) if self._updates else receive

    def to_clients(self, receive: Receive) -> Receive:
        """See `Carriage.to_clients`."""
        return super().to_clients(receive) if self._updates else receive

    def seal(self, envelope: Envelope, sender: ClientId) -> Envelope:  # noqa: ARG002
        """See `Carriage.seal`."""
        if self._known and type(envelope.message) not in self._numbers:
            self._number(envelope.message)  # refuses it
        return envelope

    def open(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """See `Carriage.open`."""
        message = unpacking.read(sender, envelope.message)
        return envelope if message is envelope.message else envelope.saying(message)


VALUES = Values()
"""Carries the messages of any method."""


class Bytes(Carriage):
    """Messages are encoded where they are sealed, and decoded by each receiver."""

    def __init__(self, types: Sequence[type[Message]]) -> None:
        super().__init__(types)

    def seal(self, envelope: Envelope, sender: ClientId) -> Envelope:
        """Encode the message of an envelope.

        Raises:
            LocalProtocolError: it is none of the method's, it takes other bits than it says, or
                one of its payloads takes none, so that nobody could tell whose place is empty.
            TypeError: one of its payloads has no encoding.
        """
        message = envelope.message
        payloads = message.payloads()
        if not all(payload.bits for payload in payloads):
            text = f"a {message.label} has a payload of no bits; leave its field out of the class"
            raise LocalProtocolError(text)
        envelope.data = encode_message(
            payloads,
            message_type=self._number(message),
            sender=sender,
            round_number=envelope.round,
            exchange=envelope.exchange,
        )
        if 8 * len(envelope.data) != HEADER_BITS + envelope.payload_bits:
            came, said = 8 * len(envelope.data) - HEADER_BITS, envelope.payload_bits
            raise LocalProtocolError(f"a {message.label} of {said} bits is encoded in {came}")
        return envelope

    def open(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """See `Carriage.open`; nothing of the envelope is read but its bytes."""
        came = self.read(envelope.data, sender, unpacking)
        came.word = envelope.word  # the log's, which is not on the air
        return came

    def read(self, data: bytes, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """Return the envelope of a message that came as bytes; arguments as for `open`.

        Raises:
            DecodeError: they are none of the method's messages, or the sender's.
        """
        header, payloads = decode_message(data)
        if header.sender != sender:
            raise DecodeError(f"node {sender} sends a message in the name of node {header.sender}")
        types = self._types
        if header.message_type >= len(types):
            raise DecodeError(
                f"no message has the number {header.message_type}, only 0 to {len(types) - 1}"
            )
        kind = types[header.message_type]
        if len(payloads) != len(kind.__dataclass_fields__):
            due = len(kind.__dataclass_fields__)
            raise DecodeError(f"a {kind.label} has {due} payloads, and {len(payloads)} came")
        unpacked = [unpacking.unpack(sender, payload) for payload in payloads]
        message = kind(*unpacked) if unpacked else _bare(kind)
        return Envelope(message, header.round_number, header.exchange, HEADER_BITS)


def _bare(kind: type[Message]) -> Message:
    """Return a message without a payload; a beacon is one object, whoever sends it."""
    return BEACON if kind is Beacon else kind()
