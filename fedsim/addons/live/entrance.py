"""The entrance of a live run: it accepts connections, and starts TLS if configured.

Connections that are not admitted yet are counted from here on, before TLS. Their number is limited,
and the oldest is dropped for the newest. So silent peers cannot lock out others.
"""

import asyncio
import socket
from functools import partial

from fedsim.addons.live.access import Certificates, explain_tls
from fedsim.addons.live.session import Door, ServerSession
from fedsim.core.errors import PeerError

_MOMENT = 0.05  # s


class Entrance:
    """Accepts the connections of a run, from `open` to `close`.

    Args:
        listener: listens; a duplicate is used, and closed at the end.
        door: of the run.
        files: of this end of TLS; None without.
    """

    def __init__(self, listener: socket.socket, door: Door, files: Certificates | None) -> None:
        self._context = None if files is None else files.server()
        self._listener, self._door, self._files = listener.dup(), door, files
        self._listener.setblocking(False)  # noqa: FBT003 - positional-only
        self._later: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin to accept connections."""
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more connections."""
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._later is not None:
            self._later.cancel()
        self._listener.close()

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            end, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the peer has gone already
            return
        except OSError:  # the limit of open files is reached
            # The oldest connection that is not admitted frees a descriptor. The listener would be
            # readable at once again, so it rests for a moment.
            self._door.make_room()
            loop.remove_reader(self._listener)
            self._later = loop.call_later(_MOMENT, self.open)
            return
        end.setblocking(False)  # noqa: FBT003 - positional-only
        session = ServerSession(self._door)
        session.opening = loop.create_task(self._open(session, end))
        session.opening.add_done_callback(partial(_close, end))
        self._door.await_proof(session)

    async def _open(self, session: ServerSession, end: socket.socket) -> None:
        """Start a connection on an accepted socket."""
        files, span = self._files, self._door.timing.handshake
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: session,
                end,
                ssl=self._context,
                ssl_handshake_timeout=None if files is None else span,
            )
        except OSError as error:  # of TLS, too
            why = str(error) if files is None else explain_tls(error, "the client", files)
            self._door.end(session, -1, PeerError(f"a client was not admitted: {why}"))


def _close(end: socket.socket, opening: "asyncio.Task[None]") -> None:
    """Close the socket of a connection that was dropped before it started."""
    if opening.cancelled():
        end.close()
