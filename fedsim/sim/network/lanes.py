"""Lanes: message queues of one direction of one client's radio.

A lane carries one message at a time. The message moves through the states of
`lane_states.TRANSITIONS`.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, TypeVar

from fedsim.core.ports import SERVER, ClientId
from fedsim.core.ports.bearers import Bearer, Transfer
from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios import Carrier, RateLaw, Terms
from fedsim.physics.radios.channel import Channel, Framing
from fedsim.physics.signals import Signal
from fedsim.protocol.transport import Envelope
from fedsim.sim.engine.calendar import Calendar, Timer
from fedsim.sim.network.lane_states import TRANSITIONS, LaneEvent, LaneState, RouteClass
from fedsim.sim.network.relay import Relay
from fedsim.sim.power.radio import RadioMeter

FLOW = LaneEvent.FLOW
_FLOWS = {state: events[FLOW] for state, events in TRANSITIONS.items() if FLOW in events}

T = TypeVar("T")

Receive = Callable[[ClientId, Envelope], None]
"""Callback for a received message, with the number of the sending or receiving client."""


class Lane(Channel):
    """One direction of one client's radio: one message at a time, the others queued in order.

    Attributes:
        sender, receiver: the two ends.
        may_leave: whether the client, or the gateway at the other end, may have to abort.
        framing: the framing if it adds bits, otherwise None.
        reliable: whether transfers retransmit lost packets themselves.
        is_off: returns whether the receiver is switched off; None if it never is.
        unheard: whether the receiver was off as the bits of the current message began to flow.
        state: the state of the current message, a key of `TRANSITIONS`.
        route_class: the steps that messages of this lane take.
        silent_until: the time until which the sender must keep silent (duty cycle), s.
        direct: whether one timer covers the bits of a message: its rate is constant, and it is
            never aborted.
        current: the message in transmission, if any.
        queue: queued messages with the bits of their framing; None before the first one.
        began: the time at which the bits of the current message begin to flow, s.
        framing_bits: the framing of the current message.
        again_bits: its retransmitted bits.
        relays: the clients that forward it, in order.
        broken: the relay that has failed it, and the share of its bits that it received before;
            None if all relays forward it.
        transfer: its transfer on a bearer.
        silence: how long the sender keeps silent after it, s.
    """

    __slots__ = (
        "_end_at",
        "_simple",
        "_steady",
        "again_bits",
        "bearer",
        "began",
        "broken",
        "client",
        "current",
        "direct",
        "framing",
        "framing_bits",
        "is_off",
        "latency",
        "may_leave",
        "queue",
        "radio",
        "receive",
        "receiver",
        "relays",
        "reliable",
        "route_class",
        "sender",
        "silence",
        "silent_until",
        "state",
        "transfer",
        "unheard",
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
        packets: Framing | None = None,
        reliable: bool = False,
    ) -> None:
        packets = packets or radio.law.packaging
        super().__init__(rate, carrier, process, packets, radio.law.most_tries, factor)
        self.client = client
        self.up = up
        self.sender, self.receiver = (client, SERVER) if up else (SERVER, client)
        self.radio = radio
        self.framing = packets if packets.overhead else None
        self.reliable = reliable
        self.may_leave = may_leave
        self.is_off: Callable[[], bool] | None = None
        self.unheard = False
        self.set_losses(process)
        self.broken: tuple[int, float] | None = None
        self.state = LaneState.IDLE
        self.set_route(bearer, latency)
        # Created when the first message has to wait: most lanes never need a queue.
        self.queue: deque[tuple[Envelope, int]] | None = None
        self.silent_until = 0.0
        self.silence = 0.0
        self.current: Envelope | None = None
        self.began = 0.0
        self.framing_bits = 0
        self.again_bits = 0
        self.transfer: Transfer | None = None
        self.receive: Receive

    def set_losses(self, process: LossProcess | None) -> None:
        """Use this loss process from the next message on; `set_route` has to follow."""
        self.process = process
        # A TCP connection reports and charges its retransmissions only when a message has arrived.
        plain = self.cap is not None and process is None and not self.reliable
        self._simple = plain and self.radio.detached and self.is_off is None
        # The terms of all messages, if nothing is drawn per message.
        self._steady = self._terms if process is None and self.signal is None else None

    def set_route(self, bearer: Bearer, latency: float, relays: Sequence[Relay] = ()) -> None:
        """Use this bearer from the next message on, after this latency, s, through these relays."""
        self.relays = relays
        self.bearer = bearer
        self.latency = latency
        breaks_off = relays or self.reliable or self.may_leave
        self.direct = False
        # The exact type: a bearer that a user derives from it need not end at a time known in
        # advance.
        if type(bearer) is OpenBearer and self._steady is not None and not breaks_off:
            self.direct, self._end_at = True, bearer.end_at
        # From the most general class to the cheapest. A class may only skip steps that cannot
        # happen.
        if relays or not self._simple:
            self.route_class = RouteClass.FULL
        elif self.may_leave or not bearer.open:
            self.route_class = RouteClass.BEARER
        elif latency or self.cap != inf:
            self.route_class = RouteClass.TIMER
        else:
            self.route_class = RouteClass.INSTANT

    def set_server(self, server: ClientId, is_off: Callable[[], bool] | None) -> None:
        """Connect the lane to a server.

        Args:
            server: the number of the server.
            is_off: see the attribute; of an uplink to a gateway.
        """
        self.sender, self.receiver = (self.client, server) if self.up else (server, self.client)
        self.is_off = is_off
        self.set_losses(self.process)
        self.set_route(self.bearer, self.latency)

    def fire(self, event: LaneEvent) -> None:
        """Apply an event to the state of the lane.

        Raises:
            RuntimeError: the present state has no such event.
        """
        try:
            self.state = TRANSITIONS[self.state][event]
        except KeyError:
            raise self.refusal(event) from None

    def refusal(self, event: LaneEvent) -> RuntimeError:
        """Return the error for an event that the present state does not allow."""
        way = "uplink" if self.up else "downlink"
        due = ", ".join(allowed.name for allowed in TRANSITIONS[self.state]) or "no event"
        return RuntimeError(
            f"the {way} of client {self.client} got {event.name} in state {self.state.name};"
            f" expected {due}"
        )

    def count_framing(self, bits: int) -> int:
        """Return the framing bits of a message."""
        return 0 if self.framing is None else self.framing.bits(bits)

    def misses(self, envelope: Envelope) -> bool:
        """Draw whether a message loses a packet that is not retransmitted."""
        packets = self.packets.packets(envelope.bits)
        return self.process is not None and self.process.losses(packets) > 0

    def enqueue(self, envelope: Envelope, framing: int) -> None:
        """Queue a message and its framing behind all others."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append((envelope, framing))

    def messages(self) -> list[Envelope]:
        """Return the current message, if any, and the queued ones, in order."""
        waiting = [envelope for envelope, _ in self.queue or ()]
        return waiting if self.current is None else [self.current, *waiting]

    def count_again(self) -> int:
        """Return the bits that the current transfer has retransmitted, beyond `again_bits`."""
        if not self.reliable or self.transfer is None:
            return 0
        again: int = self.transfer.again_bits  # type: ignore[attr-defined]  # a `TcpTransfer`
        return again

    def start(self, envelope: Envelope, finished: Callable[["Lane"], None], now: float) -> float:
        """Start the bits of the current message; return their rate, bit/s.

        The rate is 0 if the bearer or a signal reports it to the radio.
        """
        try:
            self.state = _FLOWS[self.state]  # `fire`, inlined
        except KeyError:
            raise self.refusal(FLOW) from None
        if (steady := self._steady) is not None:
            self.again_bits, self.silence = 0, steady.rest
            bits = envelope.bits + self.framing_bits
            if self.direct:
                self._end_at(now + bits / steady.cap if bits else now, finished, self)
                return steady.cap
            self.transfer = self.bearer.start(bits, steady.cap, finished, self)
            return steady.cap if self.bearer.open else 0.0
        sending = self.send(envelope.bits, self.framing_bits, envelope.round)
        terms, self.again_bits = sending.terms, sending.again
        # The fate of the message is drawn at its start, so that its time and energy are known then.
        # It is reported at its end.
        if sending.lost:
            self.fire(LaneEvent.DOOM)
        # The silence follows the message even if its packets are lost: the air was used.
        self.silence = terms.rest
        if self.signal is not None:
            self.radio.follow_signal(self.up, now, None if self.bearer.open else self.signal)
        elif self.cap is None:
            self.set_pace(terms)
        bits = envelope.bits + self.framing_bits + self.again_bits
        self.transfer = self.bearer.start(bits, terms.cap, finished, self)
        reported = self.signal is not None or not self.bearer.open
        return 0.0 if reported else terms.cap

    def set_pace(self, terms: Terms) -> None:
        """Set the radio's time on the air per bit on these terms."""
        self.radio.set_airtime(self.up, self.airtime(terms))

    def bits_flown(self, now: float) -> float:
        """Return the bits of the current message that have passed by now."""
        # `began` lies ahead while a message waits for its radio and the latency, and is infinite
        # while its receiver is paged.
        if now <= self.began:
            return 0.0
        if self.transfer is not None:
            return self.transfer.passed(now)
        flown = (self.cap or 0.0) * (now - self.began)  # direct lanes have a cap
        if not self.direct or self.current is None:
            return flown
        # At its end a message has passed whole, free of rounding; see `_Timed.passed`.
        bits = self.current.bits + self.framing_bits
        return bits if now >= self.began + bits / (self.cap or inf) else flown


# Open bearers: only the lane's own radio limits a message, so its end is one timer.


class _Timed(ABC):
    """A transfer whose end is known in advance: one timer."""

    __slots__ = ("_began", "_bits", "_calendar", "_end", "_timer")

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        end: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._calendar = calendar
        self._bits = bits
        self._began = calendar.now
        self._end = end
        self._timer: Timer = calendar.at(end, finished, token)

    @abstractmethod
    def _bits_flown(self, now: float) -> float:
        """Return the bits that have passed by a time before its end."""

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`."""
        return self._bits if now >= self._end else self._bits_flown(now)

    def stop(self) -> None:
        """Cancel the transfer."""
        now = self._calendar.now
        # A transfer may be stopped at the very instant of its end, before its timer is due. It has
        # then passed whole, and its bits stay.
        if now < self._end:
            self._bits, self._end = self.passed(now), now
        self._timer.cancel()


class SteadyTransfer(_Timed):
    """A timed transfer at a constant rate."""

    __slots__ = ("_rate",)

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        rate: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        # `super().__init__`, inlined: most messages create a transfer.
        self._rate, self._bits, self._calendar = rate, bits, calendar
        self._began = began = calendar.now
        self._end = end = began + bits / rate if bits else began
        self._timer = calendar.at(end, finished, token)

    def _bits_flown(self, now: float) -> float:
        return self._rate * (now - self._began)


class TracedTransfer(_Timed):
    """A timed transfer at a rate that follows a trace."""

    __slots__ = ("_rate",)

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        rate: Signal,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._rate = rate
        super().__init__(calendar, bits, rate.when(calendar.now, bits), finished, token)

    def _bits_flown(self, now: float) -> float:
        return self._rate.integral(self._began, now)


class OpenBearer:
    """A bearer that only the radio limits, at a rate known when a message starts."""

    open = True

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        # Without a handle for cancellation, which transfers that are never aborted do not need.
        self.end_at = calendar.call

    def start(
        self, bits: float, cap: float, finished: Callable[[T], None], token: T
    ) -> SteadyTransfer:
        """See `Bearer.start`."""
        return SteadyTransfer(self._calendar, bits, cap, finished, token)


class TracedBearer:
    """A bearer that only the radio limits, at a rate that follows a trace."""

    open = True

    def __init__(self, calendar: Calendar, signal: Signal) -> None:
        self._calendar = calendar
        self._signal = signal

    def start(
        self,
        bits: float,
        cap: float,
        finished: Callable[[T], None],
        token: T,
    ) -> TracedTransfer:
        """See `Bearer.start`."""
        return TracedTransfer(self._calendar, bits, self._signal, finished, token)
