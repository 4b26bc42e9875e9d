"""One exchange of a node: the reports that it waits for, and when it closes."""

from collections.abc import Callable, Sequence
from enum import Enum
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import ClientId, Reply, node_name

_FEW = 5
"""Up to this number, missing clients are named; beyond it they are counted."""


class Phase(Enum):
    """The state of an exchange: open, then closed or abandoned."""

    OPEN = "open"
    CLOSED = "closed"
    GIVEN_UP = "given up"


class Exchange:
    """An exchange is open until all reports, enough reports, or its deadline; then it is closed.

    Attributes:
        number: the number of the exchange, from 1.
        asked: the number of recipients when it was opened.
        goal: the number of reports that closes it immediately.
        least: the number of reports from which its deadline closes it.
        replies: the reports with a message that arrived one by one.
        columns: the reports with a message that arrived together.
        reported: the number of reports, with or without a message.
        overdue: whether its deadline has passed.
        phase: whether it is open, closed or abandoned.
        deserted: whether it closed because no client was left to wait for.
    """

    __slots__ = (
        "_waiting",
        "asked",
        "columns",
        "deserted",
        "goal",
        "least",
        "name",
        "number",
        "overdue",
        "phase",
        "replies",
        "reported",
    )

    def __init__(
        self,
        number: int,
        waiting: set[ClientId] | range,
        goal: float = inf,
        least: int = 0,
        reported: int = 0,
        name: Callable[[ClientId], str] = node_name,
    ) -> None:
        self.number = number
        self.name = name
        self._waiting = waiting
        self.asked = len(waiting)
        self.goal = goal
        self.least = least
        self.replies: list[Reply] = []
        self.columns: Sequence[Reply] = ()
        self.reported = reported
        self.overdue = False
        self.phase = Phase.OPEN if waiting else Phase.CLOSED
        self.deserted = not waiting

    @property
    def waiting(self) -> set[ClientId]:
        """The clients whose report is outstanding. Callers change the set in place."""
        # A whole fleet is kept as a range, which costs no memory if all report together.
        if isinstance(self._waiting, range):
            self._waiting = set(self._waiting)
        return self._waiting

    @property
    def outstanding(self) -> int:
        """The number of clients whose report is outstanding."""
        return len(self._waiting)

    def count(self, clients: NDArray[np.int64], replies: Sequence[Reply]) -> None:
        """Count the reports of many clients, all of them outstanding, and their replies."""
        self.columns = replies
        self.reported += len(clients)
        if len(clients) == self.outstanding:
            self._waiting = set()
        else:
            self.waiting.difference_update(clients.tolist())

    @property
    def over(self) -> bool:
        """Whether it is closed or given up."""
        return self.phase is not Phase.OPEN

    @property
    def every(self) -> list[Reply]:
        """The reports with a message."""
        return [*self.replies, *self.columns]

    def disown(self, client: ClientId) -> None:
        """Remove the reports of a client; the exchange reopens if it now lacks reports."""
        every = self.every
        kept = [reply for reply in every if reply.client != client]
        self.reported -= len(every) - len(kept)
        self.replies, self.columns = kept, ()
        # An abandoned exchange stays abandoned: its replies are late already.
        if self.phase is Phase.CLOSED:
            self.phase = Phase.OPEN
            self.look()

    def client_left(self, client: ClientId) -> bool:
        """Remove a client that left; return whether the exchange is over."""
        self.waiting.discard(client)
        return self.look()

    def pass_deadline(self) -> bool:
        """Mark the deadline as expired; return whether the exchange is over."""
        self.overdue = True
        return self.look()

    def give_up(self) -> bool:
        """Abandon the exchange if it is open; return True."""
        # Reports and a timeout may meet in one instant. Whichever comes first decides.
        if self.phase is Phase.OPEN:
            self.phase = Phase.GIVEN_UP
        return True

    def look(self) -> bool:
        """Close the exchange if its condition holds; return whether it is over."""
        # Before the deadline the goal closes it, which is infinite without a quorum. After it,
        # `least` reports do, and every further report is checked against that.
        enough = self.reported >= (self.least if self.overdue else self.goal)
        if (enough or not self._waiting) and self.phase is Phase.OPEN:
            self.phase = Phase.CLOSED
            self.deserted = not self._waiting
        return self.phase is not Phase.OPEN

    @property
    def progress(self) -> str:
        """A sentence with the number of reports, the number needed, and the missing clients."""
        needed = self.goal if self.goal < inf else (self.least if self.overdue else self.asked)
        if not self.asked:
            return "none of the clients to ask is available"
        if not self._waiting:
            return f"{self.reported} of {self.asked} have reported, and all others have left"
        missing = [self.name(client) for client in sorted(self._waiting)]
        named = ", ".join(missing) if len(missing) <= _FEW else f"{len(missing)} clients"
        counts = f"{self.reported} of {self.asked} have reported, {needed:g} are needed"
        return f"{counts}; missing: {named}"
