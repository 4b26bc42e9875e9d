"""An exchange: whom a message has gone to, who has reported, and whether that is enough."""

from enum import Enum
from math import inf

from fedsim.ports import ClientId, Reply, node_name

_FEW = 5
"""How many clients are named; of more, how many there are."""


class Phase(Enum):
    """The life of an exchange: it is open, and then it is closed or was given up."""

    OPEN = "open"
    CLOSED = "closed"
    GIVEN_UP = "given up"


class Exchange:
    """It is open until all have reported, or enough, or its deadline; then it is closed.

    Attributes:
        number: from 1.
        waiting: who has not reported, and can.
        asked: how many were waited for when it was opened.
        goal: so many reports close it at once.
        least: so many must have come before its deadline closes it.
        replies: those that carry something.
        reported: how many have reported, with or without a reply.
        overdue: whether its deadline has passed.
        phase: of its life.
        deserted: whether it closed because no client was left to wait for.
    """

    __slots__ = (
        "asked",
        "deserted",
        "goal",
        "least",
        "number",
        "overdue",
        "phase",
        "replies",
        "reported",
        "waiting",
    )

    def __init__(
        self,
        number: int,
        waiting: set[ClientId],
        goal: float = inf,
        least: int = 0,
        reported: int = 0,
    ) -> None:
        self.number = number
        self.waiting = waiting
        self.asked = len(waiting)
        self.goal = goal
        self.least = least
        self.replies: list[Reply] = []
        self.reported = reported
        self.overdue = False
        self.phase = Phase.OPEN if waiting else Phase.CLOSED
        self.deserted = not waiting

    @property
    def over(self) -> bool:
        """Whether nothing can change it any more."""
        return self.phase is not Phase.OPEN

    def gone(self, client: ClientId) -> bool:
        """Take note that a client will not report any more; say whether it is over."""
        self.waiting.discard(client)
        return self.look()

    def pass_deadline(self) -> bool:
        """Take note that its time is up; say whether it is over."""
        self.overdue = True
        return self.look()

    def give_up(self) -> bool:
        """End it although it may not be closed; say whether it is over, which it is."""
        if self.phase is Phase.OPEN:
            self.phase = Phase.GIVEN_UP
        return True

    def look(self) -> bool:
        """Close it where it may be; say whether it is over."""
        enough = self.reported >= (self.least if self.overdue else self.goal)
        if (enough or not self.waiting) and self.phase is Phase.OPEN:
            self.phase = Phase.CLOSED
            self.deserted = not self.waiting
        return self.phase is not Phase.OPEN

    @property
    def progress(self) -> str:
        """Who has reported, how many are needed, and who has not: in words."""
        needed = self.goal if self.goal < inf else (self.least if self.overdue else self.asked)
        if not self.asked:
            return "none of the clients that were to be asked is available"
        if not self.waiting:
            return f"{self.reported} of {self.asked} have reported, and all others have left"
        missing = [node_name(client) for client in sorted(self.waiting)]
        named = ", ".join(missing) if len(missing) <= _FEW else f"{len(missing)} clients"
        come = f"{self.reported} of {self.asked} have reported, {needed:g} are needed"
        return f"{come}; missing: {named}"
