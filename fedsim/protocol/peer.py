"""A peer's end: exchanges with its neighbours, each side counting its own.

A node's exchange k is open until the message of its exchange k has come from every neighbour that
is still there, or until its deadline. What comes of a later exchange waits for that; what comes of
an earlier one is too late for anything: its sender's model is older than what replaced it.
"""

from collections.abc import Mapping, Sequence

from fedsim.ports import ClientId, Message, Reply, node_name
from fedsim.protocol.carriage import VALUES, Carriage, Packing
from fedsim.protocol.envelope import BEACON, Envelope, LocalProtocolError, RemoteProtocolError
from fedsim.protocol.server import Exchange, Post, Verdict


class PeerEnd:
    """A node's end of the protocol between peers.

    Args:
        node: whose.
        neighbours: whom it speaks to, in order.
        packing: what packs its messages.
        beacons: whether a neighbour is told by an empty message that there is nothing for it.
        deadline: so long after it was opened an exchange is overdue, s; infinite for never.
        header_bits: in front of every message.
        carriage: how messages are carried.

    Attributes:
        round: the one that is open, from 1.
        neighbours: those that are still there.
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
        carriage: Carriage = VALUES,
    ) -> None:
        self.id = node
        self.round = 1
        self.neighbours = tuple(neighbours)
        self.deadline = deadline
        self.packing = packing
        self._known = frozenset(neighbours)
        self._beacons = beacons
        self._header_bits = header_bits
        self._carriage = carriage
        self._exchanges = 0
        self._exchange: Exchange | None = None
        self._early: dict[int, dict[ClientId, Envelope]] = {}  # by exchange and sender

    def open(self, message: Message | Mapping[ClientId, Message]) -> Post:
        """Open an exchange; return what is to be sent to whom.

        Args:
            message: for all neighbours, or one each; whoever it leaves out is told nothing.

        Raises:
            LocalProtocolError: one is under way.
            ValueError: a message is for a node that is no neighbour.
        """
        if self._exchange is not None:
            raise LocalProtocolError("an exchange is under way: a node has one at a time")
        post = self._post(message)
        self._exchanges += 1
        opened = Exchange(self._exchanges, set(self.neighbours))
        self._exchange = opened
        for sender, envelope in self._early.pop(self._exchanges, {}).items():
            self._count(opened, sender, envelope)
        return post

    def _post(self, message: Message | Mapping[ClientId, Message]) -> Post:
        if isinstance(message, Message):
            return [(self._seal(message), self.neighbours)] if self.neighbours else ()
        if strangers := sorted(message.keys() - self._known):
            names = ", ".join(map(node_name, strangers))
            raise ValueError(f"{names}: no neighbour of {node_name(self.id)}")
        quiet = BEACON if self._beacons else None
        said = [(one, message.get(one, quiet)) for one in self.neighbours]
        return [(self._seal(what), (one,)) for one, what in said if what is not None]

    def _seal(self, message: Message) -> Envelope:
        envelope = Envelope(message, self.round, self._exchanges + 1, self._header_bits)
        return self._carriage.seal(envelope, self.id)

    # -- facts -------------------------------------------------------------------------

    def heard(self, sender: ClientId, envelope: Envelope) -> Verdict:
        """Take a message that has arrived, and say what becomes of it.

        Raises:
            RemoteProtocolError: it is from no neighbour, of no exchange, or has come before.
        """
        number = envelope.exchange
        if sender not in self._known or number < 1:
            text = f"{node_name(sender)} sends {node_name(self.id)} what it cannot: exchange"
            raise RemoteProtocolError(f"{text} {number}")
        exchange = self._exchange
        if number > self._exchanges:
            waiting = self._early.setdefault(number, {})
            if sender in waiting:
                raise self._twice(sender, number)
            waiting[sender] = envelope
            return Verdict.EARLY
        if exchange is None or exchange.number != number or exchange.over:
            return Verdict.DROPPED
        if sender not in exchange.waiting and sender in self.neighbours:
            raise self._twice(sender, number)
        self._count(exchange, sender, envelope)
        return Verdict.CLOSED if exchange.look() else Verdict.COUNTED

    def _twice(self, sender: ClientId, number: int) -> RemoteProtocolError:
        ends = f"{node_name(sender)} sends {node_name(self.id)}"
        return RemoteProtocolError(f"{ends} two messages of exchange {number}")

    def _count(self, exchange: Exchange, sender: ClientId, envelope: Envelope) -> None:
        if envelope.message is not BEACON:
            exchange.replies.append(Reply(sender, envelope.round, envelope.message))
        exchange.reported += 1
        exchange.waiting.discard(sender)
        exchange.look()

    def gone(self, neighbour: ClientId) -> bool:
        """Take note that a neighbour is gone for good; say whether that ends an exchange."""
        self.neighbours = tuple([one for one in self.neighbours if one != neighbour])
        exchange = self._exchange
        return exchange is not None and exchange.gone(neighbour)

    def overdue(self) -> bool:
        """Take note that the deadline has passed; say whether that ends an exchange."""
        return self._exchange is not None and self._exchange.pass_deadline()

    # -- how it ends -------------------------------------------------------------------

    def replies(self) -> list[Reply]:
        """End the exchange, and return what has come, by neighbour.

        Raises:
            LocalProtocolError: there is none.
        """
        ended, self._exchange = self._exchange, None
        if ended is None:
            raise LocalProtocolError("there is no exchange that could end")
        return sorted(ended.replies, key=lambda reply: reply.client)

    def take_back(self, message: Message) -> None:
        """Forget a message that is known to be lost, as if it had never been packed."""
        for payload in message.payloads():
            self.packing.take_back(payload)

    @property
    def over(self) -> bool:
        """Whether nothing can change the exchange any more."""
        return self._exchange is None or self._exchange.over

    @property
    def stuck(self) -> str:
        """Whom it waits for; empty where for nobody."""
        if self._exchange is None or self._exchange.over:
            return ""
        return f"{node_name(self.id)} waits in round {self.round}: {self._exchange.progress}"
