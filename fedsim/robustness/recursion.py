"""The timeline: when each round of a finished run ends, and for how many joules, in many worlds.

A round that waits for all recipients is a recursion: a client receives a message after promotion,
latency and transfer, computes, and replies in the same way; the next exchange begins when the last
reply has arrived. It is the law of `fedsim.sim`, with an array over worlds in place of each number,
so that a thousand worlds take about as long as one run of the simulator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.repricing.history import Tape
from fedsim.robustness.fleets import Clients, Lanes, Load, Loads

# Sharing: when transfers over one link end, in many worlds at once.
#
# One link of a capacity is shared max-min fairly by transfers that each have a cap of their own:
# the law of `fedsim.sim.network.processor_sharing`, for a column of numbers a world in place of one
# number.

Order = NDArray[np.intp]


def by_cap(caps: Array) -> Order:
    """Return the transfers of each world in the order of their caps, shape (n, W)."""
    return np.argsort(caps, axis=0, kind="stable")


def ends(begins: Array, bits: Array, caps: Array, order: Order, capacity: float | Array) -> Array:
    """Return when each transfer ends, s, shape (n, W).

    All worlds go on from one change to their next one in step: a transfer begins, or one ends. Of
    n transfers there are 2n changes at most.

    Args:
        begins: when the bits begin to flow, s, shape (n, W).
        bits: of each transfer, shape (n, 1) or (n, W).
        caps: what each reaches alone, bit/s, shape (n, W).
        order: as `by_cap` gives it.
        capacity: of the link, bit/s, shape (W,) or one number.
    """
    now = begins.min(axis=0)
    left = np.broadcast_to(np.asarray(bits, np.float64), begins.shape).copy()
    over = np.full(begins.shape, np.nan)
    going = np.ones(begins.shape, dtype=bool)  # not over: it flows, or it has not begun
    while going.any():
        flows = going & (begins <= now)
        rates = fair_rates(flows, caps, order, capacity)
        lasts = np.divide(left, rates, out=np.full_like(left, np.inf), where=flows)
        lasts[flows & (left <= 0.0)] = 0.0
        coming = np.where(going & ~flows, begins - now, np.inf)
        step = np.minimum(lasts.min(axis=0), coming.min(axis=0))
        done = flows & (lasts <= step)
        idle = ~np.isfinite(step)  # nothing goes on in these worlds
        step[idle] = 0.0
        comes = coming <= step
        now = now + step
        now = np.where(comes.any(axis=0), np.where(comes, begins, -np.inf).max(axis=0), now)
        left = np.where(flows, np.maximum(left - np.where(flows, rates, 0.0) * step, 0.0), left)
        over = np.where(done, now, over)
        going &= ~done
    return over


def fair_rates(
    flows: NDArray[np.bool_], caps: Array, order: Order, capacity: float | Array
) -> Array:
    """Return the max-min fair rates, min(cap, share), bit/s, shape (n, W); 0 of what flows not.

    Taken in the order of their caps, the transfers from the first one on whose cap is above what
    is left for each of the rest all run at that share.
    """
    rates = np.where(flows, caps, 0.0)
    tight = rates.sum(axis=0) > capacity
    if tight.any():  # elsewhere each runs at its cap
        bound = np.broadcast_to(np.asarray(capacity, np.float64), tight.shape)[tight]
        rates[:, tight] = _share(flows[:, tight], caps[:, tight], order[:, tight], bound)
    return rates


def _share(flows: NDArray[np.bool_], caps: Array, order: Order, capacity: Array) -> Array:
    """Return the rates in worlds whose link holds some transfers back."""
    own = np.take_along_axis(np.where(flows, caps, 0.0), order, axis=0)
    on = np.take_along_axis(flows, order, axis=0)
    rest = on.sum(axis=0) - np.cumsum(on, axis=0) + on  # how many from each one on
    before = np.zeros_like(own)
    np.cumsum(own[:-1], axis=0, out=before[1:])
    share = np.divide(capacity - before, rest, out=np.full_like(own, np.inf), where=on)
    held = on & (own > share)
    first = np.where(held, share, np.inf).max(axis=0, where=held, initial=-np.inf)
    # The shares fall from the first that is held back on, so that one's is the largest.
    level = np.where(held.any(axis=0), first, np.inf)
    return np.where(flows, np.minimum(caps, level), 0.0)


_ROUNDING = 1e-14
"""Times nearer than this share of the time that has passed differ by rounding alone."""

_BEGINNINGS = 4
"""So many exchanges of one load are kept: with some tails, rounds alternate between two."""

_KEPT = 8_000_000
"""Numbers in one of three arrays of clients x worlds, of all exchanges that are kept together."""


@dataclass(frozen=True)
class Prices:
    """What a run has taken at some of its commits.

    Attributes:
        seconds, joules, grams: until then, shape (L, W), as the table of rounds adds them up;
            grams of CO2 are NaN where `Clients.emitted` is None.
        fits: in which worlds every battery stays above all of its marks, shape (W,).
    """

    seconds: Array
    joules: Array
    grams: Array
    fits: Array


def prices(tape: Tape, loads: Loads, clients: Clients, looks: Sequence[int]) -> Prices:
    """Return what a run takes in each of W worlds.

    Args:
        tape: of the run.
        loads: its messages as they are charged, and its work.
        clients: what they are, in each world.
        looks: the rounds of interest, from 1, ascending.
    """
    play = _Play(loads, clients)
    exchange, seconds, joules, grams = 0, [], [], []
    for number in looks:
        while exchange < tape.commits[number - 1]:
            play.exchange(exchange)
            exchange += 1
        seconds.append(play.now)
        joules.append(play.joules())
        grams.append(play.grams())
    return Prices(np.array(seconds), np.array(joules), np.array(grams), play.fits())


@dataclass(frozen=True)
class _Exchange:
    """What an exchange of n clients takes, shapes (n, W) and (W,).

    Attributes:
        since: how long before it was opened bits flowed last, s; infinite where none did.
        came: when each answer arrives, s after it was opened.
        spent: by each client, J.
        duration: until the last answer, s.
    """

    since: Array
    came: Array
    spent: Array
    duration: Array

    def begins_after(self, since: Array, error: float) -> bool:
        """Return whether it begins as another one does, but for errors of rounding, s."""
        with np.errstate(invalid="ignore"):  # infinite in both
            same = (since == self.since) | (np.abs(since - self.since) <= error)
        return bool(same.all())


class _Play:
    """A run in all worlds, exchange by exchange.

    An exchange follows from its load and from how long ago each radio was active. In most runs
    both soon repeat from round to round, and then nothing has to be worked out again: the time of
    pricing a run goes with the number of different exchanges, and not of rounds.

    Attributes:
        now: when the current exchange was opened, s, shape (W,).
    """

    def __init__(self, loads: Loads, clients: Clients) -> None:
        self._loads = loads
        self._clients = clients
        self._rest = clients.idle.sum(axis=0)  # W, of all, whatever they do
        shape = clients.idle.shape
        self.now = np.zeros(shape[1])
        self._last = np.full(shape, -np.inf)  # when bits flowed last
        self._spent = np.zeros(shape)  # J, beyond idle power
        self._orders = by_cap(clients.down.rate), by_cap(clients.up.rate)
        self._passed: dict[bytes, list[_Exchange]] = {}  # by their loads

    def exchange(self, number: int) -> None:
        """Let a cohort receive, compute and answer."""
        ids, key = self._loads.clients(number), self._loads.key(number)
        since = self.now - self._last[ids]
        passed = self._cached_exchange(key, since)
        if passed is None:
            passed = self._pass(self._loads.of(number), since)
            self._keep(key, passed)
        self._last[ids] = self.now + passed.came
        self._spent[ids] += passed.spent
        self.now = self.now + passed.duration

    def _cached_exchange(self, key: bytes, since: Array) -> "_Exchange | None":
        """Return an exchange of this load that has begun like this, if one is kept."""
        error = _ROUNDING * float(self.now.max())
        for passed in self._passed.get(key, ()):
            if passed.begins_after(since, error):
                return passed
        return None

    def _keep(self, key: bytes, passed: "_Exchange") -> None:
        """Keep what an exchange has taken, in place of the oldest where there is no more room."""
        kept = self._passed.pop(key, [])
        self._passed[key] = [*kept[1 - _BEGINNINGS :], passed]
        while len(self._passed) > 1 and self._size > _KEPT:
            del self._passed[next(iter(self._passed))]

    @property
    def _size(self) -> int:
        return self._last.size * sum(map(len, self._passed.values()))

    def _pass(self, load: Load, since: Array) -> "_Exchange":
        """Work out an exchange; its times are from when it is opened."""
        clients = self._clients.of(load.clients)
        spent = np.zeros(since.shape)
        told = np.zeros(since.shape)
        heard = self._leg(clients, clients.down, told, load.told, -since, spent, up=False)
        works = clients.per_operation * load.operations[:, None]
        works += clients.per_sample * load.samples[:, None]
        spent += clients.working * works
        done = heard + works
        came = self._leg(clients, clients.up, done, load.said, heard, spent, up=True)
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
        """Send a message of each client in one direction; return when each has arrived, (n, W)."""
        began = now + lanes.latency
        if clients.stateful:
            connected = now <= last + clients.tail_time
            ready = np.where(connected, now, now + clients.promotion_time)
            began = ready + lanes.latency
            # From its last bit on it was connected until now, or until it went idle.
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
        """Return what all have drawn until now, as rounds are charged, shape (W,).

        The tail of a radio that is connected still is charged when it ends.
        """
        spent = (self._spent + self._expiry()).sum(axis=0)
        return np.asarray(self._rest * self.now + spent)

    def grams(self) -> Array:
        """Return what that has emitted, g of CO2, shape (W,); NaN where it is not known."""
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
        """Return in which worlds no battery has fallen to a mark at which its client acts."""
        clients = self._clients
        pending = np.where(
            np.isfinite(self._last),
            np.minimum(clients.tail_time, self.now - self._last) * clients.tail_power,
            0.0,
        )
        drawn = self._spent + pending + clients.idle * self.now
        return np.asarray((drawn < clients.reserve).all(axis=0))
