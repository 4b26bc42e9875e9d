"""The transport: takes messages from end to end, and keeps the books of their bits.

A message waits until its sender's lane is free and its radio awake (a message down first until the
radio hears of it), takes the latency of
radio and route, and then its bits flow: at the radio's rate at most, and at its share of the
links on its route. It has arrived when its last bit has.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf

from fedsim.ports import ClientId, Message
from fedsim.protocol.envelope import Envelope
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import (
    ABORTED,
    IN_FLIGHT,
    TRANSITIONS,
    Lane,
    LaneEvent,
    LaneState,
    MessageLog,
    Receive,
    RouteClass,
)
from fedsim.sim.network.relays import Relays
from fedsim.sim.on_demand import OnDemand
from fedsim.sim.power.radio import RadioMeter

# What every message meets, without a look at its class: this is where much of a run's time goes.
IDLE, FROM_IDLE = LaneState.IDLE, TRANSITIONS[LaneState.IDLE]
TIMER, BEARER, FULL = RouteClass.TIMER, RouteClass.BEARER, RouteClass.FULL
START, START_TIMER = LaneEvent.START, LaneEvent.START_TIMER
FLOW, LAST_BIT = LaneEvent.FLOW, LaneEvent.LAST_BIT

MakeLane = Callable[[ClientId, bool], Lane]
"""Makes the lane of a client, up to the server or down from it."""

Undelivered = Callable[[ClientId, Message], None]
"""Told of a client's message that its sender knows to be lost."""


class ServerLanes:
    """The lanes between one server and its clients, each made for its first message.

    Args:
        calendar: the simulated time.
        lane: makes one.
        log, traffic: where messages are written down and charged.

    Attributes:
        books: the bits that it took, delivered and lost.
    """

    def __init__(
        self,
        calendar: Calendar,
        lane: MakeLane,
        log: EventLog,
        traffic: Traffic,
    ) -> None:
        self._calendar = calendar
        self._traffic = traffic
        self._make = lane
        self._up = OnDemand(partial(self._make_lane, up=True))
        self._down = OnDemand(partial(self._make_lane, up=False))
        self.books = MessageLog(calendar, log)
        self.relays: Relays | None = None  # where the routes of a graph lead through clients
        self._starting: dict[
            float, list[tuple[Lane, Envelope]]
        ] = {}  # by when their bits will flow
        self._receive: dict[bool, Receive]  # by whether it has come up
        self._undelivered: Undelivered

    def connect(self, server: Receive, client: Receive, undelivered: Undelivered) -> None:
        """Register the callbacks for received and undelivered messages."""
        self._receive = {True: server, False: client}
        self._undelivered = undelivered

    def prepare(self, clients: Iterable[ClientId]) -> None:
        """Create the lanes of clients whose batteries depend on the outcomes of messages."""
        for client in clients:
            self._down[client], self._up[client]

    def _make_lane(self, client: ClientId, *, up: bool) -> Lane:
        lane = self._make(client, up)
        lane.receive = self._receive[up]
        return lane

    @property
    def made(self) -> int:
        """How many lanes down have been made."""
        return len(self._down)

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Take a message for each of some clients; its bits are charged from here on."""
        self._traffic.bits_down += envelope.bits * len(clients)
        for client in clients:
            lane = self._down[client]
            if lane.framing is not None:
                self._traffic.bits_down += lane.framing.bits(envelope.bits)
            self._queue(lane, envelope)

    def send_up(self, client: ClientId, envelope: Envelope) -> None:
        """Take a message from a client; its bits are charged from here on."""
        traffic, lane = self._traffic, self._up[client]
        traffic.bits_up += envelope.bits
        if lane.framing is not None:
            traffic.bits_up += lane.framing.bits(envelope.bits)
        if envelope.payload_bits:
            traffic.transmissions += 1
        else:
            traffic.beacons += 1
        self._queue(lane, envelope)

    def _queue(self, lane: Lane, envelope: Envelope) -> None:
        """Start a message, at once where its lane is free."""
        if lane.state is not IDLE:
            lane.hold(envelope)
            return
        lane.current = envelope
        bits = envelope.bits
        if lane.framing is not None:
            lane.framing_bits = framing = lane.framing.bits(bits)
            bits += framing
        route_class = lane.route_class
        if route_class is FULL or route_class is BEARER:
            lane.state = FROM_IDLE[START]
            self._wake(lane, envelope)
            return
        lane.state = FROM_IDLE[START_TIMER]
        lane.began = began = self._calendar.now + lane.latency
        lane.radio.began[lane.up] = began
        if route_class is TIMER:
            end = began + bits / lane.cap  # type: ignore[operator]  # its rate is constant
            self._calendar.call(end, self._arrive_plainly, lane)
        else:
            self._arrive_plainly(lane)

    def _wake(self, lane: Lane, envelope: Envelope, *, paged: bool = False) -> None:
        """Let a message wait for its radio and for its latency."""
        ready = now = self._calendar.now
        if lane.route_class is FULL:
            ready = max(now, lane.silent_until)
            if not lane.radio.detached:
                if not (lane.up or paged) and (reached := lane.radio.reception_time(now)) > now:
                    lane.fire(LaneEvent.PAGE)
                    lane.began = inf
                    self._calendar.call(reached, self._page, (lane, envelope))
                    return
                ready = max(ready, lane.radio.wake(now, envelope.round))
        lane.began = began = ready + lane.latency
        lane.radio.began[lane.up] = began
        if began in self._starting:  # a broadcast's latencies are over at once
            self._starting[began].append((lane, envelope))
        else:
            self._starting[began] = [(lane, envelope)]
            self._calendar.call(began, self._flow, began)

    # What `_wake` schedules is not cancelled where the message is aborted: the lane may be idle, or
    # in the middle of another message, by the time it happens. So it bears the message that it was
    # scheduled for, which a lane has once at most: where that is not the current one, it is stale.

    def _page(self, waiting: tuple[Lane, Envelope]) -> None:
        """Wake a radio, which can be reached from now on, for the message that has waited."""
        lane, envelope = waiting
        if lane.current is envelope:
            lane.fire(LaneEvent.REACH)
            self._wake(lane, envelope, paged=True)

    def _flow(self, began: float) -> None:
        """Start the bits of all messages whose latency is over now."""
        for lane, envelope in self._starting.pop(began):
            if lane.current is not envelope:
                continue
            lane.fire(FLOW)
            if lane.route_class is BEARER and lane.cap is not None:
                bits = envelope.bits + lane.framing_bits
                lane.transfer = lane.bearer.start(bits, lane.cap, self._arrive_plainly, lane)
            else:
                self._start(lane, envelope)

    def _start(self, lane: Lane, envelope: Envelope) -> None:
        if self.relays is not None and lane.relays:
            self.relays.begin(lane)
        if lane.process is not None:
            lane.draw_losses()
            self._charge_again(lane)
        rate = lane.start(envelope, self._arrive, self._calendar.now)
        if not lane.radio.detached:
            lane.radio.begin(lane.up, rate)

    def _charge_again(self, lane: Lane) -> None:
        """Charge what is sent again of the current message, if anything."""
        if lane.up:
            self._traffic.bits_up += lane.again_bits
        else:
            self._traffic.bits_down += lane.again_bits

    def _arrive_plainly(self, lane: Lane) -> None:
        """Do what `_arrive` does, for a lane that needs no full treatment.

        This runs twice for every client in every round, hence in one piece.
        """
        envelope = lane.current
        if envelope is None:  # pragma: no cover - a lane has one end for each message
            return
        now = self._calendar.now
        joules = lane.radio.end(now, envelope.bits + lane.framing_bits, lane.up)
        self._traffic.joules += joules
        self.books.deliver(lane, envelope, now, joules)
        try:
            lane.state = TRANSITIONS[lane.state][LAST_BIT]  # `Lane.fire`, less a call
        except KeyError:
            raise lane.refusal(LAST_BIT) from None
        lane.current = lane.transfer = None
        if lane.queue:
            self._queue(lane, lane.queue.popleft())
        lane.receive(lane.client, envelope)

    def _arrive(self, lane: Lane) -> None:
        """Log and deliver the message whose last bit has arrived, and start the next one."""
        envelope = lane.current
        if envelope is None:  # pragma: no cover - a lane has one end for each message
            return
        now = self._calendar.now
        radio = lane.radio
        joules = radio.end(now, envelope.bits + lane.framing_bits + lane.again_bits, lane.up)
        self._traffic.joules += joules
        if self.relays is not None and lane.relays and not self.relays.end(lane, envelope, 1.0):
            lane.fire(LaneEvent.DOOM)
        delivered = lane.state is not LaneState.DOOMED
        self.books.close(lane, envelope, joules)
        lane.fire(LAST_BIT)
        self._free(lane, now + lane.rest)
        if delivered:
            lane.receive(lane.client, envelope)
        elif lane.up:
            self._undelivered(lane.client, envelope.message)

    def _free(self, lane: Lane, silent_until: float) -> None:
        """Make a lane that is idle ready for its next message, and start that if it waits."""
        lane.current = lane.transfer = None
        if lane.route_class is FULL:
            lane.silent_until = silent_until
            lane.again_bits = 0
            if not lane.radio.detached:
                lane.radio.rest(lane.up)
        if lane.queue:
            self._queue(lane, lane.queue.popleft())

    def abort(self, client: ClientId) -> None:
        """Break off all that a client sends and receives, for it cannot go on."""
        if self.relays is not None:
            self.relays.client_left(client)
        lost: list[Envelope] = []
        for lane in (self._down[client], self._up[client]):
            envelopes = lane.messages()
            lane.queue = None
            flowing = lane.transfer is not None
            for envelope in envelopes:
                self._break_off(lane, envelope, ABORTED)
            if lane.up:
                lost = envelopes
            lane.fire(LaneEvent.ABORT)
            # A silence that is owed is owed all the same.
            self._free(lane, self._calendar.now + lane.rest if flowing else lane.silent_until)
        self._up[client].radio.off()
        for envelope in lost:
            self._undelivered(client, envelope.message)

    def close(self) -> None:
        """End the world: log what is in flight, with what it has cost."""
        for lane in (*self._down.in_order(), *self._up.in_order()):
            for envelope in lane.messages():
                self._break_off(lane, envelope, IN_FLIGHT)
            lane.fire(LaneEvent.CLOSE)
        for radio in self._radios():
            radio.off()

    def _radios(self) -> list[RadioMeter]:
        """Return the radios of all lanes, by client: one may have received and never sent."""
        lanes = *self._down.values(), *self._up.values()
        made = {lane.client: lane.radio for lane in lanes}
        return [made[client] for client in sorted(made)]

    def _break_off(self, lane: Lane, envelope: Envelope, why: str) -> None:
        """Log a message that will not arrive: its bits are charged, its energy so far spent."""
        now, joules, span = self._calendar.now, 0.0, 0.0
        if envelope is lane.current:
            span = max(now - lane.began, 0.0)
            passed = lane.passed(now)
            joules = lane.radio.end(now, passed, lane.up)
            if self.relays is not None and lane.relays:
                bits = envelope.bits + lane.framing_bits + lane.again_bits
                flows = lane.transfer is not None and bits
                self.relays.end(lane, envelope, passed / bits if flows else 0.0)
            if lane.transfer is not None:
                lane.transfer.stop()
            self._traffic.joules += joules
        self.books.break_off(lane, envelope, span, joules, why)
