"""Relays: clients of a graph that forward the messages of others, at their own cost.

A message whose route passes a client is received and sent by that client's radio. Relays forward
bits as they arrive, so the duration of a message depends only on its links and its two ends. The
relay pays the energy of receiving and of sending, each at the rate of its own radio. It pays when
the last bit has passed, or, for the bits so far, when the message is aborted.

Routes do not change. A message is lost if a relay on its route is off or offline, or leaves while
bits pass. The sender does not notice: it sends all bits and pays for them.
"""

from collections.abc import Callable, Iterator, Sequence

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
        make: creates a relay.
        calendar, log, traffic: the calendar, the event log, and the totals of costs.
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
        # Lanes with a message in transit, by relay.
        self._lanes: dict[ClientId, dict[Lane, None]] = {}

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
            if lane.current is None or lane.transfer is None:  # no bit has flowed so far
                continue
            bits = lane.current.bits + lane.framing_bits + lane.again_bits
            share = lane.bits_flown(self._calendar.now) / bits if bits else 1.0
            place = [relay.client for relay in lane.relays].index(client)
            # Of several relays that fail, the first on the route decides how far bits came.
            if lane.broken is None or place < lane.broken[0]:
                lane.broken = place, share

    def end(self, lane: Lane, envelope: Envelope, share: float) -> bool:
        """Charge the relays of a lane for a message; return whether all have forwarded it.

        Args:
            lane: the lane of the message.
            envelope: the message.
            share: the share of its bits that have passed.
        """
        for relay in lane.relays:
            self._lanes.get(relay.client, {}).pop(lane, None)
        # A relay before the broken one has forwarded all bits that the sender sent. The broken one,
        # and those behind it, saw only the share up to the break.
        for place, relay in enumerate(lane.relays):
            passed = share if lane.broken is None or place < lane.broken[0] else lane.broken[1]
            if passed and not self._pay(relay, lane, envelope, passed) and lane.broken is None:
                # A battery shows only now that it was too low: relays behind it have forwarded the
                # bits, and pay.
                lane.broken = place, passed
        return lane.broken is None

    def open_spans(self, lane: Lane, passed: float) -> Iterator[tuple[ClientId, float, float]]:
        """Yield what `end` would charge now for the message of a lane, of which bits have passed.

        Args:
            lane: the lane of the message.
            passed: the bits that have passed.
        """
        envelope, again = lane.current, lane.again_bits
        if envelope is None or lane.transfer is None:
            return
        share = passed / ((envelope.bits + lane.framing_bits + again) or 1)
        for place, relay in enumerate(lane.relays):
            part = share if lane.broken is None or place < lane.broken[0] else lane.broken[1]
            if part:
                owed, supply = (
                    relay.joules(envelope.bits, again, envelope.round),
                    relay.radio.supply,
                )
                joules = part * owed if supply is None else supply.spare(part * owed)
                yield relay.client, lane.began, joules

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
