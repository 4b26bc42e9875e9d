"""The recursion of rounds: end and joules of each round of a finished run, in many worlds at once.

A round that waits for all recipients is a recursion: a client receives a message after promotion,
latency and transfer, computes, and replies in the same way; the next exchange begins when the last
reply has arrived. It is the same law as that of `fedsim.sim`, with an array over worlds in place of
each number, so that a thousand worlds take about as long as one run of the simulator.

It is a second implementation of the physics of a round, next to the events of `fedsim.sim`, and so
holds only for what both can express: one server, fluid links, radios with constant rates, devices
whose work takes a deterministic time (`fleets.unplayable` lists the rest). Tests compare both.
Shapes: n clients, W worlds; arrays are (n, W) unless stated otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.ports import Array
from fedsim.repricing.history import RunHistory
from fedsim.robustness.fleets import Clients, Lanes
from fedsim.robustness.loads import Load, Loads
from fedsim.robustness.sharing import by_cap, ends

_ROUNDING = 1e-14
"""Relative to the simulated time: times that differ by less do so by rounding alone."""

_BEGINNINGS = 4
"""Exchanges kept for each load: with some tails, rounds alternate between two begins."""

_FIRST = 16
"""So many worlds are looked at before all."""

_KEPT = 8_000_000
"""Size limit of the cache, in numbers of one of its three arrays of clients x worlds."""


@dataclass(frozen=True)
class Prices:
    """Costs of a run until some of its commits.

    Attributes:
        seconds, joules, grams: until each commit, shape (L, W), as in the round table; grams of
            CO2 are NaN if `Clients.emitted` is None.
        fits: the worlds in which every battery stays above all of its marks, shape (W,).
    """

    seconds: Array
    joules: Array
    grams: Array
    fits: Array


def prices(history: RunHistory, loads: Loads, clients: Clients, looks: Sequence[int]) -> Prices:
    """Return the costs of a run in each of W worlds.

    Args:
        history: of the run.
        loads: its messages, with headers and framing, and its work.
        clients: their properties in each world.
        looks: the rounds of interest, from 1, ascending.
    """
    play = _WorldsRun(loads, clients)
    exchange, seconds, joules, grams = 0, [], [], []
    for number in looks:
        while exchange < history.commits[number - 1]:
            play.exchange(exchange)
            exchange += 1
        seconds.append(play.now)
        joules.append(play.joules())
        grams.append(play.grams())
    return Prices(np.array(seconds), np.array(joules), np.array(grams), play.fits())


@dataclass(frozen=True)
class _Exchange:
    """The costs of an exchange of n clients, shapes (n, W) and (W,).

    Attributes:
        since: time from the last bit of each radio to the exchange, s; infinite without any.
        came: arrival of each reply, s after the exchange was opened.
        spent: by each client, J.
        duration: until the last reply, s.
    """

    since: Array
    came: Array
    spent: Array
    duration: Array

    def begins_after(self, since: Array, error: float) -> bool:
        """Return whether radios begin in the same state as in this one, up to rounding, s."""
        for some in (slice(_FIRST), slice(None)):  # states that differ do so in most worlds
            one, other = since[:, some], self.since[:, some]
            with np.errstate(invalid="ignore"):  # inf - inf
                if not ((one == other) | (np.abs(one - other) <= error)).all():
                    return False
        return True


class _WorldsRun:
    """A run in all worlds, exchange by exchange.

    The costs of an exchange follow from its load and from the time since each radio was active
    (whether its tail still runs). In most runs both soon repeat from round to round, so results are
    cached by load: the time of pricing a run grows with the number of different exchanges, not of
    rounds. All times of an exchange are relative to its begin, which is what makes them repeat.

    Attributes:
        now: the begin of the current exchange, s, shape (W,).
    """

    def __init__(self, loads: Loads, clients: Clients) -> None:
        self._loads = loads
        self._clients = clients
        self._rest = clients.idle.sum(axis=0)  # W, of all clients
        shape = clients.idle.shape
        self.now = np.zeros(shape[1])
        self._last = np.full(shape, -np.inf)  # time of the last bit of each radio
        self._spent = np.zeros(shape)  # J, beyond idle power
        self._orders = by_cap(clients.down.rate), by_cap(clients.up.rate)
        self._cache: dict[bytes, list[_Exchange]] = {}  # by load

    def exchange(self, number: int) -> None:
        """Let a cohort receive, compute and reply."""
        ids, key = self._loads.clients(number), self._loads.key(number)
        since = self.now - self._last[ids]
        costs = self._cached_exchange(key, since)
        if costs is None:
            costs = self._compute(self._loads.of(number), since)
            self._store_exchange(key, costs)
        self._last[ids] = self.now + costs.came
        self._spent[ids] += costs.spent
        self.now = self.now + costs.duration

    def _cached_exchange(self, key: bytes, since: Array) -> "_Exchange | None":
        """Return a cached exchange of this load and these radio states, if any."""
        error = _ROUNDING * float(self.now.max())
        for costs in self._cache.get(key, ()):
            if costs.begins_after(since, error):
                return costs
        return None

    def _store_exchange(self, key: bytes, costs: "_Exchange") -> None:
        """Cache an exchange; the oldest entries go when the cache is full."""
        kept = self._cache.pop(key, [])
        self._cache[key] = [*kept[1 - _BEGINNINGS :], costs]
        while len(self._cache) > 1 and self._size > _KEPT:
            del self._cache[next(iter(self._cache))]

    @property
    def _size(self) -> int:
        return self._last.size * sum(map(len, self._cache.values()))

    def _compute(self, load: Load, since: Array) -> "_Exchange":
        """Compute an exchange; its times are relative to its begin."""
        clients = self._clients.of(load.clients)
        spent = np.zeros(since.shape)
        begin = np.zeros(since.shape)
        received = self._leg(clients, clients.down, begin, load.down, -since, spent, up=False)
        works = clients.per_operation * load.operations[:, None]
        works += clients.per_sample * load.samples[:, None]
        spent += clients.working * works
        done = received + works
        came = self._leg(clients, clients.up, done, load.up, received, spent, up=True)
        return _Exchange(since, came, spent, came.max(axis=0))

    def _leg(
        self,
        clients: Clients,
        lanes: Lanes,
        now: Array,
        bits: Array,
        last: Array,
        spent: Array,
        *,
        up: bool,
    ) -> Array:
        """Send a message of each client in one direction; return its arrival, (n, W).

        `now` is when each message is ready, `last` the time of the last bit before it. A radio that
        is still in its tail at `now` sends at once; its tail has lasted from its last bit until the
        new bits flow. One that went idle pays its whole tail and a promotion; it is then connected,
        without bits, for the latency. At the first message of a run there is no last bit, hence no
        tail before it: the last correction takes that out again.
        """
        began = now + lanes.latency
        if clients.stateful:
            connected = now <= last + clients.tail_time
            ready = np.where(connected, now, now + clients.promotion_time)
            began = ready + lanes.latency
            known = np.where(np.isfinite(last), last, now - clients.tail_time)
            tail = np.where(connected, began - known, clients.tail_time + lanes.latency)
            tail -= np.where(np.isfinite(last) | connected, 0.0, clients.tail_time)
            spent += clients.tail_power * tail
            spent += np.where(connected, 0.0, clients.promotion_power * clients.promotion_time)
        over = self._ends(lanes, began, bits, up=up)
        spent += lanes.per_bit * bits + lanes.power * (over - began)
        return over

    def _ends(self, lanes: Lanes, began: Array, bits: Array, *, up: bool) -> Array:
        if not lanes.contended:
            return np.asarray(began + bits / lanes.rate)
        whole = len(lanes.rate) == len(self._clients.idle)
        order = self._orders[up] if whole else by_cap(lanes.rate)
        return ends(began, bits, lanes.rate, order, lanes.capacity)

    def joules(self) -> Array:
        """Return the joules of all clients so far, as a round is charged, shape (W,).

        A running tail is charged when it ends, as in the log, where its row is then written.
        """
        spent = (self._spent + self._expiry()).sum(axis=0)
        return np.asarray(self._rest * self.now + spent)

    def grams(self) -> Array:
        """Return the emissions of that energy, g of CO2, shape (W,); NaN if unknown."""
        clients = self._clients
        if clients.emitted is None:
            return np.full(self.now.shape, np.nan)
        drawn = clients.idle * self.now + self._spent + self._expiry()
        return np.asarray((clients.emitted * drawn).sum(axis=0))

    def _expiry(self) -> Array:
        clients = self._clients
        if not clients.stateful:
            return np.zeros_like(self._spent)
        over = np.isfinite(self._last) & (self._last + clients.tail_time < self.now)
        return np.asarray(np.where(over, clients.tail_power * clients.tail_time, 0.0))

    def fits(self) -> Array:
        """Return the worlds in which no battery has fallen to its threshold or cut-off."""
        clients = self._clients
        pending = np.where(
            np.isfinite(self._last),
            np.minimum(clients.tail_time, self.now - self._last) * clients.tail_power,
            0.0,
        )
        drawn = self._spent + pending + clients.idle * self.now
        return np.asarray((drawn < clients.reserve).all(axis=0))
