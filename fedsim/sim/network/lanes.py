"""Lanes: what a message travels in, one direction of one client's radio at a time."""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from fedsim.physics.packet_loss import LossProcess, repeat
from fedsim.physics.radios import Carrier, RateLaw, Terms
from fedsim.ports import SERVER, ClientId
from fedsim.protocol.envelope import Envelope
from fedsim.sim.network.bearers import Bearer
from fedsim.sim.network.relay import Relay
from fedsim.sim.network.timed import Transfer
from fedsim.sim.power.radio import Radio

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
        radio: Radio,
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
        self.signal = rate.signal if factor == 1.0 else rate.scaled(factor).signal
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
