"""Powers that are on, whose energy is charged when they go off (see `worlds.open_spans`)."""

from array import array
from math import inf

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.sim.worlds.open_spans import Spans, States

_NO_STAGE = -1
"""In place of the stage after a radio's state: the power is that of work."""


class OpenLoads:
    """Powers that are on, each of which is charged when it ends: work, and states of radios.

    In a large fleet thousands may be on at the end of every round, so they are kept in columns.
    """

    def __init__(self) -> None:
        self._clients, self._since, self._watts = array("q"), array("d"), array("d")
        self._until, self._following = array("d"), array("b")
        self._free: list[int] = []

    def begin(
        self,
        client: ClientId,
        since: float,
        watts: float,
        until: float = -inf,
        following: int = _NO_STAGE,
    ) -> int:
        """Add a power that is on from a time on; return its number for `end`.

        Args:
            client: the client that draws it.
            since: the time, s.
            watts: the power, W; 0 for a radio whose messages are charged by themselves.
            until: the time at which the state of a radio ends by itself, s.
            following: the number of the stage after this state of a radio.
        """
        if not self._free:
            self._clients.append(client)
            self._since.append(since)
            self._watts.append(watts)
            self._until.append(until)
            self._following.append(following)
            return len(self._watts) - 1
        number = self._free.pop()
        self._clients[number], self._since[number], self._watts[number] = client, since, watts
        self._until[number], self._following[number] = until, following
        return number

    def end(self, number: int) -> None:
        """Remove a power, which is charged now."""
        self._watts[number], self._following[number] = 0.0, _NO_STAGE
        self._free.append(number)

    def spans(self, now: float) -> Spans:
        """Return the powers that are on, with their energy so far."""
        since, watts = np.array(self._since), np.array(self._watts)
        on = np.flatnonzero((watts != 0.0) & (since < now))
        return Spans.at_power(np.array(self._clients)[on], since[on], now, watts[on])

    def states(self) -> States:
        """Return the states of radios that do not sleep."""
        following = np.array(self._following)
        on = np.flatnonzero(following != _NO_STAGE)
        clients, until, watts = (
            np.array(each)[on] for each in (self._clients, self._until, self._watts)
        )
        return States(clients, until, watts, following[on])
