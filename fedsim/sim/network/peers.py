"""The transport among peers: a message's two legs, and its bit totals.

A message to another node first takes the sender's uplink lane: its radio, and the links of the
route between the two nodes. It is stored at the receiver's access point, and then takes the
receiver's downlink lane: its radio alone. So a lane is one direction of one radio, as in a star,
and every node pays for its own radio. A message is charged once, as it is sent, with the framing of
the sender's radio. The receiver's radio may have another framing, which determines the time and
energy of the second leg.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer
from fedsim.physics.packet_loss import IndependentLosses, LossesOnTheWay, LossProcess
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import Event
from fedsim.sim.network.flows import Changed, Link
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.message_log import (
    ABORTED,
    DOOMED,
    IN_FLIGHT,
    LOST,
    NO_BITS,
    MessageLog,
)
from fedsim.sim.network.models import FleetSite
from fedsim.sim.network.relay import Relay
from fedsim.sim.network.transmission import FluidBearer
from fedsim.sim.network.transport import IDLE, NetworkParts, ServerLanes, Undelivered

_SEND, _RECEIVE = int(Event.SEND), int(Event.RECEIVE)

Arrived = Callable[[ClientId, Envelope], None]
"""Callback for a received message, with the number of its sender."""


class Parcel(Envelope):
    """An envelope in transit from one node to another.

    Attributes:
        sender, receiver: the two nodes.
        framing: the framing of the sender's radio, which is charged.
    """

    __slots__ = ("framing", "receiver", "sender")

    def __init__(
        self, envelope: Envelope, sender: ClientId, receiver: ClientId, framing: int
    ) -> None:
        # Field by field, not in a loop over the slots: there is one parcel per message.
        self.message, self.data, self.word = envelope.message, envelope.data, envelope.word
        self.round, self.exchange = envelope.round, envelope.exchange
        self.payload_bits, self.header_bits = envelope.payload_bits, envelope.header_bits
        self.bits = envelope.bits
        self.sender = sender
        self.receiver = receiver
        self.framing = framing


class PeerRoute(NamedTuple):
    """The route of bits from one node to another.

    Attributes:
        bearer: the bearer over the links; None if no link limits a message.
        latency: the latency of the links, s.
        relays: the clients that forward messages of this route, in order.
        loss: the share of packets that the links lose.
    """

    bearer: Bearer | None
    latency: float
    relays: tuple[ClientId, ...]
    loss: float = 0.0


class PeerRoutes:
    """The routes of bits between the radios of nodes.

    Args:
        site: the radios of the nodes, and the links between them.
    """

    def __init__(self, site: FleetSite) -> None:
        self._fluid = Fluid(site.parts.calendar)
        self._topology = site.between
        self._watched = site.watched
        self._changed = site.changed
        self._own = site.own
        self._links: dict[int, Link] = {}

    @property
    def bare(self) -> bool:
        """Whether nothing lies between radios: no link, no latency and no relay."""
        topology = self._topology
        if topology is None:
            return True
        ends = {(route.links, route.latency) for route in (*topology.up, *topology.down)}
        return topology.paths is None and ends <= {((), 0.0)}

    def make(self, sender: ClientId, receiver: ClientId) -> PeerRoute:
        """Return a new route from one node to another."""
        if self._topology is None:
            return PeerRoute(None, 0.0, ())
        route = self._topology.between(sender, receiver)
        if not route.links:
            return PeerRoute(None, route.latency, route.relays, route.loss)
        path = self._fluid.path([self._link(number) for number in route.links])
        signal = self._own(sender, True).signal
        callback = (
            self._rate_callback(sender) if self._watched[sender] or signal is not None else None
        )
        bearer = FluidBearer(self._fluid, path, callback, signal)
        return PeerRoute(bearer, route.latency, route.relays, route.loss)

    def _rate_callback(self, sender: ClientId) -> Changed:
        return lambda _, rate: self._changed(sender, True, rate)

    def _link(self, number: int) -> Link:
        if number not in self._links:
            link = self._topology.links[number]  # type: ignore[union-attr]  # routes have links
            self._links[number] = self._fluid.link(link.capacity, link.discipline)
        return self._links[number]


class PeerMessageLog(MessageLog):
    """Rows and bits of messages with two legs: sent after the first, received after the second."""

    def deliver(self, lane: Lane, envelope: Envelope, now: float, joules: float) -> None:
        """Record a completed leg."""
        self.close(lane, envelope, joules)

    def close(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Record a completed leg, with its retransmissions."""
        parcel = cast("Parcel", envelope)
        if lane.again_bits or lane.state is DOOMED or lane.radio.supply is not None:
            self._close_in_full(lane, parcel, joules)
            return
        if lane.up:
            event, node, peer = _SEND, parcel.sender, parcel.receiver
        else:
            event, node, peer = _RECEIVE, parcel.receiver, parcel.sender
            self.delivered += parcel.bits + parcel.framing
        now = self._calendar.now
        self._log.append(
            now,
            now - lane.began,
            event,
            node,
            peer,
            parcel.round,
            parcel.word,
            parcel.payload_bits,
            parcel.header_bits,
            parcel.framing,
            joules,
        )

    def _close_in_full(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Record a leg with its retransmissions, and whether the message was lost."""
        parcel, again = _parcel(envelope), lane.again_bits
        flowed = parcel.bits + lane.framing_bits
        span = self._calendar.now - lane.began
        first = flowed / (flowed + again) if again else 1.0
        sent = (parcel.payload_bits, parcel.header_bits, parcel.framing)
        sender_joules = joules if lane.up else 0.0
        doomed = lane.state is DOOMED
        if lane.up:
            detail = LOST if doomed else ""
            self._row(lane, parcel, Event.SEND, span * first, sent, sender_joules * first, detail)
        self._repeat(lane, parcel, span * (1 - first), sender_joules * (1 - first))
        if doomed:
            self._lose(
                lane, parcel, parcel.bits + parcel.framing, LOST, span, joules - sender_joules
            )
        elif not lane.up:
            self.delivered += parcel.bits + parcel.framing
            self._row(lane, parcel, Event.RECEIVE, span, sent, joules)

    def log_undelivered(
        self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str
    ) -> None:
        """Record a message that will not arrive; a stored message counts as sent."""
        if lane.up:
            super().log_undelivered(lane, envelope, span, joules, why)
            return
        parcel = _parcel(envelope)
        bits = parcel.bits + parcel.framing
        if envelope is lane.current:
            self._repeat(lane, envelope, 0.0, 0.0)
        if why == IN_FLIGHT:
            self.in_flight += bits
            self._spend(lane, envelope, span, joules, why)
        else:
            self._lose(lane, envelope, bits, why, span, joules)

    def _spend(self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str) -> None:
        """Record the receiver's cost of a message that was sent and not received."""
        if not lane.up:
            self._row(lane, envelope, Event.RECEIVE, span, NO_BITS, joules, why)

    def _ends(self, lane: Lane, envelope: Envelope) -> tuple[ClientId, ClientId]:
        parcel = _parcel(envelope)
        return parcel.sender, parcel.receiver


def _parcel(envelope: Envelope) -> Parcel:
    if not isinstance(envelope, Parcel):  # pragma: no cover - only parcels are sent
        raise TypeError("among peers an envelope travels as a parcel")
    return envelope


class PeerNetwork(ServerLanes):
    """The network of peers.

    Args:
        parts: see `ServerLanes`; lanes are created as if there were no links.
        routes: the routes between nodes.
        rng: returns the random stream of the links from one node to another.
    """

    def __init__(
        self,
        parts: NetworkParts,
        routes: PeerRoutes,
        rng: Callable[[ClientId, ClientId], np.random.Generator],
    ) -> None:
        super().__init__(parts)
        self.message_log = PeerMessageLog(parts.calendar, parts.log)
        self._routes = routes
        self._routed = not routes.bare
        self._alone: dict[ClientId, tuple[Bearer, float]] = {}  # uplinks without routes
        self._known: dict[tuple[ClientId, ClientId], tuple[Bearer, float, Sequence[Relay]]] = {}
        self._arrived: Sequence[Arrived] = ()
        self._gone: set[ClientId] = set()
        self._rng = rng
        # The loss processes of radios alone, where links lose packets, too.
        self._own: dict[ClientId, LossProcess | None] = {}
        self._lossy: dict[tuple[ClientId, ClientId], LossesOnTheWay] = {}

    def join(self, nodes: Sequence[Arrived], undelivered: Undelivered) -> None:
        """Register the callbacks for messages received at each node, and for lost messages."""
        self._arrived = nodes
        self.connect(self._hand_on, self._hand_over, undelivered)

    def lane_of(self, node: ClientId, *, up: bool) -> Lane:
        """Return one direction of a node's radio."""
        return (self._up if up else self._down)[node]

    def send(self, sender: ClientId, receivers: Sequence[ClientId], envelope: Envelope) -> None:
        """Accept a message for several nodes, and charge its bits."""
        lane = self._up[sender]
        framing = lane.count_framing(envelope.bits)
        bits, many = envelope.bits + framing, len(receivers)
        self._traffic.charge_up(bits, many, envelope.payload_bits)
        # Bound once: without routes, the base class's method spares a call per message.
        queue = self._queue if self._routed else super()._queue
        for receiver in receivers:
            queue(lane, Parcel(envelope, sender, receiver, framing), framing)

    def _queue(self, lane: Lane, envelope: Envelope, framing: int) -> None:
        """Start a message, at once if its lane is idle."""
        if self._routed and lane.up and lane.state is IDLE:
            ends = lane.client, cast("Parcel", envelope).receiver
            route = self._known.get(ends) or self._choose_route(lane, ends)
            # Losses are set before the route, since `set_route` chooses the steps of messages by
            # them.
            if lane.client in self._own:
                lane.set_losses(self._lossy.get(ends, self._own[lane.client]))
                lane.set_route(*route)
            # `set_route` chooses the steps of messages anew, so only if the route differs.
            if (lane.bearer, lane.latency, lane.relays) != route:
                lane.set_route(*route)
        super()._queue(lane, envelope, framing)

    def _choose_route(
        self, lane: Lane, ends: tuple[ClientId, ClientId]
    ) -> tuple[Bearer, float, Sequence[Relay]]:
        """Return the route of all messages between two nodes, chosen for the first message."""
        bearer, latency, clients, loss = self._routes.make(*ends)
        if loss:
            radio = self._own.setdefault(lane.client, lane.process)
            self._lossy[ends] = LossesOnTheWay(radio, IndependentLosses(loss, self._rng(*ends)))
        # The lane as it was created, before the first route changed it: routes are not added up.
        uplink, least = self._alone.setdefault(lane.client, (lane.bearer, lane.latency))
        relays = self.relays.of(clients) if self.relays is not None else ()
        route = uplink if bearer is None else bearer, least + latency, relays
        self._known[ends] = route
        return route

    def _charge_again(self, lane: Lane) -> float:
        """Charge retransmissions on either leg to the sender; there is no TCP here."""
        self._traffic.bits_up += lane.again_bits
        return 0.0

    def _hand_on(self, _: ClientId, envelope: Envelope) -> None:
        """Store a message at the receiver's access point until the receiver's radio takes it."""
        parcel = cast("Parcel", envelope)
        lane = self._down[parcel.receiver]
        # The receiver has left during the first leg. The sender is not told: it learns of losses on
        # its own radio only.
        if parcel.receiver in self._gone:
            self.message_log.log_undelivered(lane, parcel, 0.0, 0.0, ABORTED)
        else:
            super()._queue(lane, parcel, lane.count_framing(parcel.bits))

    def _hand_over(self, receiver: ClientId, envelope: Envelope) -> None:
        self._arrived[receiver](cast("Parcel", envelope).sender, envelope)

    def abort(self, client: ClientId) -> None:
        """Abort all messages of a node: it is gone for good."""
        self._gone.add(client)
        super().abort(client)
