"""Idle power: the fleet's draw independent of its work, and the emissions of that draw."""

import numpy as np
from numpy.typing import NDArray

from fedsim.core.columns import is_one
from fedsim.core.ports import Array, ClientId
from fedsim.physics.carbon import Intensity
from fedsim.physics.run_length import RunLengthSequence
from fedsim.results.record.emissions import Emissions
from fedsim.sim.members import ClientConfig

# Two sums of one quantity are kept. The ledger of a round needs the energy of the fleet since the
# last round: power x time, in O(1) for a fleet of any size. The audit at the end needs the energy
# of each client, from the seconds that it was on. Both are computed independently and agree up to
# rounding, so their comparison is a check.


class IdleMeter:
    """Meters the idle power of clients that may be switched off for a while.

    Args:
        watts: the idle power of each client, shape (M,).
        emissions: the emissions of their electricity; None if not tracked.
    """

    def __init__(self, watts: Array, emissions: Emissions | None = None) -> None:
        self._watts = watts
        self._power = float(watts.sum())
        self._metered_until = 0.0
        self._joules = 0.0  # metered since the last `take`
        self._switches: _Switches | None = None  # None until a client is switched off
        self._grams = None if emissions is None else _IdleEmissions(watts, emissions)

    def switch_off(self, client: ClientId, now: float) -> None:
        """Switch a client off: it draws nothing from now on."""
        self._meter(now)
        switches = self._made_switches()
        switches.on_seconds[client] += now - switches.last[client]
        if self._grams is not None:
            self._grams.settle(client, float(switches.last[client]), now)
        self._switch(client, now, on=False)

    def switch_on(self, client: ClientId, now: float) -> float:
        """Switch a client on again, at its idle power; return how long it was off, s."""
        self._meter(now)
        seconds = now - float(self._made_switches().last[client])
        self._switch(client, now, on=True)
        return seconds

    def _switch(self, client: ClientId, now: float, *, on: bool) -> None:
        switches = self._made_switches()
        switches.on[client] = on
        switches.last[client] = now
        # Summed anew: adding and subtracting over a whole run would gather rounding.
        self._power = float(self._watts[switches.on].sum())
        if self._grams is not None:
            self._grams.switch(switches.on)

    def _made_switches(self) -> "_Switches":
        if self._switches is None:
            self._switches = _Switches(len(self._watts))
        return self._switches

    def _meter(self, now: float) -> None:
        # Before any change: the present power applies to the whole span since the last call.
        self._joules += self._power * (now - self._metered_until)
        if self._grams is not None:
            self._grams.meter(self._metered_until, now)
        self._metered_until = now

    def take(self, now: float) -> float:
        """Return the energy of all clients since the last call, J."""
        self._meter(now)
        joules, self._joules = self._joules, 0.0
        return joules

    def take_grams(self, now: float) -> float:
        """Return the emissions of all clients since the last call, g; 0 if not tracked."""
        self._meter(now)
        return 0.0 if self._grams is None else self._grams.take()

    def per_client(self, now: float) -> Array:
        """Return the energy of each client so far, J, shape (M,)."""
        if (switches := self._switches) is None:
            if is_one(self._watts):  # equal clients: a broadcast view takes no memory
                return np.broadcast_to(self._watts[:1] * now, self._watts.shape)
            return np.asarray(self._watts * now)
        joules = now - switches.last  # in place below: every array of a large fleet takes time
        joules[~switches.on] = 0.0
        joules += switches.on_seconds
        joules *= self._watts
        return joules

    def grams_per_client(self, now: float) -> Array | None:
        """Return the emissions of each client so far, g, shape (M,); None if not tracked."""
        if self._grams is None:
            return None
        if (switches := self._switches) is None:
            return self._grams.per_client(np.zeros(len(self._watts)), now)
        return self._grams.per_client(np.where(switches.on, switches.last, now), now)


class _Switches:
    """Which clients of a fleet are on, and since when; created as the first is switched off.

    Attributes:
        on: whether each client is on, shape (M,).
        last: the time of its last switch, s, shape (M,).
        on_seconds: the time for which it was on before that, s, shape (M,).
    """

    # The seconds on are summed. Subtracting the seconds off from the time would leave a client that
    # was on for a moment with the rounding of a difference of large numbers.

    def __init__(self, clients: int) -> None:
        self.on = np.ones(clients, dtype=bool)
        self.last, self.on_seconds = np.zeros((2, clients))


class _IdleEmissions:
    """Meters the emissions of idle power, of the fleet over time and of each client."""

    # An intensity varies over the day, so the emissions of a span are its energy times the mean
    # intensity of that span; energy alone is not enough. Clients share few intensities, so the
    # power of the fleet is kept per intensity (`numbers`), and a span is priced once for each.

    def __init__(self, watts: Array, emissions: Emissions) -> None:
        self._watts, self._emissions = watts, emissions
        self._grams = 0.0  # metered since the last `take`
        self._own = np.zeros(len(watts))  # grams of each client before its last switch
        self.switch(np.ones(len(watts), dtype=bool))

    def switch(self, on: NDArray[np.bool_]) -> None:
        """Update which clients are powered on."""
        affected = on & self._emissions.known
        numbers = self._emissions.numbers[affected]
        kinds = len(self._emissions.intensities)
        self._powers: list[float] = np.bincount(numbers, self._watts[affected], kinds).tolist()

    def meter(self, since: float, now: float) -> None:
        """Charge the idle power of the clients that are on, for a span."""
        if now > since:
            for number, power in enumerate(self._powers):
                joules = power * (now - since)
                self._grams += self._emissions.of(number, joules, since, now).item()

    def settle(self, client: ClientId, since: float, now: float) -> None:
        """Charge a client for a span in which it was on."""
        if self._emissions.known[client]:
            number, joules = self._emissions.numbers[client], self._watts[client] * (now - since)
            self._own[client] += self._emissions.of(int(number), joules, since, now).item()

    def take(self) -> float:
        """Return the emissions since the last call, g."""
        grams, self._grams = self._grams, 0.0
        return grams

    def per_client(self, since: Array, now: float) -> Array:
        """Return the emissions of each client, g, shape (M,).

        Args:
            since: the time from which each client is on, s; `now` if it is off, shape (M,).
            now: the time, s.
        """
        spans = now - since
        grams = self._own.copy()
        for number in range(len(self._emissions.intensities)):
            indices = np.flatnonzero((self._emissions.numbers == number) & (spans > 0))
            joules, ends = self._watts[indices] * spans[indices], np.full(len(indices), now)
            grams[indices] += self._emissions.of(number, joules, since[indices], ends)
        return grams


# Carbon: pricing of a fleet's log in grams.


def emissions_of(kinds: RunLengthSequence[ClientConfig]) -> Emissions | None:
    """Return the emissions of the log of these clients; None if none has an intensity.

    Args:
        kinds: a representative of each client, of the same group.
    """
    numbers_by_intensity: dict[Intensity, int] = {}
    for _, kind in kinds.runs:
        if kind.carbon is not None:
            numbers_by_intensity.setdefault(kind.carbon, len(numbers_by_intensity))
    if not numbers_by_intensity:
        return None
    numbers = kinds.array(
        lambda kind: -1 if kind.carbon is None else numbers_by_intensity[kind.carbon]
    )
    return Emissions(list(numbers_by_intensity), numbers.astype(np.intp))
