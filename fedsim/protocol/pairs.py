"""A peer's endpoint where nodes meet in pairs, at any time, without common rounds.

A node sends an offer to a neighbour. It is busy until it has received the answer and used it. A
node that is not busy answers an offer at once. A busy node compares the offer with its own, by
(number of the exchange at the offering node, that node). If the received offer is the earlier one,
the node holds it back until it is free; otherwise it refuses it by a beacon. So a node waits only
for nodes whose offer is later in this order, and there is no deadlock. The header of an offer
carries twice the number of its exchange, that of the answer one more.
"""

from collections.abc import Sequence
from enum import Enum

from fedsim.core.ports import ClientId, Message, node_name
from fedsim.protocol.exchange import Exchange
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.transport import (
    BEACON,
    Envelope,
    LocalProtocolError,
    RemoteProtocolError,
)


class Verdict(Enum):
    """How a node treats a message that has arrived.

    ANSWER: an offer, to be answered now.
    REFUSE: an offer, to be refused now.
    HOLD: an offer, to be held back until the node is free.
    OVER: an answer or a refusal, which ends the exchange of this node.
    DROPPED: a late answer, which is ignored.
    """

    ANSWER = "answer"
    REFUSE = "refuse"
    HOLD = "hold"
    OVER = "over"
    DROPPED = "dropped"


class PairProtocol(PeerProtocol):
    """A node's endpoint, with at most one offer at a time; see the module.

    Attributes:
        busy: whether the node has an offer that it has not released yet.
    """

    busy = False
    _held: Sequence[tuple[ClientId, Envelope]] = ()

    def offer(self, neighbour: ClientId, message: Message) -> Envelope:
        """Open an exchange with a neighbour; return the envelope to send.

        Raises:
            LocalProtocolError: the node is busy.
            ValueError: the receiver is no neighbour, or has left.
        """
        if self.busy:
            helps = "call node.commit(model) before the next contact"
            raise LocalProtocolError(f"the last exchange is not committed: {helps}")
        if neighbour not in self.neighbours:
            raise ValueError(f"{node_name(neighbour)}: no neighbour of {node_name(self.id)}")
        self._exchanges += 1
        self.busy = True
        self._exchange = Exchange(self._exchanges, {neighbour})
        return self._encode(message, 2 * self._exchanges)

    def answer(self, offer: Envelope, message: Message = BEACON) -> Envelope:
        """Return the envelope that answers an offer; without a message, it is a refusal."""
        return self._encode(message, offer.exchange + 1)

    def _encode(self, message: Message, number: int) -> Envelope:
        envelope = Envelope(message, self.round, number, self._header_bits)
        return self._transport.encode(envelope, self.id)

    def release(self) -> Sequence[tuple[ClientId, Envelope]]:
        """Free the node; return the offers that were held back, with their senders, in order."""
        self.busy = False
        held, self._held = self._held, ()
        return held

    def receive_in_pair(self, sender: ClientId, envelope: Envelope) -> Verdict:
        """Receive a message and return how to treat it.

        Raises:
            RemoteProtocolError: the message is from no neighbour, or of no exchange.
        """
        # An even number is an offer, an odd one the answer to it; see the module.
        number, answers = divmod(envelope.exchange, 2)
        if sender not in self._known or number < 1:
            text = f"{node_name(sender)} sends {node_name(self.id)} what it cannot: exchange"
            raise RemoteProtocolError(f"{text} {number}")
        exchange = self._exchange
        if answers:
            if exchange is None or exchange.number != number or sender not in exchange.waiting:
                return Verdict.DROPPED
            self._count(exchange, sender, envelope)
            return Verdict.OVER
        if not self.busy:
            return Verdict.ANSWER
        # The total order breaks circles: of nodes that wait for each other, the one with the
        # earliest offer is answered by all.
        if (number, sender) > (self._exchanges, self.id):
            return Verdict.REFUSE
        others = [each for each in self._held if each[0] != sender]  # without one it has given up
        self._held = (*others, (sender, envelope))
        return Verdict.HOLD

    def neighbour_left(self, neighbour: ClientId) -> bool:
        """Remove a neighbour that left for good; return whether that ends the exchange."""
        self._held = tuple([each for each in self._held if each[0] != neighbour])
        return super().neighbour_left(neighbour)
