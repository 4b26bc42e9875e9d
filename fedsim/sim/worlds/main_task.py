"""The main task of a star: runs the server's coroutine, and ends the tasks of the clients."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fedsim.protocol.stopping import NoClientsLeft, RunStopped, ended_by
from fedsim.results.record.summary import DONE, NO_CLIENTS, Ending
from fedsim.sim.worlds.server import RoundServer

Serve = Callable[[Any], Coroutine[Any, Any, None]]
"""`Algorithm.serve`, a coroutine function of the server."""

EndClients = Callable[[], Iterable["asyncio.Future[None]"]]
"""Ends the clients in order; returns a future per client whose handler is being cancelled."""

ENDED = "the algorithm has ended"
"""The reason of a run that ends without a stop rule."""


class MainTask:
    """Runs the server's coroutine in the main task, and ends the tasks of the clients.

    Args:
        serve: the server coroutine of the method.
        server: the argument of `serve`.
        end_clients: see `EndClients`.
        begin: called before the coroutine starts; it may stop the run.

    Attributes:
        over: whether the world has ended, so that no client replies any more.
    """

    def __init__(
        self,
        serve: Serve,
        server: RoundServer,
        end_clients: EndClients,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.over = False
        self._method = serve
        self._server = server
        self._end_clients = end_clients
        self._begin = begin
        self._main: asyncio.Task[object] | None = None
        self._stopped = ""
        self._failures: list[BaseException] = []

    def stop(self, reason: str) -> None:
        """End the run now."""
        # The first end counts, whether it is a stop or a failure: later ones are its consequences.
        if not self._stopped and not self._failures:
            self._stopped = reason
            self._cancel()

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    async def run(self) -> Ending:
        """Run to the end, and return how the run ended. The first client that fails ends it."""
        # Known before the coroutine starts, as `stop` may be called at its first step.
        self._main = asyncio.current_task()
        try:
            return await self._serve_until_end()
        finally:
            self.over = True
            # In order, since aborted work is written to the log.
            ends = await asyncio.gather(*self._end_clients(), return_exceptions=True)
            for end in ends:  # a handler may also fail as it is cancelled
                if isinstance(end, Exception) and not self._failures:
                    raise end

    def fail(self, name: str, failure: BaseException) -> None:
        """End the run: a client has stopped replying before the world has ended."""
        if isinstance(failure, asyncio.CancelledError):
            failure = RuntimeError(f"the handler of {name} was cancelled from within")
        self._failures.append(failure)
        self._cancel()

    async def _serve_until_end(self) -> Ending:
        """Run the server's coroutine; return how it ended."""
        try:
            return await self._serve()
        except asyncio.CancelledError:
            if self._failures:
                # A cancellation has three origins: a failed client, a stop rule, or a caller
                # outside. Only the last one is passed on as a cancellation.
                raise self._failures[0] from None
            if not self._stopped or self._main is None:
                raise
            # Our own cancellation: the task itself goes on, to end the clients.
            self._main.uncancel()
            return Ending(DONE, self._stopped)

    async def _serve(self) -> Ending:
        try:
            self._begin()
            await self._method(self._server)
        except BaseException as error:
            stopped = ended_by(error, RunStopped)
            if stopped is None:
                raise
            return ending_of(stopped)
        return Ending(DONE, ENDED)


def ending_of(stopped: BaseException) -> Ending:
    """Return the ending of a run that was stopped by this exception."""
    return Ending(NO_CLIENTS if isinstance(stopped, NoClientsLeft) else DONE, str(stopped))
