"""Rest: what a fleet draws whether or not it works."""

import numpy as np

from fedsim.ports import Array, ClientId


class RestMeter:
    """Meters the idle power of clients that may be switched off for a while.

    Args:
        watts: of each client, shape (M,).
    """

    def __init__(self, watts: Array) -> None:
        self._watts = watts
        self._on = np.ones(len(watts), dtype=bool)
        self._power = float(watts.sum())
        self._metered_until = 0.0
        self._joules = 0.0  # metered and not taken yet
        # What was on is added up: what was off, taken from the time, would leave its rounding.
        self._switched = np.zeros(len(watts))  # when each was switched last
        self._on_seconds = np.zeros(len(watts))  # before that

    def switch_off(self, client: ClientId, now: float) -> None:
        """Let a client draw nothing from now on."""
        self._meter(now)
        self._on_seconds[client] += now - self._switched[client]
        self._switch(client, now, on=False)

    def switch_on(self, client: ClientId, now: float) -> float:
        """Let a client draw its idle power again; return how long it was off, s."""
        self._meter(now)
        seconds = now - float(self._switched[client])
        self._switch(client, now, on=True)
        return seconds

    def _switch(self, client: ClientId, now: float, *, on: bool) -> None:
        self._on[client] = on
        self._switched[client] = now
        # Summed anew: adding and subtracting over a whole run would gather rounding.
        self._power = float(self._watts[self._on].sum())

    def _meter(self, now: float) -> None:
        self._joules += self._power * (now - self._metered_until)
        self._metered_until = now

    def take(self, now: float) -> float:
        """Return the joules of all clients since the last time."""
        self._meter(now)
        joules, self._joules = self._joules, 0.0
        return joules

    def per_client(self, now: float) -> Array:
        """Return the joules of each client so far, shape (M,)."""
        since = np.where(self._on, now - self._switched, 0.0)
        return np.asarray(self._watts * (self._on_seconds + since))
