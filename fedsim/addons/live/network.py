"""The server's view of its clients: connections, sent messages, and replies."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.addons.live.clock import OrderedLog, WallClock
from fedsim.addons.live.frames import Kind, Report, frame
from fedsim.addons.live.misfits import ReplyRule, overflows
from fedsim.core.errors import Diverged, Failed, FrameError, PeerError, PeerTimeoutError
from fedsim.core.ports import SERVER, Array, ClientId, node_name
from fedsim.protocol.selection import OFFLINE
from fedsim.protocol.transport import ByteTransport, Envelope, Receive, Unpacking
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import NO_PEER, Event

_COMPUTE = int(Event.COMPUTE)
_NO_MESSAGE = -1, 0, 0, 0
"""The message columns of a row without a message: its name, and its bits."""

_CLOCKS, _ASLEEP = 1.01, 60.0
"""Tolerances: the relative rate of a client's clock, and the time an end may be suspended, s."""

_MOST_WATTS = 1e6
"""The largest plausible power of a client, W."""

ABORTED, IN_FLIGHT = "aborted", "in flight"
"""Outcomes of messages that may not have arrived."""


class ClientConnection(Protocol):
    """The part of a client's connection that the network uses."""

    def send(self, kind: Kind, body: bytes = b"") -> None:
        """Send a frame."""

    def send_bytes(self, data: bytes) -> None:
        """Send whole frames."""

    def close(self) -> None:
        """Close the connection after everything was sent."""

    def expel(self, error: PeerError) -> None:
        """End the connection permanently, and send the reason."""


@dataclass
class _Peer:
    """A connected client.

    Attributes:
        connection: its connection.
        outstanding: messages without a report yet, with their times of sending.
        answering: the message of the last report, if its reply has not arrived yet.
        sent: the time at which that report was sent.
        down: the smallest travel time of a frame to the client so far, s: its arrival by the
            client's clock minus its sending by the server's clock, so it includes their offset.
        up: the same from the client to the server.
    """

    connection: ClientConnection
    down: float
    up: float
    outstanding: deque[tuple[Envelope, float]] = field(default_factory=deque)
    answering: Envelope | None = None
    sent: float = 0.0

    def meet(self, sent: float, received: float, answered: float, now: float) -> None:
        """Update the travel times from a round trip; separately, as one may include a model."""
        # Minima, as a frame may wait in buffers or carry a model; the fastest one is nearest to the
        # travel time alone.
        self.down = min(self.down, received - sent)
        self.up = min(self.up, now - answered)

    @property
    def offset(self) -> float:
        """The server's clock minus the client's, s, if both directions take equally long."""
        # down = travel - offset and up = travel + offset, so half the difference is the offset, as
        # in NTP (RFC 5905).
        return (self.up - self.down) / 2


class _Departure(NamedTuple):
    """Time and reason of a client's departure."""

    t: float
    reason: str


class LiveNetwork:
    """The connections of a run, for the server and for client sampling.

    Implements `fedsim.sim.worlds.server.Downlinks` and `Attendance`, and
    `fedsim.protocol.selection.Eligibility`.

    Args:
        clients: the number of clients.
        clock, log, traffic: clock, log and traffic of the run.
        transport: decodes messages.
        looks: a set to which the ports that the method reads are added.
        answer: the longest time from a message to its report, s.
        largest: the largest accepted dimension of a vector.
        patience: how long to wait for reconnections if no client is left, s.
        replies: the messages that clients may send.
        goes_on: whether the run continues without a client whose handler has failed.

    Attributes:
        delivered, lost, in_flight: bits that arrived, that were lost, and in transit at the end.
        joules: measured at each client, shape (M,).
        metered: whether every client has a meter.
        on_reply: called with a client and its envelope.
        on_lost: called with a client that has left.
        on_failed: called with the name of a client and the error of its handler.
    """

    on_reply: Receive
    on_lost: Callable[[ClientId], None]
    on_failed: Callable[[str, BaseException], None]

    def __init__(
        self,
        clients: int,
        clock: WallClock,
        log: OrderedLog,
        traffic: Traffic,
        transport: ByteTransport,
        looks: set[str],
        answer: float,
        largest: int,
        patience: float = 0.0,
        *,
        replies: ReplyRule | None = None,
        goes_on: bool = False,
    ) -> None:
        self.delivered = self.lost = self.in_flight = 0
        self.joules: Array = np.zeros(clients)
        self.metered = True
        self._clients = clients
        self._clock = clock
        self._log = log
        self._traffic = traffic
        self._transport = transport
        self._looks = looks
        self._answer = answer
        self._largest = largest
        self._replies = replies or ReplyRule()
        self._goes_on = goes_on
        self._unpacking = Unpacking()
        self._peers: dict[ClientId, _Peer] = {}
        self._patience = patience
        self._left: dict[ClientId, _Departure] = {}
        self._returns: Counter[ClientId] = Counter()
        self._heard: dict[ClientId, int] = {}
        self._news: asyncio.Future[None] | None = None
        self._closed = False

    # -- presence ----------------------------------------------------------------------

    @property
    def missing(self) -> list[ClientId]:
        """The clients that have not joined."""
        return [client for client in range(self._clients) if client not in self._peers]

    @property
    def departures(self) -> dict[ClientId, str]:
        """The clients that have left and not reconnected, with reasons."""
        return {client: each.reason for client, each in self._left.items()}

    def away(self, client: ClientId) -> float:
        """Return the time since a client left, s; infinite if it has not left."""
        left = self._left.get(client)
        return inf if left is None else self._clock.now - left.t

    def returns(self, client: ClientId) -> int:
        """Return how often a client has left."""
        return self._returns[client]

    @property
    def returned(self) -> dict[str, int]:
        """The number of reconnections per client, by name."""
        back = {one: times - (one in self._left) for one, times in sorted(self._returns.items())}
        return {node_name(one): times for one, times in back.items() if times}

    def last_exchange(self, client: ClientId) -> int:
        """Return the exchange of the last reply, or silence, that has arrived; 0 for none."""
        return self._heard.get(client, 0)

    @property
    def always_complete(self) -> bool:
        """Whether no client is away."""
        return not self._left

    def obstacle(self, client: ClientId) -> str:
        """Return why a client cannot take part; empty if it can."""
        return "" if client in self._peers else OFFLINE

    def sample_available(self, client: ClientId) -> bool:
        """Return True: a connected client is available."""
        return True

    def why_gone(self, clients: Sequence[ClientId]) -> str:
        """See `Attendance.why_gone`: a client that has left may reconnect for a while."""
        if any(client in self._peers for client in clients):
            return ""
        # A client that has left may come back for a while. `change` wakes the server as that time
        # ends.
        if self._clock.now < self._last_return(clients):
            return ""
        return f"no client can take part any more: {OFFLINE} ({len(clients)})"

    def _last_return(self, clients: Iterable[ClientId]) -> float:
        """Return the time until which the server waits for one of these clients."""
        left = (self._left[client].t for client in clients if client in self._left)
        return max(left, default=-inf) + self._patience

    def charge(self, client: ClientId) -> float:
        """Return NaN: a live run has no batteries."""
        return nan

    async def change(self) -> None:
        """Wait until a client leaves or reconnects, or until the wait for one expires."""
        self._news = asyncio.get_running_loop().create_future()
        ends = (each.t + self._patience for each in self._left.values())
        later = [end for end in ends if end > self._clock.now]
        timer = self._clock.at_deadline(min(later), self._notify) if later else None
        try:
            await self._news
        finally:
            if timer is not None:
                timer.cancel()

    def _notify(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # -- joining and leaving -----------------------------------------------------------

    def join(
        self,
        client: ClientId,
        connection: ClientConnection,
        down: float,
        up: float,
        *,
        metered: bool,
    ) -> None:
        """Add a ready client: it takes part from the next exchange on.

        Args:
            client: its number.
            connection: its connection.
            down: the travel time of a handshake frame to the client, s, see `_Peer`. Handshake
                frames are small in both directions, while later ones may carry a model.
            up: the same from the client.
            metered: whether it has a meter.
        """
        self.metered = self.metered and metered
        self._peers[client] = _Peer(connection, down, up)
        # `_returns` counts departures, not returns, so it stays.
        if (away := self._left.pop(client, None)) is not None:
            now = self._clock.now
            self._log.append(now, now - away.t, Event.ONLINE, client, NO_PEER)
            self._notify()

    def leave(self, client: ClientId, reason: str) -> bool:
        """Remove a client whose connection has ended; return whether it thereby leaves the run.

        Before the run begins it does not. Messages in transit to it are lost, and so is its reply.
        """
        peer = self._peers.pop(client, None)
        if peer is None or self._closed or self._clock.start is None:
            return False
        now = self._clock.now
        # Before `on_lost`, which may ask at once whether the client can take part.
        self._left[client] = _Departure(now, reason)
        self._returns[client] += 1
        for envelope, sent in peer.outstanding:
            self._write_lost(client, envelope, now - sent, ABORTED)
        word = self._log.word(reason)
        self._log.append(now, 0.0, Event.OFFLINE, client, NO_PEER, detail=word)
        self.on_lost(client)
        self._notify()
        return True

    def expel(self, client: ClientId, error: PeerError) -> None:
        """End the connection of a client, which may not rejoin this run."""
        if client in self._peers:
            self._peers[client].connection.expel(error)

    def fail(self, client: ClientId, number: int, text: str) -> None:
        """Handle the failure of a client's handler in some round; 0 if it has not diverged.

        If the run continues without failed clients, only the failure of the last client ends it.
        """
        name = node_name(client)
        peer = self._peers[client]
        asked = peer.answering or (peer.outstanding[0][0] if peer.outstanding else None)
        # The number comes from the client: it cannot have diverged in a round that it was not asked
        # in.
        number = min(number, asked.round if asked is not None else 0)
        if self._goes_on and len(self._peers) > 1:
            self.expel(client, PeerError(f"{name} has failed: {text}"))
            return
        error = Diverged(number, text) if number else Failed(f"{name} has failed: {text}")
        self.on_failed(name, error)

    def check_answers(self, client: ClientId) -> None:
        """Check that a client's report is not overdue.

        Raises:
            PeerTimeoutError: it is.
        """
        peer = self._peers.get(client)
        if peer is not None and peer.outstanding:
            waited = self._clock.now - peer.outstanding[0][1]
            if waited > self._answer:
                text = f"{node_name(client)} has not answered for {self._answer:g} s"
                raise PeerTimeoutError(text)

    # -- messages ----------------------------------------------------------------------

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """See `Downlinks.send_down`."""
        now, data = self._clock.now, frame(Kind.MESSAGE, envelope.data)
        for client in clients:
            peer = self._peers.get(client)
            if peer is None:  # it left while this message was sent to others
                continue
            self._traffic.bits_down += envelope.bits
            # Before the bytes are sent: an immediate failure of the connection has to find the
            # message here, to count it as lost.
            peer.outstanding.append((envelope, now))
            peer.connection.send_bytes(data)

    def receive(self, client: ClientId, body: bytes) -> None:
        """Receive a reply.

        Raises:
            DecodeError: it is not a message of the method.
            FrameError: its report is missing or of another exchange, or the method has no such
                reply.
        """
        # The checks come first, and change nothing: a reply that is refused has no effect on
        # traffic, log or estimates.
        peer = self._peers[client]
        envelope = self._transport.read(body, client, self._unpacking, self._largest)
        asked, answers = peer.answering, (envelope.round, envelope.exchange)
        if asked is None or answers != (asked.round, asked.exchange):
            text = f"{node_name(client)} replies in exchange {envelope.exchange} without a report"
            raise FrameError(text)
        if why := self._replies.flaw(asked.message, envelope.message):
            raise FrameError(f"{node_name(client)} {why}")
        if field := overflows(envelope.message):
            text = f"{envelope.message.label}.{field} has numbers that are not finite"
            self.fail(client, envelope.round, text)
            return
        peer.answering = None
        envelope.word = self._log.word(envelope.message.label)
        traffic, now = self._traffic, self._clock.now
        traffic.bits_up += envelope.bits
        if envelope.payload_bits:
            traffic.transmissions += 1
        else:
            traffic.beacons += 1
        self.delivered += envelope.bits
        self._heard[client] = envelope.exchange
        self._write_delivered(client, SERVER, envelope, now, max(now - peer.sent, 0.0))
        self.on_reply(client, envelope)

    def report(self, client: ClientId, report: Report) -> None:
        """Record the work of a client on a message.

        Raises:
            FrameError: the message was not sent, or is reported twice; or the report has
                implausibly many joules.
            PeerError: the report has more time than has passed.
        """
        peer, now = self._peers[client], self._clock.now
        if not peer.outstanding or peer.outstanding[0][0].exchange != report.exchange:
            text = f"{node_name(client)} reports on exchange {report.exchange}, which was not sent"
            raise FrameError(text)
        envelope, sent = peer.outstanding[0]
        self._check_amounts(client, report, now - sent)
        peer.outstanding.popleft()  # only now: a refused report leaves the message outstanding
        start = self._clock.start or 0.0  # offsets are relative to the loop's time
        peer.meet(start + sent, report.received, report.sent, start + now)

        # A client's time converted to the server's clock is inexact, so it is clipped.
        offset = peer.offset - start
        received = min(max(report.received + offset, sent), now)
        self.delivered += envelope.bits
        self._write_delivered(SERVER, client, envelope, received, received - sent)
        for each in report.spans:
            spent = min(each.ended - each.began, now - sent)
            ended = min(max(each.ended + offset, sent + spent), now)
            # One row per piece, all at the end of the span: a report has no times of single pieces.
            seconds = spent / each.pieces
            joules = 0.0 if isnan(each.joules) else each.joules / each.pieces
            head = ended, seconds, _COMPUTE, client, NO_PEER, envelope.round, *_NO_MESSAGE
            for _ in range(each.pieces):
                if joules:
                    self.joules[client] += joules
                    self._traffic.joules += joules
                self._log.append(*head, joules, nan, -1, each.operations, each.samples)
        peer.sent = min(max(report.sent + offset, sent), now)
        if report.silent:
            self._heard[client] = report.exchange
            self._log.append(peer.sent, 0.0, Event.SILENT, client, SERVER, envelope.round)
        peer.answering = envelope
        self._looks |= report.looks

    def _check_amounts(self, client: ClientId, report: Report, waited: float) -> None:
        """Check a report against the time since its message was sent, s; see `report`."""
        name, said = node_name(client), report.sent - report.received
        if said > _CLOCKS * waited + _ASLEEP:
            text = f"{name} reports {said:g} s of work on a message that was sent {waited:g} s ago"
            raise PeerError(text)
        joules = sum(each.joules for each in report.spans if not isnan(each.joules))
        if joules > _MOST_WATTS * (waited + 1.0):
            raise FrameError(f"{name} reports {joules:g} J within {waited:g} s")

    # -- the end -----------------------------------------------------------------------

    def close(self, *, another: bool) -> None:
        """End the run: tell the clients, and record what is in transit."""
        # From now on a connection that ends is no departure.
        self._closed = True
        now = self._clock.now
        for client, peer in sorted(self._peers.items()):
            peer.connection.send(Kind.END, bytes([another]))
            peer.connection.close()
            for envelope, sent in peer.outstanding:
                self._write_lost(client, envelope, now - sent, IN_FLIGHT)

    # -- what is written down ----------------------------------------------------------

    def _write_delivered(
        self, sender: ClientId, receiver: ClientId, envelope: Envelope, t: float, seconds: float
    ) -> None:
        sizes = envelope.payload_bits, envelope.header_bits, 0
        number, word = envelope.round, envelope.word
        self._log.append_message(t, seconds, sender, receiver, number, word, *sizes, 0.0, 0.0)

    def _write_lost(self, client: ClientId, envelope: Envelope, seconds: float, why: str) -> None:
        """Record a message to a client that may not have arrived."""
        now, detail = self._clock.now, self._log.word(why)
        sizes = envelope.payload_bits, envelope.header_bits, 0
        ends = SERVER, client, envelope.round, envelope.word
        self._log.append(now, seconds, Event.SEND, *ends, *sizes, detail=detail)
        if why == IN_FLIGHT:
            self.in_flight += envelope.bits
            return
        self.lost += envelope.bits
        self._log.append(now, 0.0, Event.LOST, *ends, *sizes, detail=detail)
