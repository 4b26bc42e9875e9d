"""A wire between two parts: a middleman of TCP connections that can stall, or be cut."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

_PIECE = 1 << 16  # bytes


class Wire:
    """Carries what comes to a port of its own to another one, and back.

    Args:
        there: the port on this machine that it leads to.
    """

    def __init__(self, there: int) -> None:
        self._there = there
        self._loop = asyncio.new_event_loop()
        self._carries = asyncio.Event()
        self._ends: set[asyncio.StreamWriter] = set()
        begun = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(begun,), daemon=True)
        self._thread.start()
        begun.wait()

    def stall(self) -> None:
        """Carry nothing, and say nothing."""
        self._loop.call_soon_threadsafe(self._carries.clear)

    def go_on(self) -> None:
        """Carry what has waited, and all that comes."""
        self._loop.call_soon_threadsafe(self._carries.set)

    def cut(self) -> None:
        """Break all connections; new ones are carried."""

        def broken() -> None:
            for each in list(self._ends):
                each.transport.abort()

        self._loop.call_soon_threadsafe(broken)

    def close(self) -> None:
        """Carry nothing any more."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self, begun: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._carries.set()
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0)
        )
        self.port: int = server.sockets[0].getsockname()[1]
        begun.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connected(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self._there)
        except OSError:
            back.transport.abort()
            return
        self._ends |= {back, away}
        try:
            await asyncio.gather(self._carry(here, away), self._carry(there, back))
        finally:
            self._ends -= {back, away}

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(_PIECE):
                await self._carries.wait()
                sink.write(piece)
                await sink.drain()
        sink.close()


def stalled(wire: Wire) -> Callable[[], None]:
    """Stall a wire, and return what lets it go on."""
    wire.stall()
    return wire.go_on
