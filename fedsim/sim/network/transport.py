"""Transport: carries messages from end to end, and adds up their bits.

A message waits until its sender's lane is idle and the radio awake; a downlink message first waits
until the radio can be reached. Then the latency of radio and route passes, and the bits flow: at
most at the radio's rate, and at the message's share of the links on its route. The message has
arrived when its last bit has passed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from fedsim.core.ports import ClientId, Message
from fedsim.protocol.transport import Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import LazyTable
from fedsim.sim.network.lane_states import TRANSITIONS, LaneEvent, LaneState, RouteClass
from fedsim.sim.network.lanes import Lane, Receive
from fedsim.sim.network.message_log import ABORTED, DOOMED, IN_FLIGHT, MessageLog
from fedsim.sim.network.relays import Relays
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.worlds.open_spans import Spans

# Much of a run's time is spent here. So members and transitions that are used for every message are
# looked up once. The first three transitions start from a state that the code has just checked: a
# message that waits for its latency, and was not aborted, is STARTING.
IDLE, LAST_BIT = LaneState.IDLE, LaneEvent.LAST_BIT
INSTANT, TIMER = RouteClass.INSTANT, RouteClass.TIMER
BEARER, FULL = RouteClass.BEARER, RouteClass.FULL
STARTED = TRANSITIONS[LaneState.IDLE][LaneEvent.START]
TIMER_STARTED = TRANSITIONS[LaneState.IDLE][LaneEvent.START_TIMER]
FLOW_STARTED = TRANSITIONS[LaneState.STARTING][LaneEvent.FLOW]
AFTER_LAST_BIT = {
    state: events[LAST_BIT] for state, events in TRANSITIONS.items() if LAST_BIT in events
}

MakeLane = Callable[[ClientId, bool], Lane]
"""Creates the lane of a client, uplink or downlink."""

Undelivered = Callable[[ClientId, Message], None]
"""Callback for a client's message that its sender knows to be lost."""


class NetworkParts(NamedTuple):
    """The parts of every network.

    Attributes:
        calendar: the calendar.
        lane: creates one direction of a client's radio.
        log, traffic: the event log, and the totals of costs.
    """

    calendar: Calendar
    lane: MakeLane
    log: EventLog
    traffic: Traffic


class ServerLanes:
    """The lanes between one server and its clients, each created for its first message.

    Args:
        parts: see `NetworkParts`.

    Attributes:
        message_log: the totals of sent, delivered and lost bits.
    """

    def __init__(self, parts: NetworkParts) -> None:
        self._calendar = parts.calendar
        self._log = parts.log
        self._traffic = parts.traffic
        self._make = parts.lane
        self._up = LazyTable(partial(self._make_lane, up=True))
        self._down = LazyTable(partial(self._make_lane, up=False))
        self.message_log = MessageLog(parts.calendar, parts.log)
        self._sending: dict[Lane, None] = {}  # lanes whose bits may be flowing
        self.relays: Relays | None = None  # if routes of a graph pass clients
        # Messages by the time at which their bits will flow.
        self._starting: dict[float, list[tuple[Lane, Envelope]]] = {}
        self._receive: dict[bool, Receive]  # True: uplink
        self._undelivered: Undelivered

    def connect(self, server: Receive, client: Receive, undelivered: Undelivered) -> None:
        """Register the callbacks for received and undelivered messages."""
        self._receive = {True: server, False: client}
        self._undelivered = undelivered

    def prepare(self, clients: Iterable[ClientId]) -> None:
        """Create the lanes of clients whose batteries depend on the outcomes of messages."""
        for client in clients:
            # A lookup creates the lane; see `LazyTable`.
            self._down[client], self._up[client]

    def _make_lane(self, client: ClientId, *, up: bool) -> Lane:
        lane = self._make(client, up)
        lane.receive = self._receive[up]
        return lane

    @property
    def made(self) -> int:
        """The number of downlinks created so far."""
        return len(self._down)

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Accept a message for several clients, and charge its bits."""
        self._traffic.bits_down += envelope.bits * len(clients)
        for client in clients:
            lane, framing = self._down[client], 0
            if lane.framing is not None:
                framing = lane.framing.bits(envelope.bits)
                self._traffic.bits_down += framing
            self._queue(lane, envelope, framing)

    def send_up(self, client: ClientId, envelope: Envelope) -> None:
        """Accept a message from a client, and charge its bits."""
        lane = self._up[client]
        framing = 0 if lane.framing is None else lane.framing.bits(envelope.bits)
        traffic = self._traffic
        traffic.bits_up += envelope.bits + framing
        if envelope.payload_bits:
            traffic.transmissions += 1
        else:
            traffic.beacons += 1
        self._queue(lane, envelope, framing)

    def _queue(self, lane: Lane, envelope: Envelope, framing: int) -> None:
        """Start a message, at once if its lane is idle."""
        if lane.state is not IDLE:
            lane.enqueue(envelope, framing)
            return
        lane.current = envelope
        lane.framing_bits = framing
        route_class = lane.route_class
        if route_class is TIMER:
            lane.state = TIMER_STARTED
            self._sending[lane] = None
            lane.began = began = self._calendar.now + lane.latency
            lane.radio.began[lane.up] = began
            end = began + (envelope.bits + framing) / lane.cap  # type: ignore[operator]  # a constant rate
            self._calendar.call(end, self._arrive_plainly, lane)
        elif route_class is INSTANT:
            lane.state = TIMER_STARTED
            lane.began = lane.radio.began[lane.up] = self._calendar.now
            self._arrive_plainly(lane)
        else:
            lane.state = STARTED
            self._wake(lane, envelope)

    def _wake(self, lane: Lane, envelope: Envelope, *, paged: bool = False) -> None:
        """Schedule the flow of a message, after the wake-up of its radio and the latency."""
        ready = now = self._calendar.now
        if lane.route_class is FULL:
            ready = max(now, lane.silent_until)
            if not lane.radio.detached:
                if not (lane.up or paged) and (reached := lane.radio.reception_time(now)) > now:
                    lane.fire(LaneEvent.PAGE)
                    lane.began = inf  # not known yet
                    self._calendar.call(reached, self._page, (lane, envelope))
                    return
                ready = max(ready, lane.radio.wake(now, envelope.round))
        lane.began = began = ready + lane.latency
        lane.radio.began[lane.up] = began
        # One event starts all messages of a broadcast: their latencies are over together.
        if began in self._starting:
            self._starting[began].append((lane, envelope))
        else:
            self._starting[began] = [(lane, envelope)]
            self._calendar.call(began, self._flow, began)

    # Events that `_wake` schedules are not cancelled if the message is aborted. By then the lane
    # may be idle, or carry another message. So an event carries the message for which it was
    # scheduled, and is stale unless that is the current one: a lane carries an envelope once only.

    def _page(self, waiting: tuple[Lane, Envelope]) -> None:
        """Wake a radio, which can be reached from now on, for the waiting message."""
        lane, envelope = waiting
        if lane.current is envelope:
            lane.fire(LaneEvent.REACH)
            self._wake(lane, envelope, paged=True)

    def _flow(self, began: float) -> None:
        """Start the bits of all messages whose latency is over now."""
        for lane, envelope in self._starting.pop(began):
            if lane.current is not envelope:
                continue
            self._sending[lane] = None
            if lane.route_class is BEARER:
                lane.state = FLOW_STARTED
                bits, cap = envelope.bits + lane.framing_bits, lane.cap
                lane.transfer = lane.bearer.start(
                    bits,
                    cap,  # type: ignore[arg-type]  # its rate is constant
                    self._arrive_plainly,
                    lane,
                )
            else:
                self._start(lane, envelope)

    def _start(self, lane: Lane, envelope: Envelope) -> None:
        if lane.relays and self.relays is not None:
            self.relays.begin(lane)
        rate = lane.start(envelope, self._arrive, self._calendar.now)
        if lane.again_bits:
            self._charge_again(lane)
        if lane.is_off is not None:
            lane.unheard = lane.is_off()
            if lane.unheard:
                lane.fire(LaneEvent.DOOM)
        if not lane.radio.detached:
            lane.radio.begin(lane.up, rate)

    def _charge_again(self, lane: Lane) -> float:
        """Charge the retransmissions of the current message; return joules not yet metered."""
        again = lane.again_bits = lane.count_again() if lane.reliable else lane.again_bits
        if lane.up:
            self._traffic.bits_up += again
        else:
            self._traffic.bits_down += again
        return lane.radio.spend_again(lane.up, again) if lane.reliable and again else 0.0

    def _arrive_plainly(self, lane: Lane) -> None:
        """Do what `_arrive` does, for lanes without further steps; inlined, as it runs often."""
        envelope: Envelope = lane.current  # type: ignore[assignment]  # one end per message
        now = self._calendar.now
        joules = lane.radio.end(now, envelope.bits + lane.framing_bits, lane.up)
        self._traffic.joules += joules
        self.message_log.deliver(lane, envelope, now, joules)
        try:
            lane.state = AFTER_LAST_BIT[lane.state]  # `Lane.fire`, inlined
        except KeyError:
            raise lane.refusal(LAST_BIT) from None
        lane.current = lane.transfer = None
        # Before the callback: its own message has to queue behind those that wait already.
        if lane.queue:
            self._queue(lane, *lane.queue.popleft())
        lane.receive(lane.client, envelope)

    def _arrive(self, lane: Lane) -> None:
        """Log and deliver the message whose last bit has arrived, and start the next one."""
        envelope = lane.current
        if envelope is None:  # pragma: no cover - one end per message
            return
        now, radio = self._calendar.now, lane.radio
        bits = envelope.bits + lane.framing_bits
        if lane.reliable:
            joules = self._charge_again(lane) + radio.end(now, bits, lane.up)
        else:
            joules = radio.end(now, bits + lane.again_bits, lane.up)
        self._traffic.joules += joules
        # A relay may run out of energy as it pays, so the message fails as late as here.
        if lane.relays and self.relays is not None and not self.relays.end(lane, envelope, 1.0):
            lane.fire(LaneEvent.DOOM)
        state = lane.state
        self.message_log.close(lane, envelope, joules)
        lane.fire(LAST_BIT)
        self._free(lane, now + lane.silence)
        if state is not DOOMED:
            lane.receive(lane.client, envelope)
        elif lane.up and not lane.unheard:
            self._undelivered(lane.client, envelope.message)

    def _free(self, lane: Lane, silent_until: float) -> None:
        """Prepare an idle lane for its next message, and start that if it waits."""
        lane.current = lane.transfer = None
        if lane.route_class is FULL:
            lane.silent_until = silent_until
            lane.again_bits = 0
            if not lane.radio.detached:
                lane.radio.mark_idle(lane.up)
        if lane.queue:
            self._queue(lane, *lane.queue.popleft())

    def abort(self, client: ClientId) -> None:
        """Abort all that a client sends and receives: it cannot go on."""
        if self.relays is not None:
            self.relays.client_left(client)
        self.break_off(client)
        self._up[client].radio.switch_off()

    def break_off(self, client: ClientId) -> None:
        """Abort all that a client sends and receives; its radio stays on."""
        lost: list[Envelope] = []
        for lane in (self._down[client], self._up[client]):
            envelopes = lane.messages()
            lane.queue = None
            flowing = lane.transfer is not None
            for envelope in envelopes:
                self._end_undelivered(lane, envelope, ABORTED)
            if lane.up:
                lost = envelopes
            lane.fire(LaneEvent.ABORT)
            # A message that has begun still owes the silence after it (duty cycle).
            self._free(lane, self._calendar.now + lane.silence if flowing else lane.silent_until)
        for envelope in lost:
            self._undelivered(client, envelope.message)

    def close(self) -> None:
        """End the world: record messages in flight, with their costs so far."""
        for lane in (*self._down.in_order(), *self._up.in_order()):
            for envelope in lane.messages():
                self._end_undelivered(lane, envelope, IN_FLIGHT)
            lane.fire(LaneEvent.CLOSE)
        for radio in self._radios():
            radio.switch_off()

    def open_spans(self) -> Spans:
        """Return messages in progress, as `close` would charge them now."""
        now = self._calendar.now
        messages = self._open_messages()
        return Spans.of((client, begin, now, joules) for client, begin, joules in messages)

    def _open_messages(self) -> Iterator[tuple[ClientId, float, float]]:
        """Yield the client of each radio in use, since when it is, s, and its energy so far, J."""
        # Only lanes whose bits have begun to flow since the last look, or did so before it.
        now, busy = self._calendar.now, dict[RadioMeter, list[Lane]]()
        for lane in [*self._sending]:
            if (begin := self._begin_of(lane)) is None:
                del self._sending[lane]
            elif begin < now:
                busy.setdefault(lane.radio, []).append(lane)
        for radio, lanes in busy.items():
            begin, passed = now, [0.0, 0.0]
            for lane in lanes:
                begin = min(begin, self._begin_of(lane) or 0.0)
                passed[lane.up] = bits = self._bits_flown(lane)
                if self.relays is not None and lane.relays:
                    yield from self.relays.open_spans(lane, bits)
            yield lanes[0].client, begin, radio.unsettled(now, passed)

    def _begin_of(self, lane: Lane) -> float | None:
        """Return when the bits of a lane's message begin to flow, s; None if it has no message."""
        return None if lane.current is None else lane.began

    def _bits_flown(self, lane: Lane) -> float:
        """Return how many of these bits have passed."""
        return lane.bits_flown(self._calendar.now)

    def _radios(self) -> list[RadioMeter]:
        """Return the radios of all lanes, by client: some clients have only one lane."""
        radios = {lane.client: lane.radio for lane in (*self._down.values(), *self._up.values())}
        return [radios[client] for client in sorted(radios)]

    def _end_undelivered(self, lane: Lane, envelope: Envelope, why: str) -> None:
        """Record a message that will not arrive, and charge its energy so far."""
        now, joules, span = self._calendar.now, 0.0, 0.0
        if envelope is lane.current:
            span = max(now - lane.began, 0.0)
            if lane.reliable and why != IN_FLIGHT:  # after the last round, nothing counts them
                joules = self._charge_again(lane)
            passed = lane.bits_flown(now)
            joules += lane.radio.end(now, passed, lane.up)
            if self.relays is not None and lane.relays:
                bits = envelope.bits + lane.framing_bits + lane.again_bits
                flows = lane.transfer is not None and bits
                self.relays.end(lane, envelope, passed / bits if flows else 0.0)
            if lane.transfer is not None:
                lane.transfer.stop()
            self._traffic.joules += joules
        self.message_log.log_undelivered(lane, envelope, span, joules, why)
