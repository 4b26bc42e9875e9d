"""Lanes: what a message travels in, one direction of one client's radio at a time."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from fedsim.ports import ClientId, Message
from fedsim.sim.network.fair import FairLink, Flow
from fedsim.sim.power.radio import Radio


@dataclass(frozen=True, slots=True)
class ServerLink:
    """The server's connection, which all transfers share.

    Attributes:
        up, down: what it can send and receive, bit/s.
        latency: one way, s, in addition to the radio's.
    """

    up: float = inf
    down: float = inf
    latency: float = 0.0


class Envelope:
    """A message and what is charged for it; a broadcast is one envelope with many readers.

    Attributes:
        message: what is said.
        word: the log's number for it.
        round: the round it belongs to.
        exchange: the number of the exchange that it opens or answers.
        payload_bits, header_bits, bits: what is charged, and the sum.
        beacon: what those who have nothing to say answer, once one of them has.
    """

    __slots__ = (
        "beacon",
        "bits",
        "exchange",
        "header_bits",
        "message",
        "payload_bits",
        "round",
        "word",
    )

    def __init__(
        self, message: Message, word: int, round_number: int, exchange: int, header_bits: int
    ) -> None:
        self.message = message
        self.word = word
        self.round = round_number
        self.exchange = exchange
        self.payload_bits = message.bits
        self.header_bits = header_bits
        self.bits = self.payload_bits + header_bits
        self.beacon: Envelope | None = None


Receive = Callable[[ClientId, Envelope], None]
"""Takes what has arrived, from the client or at the client of that number."""


class Lane:
    """One direction of one client's radio: a message at a time, the others in order.

    Attributes:
        current: the message under way, if any.
        began: when its bits began, or will begin, to flow.
        flow: its share of the server's link, once its bits flow; None where that has no limit.
        instant: whether a message takes no time at all, so that nothing need be scheduled.
    """

    __slots__ = (
        "began",
        "cap",
        "client",
        "current",
        "flow",
        "instant",
        "latency",
        "link",
        "queue",
        "radio",
        "receive",
        "up",
    )

    def __init__(
        self, client: ClientId, radio: Radio, link: FairLink | None, latency: float, *, up: bool
    ) -> None:
        self.client = client
        self.up = up
        self.radio = radio
        self.link = link
        self.cap = radio.model.up if up else radio.model.down
        self.latency = radio.model.latency + latency
        self.instant = link is None and self.cap == inf and self.latency == 0.0
        self.queue: deque[Envelope] = deque()
        self.current: Envelope | None = None
        self.began = 0.0
        self.flow: Flow | None = None
        self.receive: Receive

    def passed(self, now: float) -> float:
        """Return the bits of the current message that have passed by now."""
        if now <= self.began:
            return 0.0
        return self.cap * (now - self.began) if self.flow is None else self.flow.passed(now)
