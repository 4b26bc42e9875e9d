"""Message transport: envelopes, encoded at the sender and decoded at each receiver.

The sender encodes a message once, when it creates the envelope; a broadcast is one envelope for all
receivers. Each receiver decodes a message on arrival, even if it does not use it: its copies of the
sender's vectors have to stay up to date.

`ValueTransport` carries the message objects themselves, which is fast. `ByteTransport` carries
bytes, as on the air: a receiver shares no object with the sender. Both give the same log.

`ClientProtocol`, the client's endpoint, is here as well: it only answers one envelope with another.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from fedsim.core.errors import DecodeError
from fedsim.core.ports import SERVER, SILENCE, Array, Beacon, ClientId, Message, Payload, Silence
from fedsim.wire import HEADER_BITS, Update, decode_message, encode_message
from fedsim.wire.bitstream import LARGEST_DIMENSION
from fedsim.wire.codec import Header, Sent
from fedsim.wire.packers import Packing

BEACON = Beacon()
"""The empty message, a shared singleton."""


class Envelope:
    """A message and its charged size; a broadcast is one envelope with several receivers.

    Attributes:
        message: the content.
        round: the round it belongs to.
        exchange: the number of the exchange that it opens or answers.
        payload_bits, header_bits, bits: the charged sizes of payload and header, and their sum.
        data: the encoded message; empty if the transport carries objects.
        word: the number of the message name in the log; -1 without a log.
    """

    __slots__ = (
        "bits",
        "data",
        "exchange",
        "header_bits",
        "message",
        "payload_bits",
        "round",
        "word",
    )

    def __init__(
        self, message: Message, round_number: int, exchange: int, header_bits: int, word: int = -1
    ) -> None:
        self.message = message
        self.round = round_number
        self.exchange = exchange
        self.payload_bits = message.bits
        self.header_bits = header_bits
        self.bits = self.payload_bits + header_bits
        self.word = word
        self.data = b""

    def with_message(self, message: Message) -> "Envelope":
        """Return the envelope with its message as decoded by a receiver."""
        return Envelope(message, self.round, self.exchange, self.header_bits, self.word)


class LocalProtocolError(RuntimeError):
    """This endpoint was called in a way that the protocol does not allow in its state."""


class RemoteProtocolError(RuntimeError):
    """The remote endpoint sent something that the protocol does not allow."""


class Unpacking:
    """A receiver's copies of its senders' vectors, for vectors that are sent as updates.

    The sender has the same copies, as long as nothing is lost. So every message that arrives is
    applied, whether or not it is used later.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[ClientId, int], Array] = {}

    def unpack(self, sender: ClientId, payload: Payload) -> Payload:
        """Return a payload as decoded by this receiver.

        Raises:
            DecodeError: an update has another shape than the vector to which it is added.
        """
        if not isinstance(payload, Update):
            return payload
        place = sender, payload.number
        added = payload.added_to(self._held.get(place))
        self._held[place] = added.values
        return added

    def read(self, sender: ClientId, message: Message) -> Message:
        """Return a message as decoded by this receiver; the same object if it has no update."""
        # All payloads are decoded if one is an update, in the order of the fields, as the sender
        # has packed them.
        for name in message.__dataclass_fields__:
            if isinstance(getattr(message, name), Update):
                return type(message)(*(self.unpack(sender, one) for one in message.payloads()))
        return message


Carry = Literal["values", "bytes"]
"""How messages go from node to node."""

Receive = Callable[[ClientId, Envelope], None]
"""Callback for an envelope and the client that sent it, or that receives it."""


class Transport(ABC):
    """Base class of the message transports.

    Args:
        types: the classes of the method's messages, in the order of their numbers; the transport
            refuses messages of other classes. None if the classes are not known, to accept all.
    """

    def __init__(self, types: Sequence[type[Message]] | None = None) -> None:
        self._known = types is not None
        self._types: tuple[type[Message], ...] = (Beacon, *(types or ()))
        self._numbers = {kind: number for number, kind in enumerate(self._types)}

    @abstractmethod
    def encode(self, envelope: Envelope, sender: ClientId) -> Envelope:
        """Encode an envelope for transmission and return it.

        Raises:
            LocalProtocolError: the message's class is not among the method's messages.
        """

    @abstractmethod
    def decode(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """Return an envelope as its receiver decodes it.

        Args:
            envelope: the received one.
            sender: its sender.
            unpacking: the receiver's decoder state.

        Raises:
            DecodeError: the bytes are not a message of the method.
        """

    def to_server(self, receive: Receive) -> Receive:
        """Wrap the server's receive callback with decoding."""
        unpacking = Unpacking()

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self.decode(envelope, client, unpacking))

        return arrived

    def to_clients(self, receive: Receive) -> Receive:
        """Wrap the clients' receive callback with decoding, with separate state for each client."""
        unpackings = defaultdict[ClientId, Unpacking](Unpacking)

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self.decode(envelope, SERVER, unpackings[client]))

        return arrived

    def _number(self, message: Message) -> int:
        number = self._numbers.get(type(message))
        if number is None:
            name, known = type(message).__name__, [kind.__name__ for kind in self._types]
            text = f"the method sends {name}, and its `messages` are {', '.join(known[1:])}"
            raise LocalProtocolError(f"{text}; add {name} to them")
        return number


class ValueTransport(Transport):
    """Messages arrive as the objects that were sent; receivers sum up the updates.

    Args:
        types: see `Transport`.
        updates: whether vectors may be sent as updates, as with EF21; otherwise no message has to
            be decoded.
    """

    def __init__(
        self, types: Sequence[type[Message]] | None = None, *, updates: bool = True
    ) -> None:
        super().__init__(types)
        self._updates = updates

    def to_server(self, receive: Receive) -> Receive:
        """See `Transport.to_server`."""
        return super().to_server(receive) if self._updates else receive

    def to_clients(self, receive: Receive) -> Receive:
        """See `Transport.to_clients`."""
        return super().to_clients(receive) if self._updates else receive

    def encode(self, envelope: Envelope, sender: ClientId) -> Envelope:
        """See `Transport.encode`."""
        if self._known and type(envelope.message) not in self._numbers:
            self._number(envelope.message)  # refuses it
        return envelope

    def decode(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """See `Transport.decode`."""
        message = unpacking.read(sender, envelope.message)
        return envelope if message is envelope.message else envelope.with_message(message)


VALUES = ValueTransport()
"""A transport for the messages of any method."""


class ByteTransport(Transport):
    """The sender encodes a message to bytes, and each receiver decodes them."""

    def __init__(self, types: Sequence[type[Message]]) -> None:
        super().__init__(types)
        # All receivers of a broadcast in this process share one decoding: payloads are frozen.
        self._last: tuple[bytes, int, tuple[Header, list[Sent]]] | None = None
        self._shared: Message | None = None  # the last message, if it has no updates

    def _decode(self, data: bytes, largest: int) -> tuple[Header, list[Sent]]:
        """Return the result of `decode_message`; decode the same message only once in a row."""
        if self._last is None or self._last[1] != largest or self._last[0] != data:
            # One payload more than any message has, so that a surplus is decoded and reported with
            # the name of the message. Still more payloads fail in the decoder.
            most = 1 + max(len(kind.__dataclass_fields__) for kind in self._types)
            decoded = decode_message(data, largest, most)
            self._last, self._shared = (data, largest, decoded), None
        return self._last[2]

    def encode(self, envelope: Envelope, sender: ClientId) -> Envelope:
        """Encode the message of an envelope.

        Raises:
            LocalProtocolError: the message is none of the method's, its encoding has another size
                than its declared bits, or a payload has no bits. Such a payload could not be told
                from an empty field.
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
            size, declared = 8 * len(envelope.data) - HEADER_BITS, envelope.payload_bits
            raise LocalProtocolError(f"a {message.label} of {declared} bits is encoded in {size}")
        return envelope

    def decode(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        """See `Transport.decode`; only the bytes of the envelope are read."""
        received = self.read(envelope.data, sender, unpacking)
        received.word = envelope.word  # for the log; it is not on the air
        return received

    def read(
        self,
        data: bytes,
        sender: ClientId,
        unpacking: Unpacking,
        largest: int = LARGEST_DIMENSION,
    ) -> Envelope:
        """Return the envelope of a message that arrived as bytes.

        Args:
            data: the encoded message.
            sender: the node that sent it.
            unpacking: the receiver's decoder state.
            largest: the largest accepted dimension of a vector.

        Raises:
            DecodeError: the bytes are no message of the method, or name another sender.
        """
        header, payloads = self._decode(data, largest)
        # The connection proves who sends. A client must not answer in the name of another one.
        if header.sender != sender:
            raise DecodeError(f"node {sender} sends a message in the name of node {header.sender}")
        message = self._shared
        if message is None:
            message = self._make_message(header, payloads, sender, unpacking)
            # A message with updates depends on what its receiver holds, so each receiver decodes it
            # anew.
            if not any(isinstance(payload, Update) for payload in payloads):
                self._shared = message
        return Envelope(message, header.round_number, header.exchange, HEADER_BITS)

    def _make_message(
        self, header: Header, payloads: list[Sent], sender: ClientId, unpacking: Unpacking
    ) -> Message:
        """Return a message of decoded payloads, as its receiver sees it."""
        types = self._types
        if header.message_type >= len(types):
            raise DecodeError(
                f"no message has the number {header.message_type}, only 0 to {len(types) - 1}"
            )
        kind = types[header.message_type]
        if len(payloads) != len(kind.__dataclass_fields__):
            due = len(kind.__dataclass_fields__)
            raise DecodeError(f"a {kind.label} has {due} payloads, but {len(payloads)} arrived")
        unpacked = [unpacking.unpack(sender, payload) for payload in payloads]
        return kind(*unpacked) if unpacked else _bare(kind)


def _bare(kind: type[Message]) -> Message:
    """Return a message without a payload; the beacon is a shared singleton."""
    return BEACON if kind is Beacon else kind()


# The client's endpoint: it receives requests, replies to them, and signals silence.


class ClientProtocol:
    """A client's endpoint of the protocol.

    Args:
        client: the number of the client.
        packing: the packers of its messages.
        beacons: whether an empty message signals silence.
        header_bits: the size of the header of every message.
        transport: carries the messages.
        server: the number of its server.

    Attributes:
        round: the round of the message that it answers; 0 before the first one.
        packing, server: see above.
    """

    __slots__ = ("_beacons", "_header_bits", "_transport", "id", "packing", "round", "server")

    def __init__(
        self,
        client: ClientId,
        packing: Packing,
        *,
        beacons: bool,
        header_bits: int,
        transport: Transport = VALUES,
        server: ClientId = SERVER,
    ) -> None:
        self.id = client
        self.server = server
        self.round = 0
        self.packing = packing
        self._beacons = beacons
        self._header_bits = header_bits
        self._transport = transport

    def open(self, envelope: Envelope) -> Message:
        """Receive an envelope; return its message."""
        self.round = envelope.round
        return envelope.message

    def answer(self, asked: Envelope, reply: Message | Silence) -> Envelope | None:
        """Return the envelope that answers a request; None if nothing is sent.

        Raises:
            TypeError: the reply is neither a message nor `SILENCE`.
        """
        if isinstance(reply, Message):
            sent: Message = reply
        elif reply is not SILENCE:
            raise TypeError(f"a handler returns a Message or SILENCE, not {reply!r}")
        elif self._beacons:
            sent = BEACON
        else:
            return None
        envelope = Envelope(sent, asked.round, asked.exchange, self._header_bits)
        return self._transport.encode(envelope, self.id)

    def take_back(self, message: Message) -> None:
        """Roll back the packers' state after the loss of a message."""
        payload: Payload
        for payload in message.payloads():
            self.packing.take_back(payload)
