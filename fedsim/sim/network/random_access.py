"""Random access to a medium: nodes send at will, and transmissions that overlap at a node collide.

A reception fails if another node in range of the receiver, or the receiver itself, sends at any
time during it. All receivers pay for a collision: each pays until it sends itself, if it does. At
the end of a transmission its sender knows which receivers have missed it, and sends it again to
these after a random backoff.

Abramson, "The ALOHA System", AFIPS 1970; Roberts, "ALOHA Packet System with and without Slots and
Capture", ACM SIGCOMM Comput. Commun. Rev. 1975: no capture, here.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.physics.medium import RadioGraph
from fedsim.results.record.schema import Event
from fedsim.sim.lazy import LazyTable
from fedsim.sim.network.hops import OnAir, Packet
from fedsim.sim.network.interference import Interference
from fedsim.sim.network.medium import MediumNetwork
from fedsim.sim.network.message_log import LOST
from fedsim.sim.network.transport import NetworkParts

COLLISION, MISSED = "collision", "missed"
"""Why a reception fails that is tried again: another transmission, or a lost packet."""

_MEETS = 1e-9
"""Smallest share of a transmission that counts as an overlap; less is rounding."""

MOST_DOUBLINGS = 10
"""The backoff window is doubled at most this many times, as in Ethernet."""


class RandomAccessNetwork(MediumNetwork):
    """The network of peers that send without sensing the medium.

    A node sends one message at a time, in order: the next one waits until all receivers of the
    one before have it, or its tries are used up.

    Args:
        parts, graph: see `MediumNetwork`.
        rng: returns the random stream of the backoffs of a node.
    """

    def __init__(
        self,
        parts: NetworkParts,
        graph: RadioGraph,
        rng: Callable[[ClientId], np.random.Generator],
    ) -> None:
        super().__init__(parts, graph)
        self._law = graph.medium
        self._rng = LazyTable(rng)
        # Numbers of failed tries, of packets that are tried again.
        self._tries: dict[tuple[ClientId, Packet], int] = {}
        self._planned: set[ClientId] = set()  # nodes whose next transmission has a time
        near = graph.near if self._moving is None else self._moving.near
        self._interference = Interference(self._calendar, near)

    # -- when a node sends ---------------------------------------------------------------

    def _begin_all(self, _: object) -> None:
        """Start queued transmissions, in the order of nodes."""
        looks, self._looks = self._looks, set()
        for node in sorted(looks):
            # There is no carrier sensing, so nothing but the node itself has to be looked at.
            if self._queues.get(node) and node not in self._on_air and node not in self._planned:
                self._plan(node, self._calendar.now)

    def _plan(self, node: ClientId, after: float) -> None:
        """Schedule the next transmission of a node at a time, or in its next slot."""
        now, slot, when = self._calendar.now, self._law.slot, after
        if self._law.slotted:
            # The next slot boundary; a time that misses one by rounding is on it.
            when = ceil(after / slot - _MEETS) * slot
        self._planned.add(node)
        if when <= now:
            self._try(node)
        else:
            self._calendar.call(when, self._try, node)

    def _try(self, node: ClientId) -> None:
        """Start the next transmission of a node, if it is still present."""
        # A node may have left, or moved out of reach of all its receivers, since its slot was
        # chosen.
        self._planned.discard(node)
        if node in self._gone or not self._queues.get(node):
            return
        if (next_packet := self._next_packet(node)) is None:
            return
        packet, onward = next_packet
        self._begin(node, packet, onward)
        # A node is charged as a transmission begins. The first one of a message was charged when
        # the message was accepted.
        if node == packet.origin and packet.sent:
            self._traffic.bits_up += self._on_air[node].bits

    # -- how it ends ---------------------------------------------------------------------

    def _end(self, sent: OnAir) -> None:
        """Charge a transmission, deliver the message, and plan a retry if some missed it."""
        self._planned.add(sent.sender)  # its next message waits for the outcome of this one
        super()._end(sent)

    def _failure(self, node: ClientId, sent: OnAir) -> str:
        """Return why a node misses a transmission that it has paid for; empty if it does not."""
        if node in sent.collided:
            return COLLISION
        lost = node in sent.missed or self._down[node].misses(sent.packet.envelope)
        return MISSED if lost else ""

    def _repeat(self, sent: OnAir, failed: Sequence[ClientId]) -> None:
        """Plan a retry for nodes that have missed a message, or give up on them."""
        packet, sender = sent.packet, sent.sender
        # Tries are counted per message and hop, not per receiver: a retry to one of several
        # receivers is the next try of all that are left.
        tries = self._tries.pop((sender, packet), 0) + 1
        most, after = self._law.most_tries, self._calendar.now
        if failed and (most is None or tries < most):
            self._tries[sender, packet] = tries
            self._hold(sent, failed)
            self._queues.setdefault(sender, deque()).appendleft((after, packet))
            self._plan(sender, after + self._backoff(sender, tries, sent.seconds))
            return
        # The sender is free again. `_release`, before this call, has asked for another look at its
        # queue, which happens at the end of this instant.
        self._planned.discard(sender)
        for node in failed:
            self._lose(packet, sent.beyond(node), LOST)

    def _hold(self, sent: OnAir, failed: Sequence[ClientId]) -> None:
        """Keep a message at its sender for the receivers behind nodes that have missed it."""
        held = sent.packet.holders
        if sent.sender in held:  # it has also arrived over another route, and is sent once
            queue = self._queues[sent.sender]
            self._queues[sent.sender] = deque(
                [entry for entry in queue if entry[1] is not sent.packet]
            )
        again = {node: tuple(sent.beyond(node)) for node in failed}
        held[sent.sender] = {**held.get(sent.sender, {}), **again}

    def _backoff(self, node: ClientId, failed: int, seconds: float) -> float:
        """Draw the backoff of a node after this many failed tries, s."""
        # In slots under slotted ALOHA; otherwise in durations of the transmission that has failed.
        window = self._law.window * 2 ** min(failed - 1, MOST_DOUBLINGS)
        if self._law.slotted:
            return int(self._rng[node].integers(window)) * self._law.slot
        return float(self._rng[node].uniform(0.0, window * seconds))

    def _pay_sender(self, sent: OnAir, share: float, why: str) -> bool:
        """Charge a sender; repeated bits of the origin count as sent, and as lost."""
        packet, node = sent.packet, sent.sender
        if node != packet.origin or not packet.sent:
            return super()._pay_sender(sent, share, why)
        joules, paid = self._pay(node, sent, share, up=True)
        # The first transmission was charged as the message was accepted, and is settled as
        # delivered or lost. So the bits of every further one are overhead, which the ledger counts
        # as lost.
        self.message_log.lost += sent.bits
        again = (0, 0, sent.bits)
        self._row(Event.RETRANSMIT, node, packet.peer, packet, sent, joules, why, again)
        return paid
