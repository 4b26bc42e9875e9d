"""Relays: clients of a graph that forward the messages of others, at their own cost.

A message that goes through a client's node is received and sent on by that client's radio. It is
forwarded as its bits come, so that it takes the time that its links and its ends take; what it
costs the relay is what the relay's own radio takes to receive it and to send it, each at its own
rate. It is paid when the last bit has passed, or when the message is broken off, for the bits that
came.

Routes do not change. A message is lost where a relay on its way is off or offline, or goes while
bits of it pass: its sender does not notice, sends it to the end, and pays for that.
"""

from collections.abc import Callable, Sequence

from fedsim.core.ports import ClientId
from fedsim.protocol.transport import Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.message_log import NO_BITS, append_row
from fedsim.sim.network.relay import Relay
from fedsim.sim.power.supply import Part


class Relays:
    """All relays of a world, each created when the first message passes it.

    Args:
        make: makes one.
        calendar, log, traffic: the time, and where its work is written down and charged.
    """

    def __init__(
        self,
        make: Callable[[ClientId], Relay],
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
    ) -> None:
        self._make = make
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._made: dict[ClientId, Relay] = {}
        self._lanes: dict[ClientId, dict[Lane, None]] = {}  # with a message through it now

    def of(self, clients: Sequence[ClientId]) -> tuple[Relay, ...]:
        """Return the relays of a route."""
        for client in clients:
            if client not in self._made:
                self._made[client] = self._make(client)
        return tuple([self._made[client] for client in clients])

    def begin(self, lane: Lane) -> None:
        """Register a message as its bits begin to flow; an absent relay does not receive them."""
        lane.broken = next(
            ((place, 0.0) for place, relay in enumerate(lane.relays) if not relay.is_present()),
            None,
        )
        for relay in lane.relays:
            self._lanes.setdefault(relay.client, {})[lane] = None

    def client_left(self, client: ClientId) -> None:
        """Break the routes through a client that has left."""
        for lane in self._lanes.get(client, ()):
            if lane.current is None or lane.transfer is None:  # its bits do not flow yet
                continue
            bits = lane.current.bits + lane.framing_bits + lane.again_bits
            share = lane.bits_flown(self._calendar.now) / bits if bits else 1.0
            place = [relay.client for relay in lane.relays].index(client)
            if lane.broken is None or place < lane.broken[0]:
                lane.broken = place, share

    def end(self, lane: Lane, envelope: Envelope, share: float) -> bool:
        """Charge the relays of a lane for a message; return whether all have forwarded it.

        Args:
            lane: on which it has come.
            envelope: the message.
            share: of its bits that have come.
        """
        for relay in lane.relays:
            self._lanes.get(relay.client, {}).pop(lane, None)
        for place, relay in enumerate(lane.relays):
            passed = share if lane.broken is None or place < lane.broken[0] else lane.broken[1]
            if passed and not self._pay(relay, lane, envelope, passed) and lane.broken is None:
                lane.broken = place, passed  # what comes after it has been forwarded all the same
        return lane.broken is None

    def _pay(self, relay: Relay, lane: Lane, envelope: Envelope, share: float) -> bool:
        """Charge a relay for a share of a message; return whether its battery sufficed."""
        again = lane.again_bits
        joules = owed = share * relay.joules(envelope.bits, again, envelope.round)
        supply = relay.radio.supply
        if supply is not None:
            joules = supply.spend(Part.RADIO, owed)
        relay.radio.joules += joules
        self._traffic.joules += joules
        parts = (envelope.payload_bits, envelope.header_bits)
        framing = relay.frame_bits(envelope.bits) - envelope.bits + again
        bits = (*parts, framing) if share == 1.0 else NO_BITS
        now = self._calendar.now
        span, ends = max(now - lane.began, 0.0), (relay.client, lane.client)
        append_row(self._log, now, span, Event.FORWARD, *ends, envelope, bits, joules, supply)
        return joules >= owed
