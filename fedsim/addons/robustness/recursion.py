"""The recursion of rounds: time and energy of each round of a finished run, in many worlds at once.

A round that waits for all recipients is a recursion. A client receives a message after promotion,
latency and transfer, computes, and replies in the same way. The next exchange begins when the last
reply has arrived. With an array over worlds in place of each number, a thousand worlds take about
as long as one run of the simulator.

An exchange is computed in `fedsim.addons.robustness.exchange`. The recursion holds if nothing else
is waited for: one server, fluid links, radios with constant rates, and devices with deterministic
work times (`fleets.unplayable` lists the rest). Tests compare it with the simulator. Shapes: n
clients, W worlds; arrays are (n, W) unless stated otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.repricing.history import RunHistory
from fedsim.addons.robustness.exchange import play_exchange
from fedsim.addons.robustness.fleets import Clients
from fedsim.addons.robustness.loads import Load, Loads, Numbers
from fedsim.core.ports import Array

_ROUNDING = 1e-14
"""Differences of times below this share of the simulated time are rounding errors."""

_BEGINNINGS = 4
"""Cached exchanges per load: with some tails, rounds alternate between two initial states."""

_FIRST = 16
"""Number of worlds compared before all of them."""

_KEPT = 8_000_000
"""Capacity of the cache, in numbers of one of its three arrays of clients x worlds."""


@dataclass(frozen=True)
class Prices:
    """Costs of a run until some of its commits.

    Attributes:
        seconds, joules, grams: the costs of a run that ends with each commit, shape (L, W): energy
            and emissions are those until radios sleep. Grams are NaN if `Clients.emitted` is None.
        fits: the worlds in which every battery stays above all of its marks, shape (W,).
    """

    seconds: Array
    joules: Array
    grams: Array
    fits: Array


def prices(
    history: RunHistory,
    loads: Loads,
    clients: Clients,
    looks: Sequence[int],
) -> Prices:
    """Return the costs of a run in each of W worlds.

    Args:
        history: the history of the run.
        loads: its messages, with headers and framing, and its work.
        clients: the properties of clients in each world.
        looks: the rounds of interest, ascending; 0 is the start.
    """
    play = _WorldsRun(loads, clients)
    exchange, seconds, joules, grams = 0, [], [], []
    for number in looks:
        # Exchanges are played once, in order; looks only read the totals in between.
        while exchange < history.exchanges_until(number):
            play.exchange(exchange)
            exchange += 1
        seconds.append(play.now)
        drawn, emitted = play.costs()
        joules.append(drawn)
        grams.append(emitted)
    return Prices(np.array(seconds), np.array(joules), np.array(grams), play.fits())


@dataclass(frozen=True)
class _Exchange:
    """The costs of an exchange of n clients, shapes (n, W) and (W,).

    Attributes:
        since: the time from the last bit of each radio to the exchange, s; see `_WorldsRun`.
        arrivals: the arrival of each reply, s after the exchange was opened.
        spent: the energy of each client, J.
        duration: the time until the last reply, s.
    """

    since: Array
    arrivals: Array
    spent: Array
    duration: Array

    def begins_after(self, since: Array, error: float) -> bool:
        """Return whether radios begin in the same state as here, up to rounding."""
        for part in (slice(_FIRST), slice(None)):  # different states differ in most worlds
            present, cached = since[:, part], self.since[:, part]
            with np.errstate(invalid="ignore"):  # inf - inf
                if not ((present == cached) | (np.abs(present - cached) <= error)).all():
                    return False
        return True


class _WorldsRun:
    """A run in all worlds, exchange by exchange.

    The costs of an exchange follow from its load and from the time since each radio was active,
    which tells whether its tail still runs. In most runs both soon repeat from round to round. So
    results are cached by load, and the time to price a run grows with the number of distinct
    exchanges, not with that of rounds. Times of an exchange are relative to its beginning, which is
    why they repeat.

    Attributes:
        now: the beginning of the current exchange, s, shape (W,).
    """

    # Between exchanges the state of a radio is the time of its last bit, `_last`. A radio without
    # any bit so far is not in `_woken`. It rests, as if since `_last`: for ever, or since its last
    # paging occasion.

    def __init__(self, loads: Loads, clients: Clients) -> None:
        self._loads = loads
        self._clients = clients
        self._idle_power = clients.idle.sum(axis=0)  # W, of all clients
        shape = clients.idle.shape
        self.now = np.zeros(shape[1])
        *passing, rest = (clients.stages[..., place] for place in range(clients.stages.shape[-1]))
        # What a radio takes after its last bit until it sleeps: seconds and joules.
        self._tail_time = sum(stage["time"] for stage in passing)
        self._tail_joules = sum(stage["power"] * stage["time"] for stage in passing)
        # A paged radio has had an occasion one cycle before 0; any other rests since for ever.
        self._last = np.where(rest["cycle"] > 0.0, -rest["cycle"], -np.inf)
        self._woken = np.zeros(shape[0], np.bool_)
        self._spent = np.zeros(shape)  # J, beyond idle power
        # The key is the load, and which radios have been active before.
        self._cache: dict[bytes, list[_Exchange]] = {}

    def exchange(self, number: int) -> None:
        """Play an exchange: the cohort receives, computes and replies."""
        ids = self._loads.clients(number)
        key = self._loads.key(number) + self._woken[ids].tobytes()
        # Relative to now, so that the state repeats from round to round.
        since = self.now - self._last[ids]
        # A hit within the tolerance uses the times of another round, which differ from those of
        # this one by rounding only.
        costs = self._cached_exchange(key, since)
        if costs is None:
            costs = self._compute(self._loads.of(number), since)
            self._store_exchange(key, costs)
        # Absolute again: another cohort may start the next exchange.
        self._last[ids] = self.now + costs.arrivals
        self._woken[ids] = True
        # Energies are differences, too, and may be added from the cache.
        self._spent[ids] += costs.spent
        self.now = self.now + costs.duration

    def _cached_exchange(self, key: bytes, since: Array) -> "_Exchange | None":
        """Return a cached exchange of this load and these radio states, if any."""
        # Relative times are differences of simulated times, whose rounding error grows with them.
        error = _ROUNDING * float(self.now.max())
        for costs in self._cache.get(key, ()):
            if costs.begins_after(since, error):
                return costs
        return None

    def _store_exchange(self, key: bytes, costs: "_Exchange") -> None:
        """Cache an exchange; the oldest entries are dropped when the cache is full."""
        # Taken out and inserted again, which moves the key to the end.
        entries = self._cache.pop(key, [])
        self._cache[key] = [*entries[1 - _BEGINNINGS :], costs]
        # A dictionary keeps the order of insertion, and stored keys were re-inserted: the first key
        # is the least recently computed one.
        while len(self._cache) > 1 and self._size > _KEPT:
            del self._cache[next(iter(self._cache))]

    @property
    def _size(self) -> int:
        return self._last.size * sum(map(len, self._cache.values()))

    def _compute(self, load: Load, since: Array) -> "_Exchange":
        """Compute an exchange; its times are relative to its beginning."""
        cohort = self._clients.of(load.clients)
        arrivals, spent = play_exchange(cohort, load, -since, self._stage(load.clients))
        return _Exchange(since, arrivals, spent, arrivals.max(axis=0))

    def _stage(self, ids: Numbers | slice) -> NDArray[np.int8]:
        """Return the stage of radios at their `_last`, shape (n, 1)."""
        resting = self._clients.stages.shape[-1] - 1
        return np.where(self._woken[ids], 0, resting).astype(np.int8)[:, None]

    def costs(self) -> tuple[Array, Array]:
        """Return the joules and g of CO2 until radios sleep, shape (W,); grams are NaN if unknown.

        They are those of a run that ends now, as in `fedsim.results.analysis.costs.cumulative`.
        """
        clients, spent = self._clients, self._drawn()
        # Idle power is paid all the time, whatever else happens.
        joules = self._idle_power * self.now + spent.sum(axis=0)
        # Emissions per joule are constant here, so the time at which it is drawn does not matter.
        if clients.emitted is None:
            return joules, np.full(self.now.shape, np.nan)
        return joules, (clients.emitted * (clients.idle * self.now + spent)).sum(axis=0)

    def _drawn(self) -> Array:
        """Return the energy of each client beyond idle power until its radio sleeps, J."""
        return self._spent + np.where(self._woken[:, None], self._tail_joules, 0.0)

    def fits(self) -> Array:
        """Return the worlds in which no battery falls to a mark before its radio sleeps."""
        clients = self._clients
        # Marks are only tested at the end: a battery that is never charged falls monotonically.
        ends = np.where(self._woken[:, None], self._last + self._tail_time, self.now)
        asleep = np.maximum(ends, self.now)
        drawn = self._drawn() + (clients.idle + clients.leak) * asleep
        return np.asarray((drawn < clients.reserve).all(axis=0))
