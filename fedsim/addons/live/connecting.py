"""Connections to a server that may start later, with messages about waiting."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from errno import ECONNREFUSED

from fedsim.addons.live.access import Access, Address, explain_tls
from fedsim.addons.live.client import ClientSession
from fedsim.addons.live.connection import Timing
from fedsim.core.errors import AdmissionError, PeerError


class Connector:
    """Connects clients of this process to one server.

    Args:
        address: of the server.
        access: the authentication of both ends.
        timing: a client waits `joining` for the server.
        tell: called with messages about waiting; once if all clients wait for the same.
    """

    def __init__(
        self, address: Address, access: Access, timing: Timing, tell: Callable[[str], None]
    ) -> None:
        self._address, self._timing, self._tell_user = address, timing, tell
        self._files = files = access.certificates
        self._context = None if files is None else files.client()
        self._told: dict[str, float] = {}

    def tell(self, text: str) -> None:
        """Report an event at the address, unless it was reported a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._told.get(text, -_AGAIN) >= _AGAIN:
            self._told[text] = now
            self._tell_user(f"{self._address}: {text}")

    async def connect(self, session: ClientSession) -> None:
        """Connect a session to the server.

        Raises:
            PeerError: the server cannot be reached in time, or TLS has failed.
        """
        loop, span = asyncio.get_running_loop(), self._timing.joining
        until = loop.time() + span
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await loop.create_connection(
                        lambda: session,
                        *self._address,
                        ssl=self._context,
                        ssl_handshake_timeout=None if self._context is None else span,
                    )
            except OSError as error:  # a TimeoutError is one
                self._check(error)
                why = self._why(error)
                if loop.time() + _RETRY > until:
                    text = f"the server at {self._address} cannot be reached: {why}"
                    raise PeerError(f"{text} (tried for {span:g} s)") from None
                self.tell(f"{why}; trying for {span:g} s (--wait)")
                await asyncio.sleep(_RETRY)
            else:
                return

    def _check(self, error: OSError) -> None:
        """Check that a failure is temporary: the server may not have started yet.

        Raises:
            PeerError: the failure is permanent.
        """
        if isinstance(error, socket.gaierror) and error.errno in _UNKNOWN:
            text = f"the host {self._address.host} is unknown: {error.strerror}"
            raise PeerError(text) from None
        if self._files is not None and isinstance(error, ssl.SSLError):
            peer = f"the server at {self._address}"
            text = explain_tls(error, peer, self._files, self._address.host)
            raise AdmissionError("token", text) from None
        if self._files is not None and isinstance(error, ConnectionResetError):
            text = f"{self._address} has closed the connection instead of beginning TLS"
            raise AdmissionError("token", f"{text}: it may serve without TLS") from None

    def _why(self, error: OSError) -> str:
        """Return the reason why the server cannot be reached, as text."""
        if isinstance(error, ConnectionRefusedError) or _all_refused(error):
            return "nothing listens there yet (connection refused)"
        if isinstance(error, TimeoutError):
            return "no answer to the connection (wrong host, or a firewall)"
        return error.strerror or str(error)


def _all_refused(error: OSError) -> bool:
    """Return whether all addresses of a host refused the connection; asyncio joins their errors."""
    text = str(error)
    return text.startswith("Multiple exceptions") and text.count(f"[Errno {ECONNREFUSED}]") > 1


_UNKNOWN = {socket.EAI_NONAME, *(getattr(socket, name, 0) for name in ("EAI_NODATA", "EAI_FAIL"))}
"""The errors of a name lookup that are permanent: the host does not exist."""

_RETRY = 0.2
"""The time between two attempts to connect, s."""

_AGAIN = 60.0
"""The time during which the same text is not repeated, s."""
