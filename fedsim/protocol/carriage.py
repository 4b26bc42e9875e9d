"""Message transport: encoding at the sender, decoding at each receiver.

A message is encoded once, where its envelope is created: a broadcast once for all. Each receiver
decodes it on arrival, whether or not it is processed later, against the vectors that it holds of
its senders.

`Values` carries the objects themselves, and is what a simulation of many messages takes. `Bytes`
carries what would be on the air: nothing of a sender's objects reaches a receiver but bytes. The
log of a run is the same with either.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from fedsim.errors import DecodeError
from fedsim.ports import DENSE, SERVER, Array, Beacon, ClientId, Message, Packer, Payload, Structure
from fedsim.protocol.envelope import BEACON, Envelope, LocalProtocolError
from fedsim.wire import HEADER_BITS, Pending, Update, decode_message, encode_message

# Packing: encoding a sender's vectors as payloads, decoding payloads at a receiver.


class Packing:
    """The packers of one sender, created lazily per field.

    Broadcast and addressed vectors are separate fields, even under the same name: a receiver keeps
    separate state for each.

    Args:
        make: returns the packer of a field, by its name and its number from 0; where it is
            for one receiver alone, that is the third argument.
        sender: its number, for a `make` that takes it as first argument; else None.
    """

    __slots__ = ("_field", "_make", "_numbers", "_others", "_packer", "_sender")

    def __init__(self, make: Callable[..., Packer], sender: ClientId | None = None) -> None:
        self._make = make
        self._sender = sender
        # Most senders have one field, and it is for all: that takes no tables.
        self._field: str | None = None
        self._packer: Packer
        self._numbers: dict[tuple[str, bool], int] | None = None
        self._others: dict[tuple[str, ClientId | None], Packer] | None = None

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Payload:
        """See `fedsim.ports.Server.pack`."""
        if to is None and field == self._field:
            return self._packer.pack(vector, structure)
        if to is None and self._field is None and self._others is None:
            self._packer, self._field = self._make_packer(field, 0, to), field
            return self._packer.pack(vector, structure)
        return self._other(field, to).pack(vector, structure)

    def _other(self, field: str, to: ClientId | None) -> Packer:
        """Return the packer of an addressed field or of any field but the first."""
        if self._others is None:
            self._others = {}
            self._numbers = {} if self._field is None else {(self._field, True): 0}
        packer = self._others.get((field, to))
        if packer is None:
            numbers = {} if self._numbers is None else self._numbers
            number = numbers.setdefault((field, to is None), len(numbers))
            packer = self._others[field, to] = self._make_packer(field, number, to)
        return packer

    def _make_packer(self, field: str, number: int, to: ClientId | None) -> Packer:
        sender = () if self._sender is None else (self._sender,)
        return self._make(*sender, field, number, *(() if to is None else (to,)))

    def take_back(self, payload: Payload) -> None:
        """Offer a lost payload to every packer; only the one that encoded it rolls back."""
        if self._field is not None:
            self._packer.take_back(payload)
        for packer in (self._others or {}).values():
            packer.take_back(payload)

    def repeat(
        self, message: Message | Mapping[ClientId, Message]
    ) -> Message | Mapping[ClientId, Message]:
        """Return a message, or one for each client, re-encoded for a second transmission.

        It is the same, but for vectors that come as updates (EF21). A client that has received
        one has added it already, so what follows is the update to what the sender holds by then.
        """
        if isinstance(message, Message):
            return self._repeat(message, None)
        return {client: self._repeat(one, client) for client, one in message.items()}

    def _repeat(self, message: Message, to: ClientId | None) -> Message:
        payloads = message.payloads()
        if not any(isinstance(payload, Update) for payload in payloads):
            return message
        return type(message)(
            *(
                self._by_number(payload.number, to).pack(payload.values)
                if isinstance(payload, Update)
                else payload
                for payload in payloads
            )
        )

    def _by_number(self, number: int, to: ClientId | None) -> Packer:
        """Return the packer of the vector that has a number."""
        for (field, for_all), each in (self._numbers or {}).items():
            if each == number and (not for_all or field != self._field):
                return (self._others or {})[field, to]
        return self._packer


def resolve_pending(
    message: Message | Mapping[ClientId, Message], clients: Sequence[ClientId]
) -> Message | Mapping[ClientId, Message]:
    """Return a message with its pending vectors encoded for the given receivers.

    Args:
        message: for all, or one for each.
        clients: the receivers.

    Returns:
        The same where nothing was pending; one for each client where they are sent different
        payloads, and else one for all.
    """
    if isinstance(message, Message):
        if not _pending(message):
            return message
        each = _for_each(message, clients)
        first = next(iter(each.values()), message)
        return first if all(one is first for one in each.values()) else each
    groups: dict[int, list[ClientId]] = {}
    for client in clients:
        groups.setdefault(id(message[client]), []).append(client)
    made = dict(message)
    for group in groups.values():
        if _pending(one := message[group[0]]):
            made.update(_for_each(one, group))
    return made


def _pending(message: Message) -> bool:
    return any(isinstance(payload, Pending) for payload in message.payloads())


def _for_each(message: Message, clients: Sequence[ClientId]) -> dict[ClientId, Message]:
    """Return a message for each client; clients with equal payloads share one object."""
    columns = [
        payload.sent(clients) if isinstance(payload, Pending) else [payload] * len(clients)
        for payload in message.payloads()
    ]
    made: dict[tuple[int, ...], Message] = {}
    each: dict[ClientId, Message] = {}
    for client, payloads in zip(clients, zip(*columns, strict=True), strict=True):
        key = tuple(map(id, payloads))
        if key not in made:
            made[key] = type(message)(*payloads)
        each[client] = made[key]
    return each


class Unpacking:
    """One receiver's state of its senders' vectors, for those that come as updates.

    The sender's copy of this state agrees with it only as long as nothing is lost. Every arrival is
    applied, whether or not the message is used later.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[ClientId, int], Array] = {}

    def unpack(self, sender: ClientId, payload: Payload) -> Payload:
        """Return a payload as decoded by this receiver.

        Raises:
            DecodeError: an update is of another shape than what it is added to.
        """
        if not isinstance(payload, Update):
            return payload
        place = sender, payload.number
        added = payload.added_to(self._held.get(place))
        self._held[place] = added.values
        return added

    def read(self, sender: ClientId, message: Message) -> Message:
        """Return a message as decoded by this receiver: the same object if it holds no update."""
        for name in message.__dataclass_fields__:
            if isinstance(getattr(message, name), Update):
                return type(message)(*(self.unpack(sender, one) for one in message.payloads()))
        return message


Carry = Literal["values", "bytes"]
"""How messages go from node to node."""

Receive = Callable[[ClientId, Envelope], None]
"""Callback for an envelope that arrived from, or at, the client with that number."""


class Carriage(ABC):
    """Base class of the message transports.

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
        """Encode an envelope for transmission and return it.

        Raises:
            LocalProtocolError: the message's class is not among the method's messages.
        """

    @abstractmethod
    def open(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
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
            receive(client, self.open(envelope, client, unpacking))

        return arrived

    def to_clients(self, receive: Receive) -> Receive:
        """Wrap the clients' receive callback with decoding, with separate state for each client."""
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
    """Messages arrive as the objects that were sent; receivers sum up the updates.

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
            LocalProtocolError: it is none of the method's, its encoding has another size than its
                declared bits, or a payload has no bits, so that an empty field could not be
                identified.
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
    """Return a message without a payload; the beacon is a shared singleton."""
    return BEACON if kind is Beacon else kind()
