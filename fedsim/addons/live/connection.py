"""A connection: frames over an asyncio transport, with heartbeats and bounds.

No wait is unbounded: an endpoint that sends nothing, not even its heartbeat, or that reads nothing,
is dropped after `Timing.silence`. Both are counted in ticks of the connection's
own timer, between which the event loop has looked at its sockets: work that blocks the loop for
longer than that lets no peer appear silent.
"""

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from math import ceil
from typing import cast

from fedsim.addons.live.frames import FRONT_BYTES, FrameReader, Kind, frame
from fedsim.core.errors import DecodeError, FrameError, PeerError, PeerTimeoutError
from fedsim.protocol.transport import RemoteProtocolError


@dataclass(frozen=True)
class Timing:
    """Timeouts of an endpoint, s.

    Attributes:
        beat: between heartbeats, which are sent if nothing else was sent meanwhile.
        silence: how long a peer may neither send nor read a byte before it counts as gone.
        handshake: from the connection to the client's proof.
        building: from WELCOME to READY, in which a client builds its part.
        joining: how long the server waits for all clients to be ready, from the start of a run. A
            client waits as long for the server's answer, from its start or from the end of a run.
        answer: from a message to its report, where the scenario has no shorter deadline.
    """

    beat: float = 5.0
    silence: float = 30.0
    handshake: float = 10.0
    building: float = 600.0
    joining: float = 120.0
    answer: float = 3600.0


def ignore_text(_: str) -> None:
    """Ignore a message to the user."""


_QUEUED = 4
"""Largest number of frames of maximal length that may wait for a slow reader."""


class FrameConnection(asyncio.Protocol):
    """One end of a connection.

    Args:
        timing: see `Timing`.
        limit: of a body that it accepts, bytes.

    Attributes:
        peer: the name of the other end in errors.
        sent_bytes, received_bytes: over the connection so far, above TLS and TCP.
        ended: whether it is closed, or being closed.
        watched: whether a silent peer counts as gone.
        lost: set once the transport has ended, after all that was sent.
    """

    def __init__(self, timing: Timing, limit: int) -> None:
        self.peer = "the peer"
        self.sent_bytes = self.received_bytes = 0
        self.ended = False
        self.watched = True
        self.lost = asyncio.Event()
        self._timing = timing
        self._reader = FrameReader(limit)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._seen = self._noted = 0  # received bytes, and sent ones, at the last tick
        self._silent_ticks = self._stuck_ticks = 0
        self._waiting = 0  # unsent bytes at the last tick

    # -- for subclasses ----------------------------------------------------------------

    @abstractmethod
    def on_open(self) -> None:
        """Handle the start of the connection."""

    @abstractmethod
    def on_frame(self, kind: Kind, body: bytes) -> None:
        """Handle a frame, of any kind but BEAT; a `PeerError` drops the connection."""

    @abstractmethod
    def on_end(self, error: PeerError) -> None:
        """Handle the end of the connection, once; the error says why."""

    def on_broken(self, error: FrameError) -> None:
        """Handle a violation of the protocol: end the connection."""
        self.drop(error)

    def on_tick(self) -> None:
        """Handle a tick of the timer; a `PeerError` drops the connection."""

    # -- what is sent ------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """The largest accepted length of a body, bytes."""
        return self._reader.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._reader.limit = limit

    def send(self, kind: Kind, body: bytes = b"") -> None:
        """Send a frame; nothing if the connection has ended."""
        self.send_bytes(frame(kind, body))

    def send_bytes(self, data: bytes) -> None:
        """Send whole frames; nothing if the connection has ended."""
        if self.ended:
            return
        self.sent_bytes += len(data)
        self._transport.write(data)
        # asyncio's buffer has no bound of its own, and the server must not store models for a
        # client that does not read.
        most = _QUEUED * (max(self.limit, len(data)) + FRONT_BYTES)
        if self._transport.get_write_buffer_size() > most:
            self.drop(PeerTimeoutError(f"{self.peer} reads too slowly: {most} bytes wait for it"))

    def close(self) -> None:
        """Close the connection after everything was sent; `on_end` is not called.

        A peer that does not read keeps the connection open for `Timing.silence` at most.
        """
        if not self.ended:
            self.ended = True
            self._stop_timer()
            self._transport.close()
            loop = asyncio.get_running_loop()
            # A closed transport stays until its buffer is sent, which a peer that does not read
            # prevents for ever.
            self._timer = loop.call_later(self._timing.silence, self._transport.abort)

    def abort(self) -> None:
        """End the connection now and discard unsent data; `on_end` is not called."""
        self.ended = True
        self._stop_timer()
        self._transport.abort()

    def drop(self, error: PeerError) -> None:
        """End the connection now, and report why."""
        if not self.ended:
            self.ended = True
            self._stop_timer()
            self._transport.abort()
            self.on_end(error)

    # -- what asyncio calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol.connection_made`."""
        self._transport = cast("asyncio.Transport", transport)  # of TCP, with or without TLS
        self._tick_later()
        self.on_open()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        self.received_bytes += len(data)
        try:
            for kind, body in self._reader.feed(data):
                if kind is not Kind.BEAT:
                    self.on_frame(kind, body)
                # A frame may end the connection. What follows in the same bytes is ignored.
                if self.ended:
                    return
        except FrameError as error:
            self.on_broken(error)
        except PeerError as error:
            self.drop(error)
        except (DecodeError, RemoteProtocolError) as error:
            text = f"{self.peer} has sent an invalid message: {error}"
            self.on_broken(FrameError(text))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol.connection_lost`."""
        self.lost.set()
        self._stop_timer()
        why = "has closed the connection" if exc is None else f"is not reachable any more: {exc}"
        # Without effect if this end has closed the connection itself.
        self.drop(PeerError(f"{self.peer} {why}"))

    # -- the timer ---------------------------------------------------------------------

    def _tick_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._timing.beat, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        """Send a heartbeat, and check that the peer sends and reads."""
        # Ticks are counted, not seconds: after work that has blocked the loop, one tick has passed,
        # whatever the clock shows, and the data that has arrived meanwhile is read before the next.
        most = ceil(self._timing.silence / self._timing.beat)
        self._silent_ticks = 0 if self.received_bytes > self._seen else self._silent_ticks + 1
        self._seen = self.received_bytes
        # The peer has taken something if fewer bytes wait than did at the last tick, less those
        # that were added since.
        waiting, sent = self._transport.get_write_buffer_size(), self.sent_bytes - self._noted
        taken = not waiting or waiting - sent < self._waiting
        self._stuck_ticks = 0 if taken else self._stuck_ticks + 1
        self._waiting, self._noted = waiting, self.sent_bytes
        span = f"{self._timing.silence:g} s"
        try:
            if self.watched and self._silent_ticks > most:
                raise PeerTimeoutError(f"{self.peer} has sent nothing for {span}")
            if self._stuck_ticks > most:
                raise PeerTimeoutError(f"{self.peer} reads too slowly: nothing taken for {span}")
            self.on_tick()
        except PeerError as error:
            self.drop(error)
        if not self.ended:
            if not (waiting or sent):  # other data serves as a heartbeat
                self.send(Kind.BEAT)
                self._noted = self.sent_bytes
            self._tick_later()


def misplaced_frame(kind: Kind, peer: str) -> FrameError:
    """Return the error for an unexpected frame."""
    return FrameError(f"{peer} has sent an unexpected {kind.name} frame")
