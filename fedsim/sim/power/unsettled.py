"""Powers that are on, whose energy is charged when they go off (see `OpenSpans`)."""

from array import array

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.sim.worlds.open_spans import OpenSpans


class OpenLoads:
    """Powers that are on, each of which is charged when it ends: work, and states of radios.

    In a large fleet thousands may be on at the end of every round, so they are kept in columns.
    """

    def __init__(self) -> None:
        self._clients, self._since, self._watts = array("q"), array("d"), array("d")
        self._free: list[int] = []

    def begin(self, client: ClientId, since: float, watts: float) -> int:
        """Add a power, W, that is on from a time on, s; return its number for `end`."""
        if not self._free:
            self._clients.append(client)
            self._since.append(since)
            self._watts.append(watts)
            return len(self._watts) - 1
        number = self._free.pop()
        self._clients[number], self._since[number], self._watts[number] = client, since, watts
        return number

    def end(self, number: int) -> None:
        """Remove a power, which is charged now."""
        self._watts[number] = 0.0
        self._free.append(number)

    def spans(self, now: float) -> OpenSpans:
        """Return the powers that are on, with their energy so far."""
        since, watts = np.array(self._since), np.array(self._watts)
        on = np.flatnonzero((watts != 0.0) & (since < now))
        return OpenSpans.at_power(np.array(self._clients)[on], since[on], watts[on], now)
