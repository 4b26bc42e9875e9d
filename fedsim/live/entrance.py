"""The entrance of a live run: it accepts connections, and begins TLS where there is any.

Connections that are not let in yet are counted from here on, before TLS: there are only so many of
them, and the oldest makes room for the newest. So peers that connect and say nothing keep none out
that has something to say.
"""

import asyncio
import socket
import ssl
from functools import partial

from fedsim.errors import PeerError
from fedsim.live.session import Door, ServerSession

_MOMENT = 0.05  # s


class Entrance:
    """Accepts the connections of a run, from `open` to `close`.

    Args:
        listener: listens, and does not block.
        door: of the run.
        context: of TLS; None without.
    """

    def __init__(self, listener: socket.socket, door: Door, context: ssl.SSLContext | None) -> None:
        self._listener, self._door, self._context = listener, door, context
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
        except (BlockingIOError, ConnectionAbortedError):  # it is gone already
            return
        except OSError:  # no file is left to be opened
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
        """Make a connection of an accepted socket."""
        secured, span = self._context is not None, self._door.timing.handshake
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: session,
                end,
                ssl=self._context,
                ssl_handshake_timeout=span if secured else None,
            )
        except OSError as error:  # of TLS, too
            text = f"a client that is not let in: TLS has failed: {error}"
            self._door.end(session, -1, PeerError(text))


def _close(end: socket.socket, opening: "asyncio.Task[None]") -> None:
    """Close the socket of a connection that was ended before it began."""
    if opening.cancelled():
        end.close()
