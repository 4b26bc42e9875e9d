"""The server's end of a connection: the handshake, then the frames of a client."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf

from fedsim.addons.live.connection import FrameConnection, Timing, ignore_text, misplaced_frame
from fedsim.addons.live.frames import LONGEST_REPORT, Kind, Report, longest_message
from fedsim.addons.live.handshake import (
    LONGEST_HELLO,
    ClientReady,
    RunOffer,
    ServerHandshake,
    check_ready,
    refusal,
    shown_text,
)
from fedsim.addons.live.network import LiveNetwork
from fedsim.addons.live.returning import ReturnRule
from fedsim.core.errors import AdmissionError, FrameError, PeerError
from fedsim.core.ports import node_name


class Door:
    """State that all connections of a run share on the server's side.

    Args:
        offer: the run that clients join.
        token: see `ServerHandshake`.
        network: receives the clients that are ready.
        dimension: the dimension of the model.
        fingerprint: the hash of the clients' losses.
        timing: the timeouts of connections.
        refused: called with the error of each rejected connection.
        returning: the reconnection policy.
        tell: called with a text when a client leaves or reconnects.

    Attributes:
        waiting: the connections that are not admitted yet, the oldest first.
        sessions: all open connections, admitted or not.
        closing: refused connections that may not have received the reason yet, the oldest first.
        sent_bytes, received_bytes: totals of ended connections.
        changed: set when a client has become ready, or has failed before that.
        failure: the error of the first client that could not build its part; empty for none.
    """

    def __init__(
        self,
        offer: RunOffer,
        token: bytes | None,
        network: LiveNetwork,
        dimension: int,
        fingerprint: str,
        timing: Timing,
        refused: Callable[[PeerError], None],
        returning: ReturnRule | None = None,
        tell: Callable[[str], None] = ignore_text,
    ) -> None:
        self.offer, self.token, self.network = offer, token, network
        self.fingerprint, self.timing = fingerprint, timing
        self.waiting: dict[ServerSession, None] = {}
        self.sessions: set[ServerSession] = set()
        self.closing: dict[ServerSession, None] = {}
        self.sent_bytes = self.received_bytes = 0
        self.changed = asyncio.Event()
        self.failure = ""
        self.limit = max(longest_message(dimension), LONGEST_REPORT)
        self._returning, self._tell = returning or ReturnRule(), tell
        self._refused, self._said = refused, dict[str, float]()
        self._most = offer.clients + _SPARE  # limit of `waiting`, and of `closing`
        self._taken: set[int] = set()
        self._expelled: dict[int, str] = {}

    def take(self, client: int) -> RunOffer:
        """Reserve a client number for an admitted connection; return its offer.

        Raises:
            AdmissionError: the number cannot be used.
        """
        name, network = node_name(client), self.network
        # From here to the answer nothing waits, so two connections cannot both be given a number
        # that is free once.
        if client in self._taken:
            span = f"a broken connection is noticed after {self.timing.silence:g} s"
            raise AdmissionError("connected", f"{name} is connected already; {span}")
        if why := self._expelled.get(client):
            raise AdmissionError("broken", f"{name} may not come back into this run: {why}")
        if client in network.departures and self._returning.never:
            text = f"{name} has left this run and cannot come back: {self._returning.never}"
            raise AdmissionError("client", text)
        # Every return writes rows. Without a pause, a client that breaks off at once could fill the
        # log.
        if network.away(client) < _PAUSE * self.timing.beat:
            raise AdmissionError("connected", f"{name} has only just left: try again")
        self._taken.add(client)
        returns, last_exchange = network.returns(client), network.last_exchange(client)
        return replace(self.offer, returns=returns, last_exchange=last_exchange)

    def await_proof(self, session: "ServerSession") -> None:
        """Register a new connection that is not admitted yet; the oldest ones are dropped for it.

        An honest client is admitted within a few round trips, a silent peer never is.
        """
        self.waiting[session] = None
        if len(self.waiting) > self._most:
            self.make_room()

    def make_room(self) -> None:
        """End the connection that has waited longest for admission, if any."""
        if self.waiting:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.give_way(
                PeerError("a client that was not admitted was disconnected to make room for others")
            )

    def see_off(self, session: "ServerSession") -> None:
        """Keep a refused connection until its peer has received the reason, or others need room."""
        self.closing[session] = None
        if len(self.closing) > self._most:
            next(iter(self.closing)).abort()

    def refuse(self, error: PeerError) -> None:
        """Report why a connection was rejected, unless the same was reported a moment ago."""
        now, text = asyncio.get_running_loop().time(), str(error)
        if now - self._said.get(text, -inf) < self.timing.silence:
            return
        # Texts may hold what a peer has sent, so their number has to be bounded.
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said[text] = now
        self._refused(error)

    def join(self, session: "ServerSession", client: int, said: ClientReady) -> None:
        """Add a ready client to the network.

        Raises:
            AdmissionError: it has left this run, and may not rejoin.
        """
        name, network, rule = node_name(client), self.network, self._returning
        back = client in network.departures
        # The same process has kept the memory. Another one would start with an empty state, while
        # the server counts on the old one.
        if back and rule.remembers and not said.knows:
            text = f"{name} has left this run, and what it remembered ({rule.remembers}) is lost"
            raise AdmissionError("client", f"{text}: only the same process can come back")
        if back and network.metered and not said.metered:
            raise AdmissionError("client", f"{name} had a meter, and comes back without one")
        network.join(client, session, session.down, session.up, metered=said.metered)
        self.changed.set()
        if back:
            self._tell(f"{name} is back, and is asked again from the next exchange on")

    def expel(self, client: int, error: PeerError) -> None:
        """Record that a client has violated the protocol: it may not rejoin this run."""
        self._expelled[client] = str(error)

    def fail(self, text: str) -> PeerError:
        """Handle the failure of a client that is not ready; return the error."""
        self.failure = self.failure or text
        self.changed.set()
        return PeerError(text)

    def end(self, session: "ServerSession", client: int, error: PeerError) -> None:
        """Handle the end of a connection."""
        self.forget(session)
        if client < 0:
            self.refuse(error)
            return
        # The number is free again for a reconnection, unless `take` finds the client expelled.
        self._taken.discard(client)
        if not session.ready:
            self.refuse(error)
        elif self.network.leave(client, str(error)):
            self._tell(f"{node_name(client)} has left: {error}")

    def forget(self, session: "ServerSession") -> None:
        """Add the bytes of an ended connection to the totals."""
        self.waiting.pop(session, None)
        # Bytes are counted once: a connection may end by its peer and again by the end of the run.
        if session in self.sessions:
            self.sessions.discard(session)
            self.sent_bytes += session.sent_bytes
            self.received_bytes += session.received_bytes

    async def close(self) -> None:
        """Close all connections; those of slow readers after a while."""
        for session in self.waiting:
            session.opening.cancel()
        sessions = list(self.sessions)
        for session in sessions:
            session.close()
            self.forget(session)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                for session in sessions:
                    await session.lost.wait()
        for session in (*sessions, *self.closing):
            session.abort()


_FLUSH = 5.0
"""Time that the end of a run waits for slow readers, s."""

_SPARE = 32
"""Number of waiting connections beyond one per client."""

_PAUSE = 0.04
"""Heartbeats until a client that has left may rejoin: each return adds rows to the log."""

_MOST_SAID = 1000
"""Number of recent refusals that are remembered, so that none is reported twice in a row."""


class ServerSession(FrameConnection):
    """The server's end of one connection.

    Args:
        door: state shared with the other connections of this run.

    Attributes:
        down, up: travel times of a handshake frame per direction, s, by the clocks of both ends.
        ready: whether the client takes part.
        opening: the task that opens the connection, with TLS if configured.
    """

    opening: "asyncio.Task[None]"

    def __init__(self, door: Door) -> None:
        super().__init__(door.timing, LONGEST_HELLO)
        # Infinite until measured: `_Peer.meet` takes minima.
        self.down = self.up = inf
        self.ready = False
        self._door = door
        self._handshake = ServerHandshake(door.offer, door.token, door.take)
        self._challenged = 0.0
        self._late: asyncio.TimerHandle | None = None

    def on_open(self) -> None:
        """Wait for the client's first frame, up to a timeout."""
        self.peer = "a client that was not admitted"
        self._door.sessions.add(self)
        self._expect("has not finished its handshake", self._door.timing.handshake)

    def give_way(self, error: PeerError) -> None:
        """End a connection that is not admitted, at any step of the handshake."""
        # During TLS there is no transport yet that could be dropped: the task that opens it is
        # cancelled.
        if self.opening.done():
            self.drop(error)
        else:
            self.opening.cancel()

    def _expect(self, what: str, span: float) -> None:
        """Drop the connection if a step of the handshake is not done in time."""
        if self._late is not None:
            self._late.cancel()
        error = PeerError(f"{self.peer} {what} within {span:g} s")
        self._late = asyncio.get_running_loop().call_later(span, self.drop, error)

    def on_frame(self, kind: Kind, body: bytes) -> None:
        """Handle a frame of the client."""
        try:
            if self.ready:
                self._on_message(kind, body)
            elif self._handshake.admitted:
                self._on_ready(kind, body)
            else:
                self._on_handshake(kind, body)
        except AdmissionError as error:
            self._refuse(error)

    def _refuse(self, error: AdmissionError) -> None:
        """Send the reason, and end the connection."""
        self.send(Kind.REFUSED, refusal(error))
        if self._late is not None:
            self._late.cancel()
        client = self._handshake.client
        # Closed after the reason is written, not aborted: the peer is to read it. `see_off` bounds
        # how many wait for that.
        self.close()
        self._door.see_off(self)
        self._door.end(self, client, error)

    def _on_handshake(self, kind: Kind, body: bytes) -> None:
        now = asyncio.get_running_loop().time()
        answer, content = self._handshake.receive(kind, body)
        if answer is Kind.CHALLENGE:
            self._challenged = asyncio.get_running_loop().time()
        times = self._handshake.times
        if times is not None:
            client = self._handshake.client
            self._door.waiting.pop(self, None)
            self.peer = node_name(client)
            # Differences of two clocks: each includes their offset, with opposite signs, which
            # `_Peer.offset` uses. Handshake frames are short, so the travel times are nearly those
            # of the network.
            self.down, self.up = times.received - self._challenged, now - times.sent
            self._expect("has not built its part", self._door.timing.building)
        self.send(answer, content)

    def _on_ready(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.FAILED:
            raise self._door.fail(f"{self.peer} cannot build its part: {shown_text(body[4:])}")
        if kind is not Kind.READY:
            raise misplaced_frame(kind, self.peer)
        said = check_ready(body, self._door.fingerprint)
        self._door.join(self, self._handshake.client, said)
        # Only now are long frames accepted: a peer that is not admitted must not make the server
        # allocate memory.
        self.ready, self.limit = True, self._door.limit
        if self._late is not None:
            self._late.cancel()

    def _on_message(self, kind: Kind, body: bytes) -> None:
        network, client = self._door.network, self._handshake.client
        if kind is Kind.MESSAGE:
            network.receive(client, body)
        elif kind is Kind.REPORT:
            if len(body) > LONGEST_REPORT:
                raise FrameError(f"{self.peer} has sent a report of {len(body)} bytes")
            network.report(client, Report.decode(body))
        elif kind is Kind.FAILED:
            network.fail(client, int.from_bytes(body[:4], "little"), shown_text(body[4:]))
        else:
            raise misplaced_frame(kind, self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol.connection_lost`."""
        self._door.closing.pop(self, None)
        super().connection_lost(exc)

    def on_broken(self, error: FrameError) -> None:
        """Send an admitted client the reason why it may not rejoin, and end the connection."""
        # Before that, a violation is no reason to shut the number out: anybody may claim it.
        if self.ready:
            self.expel(error)
        else:
            self.drop(error)

    def expel(self, error: PeerError) -> None:
        """End the connection of a client permanently, and send the reason."""
        if not self.ended:
            self._door.expel(self._handshake.client, error)
            self._refuse(AdmissionError("broken", str(error)))

    def on_tick(self) -> None:
        """Check that the client is not overdue."""
        if self.ready:
            self._door.network.check_answers(self._handshake.client)

    def on_end(self, error: PeerError) -> None:
        """Remove the client."""
        if self._late is not None:
            self._late.cancel()
        self._door.end(self, self._handshake.client, error)
