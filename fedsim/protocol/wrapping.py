"""Methods that run another method, and change how its vectors are sent or added up.

A wrapper stands between a world and a method. The world talks to it as to any method; the method
talks to a view of the server, and to views of the clients. So a wrapper can exchange messages of
its own before and after those of the method, and works in every world.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol, cast

from fedsim.core.ports import Array, Client, Message, Server, Silence


class Wrapped(Protocol):
    """The method that a wrapper runs, or another wrapper."""

    @property
    def undelivered(self) -> Callable[[Any, Any], None]:
        """Handle, at a client, the loss of its message."""
        ...

    @property
    def handle(self) -> Callable[[Any, Any], Any]:
        """Answer a message that has reached a client."""
        ...

    def memory(self, initial: Array) -> Any:
        """Return a client's memory."""
        ...

    async def serve(self, server: Any) -> None:
        """Run the server."""
        ...


class Wrapper:
    """Base class of wrappers, which by itself changes nothing.

    Args:
        method: the method that it runs.
    """

    in_arrays: ClassVar[bool] = False
    """Whether all that it awaits are messages and work, as its method does; see `Algorithm`."""

    def __init__(self, method: Wrapped) -> None:
        self.method = method

    @property
    def in_rows(self) -> bool:
        """Whether one call may wrap many clients' replies, as rows; see `Algorithm.handles_rows`.

        Only for methods without a state of clients.
        """
        return False

    def server(self, server: Server) -> Server:
        """Return the server as the method sees it; by default the server itself."""
        return server

    def client(self, client: Client[Any]) -> Client[Any]:
        """Return a client as the method sees it; by default the client itself."""
        return client

    def memory(self, initial: Array) -> Any:
        """Return a client's memory, as the method does."""
        return self.method.memory(initial)

    async def serve(self, server: Server) -> None:
        """Run the method's server."""
        await self.method.serve(self.server(server))

    async def handle(self, client: Client[Any], message: Any) -> Message | Silence:
        """Answer a message as the method does."""
        reply: Message | Silence = await self.method.handle(self.client(client), message)
        return reply

    def undelivered(self, client: Client[Any], message: Any) -> None:
        """Handle the loss of a message as the method does."""
        self.method.undelivered(self.client(client), message)

    @property
    def computes_after_reply(self) -> bool:
        """Whether clients of the method compute after their replies."""
        return bool(getattr(self.method, "computes_after_reply", False))

    @property
    def abandons(self) -> bool:
        """Whether the server may abandon rounds by itself."""
        return bool(getattr(self.method, "abandons", False))

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield notes on what it changed in a run, each with its key; by default, none.

        Those of the wrappers that it runs come after its own.
        """
        if isinstance(self.method, Wrapper):
            yield from self.method.run_notes()

    def afterwards(self, client: Client[Any]) -> Any:
        """Continue at a client after its reply, as the method does."""
        return cast("Any", self.method).afterwards(self.client(client))


class View:
    """A server or a client as a wrapped method sees it; a subclass overrides what it changes."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seen, name)
