"""Lanes: message queues of one direction of one client's radio."""

from collections import deque
from collections.abc import Callable, Sequence
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


class Lane:
    """One direction of one client's radio: a message at a time, the others in order.

    Attributes:
        sender, receiver: its ends.
        may_leave: whether its client may have to break off.
        cap: the rate of every message where it is always the same, else None.
        signal: what the rate follows while a message is under way; None where it stays.
        factor: what the model of the network leaves of the radio's rate.
        packets: how messages are cut up.
        framing: the same where it adds something, else None.
        plain: whether a message needs nothing but its latency and its bearer.
        quick: whether not even a bearer, but one timer.
        instant: whether it needs not even that, for taking no time at all.
        free_at: until when the sender must keep silent.
        current: the message under way, if any.
        queue: those that wait for it, if any ever did.
        began: when its bits began, or will begin, to flow.
        framing_bits: what the transport adds to it.
        again_bits: what is sent again of it.
        relays: the clients that forward it, in the order of travel.
        broken: which of these has failed it, and the share of its bits that came so far; None
            while all forward it.
        doomed: whether a packet of it is lost for good.
        transfer: its bearer, once its bits flow on one.
        turn: counts messages; what was scheduled for an earlier one is stale.
    """

    __slots__ = (
        "_alone",
        "again_bits",
        "bearer",
        "began",
        "broken",
        "cap",
        "carrier",
        "client",
        "current",
        "doomed",
        "factor",
        "framing",
        "framing_bits",
        "free_at",
        "instant",
        "latency",
        "may_leave",
        "packets",
        "plain",
        "process",
        "queue",
        "quick",
        "radio",
        "receive",
        "receiver",
        "relays",
        "rest",
        "sender",
        "signal",
        "transfer",
        "turn",
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
        self.plain = self.cap is not None and process is None and radio.detached
        self.may_leave = may_leave
        self._alone = self.plain
        self.broken: tuple[int, float] | None = None
        self.lead(bearer, latency)
        self.queue: deque[Envelope] | None = None  # made when the first message has to wait
        self.free_at = 0.0
        self.rest = 0.0
        self.current: Envelope | None = None
        self.began = 0.0
        self.framing_bits = 0
        self.again_bits = 0
        self.doomed = False
        self.transfer: Transfer | None = None
        self.turn = 0
        self.receive: Receive

    def lead(self, bearer: Bearer, latency: float, relays: Sequence[Relay] = ()) -> None:
        """Take this bearer from the next message on, after this latency, s, by these relays."""
        self.relays = relays
        self.plain = self._alone and not relays
        self.bearer = bearer
        self.latency = latency
        self.quick = self.plain and bearer.open and not self.may_leave
        self.instant = self.quick and self.cap == inf and latency == 0.0

    def hold(self, envelope: Envelope) -> None:
        """Let a message wait until the one under way and those before it are through."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(envelope)

    def messages(self) -> list[Envelope]:
        """Return the message under way, if any, and those that wait, in order."""
        return [*([] if self.current is None else [self.current]), *(self.queue or ())]

    def throw(self) -> None:
        """Draw which packets of the current message are lost."""
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
        self.doomed = outcome.lost > 0

    def start(self, finished: Callable[["Lane"], None], round_number: int, now: float) -> float:
        """Let the bits of the current message flow; return their rate, bit/s.

        The rate is 0 where whatever sets it tells the radio of it.
        """
        envelope = self.current
        if envelope is None:  # pragma: no cover - there is one start for every message
            raise RuntimeError("a lane without a message was started")
        framed = envelope.bits + self.framing_bits
        terms = self.carrier.terms(envelope.bits, framed, round_number)
        self.rest = terms.rest
        if self.signal is not None:
            self.radio.follow(self.up, now, None if self.bearer.open else self.signal)
        elif self.cap is None:
            self.set_pace(terms)
        self.transfer = self.bearer.start(framed + self.again_bits, terms.cap, finished, self)
        told = self.signal is not None or not self.bearer.open
        return 0.0 if told else terms.cap

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
        return (self.cap or 0.0) * (now - self.began)  # a quick lane has a cap


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
        if lane.again_bits or lane.doomed or lane.radio.supply is not None:
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
        detail = LOST if lane.doomed else ""
        sent = (envelope.payload_bits, envelope.header_bits, lane.framing_bits)
        times, costs = (span * first, span * (1 - first)), (own * first, own * (1 - first))
        self._row(lane, envelope, Event.SEND, times[0], sent, costs[0], detail)
        self._repeat(lane, envelope, times[1], costs[1])
        if lane.doomed:
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
