"""Powers that are on, whose energy is charged when they go off (see `worlds.open_spans`)."""

from array import array

import numpy as np

from fedsim.core.ports import Array, ClientId
from fedsim.sim.power.radio import CellularRadio
from fedsim.sim.worlds.open_spans import Ids, Spans, States


class OpenWork:
    """Work in progress, each piece of which is charged when it ends.

    In a large fleet thousands may be in progress at the end of every round, so they are kept in
    columns.
    """

    def __init__(self) -> None:
        self._clients, self._since, self._watts = array("q"), array("d"), array("d")
        self._free: list[int] = []

    def begin(self, client: ClientId, since: float, watts: float) -> int:
        """Add work of a client from a time on, s, at a power, W; return its number for `end`."""
        if not self._free:
            self._clients.append(client)
            self._since.append(since)
            self._watts.append(watts)
            return len(self._watts) - 1
        number = self._free.pop()
        self._clients[number], self._since[number], self._watts[number] = client, since, watts
        return number

    def end(self, number: int) -> None:
        """Remove work, which is charged now."""
        self._watts[number] = 0.0
        self._free.append(number)

    def spans(self, now: float) -> Spans:
        """Return the work in progress, with its energy so far."""
        clients, since, watts = map(np.array, (self._clients, self._since, self._watts))
        return _on(clients, since, watts, now)


def _on(clients: Ids, since: Array, watts: Array, now: float) -> Spans:
    on = np.flatnonzero((watts != 0.0) & (since < now))
    return Spans.at_power(clients[on], since[on], now, watts[on])


def open_states(awake: dict[CellularRadio, None], now: float) -> tuple[Spans, States]:
    """Return the states of radios that are not idle: their energy so far, and how they end.

    Args:
        awake: radios that may not be idle; those that are idle are removed.
        now: the time, s.
    """
    for radio in [radio for radio in awake if radio.idle]:
        del awake[radio]
    rows = np.array([radio.open_state for radio in awake]).reshape(-1, 5)
    since, watts, until = rows.T[1:4]
    clients, following = rows.T[[0, 4]].astype(np.intp)
    return _on(clients, since, watts, now), States(clients, until, watts, following)
