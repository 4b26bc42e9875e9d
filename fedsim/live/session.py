"""The server's end of a connection: the handshake, then the frames of a client."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf

from fedsim.errors import AdmissionError, FrameError, PeerError
from fedsim.live.connection import FrameConnection, Timing, misplaced_frame
from fedsim.live.frames import Kind, Report
from fedsim.live.handshake import (
    LONGEST_HELLO,
    RunOffer,
    ServerHandshake,
    check_ready,
    refusal,
)
from fedsim.live.limits import LONGEST_REPORT, longest_message
from fedsim.live.network import LiveNetwork
from fedsim.ports import node_name


class Door:
    """What all connections of a run share on the server's side.

    Args:
        offer: the run that clients are let into.
        token: see `ServerHandshake`.
        network: takes the clients that are ready.
        dimension: of the model.
        fingerprint: the hash of the clients' losses.
        timing: of the connections.
        refused: called with the error of each connection that was not let in.

    Attributes:
        sessions: the connections that are open, let in or not.
        sent_bytes, received_bytes: of connections that have ended.
        changed: set when a client has become ready, or has failed before that.
        failure: of the first client that could not build its part; empty for none.
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
    ) -> None:
        self.offer, self.token, self.network = offer, token, network
        self.fingerprint, self.timing, self.refused = fingerprint, timing, refused
        self.sessions: set[ServerSession] = set()
        self.sent_bytes = self.received_bytes = 0
        self.changed = asyncio.Event()
        self.failure = ""
        self.limit = max(longest_message(dimension), LONGEST_REPORT)
        self._taken: set[int] = set()

    def why_taken(self, client: int) -> str:
        """Return why a number of a client cannot be taken; empty if it can."""
        if client in self.network.departures:
            return f"{node_name(client)} has left this run, and what it knew of it is lost"
        return f"{node_name(client)} is connected already" if client in self._taken else ""

    def take(self, client: int) -> None:
        """Reserve a number for a connection that was let in."""
        self._taken.add(client)

    def is_full(self) -> bool:
        """Return whether too many connections that were not let in are open."""
        return len(self.sessions) > 2 * self.offer.clients + _SPARE

    def join(self, session: "ServerSession", client: int, *, metered: bool) -> None:
        """Add a client that is ready to the network."""
        self.network.join(client, session, session.offset, session.delay, metered=metered)
        self.changed.set()

    def fail(self, text: str) -> PeerError:
        """Handle the failure of a client that is not ready; return the error."""
        self.failure = self.failure or text
        self.changed.set()
        return PeerError(text)

    def end(self, session: "ServerSession", client: int, error: PeerError) -> None:
        """Handle the end of a connection."""
        self.forget(session)
        if client < 0:
            self.refused(error)
            return
        self._taken.discard(client)
        if session.ready:
            self.network.leave(client, str(error))
        else:
            self.refused(error)

    def forget(self, session: "ServerSession") -> None:
        """Count the bytes of a connection that has ended."""
        if session in self.sessions:
            self.sessions.discard(session)
            self.sent_bytes += session.sent_bytes
            self.received_bytes += session.received_bytes

    async def close(self) -> None:
        """Close all connections; those that do not take what was sent to them, after a while."""
        sessions = list(self.sessions)
        for session in sessions:
            session.close()
            self.forget(session)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                for session in sessions:
                    await session.lost.wait()
        for session in sessions:
            session.abort()


_FLUSH = 5.0
"""How long the end of a run waits for clients that read slowly, s."""

_SPARE = 32
"""The number of connections beyond two for each client, for those that are not let in."""


class ServerSession(FrameConnection):
    """The server's end of one connection.

    Args:
        door: what it shares with the others of this run.

    Attributes:
        offset: the server's time less the client's, s.
        delay: the round trip by which it is known, s.
        ready: whether the client takes part.
    """

    def __init__(self, door: Door) -> None:
        super().__init__(door.timing, LONGEST_HELLO)
        self.offset, self.delay = 0.0, inf
        self.ready = False
        self._door = door
        self._handshake = ServerHandshake(door.offer, door.token, door.why_taken)
        self._challenged = 0.0
        self._late: asyncio.TimerHandle | None = None

    def on_open(self) -> None:
        """Wait for the client's first frame, for a while."""
        self.peer = "a client that is not let in"
        self._door.sessions.add(self)
        if self._door.is_full():
            self._refuse(AdmissionError("full", "the server has too many open connections"))
            return
        self._expect("has not finished its handshake", self._door.timing.handshake)

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
        """Say why, and end the connection."""
        self.send(Kind.REFUSED, refusal(error))
        if self._late is not None:
            self._late.cancel()
        client = self._handshake.client
        self.close()
        self._door.end(self, client, error)

    def _on_handshake(self, kind: Kind, body: bytes) -> None:
        now = asyncio.get_running_loop().time()
        answer, content = self._handshake.receive(kind, body)
        if answer is Kind.CHALLENGE:
            self._challenged = asyncio.get_running_loop().time()
        times = self._handshake.times
        if times is not None:
            client = self._handshake.client
            self._door.take(client)
            self.peer = node_name(client)
            self.offset = ((self._challenged - times.received) + (now - times.sent)) / 2
            self.delay = max((now - self._challenged) - (times.sent - times.received), 0.0)
            self._expect("has not built its part", self._door.timing.building)
        self.send(answer, content)

    def _on_ready(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.FAILED:
            text = body[4:].decode(errors="replace")
            raise self._door.fail(f"{self.peer} cannot build its part: {text}")
        if kind is not Kind.READY:
            raise misplaced_frame(kind, self.peer)
        metered = check_ready(body, self._door.fingerprint)
        self.ready, self.limit = True, self._door.limit
        if self._late is not None:
            self._late.cancel()
        self._door.join(self, self._handshake.client, metered=metered)

    def _on_message(self, kind: Kind, body: bytes) -> None:
        network, client = self._door.network, self._handshake.client
        if kind is Kind.MESSAGE:
            network.receive(client, body)
        elif kind is Kind.REPORT:
            if len(body) > LONGEST_REPORT:
                raise FrameError(f"{self.peer} has sent a report of {len(body)} bytes")
            network.report(client, Report.decode(body))
        elif kind is Kind.FAILED:
            number, text = int.from_bytes(body[:4], "little"), body[4:].decode(errors="replace")
            network.fail(client, number, text)
        else:
            raise misplaced_frame(kind, self.peer)

    def on_tick(self) -> None:
        """Check that the client is not overdue."""
        if self.ready:
            self._door.network.check_answers(self._handshake.client)

    def on_end(self, error: PeerError) -> None:
        """Remove the client."""
        if self._late is not None:
            self._late.cancel()
        self._door.end(self, self._handshake.client, error)
