"""A peer's endpoint: exchanges with its neighbours, counted separately by each node.

A node's exchange k is open until the message of exchange k has arrived from every neighbour still
present, or until its deadline. Messages of later exchanges are stored until theirs opens; messages
of earlier ones are dropped: they hold models that have been replaced.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from fedsim.core.ports import ClientId, Message, Reply, node_name
from fedsim.protocol.exchange import Exchange, Phase
from fedsim.protocol.server import Post, ReplyOutcome
from fedsim.protocol.transport import (
    BEACON,
    VALUES,
    Envelope,
    LocalProtocolError,
    RemoteProtocolError,
    Transport,
)
from fedsim.wire.packers import Packing

_BY_SENDER = itemgetter(0)


class PeerProtocol:
    """A node's endpoint of the peer protocol.

    Args:
        node: the number of the node.
        neighbours: the nodes that it sends to, in order.
        packing: the packers of its messages.
        beacons: whether it sends a beacon to a neighbour for which it has no message.
        deadline: the time from the opening of an exchange to its deadline, s; infinite for none.
        header_bits: the size of the header of every message.
        transport: carries the messages.
        senders: the nodes that it receives from, in order; by default its neighbours.
        known: where the graph changes, all nodes from which it may ever receive; see `meet`.

    Attributes:
        round: the current round, from 1.
        neighbours, senders: those that have not left.
        deadline: see above.
        packing: see above.
    """

    def __init__(
        self,
        node: ClientId,
        neighbours: Sequence[ClientId],
        packing: Packing,
        *,
        beacons: bool,
        deadline: float,
        header_bits: int,
        transport: Transport = VALUES,
        senders: Sequence[ClientId] | None = None,
        known: Collection[ClientId] | None = None,
    ) -> None:
        self.id = node
        self.round = 1
        self.neighbours = tuple(neighbours)
        self.senders = self.neighbours if senders is None else tuple(senders)
        self.deadline = deadline
        self.packing = packing
        self._receivers = frozenset(self.neighbours)
        self._known = frozenset(self.senders) if known is None else known
        self._gone: set[ClientId] = set()
        self._beacons = beacons
        self._header_bits = header_bits
        self._transport = transport
        self._exchanges = 0
        self._exchange: Exchange | None = None
        self._broken_off: Exchange | None = None
        self._early: dict[int, dict[ClientId, Envelope]] = {}  # by exchange and sender

    @property
    def next_exchange(self) -> int:
        """The number of the next exchange to open, from 1."""
        return self._exchanges + 1

    def meet(self, neighbours: Sequence[ClientId], senders: Sequence[ClientId]) -> None:
        """Set the neighbours and senders of the next exchange; nodes that have left are removed."""
        self.neighbours = tuple([node for node in neighbours if node not in self._gone])
        self.senders = tuple([node for node in senders if node not in self._gone])
        self._receivers = frozenset(self.neighbours)

    def open(self, message: Message | Mapping[ClientId, Message]) -> Post:
        """Open an exchange; return the envelopes to send with their receivers.

        Args:
            message: one message for all neighbours, or one each; neighbours left out receive none.

        Raises:
            LocalProtocolError: an exchange is open already.
            ValueError: a message is for a node that is no neighbour.
        """
        if self._exchange is not None:
            raise LocalProtocolError("an exchange is open already: a node has one at a time")
        # Before the exchange counts as open: a message for a node that is no neighbour leaves no
        # trace.
        post = self._post(message)
        self._exchanges += 1
        opened = Exchange(self._exchanges, set(self.senders))
        self._exchange = opened
        # Neighbours may be ahead by an exchange. Their messages are counted now that it is open.
        if self._early:
            for sender, envelope in self._early.pop(self._exchanges, {}).items():
                self._count(opened, sender, envelope)
        return post

    def _post(self, message: Message | Mapping[ClientId, Message]) -> Post:
        if isinstance(message, Message):
            return [(self._wrap(message), self.neighbours)] if self.neighbours else ()
        if strangers := sorted(message.keys() - self._receivers):
            names = ", ".join(map(node_name, strangers))
            raise ValueError(f"{names}: no neighbour of {node_name(self.id)}")
        quiet = BEACON if self._beacons else None
        sent = [(node, message.get(node, quiet)) for node in self.neighbours]
        # Successive neighbours with the same message object, such as a beacon, share an envelope.
        runs = groupby(sent, lambda pair: id(pair[1]))
        post: list[tuple[Envelope, Sequence[ClientId]]] = []
        for _, run in runs:
            receivers, messages = zip(*run, strict=True)
            if messages[0] is not None:
                post.append((self._wrap(messages[0]), receivers))
        return post

    def _wrap(self, message: Message) -> Envelope:
        envelope = Envelope(message, self.round, self._exchanges + 1, self._header_bits)
        return self._transport.encode(envelope, self.id)

    # -- received messages -------------------------------------------------------------

    def receive(self, sender: ClientId, envelope: Envelope) -> ReplyOutcome:
        """Receive a message and return its outcome.

        Raises:
            RemoteProtocolError: it is from no neighbour, of no exchange, or a duplicate.
        """
        number, exchange = envelope.exchange, self._exchange
        if exchange is not None and exchange.number == number and sender in exchange.waiting:
            if exchange.phase is not Phase.OPEN:  # closed by its deadline
                return ReplyOutcome.DROPPED
            closed = self._count(exchange, sender, envelope)
            return ReplyOutcome.CLOSED if closed else ReplyOutcome.COUNTED
        return self._receive_another(sender, envelope, number)

    def _receive_another(self, sender: ClientId, envelope: Envelope, number: int) -> ReplyOutcome:
        """Receive a message that the open exchange does not wait for."""
        if sender not in self._known or number < 1:
            text = f"{node_name(sender)} sends {node_name(self.id)} what it cannot: exchange"
            raise RemoteProtocolError(f"{text} {number}")
        exchange = self._exchange
        if number > self._exchanges:
            waiting = self._early.setdefault(number, {})
            if sender in waiting:
                raise self._twice(sender, number)
            waiting[sender] = envelope
            return ReplyOutcome.EARLY
        if exchange is None or exchange.number != number or exchange.over:
            return ReplyOutcome.DROPPED
        if sender in self.senders:
            raise self._twice(sender, number)
        # The sender was no longer a neighbour when this node opened the exchange.
        closed = self._count(exchange, sender, envelope)
        return ReplyOutcome.CLOSED if closed else ReplyOutcome.COUNTED

    def _twice(self, sender: ClientId, number: int) -> RemoteProtocolError:
        ends = f"{node_name(sender)} sends {node_name(self.id)}"
        return RemoteProtocolError(f"{ends} two messages of exchange {number}")

    def _count(self, exchange: Exchange, sender: ClientId, envelope: Envelope) -> bool:
        """Count a message; return whether the exchange is over."""
        if envelope.message is not BEACON:
            exchange.replies.append(Reply(sender, envelope.round, envelope.message))
        exchange.reported += 1
        exchange.waiting.discard(sender)
        return exchange.look()

    def neighbour_left(self, neighbour: ClientId) -> bool:
        """Remove a neighbour that left for good; return whether that closes the exchange."""
        # Remembered, as `meet` may name it again where the graph changes.
        self._gone.add(neighbour)
        self.neighbours = tuple([node for node in self.neighbours if node != neighbour])
        self.senders = tuple([node for node in self.senders if node != neighbour])
        exchange = self._exchange
        return exchange is not None and exchange.client_left(neighbour)

    def deadline_expired(self) -> bool:
        """Mark the deadline as expired; return whether that closes the exchange."""
        return self._exchange is not None and self._exchange.pass_deadline()

    # -- the end of an exchange --------------------------------------------------------

    def replies(self) -> list[Reply]:
        """End the exchange, and return the received messages, sorted by neighbour.

        Raises:
            LocalProtocolError: there is no exchange.
        """
        ended, self._exchange, self._broken_off = self._exchange, None, None
        if ended is None:
            raise LocalProtocolError("there is no exchange that could end")
        return sorted(ended.replies, key=_BY_SENDER)

    def cancel(self) -> None:
        """Cancel the open exchange, if any, discarding its replies."""
        # Kept to describe what the node was waiting for, if the run ends here.
        self._broken_off, self._exchange = self._exchange, None

    def take_back(self, message: Message) -> None:
        """Roll back the packers' state after the loss of a message."""
        for payload in message.payloads():
            self.packing.take_back(payload)

    @property
    def over(self) -> bool:
        """Whether the exchange is closed or absent."""
        return self._exchange is None or self._exchange.over

    @property
    def stuck(self) -> str:
        """The neighbours that it waits for, in words; empty if it waits for none."""
        exchange = self._broken_off if self._exchange is None else self._exchange
        if exchange is None or exchange.over:
            return ""
        return f"{node_name(self.id)} waits in round {self.round}: {exchange.progress}"
