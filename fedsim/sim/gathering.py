"""Gathering: the replies of one exchange, and when there are enough of them."""

import asyncio
from dataclasses import dataclass, field
from math import inf

from fedsim.ports import ClientId, Reply
from fedsim.record.schema import node_name

_FEW = 5
"""How many clients are named; of more, how many there are."""


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
        asked: how many were asked.
        opened: when, s.
        abandoned: whether it was given up before it could close.
    """

    number: int
    waiting: set[ClientId]
    closed: asyncio.Future[None]
    goal: float = inf
    least: int = 0
    replies: list[Reply] = field(default_factory=list)
    reported: int = 0
    overdue: bool = False
    asked: int = 0
    opened: float = 0.0
    abandoned: bool = False

    def abandon(self) -> None:
        """Close it although it may not be closed: what it was for is given up."""
        if not self.closed.done():
            self.abandoned = True
            self.closed.set_result(None)

    @property
    def progress(self) -> str:
        """Who has reported, how many are needed, and who has not: in words."""
        needed = self.goal if self.goal < inf else (self.least if self.overdue else self.asked)
        missing = [node_name(client) for client in sorted(self.waiting)]
        named = ", ".join(missing) if len(missing) <= _FEW else f"{len(missing)} clients"
        come = f"{self.reported} of {self.asked} have reported, {needed:g} are needed"
        return f"{come}; missing: {named}"

    def drop(self, client: ClientId) -> None:
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
