"""Unsettled energy: what has been spent already, and is charged when a span ends.

Work, messages and the states of radios are metered and logged at their ends. Energy at another
instant, as at the end of a round, also has the parts of open spans that lie before it. They are
what would be charged if the world ended then.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.core.ports import Array, ClientId


class OpenSpans(NamedTuple):
    """Spans that have begun, and are not charged yet.

    Attributes:
        clients: the client that spends the energy of each span, shape (n,).
        begins: the time at which each began, s.
        joules: the energy of each so far beyond idle power, J.
    """

    clients: NDArray[np.intp]
    begins: Array
    joules: Array

    @classmethod
    def of(cls, spans: Iterable[tuple[ClientId, float, float]]) -> Self:
        """Return spans, each given by its client, its begin and its energy."""
        columns = np.array(list(spans)).reshape(-1, 3).T
        return cls(columns[0].astype(np.intp), columns[1], columns[2])

    @classmethod
    def join(cls, parts: Iterable["OpenSpans"]) -> Self:
        """Return all spans of some parts; at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def at_power(cls, clients: ArrayLike, begins: Array, watts: ArrayLike, now: float) -> Self:
        """Return spans of constant power, W, which last until now."""
        return cls(np.asarray(clients, np.intp), begins, np.asarray(watts) * (now - begins))


NOTHING_OPEN = OpenSpans.of(())


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
