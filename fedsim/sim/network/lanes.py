"""Lanes: message queues of one direction of one client's radio, and the states they pass through.

A lane carries one message at a time. What happens to that message is a walk through the states of
`TRANSITIONS`, a literal table in which every event has its new state: the code that moves
messages (`fedsim.sim.network.transport`) fires events, and takes each new state from the table. An
event that is not there is a defect of that code, refused with the names of lane, state and event.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum, auto
from math import inf, nan

from fedsim.physics.packet_loss import LossProcess, repeat
from fedsim.physics.radios import Carrier, RateLaw, Terms
from fedsim.ports import SERVER, ClientId
from fedsim.protocol.envelope import Envelope
from fedsim.record.log import EventLog
from fedsim.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.bearers import Bearer
from fedsim.sim.network.relay import Relay
from fedsim.sim.network.timed import Transfer
from fedsim.sim.power.radio import RadioMeter

Receive = Callable[[ClientId, Envelope], None]
"""Takes what has arrived, from the client or at the client of that number."""


class LaneState(IntEnum):
    """Where the current message of a lane is.

    Attributes:
        IDLE: there is none. Its sender may still have to keep silent (`Lane.silent_until`), which
            is no state: nothing happens as that silence ends, so no timer waits for it.
        PAGING: it waits until the receiving radio can be reached, as in a paging cycle.
        STARTING: it waits for its radio and for the latency; no bit flows yet.
        TIMED: latency and bits together are one timer, on a lane of `RouteClass.TIMER`.
        FLOWING: its bits flow on a bearer.
        DOOMED: they flow, but it will not arrive: a packet is lost for good, or a relay is gone.
            Its sender does not know, sends all of it, and pays for that.
        CLOSED: the world has ended.
    """

    # An IntEnum, for these are the keys of `TRANSITIONS`: a plain Enum hashes in Python code.
    IDLE = auto()
    PAGING = auto()
    STARTING = auto()
    TIMED = auto()
    FLOWING = auto()
    DOOMED = auto()
    CLOSED = auto()


class LaneEvent(IntEnum):
    """What happens to the current message of a lane.

    Attributes:
        START: a message gets the lane; its radio and its latency come first.
        START_TIMER: a message gets the lane, and one timer is all that it needs.
        PAGE: its receiver's radio cannot be reached yet.
        REACH: now it can.
        FLOW: its first bit flows.
        DOOM: it will not arrive, though its bits flow to the last.
        LAST_BIT: the last bit has passed.
        ABORT: its client cannot go on.
        CLOSE: the world ends.
    """

    START = auto()
    START_TIMER = auto()
    PAGE = auto()
    REACH = auto()
    FLOW = auto()
    DOOM = auto()
    LAST_BIT = auto()
    ABORT = auto()
    CLOSE = auto()


TRANSITIONS: dict[LaneState, dict[LaneEvent, LaneState]] = {
    LaneState.IDLE: {
        LaneEvent.START: LaneState.STARTING,
        LaneEvent.START_TIMER: LaneState.TIMED,
        LaneEvent.ABORT: LaneState.IDLE,  # a client leaves that sends, or receives, nothing
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.PAGING: {
        LaneEvent.REACH: LaneState.STARTING,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.STARTING: {
        LaneEvent.PAGE: LaneState.PAGING,
        LaneEvent.FLOW: LaneState.FLOWING,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    # No ABORT: nothing could cancel the timer. A client that may leave has lanes with bearers.
    LaneState.TIMED: {
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.FLOWING: {
        LaneEvent.DOOM: LaneState.DOOMED,
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.DOOMED: {
        LaneEvent.DOOM: LaneState.DOOMED,  # lost on its first hop, and a relay is gone as well
        LaneEvent.LAST_BIT: LaneState.IDLE,
        LaneEvent.ABORT: LaneState.IDLE,
        LaneEvent.CLOSE: LaneState.CLOSED,
    },
    LaneState.CLOSED: {},
}
"""The new state, by the present one and the event."""


class RouteClass(IntEnum):
    """How much a lane's messages need on their way, from the least to the most.

    It is a matter of speed alone: every message could be treated as `FULL`, with the same result.
    It depends on the radio, the links and the latency, so it is chosen once a route (`Lane.lead`)
    and not once a message.

    Attributes:
        INSTANT: nothing: a message takes no time.
        TIMER: one timer for the latency and all bits, which nothing can hold up or break off.
        BEARER: the latency, and then a bearer at a constant rate; the radio on mains has no states,
            and no packet is lost.
        FULL: radio states, batteries, varying rates, lost packets or relays.
    """

    INSTANT = auto()
    TIMER = auto()
    BEARER = auto()
    FULL = auto()


class Lane:
    """One direction of one client's radio: a message at a time, the others in order.

    Attributes:
        sender, receiver: its ends.
        may_leave: whether its client may have to break off.
        cap: the rate of every message where it is always the same, else None.
        signal: what the rate follows while bits flow; None where it stays.
        factor: what the model of the network leaves of the radio's rate.
        packets: how messages are cut up.
        framing: the same where it adds something, else None.
        state: where the current message is; each new one is read from `TRANSITIONS`.
        route_class: what its messages need on their way.
        silent_until: the time until which the sender must keep silent (duty cycle), s.
        current: the message that has the lane, if any.
        queue: those that wait for it, if any ever did.
        began: when its bits began, or will begin, to flow.
        framing_bits: what the transport adds to it.
        again_bits: what is sent again of it.
        relays: the clients that forward it, in the order of travel.
        broken: which of these has failed it, and the share of its bits that came so far; None
            while all forward it.
        transfer: its bits on a bearer, while they flow there.
        rest: how long the sender keeps silent after it, s.
    """

    __slots__ = (
        "_simple",
        "again_bits",
        "bearer",
        "began",
        "broken",
        "cap",
        "carrier",
        "client",
        "current",
        "factor",
        "framing",
        "framing_bits",
        "latency",
        "may_leave",
        "packets",
        "process",
        "queue",
        "radio",
        "receive",
        "receiver",
        "relays",
        "rest",
        "route_class",
        "sender",
        "signal",
        "silent_until",
        "state",
        "transfer",
        "up",
    )

    def __init__(
        self,
        client: ClientId,
        radio: RadioMeter,
        bearer: Bearer,
        rate: RateLaw,
        carrier: Carrier,
        process: LossProcess | None,
        latency: float,
        *,
        up: bool,
        may_leave: bool,
        factor: float = 1.0,
    ) -> None:
        self.client = client
        self.up = up
        self.sender, self.receiver = (client, SERVER) if up else (SERVER, client)
        self.radio = radio
        self.carrier = carrier
        self.process = process
        self.cap = rate.constant
        self.signal = rate.signal if factor == 1.0 else rate.with_factor(factor).signal
        self.factor = factor
        self.packets = packets = radio.law.packaging
        self.framing = packets if packets.overhead else None
        self.may_leave = may_leave
        self._simple = self.cap is not None and process is None and radio.detached
        self.broken: tuple[int, float] | None = None
        self.state = LaneState.IDLE
        self.lead(bearer, latency)
        self.queue: deque[Envelope] | None = None  # made when the first message has to wait
        self.silent_until = 0.0
        self.rest = 0.0
        self.current: Envelope | None = None
        self.began = 0.0
        self.framing_bits = 0
        self.again_bits = 0
        self.transfer: Transfer | None = None
        self.receive: Receive

    def lead(self, bearer: Bearer, latency: float, relays: Sequence[Relay] = ()) -> None:
        """Take this bearer from the next message on, after this latency, s, by these relays."""
        self.relays = relays
        self.bearer = bearer
        self.latency = latency
        if relays or not self._simple:
            self.route_class = RouteClass.FULL
        elif self.may_leave or not bearer.open:
            self.route_class = RouteClass.BEARER
        elif latency or self.cap != inf:
            self.route_class = RouteClass.TIMER
        else:
            self.route_class = RouteClass.INSTANT

    def fire(self, event: LaneEvent) -> None:
        """Go to the state that follows.

        Raises:
            RuntimeError: the present state has no such event.
        """
        try:
            self.state = TRANSITIONS[self.state][event]
        except KeyError:
            raise self.refusal(event) from None

    def refusal(self, event: LaneEvent) -> RuntimeError:
        """Return the error of an event that the present state does not have."""
        way = "uplink" if self.up else "downlink"
        due = ", ".join(each.name for each in TRANSITIONS[self.state]) or "no event"
        return RuntimeError(
            f"the {way} of client {self.client} got {event.name} in state {self.state.name};"
            f" expected {due}"
        )

    def hold(self, envelope: Envelope) -> None:
        """Let a message wait until the one under way and those before it are through."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(envelope)

    def messages(self) -> list[Envelope]:
        """Return the message under way, if any, and those that wait, in order."""
        return [*([] if self.current is None else [self.current]), *(self.queue or ())]

    def draw_losses(self) -> None:
        """Draw which packets of the current message are lost, as its bits begin to flow."""
        envelope = self.current
        if self.process is None or envelope is None:
            return
        packets = self.packets.packets(envelope.bits)
        if not packets:  # a message without a bit cannot be lost
            return
        outcome = repeat(self.process, packets, self.radio.law.most_tries)
        # Which of its packets were repeated is not drawn: they count with the mean size.
        bits = envelope.bits + self.framing_bits
        self.again_bits = -(-bits * outcome.repeated // packets)
        if outcome.lost:
            self.fire(LaneEvent.DOOM)

    def start(self, envelope: Envelope, finished: Callable[["Lane"], None], now: float) -> float:
        """Let the bits of the current message flow; return their rate, bit/s.

        The rate is 0 where it is reported to the radio by what sets it.
        """
        framed = envelope.bits + self.framing_bits
        terms = self.carrier.terms(envelope.bits, framed, envelope.round)
        self.rest = terms.rest
        if self.signal is not None:
            self.radio.follow(self.up, now, None if self.bearer.open else self.signal)
        elif self.cap is None:
            self.set_pace(terms)
        self.transfer = self.bearer.start(framed + self.again_bits, terms.cap, finished, self)
        reported = self.signal is not None or not self.bearer.open
        return 0.0 if reported else terms.cap

    def set_pace(self, terms: Terms) -> None:
        """Tell the radio how long a bit is on the air on these terms."""
        own = terms.cap * self.factor
        self.radio.pace(self.up, terms.share / own if own else 0.0)

    def passed(self, now: float) -> float:
        """Return the bits of the current message that have passed by now."""
        if now <= self.began:
            return 0.0
        if self.transfer is not None:
            return self.transfer.passed(now)
        return (self.cap or 0.0) * (now - self.began)  # TIMED: there is a cap


# The manifest: log rows and bit totals of every message, delivered or not.

LOST, ABORTED, IN_FLIGHT = "lost", "aborted", "in flight"
"""What becomes of a message that does not arrive."""


class MessageLog:
    """Writes the rows of messages, and adds up their bits.

    Attributes:
        delivered: bits handed over, a broadcast counted once.
        echoed: the same for the other listeners of a broadcast.
        lost: bits given up, and bits sent again.
        in_flight: bits under way at the end.
    """

    def __init__(self, calendar: Calendar, log: EventLog) -> None:
        self.delivered = 0
        self.echoed = 0
        self.lost = 0
        self.in_flight = 0
        self._calendar = calendar
        self._log = log
        self._append = log.append_message

    def deliver(self, lane: Lane, envelope: Envelope, now: float, joules: float) -> None:
        """Write down a message that has arrived, and of which nothing was sent again."""
        self.delivered += envelope.bits + lane.framing_bits
        self._append(
            now,
            now - lane.began,
            lane.sender,
            lane.receiver,
            envelope.round,
            envelope.word,
            envelope.payload_bits,
            envelope.header_bits,
            lane.framing_bits,
            joules if lane.up else 0.0,
            0.0 if lane.up else joules,
        )

    def close(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Record a message whose last bit has flowed."""
        doomed = lane.state is LaneState.DOOMED
        if lane.again_bits or doomed or lane.radio.supply is not None:
            self._close_in_full(lane, envelope, joules)
        else:
            self.deliver(lane, envelope, self._calendar.now, joules)

    def _close_in_full(self, lane: Lane, envelope: Envelope, joules: float) -> None:
        """Write down a message with what was sent again of it, and whether it was lost.

        Time and energy are shared between the first transmission and the others by their
        bits; the receiver's energy stands in one row.
        """
        bits, again = envelope.bits + lane.framing_bits, lane.again_bits
        span = self._calendar.now - lane.began
        first = bits / (bits + again) if again else 1.0
        own = joules if lane.up else 0.0
        doomed = lane.state is LaneState.DOOMED
        detail = LOST if doomed else ""
        sent = (envelope.payload_bits, envelope.header_bits, lane.framing_bits)
        times, costs = (span * first, span * (1 - first)), (own * first, own * (1 - first))
        self._row(lane, envelope, Event.SEND, times[0], sent, costs[0], detail)
        self._repeat(lane, envelope, times[1], costs[1])
        if doomed:
            self._lose(lane, envelope, bits, LOST, span, joules - own)
            return
        self.delivered += bits
        self._row(lane, envelope, Event.RECEIVE, span, sent, joules - own)

    def break_off(
        self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str
    ) -> None:
        """Write down a message that will not arrive, with what it has cost so far.

        Its energy is that of the sending or receiving client; its bits are the sender's.
        """
        own = joules if lane.up else 0.0
        framing = 0 if lane.framing is None else lane.framing.bits(envelope.bits)
        sent = (envelope.payload_bits, envelope.header_bits, framing)
        self._row(lane, envelope, Event.SEND, span, sent, own, why)
        if envelope is lane.current:  # what waits has not been sent, so nothing of it again
            self._repeat(lane, envelope, 0.0, 0.0)
        bits = envelope.bits + framing
        if why == IN_FLIGHT:
            self.in_flight += bits
            self._spend(lane, envelope, span, joules - own, why)
        else:
            self._lose(lane, envelope, bits, why, span, joules - own)

    def _repeat(self, lane: Lane, envelope: Envelope, span: float, joules: float) -> None:
        """Write down what was sent again of the current message, if anything."""
        if lane.again_bits:
            self.lost += lane.again_bits
            bits = (0, 0, lane.again_bits)
            self._row(lane, envelope, Event.RETRANSMIT, span, bits, joules)

    def _lose(
        self, lane: Lane, envelope: Envelope, bits: int, why: str, span: float, joules: float
    ) -> None:
        self.lost += bits
        self._spend(lane, envelope, span, joules, why)
        sent = (envelope.payload_bits, envelope.header_bits, bits - envelope.bits)
        self._row(lane, envelope, Event.LOST, 0.0, sent, 0.0, why)

    def _spend(self, lane: Lane, envelope: Envelope, span: float, joules: float, why: str) -> None:
        """Write down what a download that is not delivered has cost its receiver."""
        if joules:
            self._row(lane, envelope, Event.RECEIVE, span, (0, 0, 0), joules, why)

    def _row(
        self,
        lane: Lane,
        envelope: Envelope,
        event: Event,
        span: float,
        bits: tuple[int, int, int],
        joules: float,
        detail: str = "",
    ) -> None:
        # A message stands in a row of its sender, but for what it is to its receiver.
        ends = self._ends(lane, envelope)
        node, peer = ends[::-1] if event is Event.RECEIVE else ends
        supply = lane.radio.supply
        self._log.append(
            self._calendar.now,
            span,
            event,
            node,
            peer,
            envelope.round,
            envelope.word,
            *bits,
            joules=joules,
            state_of_charge=nan if supply is None or node != lane.client else supply.share,
            detail=self._log.word(detail),
        )

    def _ends(self, lane: Lane, envelope: Envelope) -> tuple[ClientId, ClientId]:  # noqa: ARG002
        """Return sender and receiver of a message."""
        return lane.sender, lane.receiver
