"""The transport among peers in range of each other: one transmission per hop, with many receivers.

A message travels from node to node along the paths of fewest hops to its receivers. Every node that
forwards it receives it, stores it, waits for the medium and sends it, at its own cost. On a medium
with broadcast, a node sends it once for all receivers behind it. A transmission is as fast as its
sender and its slowest receiver. There are no retransmissions: a receiver that misses a packet has
missed the message. Energy is paid when a transmission ends or is aborted; a node whose battery
does not hold enough for it sends, or receives, nothing. Radios listen all the time: they have
neither promotions nor tails, and their power while awake is idle power.

If nodes move, a message takes, from each node that holds it, the fewest hops at the time of
sending. A receiver that is out of range for any part of a transmission has missed it. The sender
does not notice, and sends all of it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from fedsim.core.ports import ClientId
from fedsim.physics.failures import OverlayInTime
from fedsim.physics.graphs_in_time import EdgeChange
from fedsim.physics.medium import Contention, RadioGraph
from fedsim.physics.radios import RadioPowers, awake_power, powers_of
from fedsim.physics.radios.rates import over
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import Event
from fedsim.sim.engine.calendar import SETTLE
from fedsim.sim.lazy import LazyTable
from fedsim.sim.network.hops import OnAir, Onward, Packet, all_of
from fedsim.sim.network.in_range import MovingRange, StandingRange
from fedsim.sim.network.interference import Interference
from fedsim.sim.network.message_log import (
    ABORTED,
    IN_FLIGHT,
    LOST,
    NO_BITS,
    RowBits,
    append_row,
)
from fedsim.sim.network.transport import NetworkParts, ServerLanes, Undelivered
from fedsim.sim.power.supply import Part

Arrived = Callable[[ClientId, Envelope], None]
"""Callback for a received message, with the number of its sender."""


def _carry_nothing(client: ClientId, envelope: Envelope) -> None:
    """Placeholder for callbacks of lanes, which carry no message here."""


class MediumNetwork(ServerLanes):
    """The network of peers that share a medium. Its lanes are only radios, and carry no messages.

    Args:
        parts: see `ServerLanes`.
        graph: the nodes in range, and the law of the medium.
    """

    def __init__(self, parts: NetworkParts, graph: RadioGraph) -> None:
        super().__init__(parts)
        self._graph = graph
        self._moving: MovingRange | None = None
        self._standing = StandingRange(graph)
        self._interference: Interference | None = None  # None if transmissions cannot overlap
        self._contention = Contention(graph)
        self._far: set[ClientId] = set()  # waiting nodes whose message has to be forwarded
        self._turns: set[ClientId] = set()  # nodes that wait for their slot
        if graph.moves is not None:
            self._follow(graph.moves)
        self._powers = LazyTable(self._powers_of)
        self._queues: dict[ClientId, deque[tuple[float, Packet]]] = {}  # with times of arrival
        self._on_air: dict[ClientId, OnAir] = {}
        self._open: dict[Packet, None] = {}  # with an undecided receiver; a dictionary has an order
        self._looks: set[ClientId] = set()  # nodes that may be able to send at this instant
        self._arrived: Sequence[Arrived] = ()
        self._gone: set[ClientId] = set()

    def join(self, nodes: Sequence[Arrived], undelivered: Undelivered) -> None:
        """Register the callbacks for messages received at each node."""
        self._arrived = nodes
        self.connect(_carry_nothing, _carry_nothing, undelivered)

    def _follow(self, moves: OverlayInTime) -> None:
        """Move the nodes from now on."""
        self._moving = MovingRange(moves, self._calendar, self._on_change, self._is_busy)
        self._contention = Contention(self._graph, self._moving.near)
        # Under CSMA, nodes that move may come into range of each other while both transmit.
        if self._graph.medium.access == "csma":
            self._interference = Interference(self._calendar, self._moving.near)

    def _is_busy(self) -> bool:
        return bool(self._open)

    def _powers_of(self, client: ClientId) -> RadioPowers:
        return powers_of(self._up[client].radio.law)

    # -- hop by hop ----------------------------------------------------------------------

    def send(self, sender: ClientId, receivers: Sequence[ClientId], envelope: Envelope) -> None:
        """Accept a message for several nodes, and charge its bits once, or once per receiver."""
        together = self._graph.medium.broadcast
        for targets in (receivers,) if together else [(receiver,) for receiver in receivers]:
            # The message is charged once, with the framing of the origin's radio. The time and the
            # energy of each hop follow from the framing of that hop's own radio.
            framing = self._up[sender].count_framing(envelope.bits)
            packet = Packet(envelope, sender, framing, targets)
            self._traffic.charge_up(packet.bits, 1, envelope.payload_bits)
            self._open[packet] = None
            self._store(sender, packet, targets)
        if self._moving is not None:
            self._moving.watch()

    def _store(self, node: ClientId, packet: Packet, targets: Sequence[ClientId]) -> None:
        """Queue a message at a node that forwards it, after the latency of its radio."""
        if self._moving is not None:
            held = all_of(packet.holders.get(node, {}))
            # Next hops are chosen anew as the message is sent, so only the receivers matter here.
            packet.holders[node] = {target: (target,) for target in sorted([*held, *targets])}
            if held:
                return  # it has also arrived over another route, and is queued already
        else:
            packet.holders[node] = self._standing.onward(packet.origin, node, targets)
        latency = self._up[node].latency
        if latency:
            self._calendar.call(self._calendar.now + latency, self._queue_up, (node, packet))
        else:
            self._queue_up((node, packet))

    def _queue_up(self, stored: tuple[ClientId, Packet]) -> None:
        node, packet = stored
        if node in self._gone or packet not in self._open:
            return  # its outcome was decided as the node left
        self._queues.setdefault(node, deque()).append((self._calendar.now, packet))
        self._look({node})

    def _look(self, nodes: Iterable[ClientId]) -> None:
        """Check, at the end of this instant, whether nodes can send."""
        if not self._looks:
            # Once per instant, after all arrivals and ends in it: which of several nodes sends
            # first must not depend on the order of events within the instant.
            self._calendar.call(self._calendar.now, self._begin_all, None, SETTLE)
        self._looks.update(nodes)

    def _begin_all(self, _: object) -> None:
        """Start the transmissions that are possible, in the order of arrival."""
        looks, self._looks = self._looks, set()
        waiting = list[tuple[float, ClientId, Packet, Onward]]()
        for node in sorted(looks):
            if node not in self._on_air and (next_packet := self._next_packet(node)) is not None:
                # `_next_packet` may drop packets without a route, so the head of the queue is read
                # only after it.
                waiting.append((self._queues[node][0][0], node, *next_packet))
        for _, node, packet, onward in sorted(waiting, key=itemgetter(0, 1)):
            receivers = [receiver for receiver in onward if receiver not in self._gone]
            if not self._contention.may_begin(node, receivers):
                # A change of the graph elsewhere may open a shorter route: see `_on_change`.
                if any(behind != (receiver,) for receiver, behind in onward.items()):
                    self._far.add(node)
            elif self._moving is None or self._in_turn(node):
                self._begin(node, packet, onward)

    def _in_turn(self, node: ClientId) -> bool:
        """Return whether a moving node may send now; under `tdma`, wait for its slot if not."""
        now = self._calendar.now
        when = self._contention.next_turn(node, now) if self._graph.colours else now
        if when > now and node not in self._turns:
            self._turns.add(node)
            self._calendar.call(when, self._on_turn, node)
        return when <= now

    def _on_turn(self, node: ClientId) -> None:
        """Start the transmission of a node in its slot."""
        self._turns.discard(node)
        self._look({node})

    def _begin(self, node: ClientId, packet: Packet, onward: Onward) -> None:
        """Put the next packet of a node on the air, for the receivers in range."""
        self._queues[node].popleft()
        self._far.discard(node)
        # Removed before the end of the transmission: over another route the message may come back
        # to this node, and is then a new copy.
        held = packet.holders.pop(node)
        if self._moving is not None:
            self._lose(packet, sorted({*all_of(held)} - {*all_of(onward)}), LOST)
        receivers = [receiver for receiver in onward if receiver not in self._gone]
        now, envelope = self._calendar.now, packet.envelope
        framed = envelope.bits + self._up[node].count_framing(envelope.bits)
        lanes = [self._up[node], *(self._down[receiver] for receiver in receivers)]
        # The slowest of sender and receivers sets the rate. A receiver that has left does not
        # count.
        rates = [lane.carrier.terms(envelope.bits, framed, envelope.round).cap for lane in lanes]
        seconds = over(min(rates), framed)
        began, end = self._contention.span(node, now, seconds)
        sent = OnAir(packet, node, onward, receivers, framed, seconds, began)
        self._on_air[node] = sent
        self._contention.begin(node, sent.reserved)
        # `end` may be later than now + seconds: under `tdma` a long transmission goes on in further
        # slots.
        sent.timer = self._calendar.at(end, self._end, sent)
        if self._interference is not None:
            self._interference.begin(sent)

    def _end(self, sent: OnAir) -> None:
        """Charge a transmission, deliver the message, and forward it."""
        # The sender pays first: without its energy nobody has received anything.
        packet, whole = sent.packet, self._pay_sender(sent, 1.0, "")
        self._release(sent)
        here, failed = list[ClientId](), list[ClientId]()
        for node in sent.receivers:
            joules, paid = self._pay(node, sent, self._share_received(node, sent), up=False)
            why = self._failure(node, sent) if whole and paid else LOST
            self._record_reception(node, sent, joules, why)
            if why == LOST:
                self._lose(packet, sent.beyond(node), LOST, node)
            elif why:
                failed.append(node)
            elif node in packet.targets:
                here.append(node)
                packet.targets.discard(node)
                packet.received += 1
        for node in sent.onward:  # nodes that had left before the transmission began
            if node not in sent.reserved:
                self._lose(packet, sent.beyond(node), LOST)
        reached = {
            receiver: behind
            for receiver in sent.receivers
            if receiver not in failed and (behind := sent.beyond(receiver))
        }
        # Bookkeeping before callbacks, which may send messages at this instant.
        self._repeat(sent, failed)
        self._settle(packet)
        for node, targets in reached.items():
            self._store(node, packet, targets)
        for node in here:
            self._arrived[node](packet.origin, packet.envelope)

    def _failure(self, node: ClientId, sent: OnAir) -> str:
        """Return why a node does not receive a paid transmission; empty if it does."""
        disturbed = node in sent.missed or node in sent.collided
        return LOST if disturbed or self._down[node].misses(sent.packet.envelope) else ""

    def _repeat(self, sent: OnAir, failed: Sequence[ClientId]) -> None:
        """Retransmit a message to nodes that have missed it, if the medium does so."""

    def _next_packet(self, node: ClientId) -> tuple[Packet, Onward] | None:
        """Return the next packet of a node and its next hops; None if it has nothing to send.

        If nodes move, a packet is lost for the receivers to which no route leads any more.
        """
        queue = self._queues.get(node)
        if not queue:
            return None
        if self._moving is None:
            return queue[0][1], queue[0][1].holders[node]
        self._moving.advance()
        while queue:
            packet = queue[0][1]
            held = [target for target in all_of(packet.holders[node]) if target in packet.targets]
            if onward := self._moving.onward(node, held):
                return packet, onward
            queue.popleft()
            self._give_up(packet, node, LOST)
            del packet.holders[node]
            self._settle(packet)
        return None

    def _release(self, sent: OnAir) -> None:
        """Free the medium after a transmission."""
        del self._on_air[sent.sender]
        if self._interference is not None:
            self._interference.end(sent)
        self._look({sent.sender, *self._contention.end(sent.sender, sent.reserved)})

    def _on_change(self, change: EdgeChange) -> None:
        """Handle two nodes that come into range of each other, or leave it."""
        one, other, there = change.one, change.other, change.there
        self._contention.change(one, other, there=there)
        for sender, node in ((one, other), (other, one)):
            if (sent := self._on_air.get(sender)) is None:
                continue
            # A new edge brings the transmission to the node, and a lost edge takes it away.
            if self._interference is not None:
                act = self._interference.reach if there else self._interference.leave
                act(sent, node)
            # A node that leaves at the very end of a transmission has received it.
            if not there and node in sent.reserved and not sent.ends(self._calendar.now):
                sent.missed.add(node)
                sent.deaf.setdefault(node, self._calendar.now)
        # A lost edge frees the medium around both of its ends; a new one can only block it.
        near = self._moving.near if self._moving is not None and not there else ()
        around = [neighbour for node in (one, other) for neighbour in near[node]] if near else ()
        self._look({one, other, *around, *self._far})

    # -- costs ---------------------------------------------------------------------------

    def _pay(self, node: ClientId, sent: OnAir, share: float, *, up: bool) -> tuple[float, bool]:
        """Charge a node for a share of a transmission; return the energy, and if it sufficed."""
        radio = self._up[node].radio
        joules = owed = self._owed(node, sent, share, up=up)
        # The whole energy is due at the end, in one amount: the load of a transmission is not drawn
        # from the battery over time.
        if radio.supply is not None and owed:
            joules = radio.supply.spend(Part.RADIO, owed)
        radio.joules += joules
        self._traffic.joules += joules
        return joules, joules >= owed

    def _owed(self, node: ClientId, sent: OnAir, share: float, *, up: bool) -> float:
        """Return the energy of a share of a transmission, J."""
        powers, law = self._powers[node], self._up[node].radio.law
        # Listening is idle power already, so only the excess over it is charged.
        watts = powers.held + powers.on_air[up] - awake_power(law)
        return share * (powers.per_bit[up] * sent.bits + max(watts, 0.0) * sent.seconds)

    def _open_messages(self) -> Iterator[tuple[ClientId, float, float]]:
        """Yield transmissions in progress, as `close` would charge them now."""
        for sent in self._on_air.values():
            shares = {node: self._share_received_so_far(node, sent) for node in sent.receivers}
            for node, share in {sent.sender: self._share(sent), **shares}.items():
                owed = self._owed(node, sent, share, up=node == sent.sender)
                supply = self._up[node].radio.supply
                yield node, sent.began, owed if supply is None else supply.spare(owed)

    def _pay_sender(self, sent: OnAir, share: float, why: str) -> bool:
        """Charge the sender of a transmission, with a row; return whether its energy sufficed."""
        packet, node = sent.packet, sent.sender
        joules, paid = self._pay(node, sent, share, up=True)
        if node == packet.origin and not packet.sent:
            self._row(Event.SEND, node, packet.peer, packet, sent, joules, why, packet.charged)
            packet.sent = True
        else:
            # A relay's row has its own framing. It is not charged to the message, which was charged
            # once.
            bits = NO_BITS if why else packet.parts(sent.bits - packet.envelope.bits)
            self._row(Event.FORWARD, node, packet.origin, packet, sent, joules, why, bits)
        return paid

    def _record_reception(self, node: ClientId, sent: OnAir, joules: float, why: str) -> None:
        """Record a reception: of a message for this node, or of one that it forwards."""
        packet = sent.packet
        if node in packet.targets:
            bits = NO_BITS if why else packet.charged
            self._row(Event.RECEIVE, node, packet.origin, packet, sent, joules, why, bits)
        else:
            self._row(Event.FORWARD, node, packet.origin, packet, sent, joules, why, NO_BITS)

    def _row(
        self,
        event: Event,
        node: ClientId,
        peer: ClientId,
        packet: Packet,
        sent: OnAir | None,
        joules: float,
        why: str,
        bits: RowBits,
    ) -> None:
        now, supply = self._calendar.now, self._up[node].radio.supply
        span = 0.0 if sent is None else max(now - sent.began, 0.0)
        envelope = packet.envelope
        append_row(self._log, now, span, event, node, peer, envelope, bits, joules, supply, why)

    # -- messages that do not arrive -------------------------------------------------------

    def _lose(
        self,
        packet: Packet,
        targets: Iterable[ClientId],
        why: str,
        recorded: ClientId | None = None,
    ) -> None:
        """Record the receivers that a message does not reach; `recorded` has a row already."""
        for target in targets:
            if target != recorded:
                self._row(Event.RECEIVE, target, packet.origin, packet, None, 0.0, why, NO_BITS)
            packet.targets.discard(target)

    def _settle(self, packet: Packet, why: str = LOST) -> None:
        """Count the bits of a message whose outcome is known for all receivers."""
        if packet.targets or packet not in self._open:
            return
        del self._open[packet]
        log = self.message_log
        if packet.received:
            log.delivered += packet.bits
            # A message to several nodes is sent, and so charged, once; with one receiver or more,
            # the bits count as delivered once.
            log.repeated_receptions += packet.bits * (packet.received - 1)
        elif why == IN_FLIGHT:
            log.in_flight += packet.bits
        else:
            log.lost += packet.bits
            self._row(
                Event.LOST, packet.origin, packet.peer, packet, None, 0.0, why, packet.charged
            )

    def _break_off(self, sent: OnAir, why: str) -> None:
        """Abort a transmission: sender and receivers pay for the part that has passed."""
        sent.timer.cancel()
        share = self._share(sent)
        self._pay_sender(sent, share, why)
        for node in sent.receivers:
            joules, _ = self._pay(node, sent, self._share_received_so_far(node, sent), up=False)
            self._record_reception(node, sent, joules, why)
            self._lose(sent.packet, sent.beyond(node), why, node)

    def _share(self, sent: OnAir, until: float | None = None) -> float:
        """Return the share of a transmission that was on the air until a time, now by default."""
        time = self._calendar.now if until is None else until
        passed = self._contention.seconds_on_air(sent.sender, sent.began, time)
        return min(passed / sent.seconds, 1.0) if sent.seconds else 0.0

    def _share_received(self, node: ClientId, sent: OnAir) -> float:
        """Return the share during which a receiver is in range and does not send."""
        return self._share(sent, sent.deaf[node]) if node in sent.deaf else 1.0

    def _share_received_so_far(self, node: ClientId, sent: OnAir) -> float:
        """Return the same share of a transmission that is aborted now."""
        return self._share(sent, sent.deaf.get(node))

    def _give_up(self, packet: Packet, node: ClientId, why: str) -> None:
        """Record that a packet ends at a node that holds it."""
        targets = [target for target in all_of(packet.holders[node]) if target in packet.targets]
        if node == packet.origin and not packet.sent:
            self._row(Event.SEND, node, packet.peer, packet, None, 0.0, why, packet.charged)
            packet.sent = True
        self._lose(packet, targets, why)

    def abort(self, client: ClientId) -> None:
        """Abort all messages of a node: it is gone for good."""
        self._gone.add(client)
        sent = self._on_air.get(client)
        if sent is not None:
            self._break_off(sent, ABORTED)
            self._release(sent)
        for other in [
            transmission
            for transmission in self._on_air.values()
            if client in transmission.receivers
        ]:
            joules, _ = self._pay(
                client, other, self._share_received_so_far(client, other), up=False
            )
            self._record_reception(client, other, joules, ABORTED)
            self._lose(other.packet, other.beyond(client), ABORTED, client)
            other.receivers.remove(client)
        self._queues.pop(client, None)
        # A copy, as `_settle` removes packets. Every open packet may have become complete by the
        # losses above.
        for packet in [*self._open]:
            if client in packet.holders:
                self._give_up(packet, client, ABORTED)
            self._settle(packet, ABORTED)
        if self._moving is not None:
            self._moving.remove(client)
        super().abort(client)

    def close(self) -> None:
        """End the world: record messages in flight, with their costs."""
        for sent in self._on_air.values():
            self._break_off(sent, IN_FLIGHT)
        for packet in [*self._open]:
            for node in packet.holders:
                self._give_up(packet, node, IN_FLIGHT)
            self._settle(packet, IN_FLIGHT)
        super().close()
