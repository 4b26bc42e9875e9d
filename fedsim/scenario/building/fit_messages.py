"""The messages of a preprocessing fit, which server and clients exchange before the method.

They are messages like the method's, in round 1 before its first one. Links, losses, silence and
batteries treat them alike, so bits, time and energy are charged by the same rules.
"""

from dataclasses import dataclass
from typing import Any, cast

from fedsim.core.ports import Client, Message, Payload, Server, Silence
from fedsim.problems.tables.fit_exchange import FitExchange
from fedsim.protocol.wrapping import Wrapped, Wrapper
from fedsim.wire import Octets

_TRIES = 3
"""Number of consecutive exchanges without a new reply after which the server continues."""


@dataclass(frozen=True, slots=True)
class FitRequest(Message):
    """The columns whose distinct values the server requests; empty for sums and counts."""

    columns: Payload


@dataclass(frozen=True, slots=True)
class FitStatistics(Message):
    """A client's counts and sums, or distinct values."""

    carries_reports = False

    numbers: Payload


@dataclass(frozen=True, slots=True)
class FitResult(Message):
    """The result of the fit to the statistics of all clients."""

    numbers: Payload


@dataclass(frozen=True, slots=True)
class FitReceived(Message):
    """A client's confirmation that it has the result."""

    carries_reports = False


FIT_MESSAGES: tuple[type[Message], ...] = (FitRequest, FitStatistics, FitResult, FitReceived)
"""The classes of these messages, which are numbered after the method's."""


class FittingMethod(Wrapper):
    """Fits preprocessing by messages, and then runs another method.

    Args:
        method: the method that runs after the fit.
        exchange: the messages of the fit.
    """

    def __init__(self, method: Wrapped, exchange: FitExchange) -> None:
        super().__init__(method)
        self._exchange = exchange
        self._requests = [FitRequest(Octets(step.request)) for step in exchange.steps]

    def undelivered(self, client: Client, message: Message) -> None:
        """Handle the loss of a message of the method; messages of the fit are requested again."""
        if not isinstance(message, FIT_MESSAGES):
            super().undelivered(client, message)

    async def serve(self, server: Server) -> None:
        """Run the fit, and then the method's server."""
        for request in self._requests:
            await _ask_all(server, request)
        await _ask_all(server, FitResult(Octets(self._exchange.result)))
        await super().serve(server)

    async def handle(self, client: Client, message: Any) -> Message | Silence:
        """Answer a message of the fit, or pass it to the method's handler."""
        if isinstance(message, FitResult):
            return FitReceived()
        if not isinstance(message, FitRequest):
            return await super().handle(client, message)
        requested = cast("Octets", message.columns).data
        step = next(step for step in self._exchange.steps if step.request == requested)
        return FitStatistics(Octets(step.replies[client.id]))


async def _ask_all(server: Server, message: Message) -> None:
    """Exchange a message with all clients, and repeat it for those that have not replied."""
    missing, tries = set(server.clients), 0
    while missing and tries < _TRIES:
        replies = await server.exchange(message, to=sorted(missing))
        replied = missing & {reply.client for reply in replies}
        missing -= replied
        tries = 0 if replied else tries + 1
