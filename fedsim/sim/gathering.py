"""Gathering: the replies of one exchange, and when there are enough of them."""

import asyncio
from dataclasses import dataclass, field
from math import inf

from fedsim.ports import ClientId, Reply


@dataclass(slots=True)
class Gathering:
    """It is open until all have reported, or enough, or its deadline; then it is closed.

    Attributes:
        number: of its exchange.
        waiting: who has not reported, and can.
        closed: done once it is closed.
        goal: so many reports close it at once.
        least: so many must have come before its deadline closes it.
        replies: those that carry something.
        reported: how many have reported, with or without a reply.
        overdue: whether its deadline has passed.
    """

    number: int
    waiting: set[ClientId]
    closed: asyncio.Future[None]
    goal: float = inf
    least: int = 0
    replies: list[Reply] = field(default_factory=list)
    reported: int = 0
    overdue: bool = False

    def give_up(self, client: ClientId) -> None:
        """Take note that a client will not report any more."""
        self.waiting.discard(client)
        self.look()

    def pass_deadline(self) -> None:
        """Take note that its time is up."""
        self.overdue = True
        self.look()

    def look(self) -> None:
        """Close it where it may be."""
        enough = self.reported >= (self.least if self.overdue else self.goal)
        if (enough or not self.waiting) and not self.closed.done():
            self.closed.set_result(None)
