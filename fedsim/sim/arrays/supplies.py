"""Power supplies in arrays: batteries that only drain, with the accounts of `Supply`.

While an exchange is played, what its parts do to each battery is collected, in whatever order that
is computed. Then the events have an order, and each battery lives through its own changes in it:
the first changes of all of them at once, then the second ones, and so on.
"""

from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.state_of_charge import outflow, outtake
from fedsim.ports import Array, ClientId
from fedsim.record.ledger import Stores
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, clock_error, meter_gap, total_power

_PARTS = 2
"""The processor and the radio: what a client draws at rest does not change."""

_NEAR, _TICKS = 1e-9, 16
"""A mark is reached where so small a share of the capacity is left above it, or so many times what
the clock's resolution explains: more than rounding can move the time of that."""

LEVEL, DRAINED, AT, DELIVERED, SINCE, SETTLED, RESOLUTION = range(7)
"""Rows of the state of batteries; `AT` is the time of level and drained, `SINCE` of delivered."""

WATTS, DRAWN, METERED = 7, 9, 11
"""The first of two rows each, of the processor and of the radio."""

_ROWS = 13

NO_SLOT = -1
"""In place of a slot of a row that says no state of charge."""


class _Change(NamedTuple):
    """Changes of the power, or the meter, of one part of some clients; see `change`."""

    batteries: Numbers
    events: Numbers
    now: Array
    watts: Array | float
    joules: Array | float
    edge: Array | float
    slots: Numbers | int
    part: int
    last: bool


class _Changes(NamedTuple):
    """All changes, by battery and then in their order, shape (n,)."""

    now: Array
    watts: Array
    joules: Array
    edge: Array
    slots: Numbers
    part: Numbers
    last: NDArray[np.bool_]

    def take(self, places: Numbers) -> "_Changes":
        """Return some of them."""
        return _Changes(*(each[places] for each in self))  # type: ignore[arg-type]


class SupplyArrays:
    """The batteries of a fleet, none of which is charged or reaches a mark.

    Args:
        table: the constants of clients.
        clients: M.
        calendar: the simulated time.
    """

    # A battery of a client on mains has the place -1. Where all clients have one, there are neither
    # places nor numbers: a battery is its client's number.

    def __init__(self, table: ClassTable, clients: int, calendar: Calendar) -> None:
        self._table = table
        self._calendar = calendar
        held = np.broadcast_to(table.every("battery") > 0, clients)
        self._ids: Ids | None = None
        self._places: NDArray[np.int32] | None = None
        if not held.all():
            self._ids = np.flatnonzero(held)
            self._places = np.where(held, np.cumsum(held) - 1, -1).astype(np.int32)
        self._count = int(np.count_nonzero(held))
        self._state = np.zeros((_ROWS, self._count))
        self._state[LEVEL] = self._of("level", slice(None))
        self._until = -inf  # no mark is reached up to this time
        self._changes: list[_Change] = []
        self._slots = 0
        self._looked: list[int] = []  # not brought up to `_looked_at` yet
        self._looked_at = 0.0

    def _of(self, name: str, batteries: Numbers | slice) -> Array:
        """Return a constant of batteries, shape (n,), or () where all clients have the same."""
        if isinstance(batteries, slice):
            batteries = np.arange(self._count)
        return self._table.of(name, batteries if self._ids is None else self._ids[batteries])

    def _place(self, client: ClientId) -> int:
        return client if self._places is None else int(self._places[client])

    # -- what the server asks ----------------------------------------------------------

    def look(self, client: ClientId) -> None:
        """Bring a client's battery up to now, as where it is asked whether it is ready.

        Raises:
            ReactionError: a mark may have been reached meanwhile.
        """
        now = self._calendar.now
        if now > self._until:
            if self._until > -inf:
                raise ReactionError("the server waits after an exchange")
            self.check(now)
        if now != self._looked_at:
            self._look()
            self._looked_at = now
        if (place := self._place(client)) >= 0:
            self._looked.append(place)

    def share(self, client: ClientId) -> float:
        """Return the state of charge of a client's battery now; NaN on mains."""
        if (place := self._place(client)) < 0:
            return nan
        self.look(client)
        self._look()
        capacity = np.broadcast_to(self._of("capacity", np.array([place])), 1)
        return float(self._state[LEVEL, place]) / float(capacity[0])

    def _look(self) -> None:
        """Bring what has been looked at up to the time of that."""
        if self._looked:
            places = np.unique(self._looked)
            self._looked = []
            state = self._state[:, places]
            _drain(state, self._limits(places), np.broadcast_to(self._looked_at, len(places)))
            self._state[:, places] = state

    # -- what an exchange does ---------------------------------------------------------

    def reserve(self, count: int) -> Numbers:
        """Return the slots of the states of charge of so many rows; see `settle`."""
        self._slots += count
        return np.arange(self._slots - count, self._slots)

    def change(
        self,
        clients: Ids,
        events: Numbers,
        part: Part,
        now: Array,
        *,
        watts: Array | float = nan,
        joules: Array | float = nan,
        edge: Array | float = 0.0,
        slots: Numbers | int = NO_SLOT,
        last: bool = False,
    ) -> None:
        """Let a part of some clients change its power, and settle with its meter, or either.

        In one event, changes of one client happen in the order in which they were added. A client
        that settles may write the state of charge into a row: before that, or after it.

        Args:
            clients: their numbers, shape (n,); those on mains are passed over.
            events: in which it is, shape (n,).
            part: the part.
            now: when it is, s, shape (n,).
            watts: its power from then on, W; NaN where it stays. This and what follows is of shape
                (n,), or one figure for all.
            joules: by how much its meter has risen, J; NaN where it is not settled with.
            edge: the power of what may have begun and ended within an instant, W.
            slots: of the states of charge in rows; `NO_SLOT` for none.
            last: whether they are those after it has settled.
        """
        places: Numbers = clients if self._places is None else self._places[clients]
        change = _Change(places, events, now, watts, joules, edge, slots, part - 1, last)
        if not (own := places >= 0).all():
            change = _Change(*(each[own] if np.ndim(each) else each for each in change))  # type: ignore[arg-type, index]
        if len(change.batteries):
            self._changes.append(change)

    def settle(self, order: Numbers) -> Array:
        """Let each battery live through what has been collected.

        Args:
            order: the place of each event, shape (n,).

        Returns:
            The states of charge by slot; the last one, NaN, is that of `NO_SLOT`.

        Raises:
            ReactionError: one reaches a mark.
        """
        self._look()
        charges = np.full(self._slots + 1, nan)
        changes, self._changes, self._slots = self._changes, [], 0
        if not changes:
            return charges
        batteries = np.concatenate([each.batteries for each in changes])
        events = np.concatenate([order[each.events] for each in changes])
        turns = np.lexsort((events, batteries))  # stable: of one event, as they were added
        del events
        batteries = batteries[turns]
        begins = np.flatnonzero(np.concatenate([[True], batteries[1:] != batteries[:-1]]))
        own = batteries[begins]
        counts = np.diff(np.concatenate([begins, [len(turns)]]))
        all_changes = _concatenate(changes, turns)
        state, limits = self._state[:, own], self._limits(own)
        for number in range(int(counts.max())):
            some = np.flatnonzero(counts > number)
            part, further = state, limits
            if len(some) < len(own):
                part, further = state[:, some], limits.take(some)
            _live(part, further, all_changes.take(begins[some] + number), charges)
            _check_marks(part[LEVEL], part[RESOLUTION], further)
            if part is not state:
                state[:, some] = part
        self._state[:, own] = state
        return charges

    def check(self, until: float) -> None:
        """Check that no battery reaches a mark up to a time, s, as all go on.

        Raises:
            ReactionError: one does.
        """
        state, limits = self._state, self._limits(slice(None))
        load = total_power(limits.rest, state[WATTS], state[WATTS + 1])
        gone = outflow(load, limits.efficiency, limits.leak) * (until - state[AT])
        _check_marks(state[LEVEL] - gone, state[RESOLUTION], limits)
        self._until = until

    def _limits(self, batteries: Numbers | slice) -> "_Limits":
        names = ("rest", "efficiency", "leak", "capacity", "mark")
        return _Limits(*(self._of(name, batteries) for name in names))

    def others(self, clients: Ids) -> Ids:
        """Return the clients with batteries that are none of some."""
        held = np.arange(self._count) if self._ids is None else self._ids
        return np.setdiff1d(held, clients, assume_unique=True)

    def stores(self) -> Stores:
        """Return the accounts of the batteries, as of now."""
        self._look()
        state, limits = self._state, self._limits(slice(None))
        _advance(state, limits, np.broadcast_to(self._calendar.now, self._count))
        clients = np.arange(self._count) if self._ids is None else self._ids
        initial = np.broadcast_to(self._of("initial", slice(None)), self._count)
        nothing = np.zeros(self._count)
        return Stores(
            clients.astype(np.intp, copy=False),
            initial,
            final=state[LEVEL],
            charged=nothing,
            drained=state[DRAINED],
            delivered=state[DELIVERED],
            depletions=nothing.astype(np.intp),
            settled=state[SETTLED],
            resolution=state[RESOLUTION],
        )


class _Limits(NamedTuple):
    """The constants of batteries, shape (n,), or () where all clients have the same."""

    rest: Array
    efficiency: Array
    leak: Array
    capacity: Array
    mark: Array

    def take(self, places: Numbers) -> "_Limits":
        """Return those of some."""
        return _Limits(*(each[places] if each.ndim else each for each in self))


def _concatenate(changes: list[_Change], turns: Numbers) -> _Changes:
    """Return changes as columns, in an order."""
    columns = list[NDArray[np.generic]]()
    for name in _Changes._fields:
        parts = [np.broadcast_to(getattr(each, name), each.batteries.shape) for each in changes]
        columns.append(np.concatenate(parts)[turns])
    return _Changes(*columns)  # type: ignore[arg-type]  # of the types that they say


# What `BatteryStore` and `Supply` do, of columns of their figures: a state of shape (13, n).


def _drain(state: Array, limits: _Limits, now: Array) -> None:
    """Bring levels up to now, s, shape (n,); see `BatteryStore.advance`."""
    load = total_power(limits.rest, state[WATTS], state[WATTS + 1])
    gone = outflow(load, limits.efficiency, limits.leak) * (now - state[AT])
    state[LEVEL] -= gone
    state[DRAINED] += gone
    state[AT] = now


def _advance(state: Array, limits: _Limits, now: Array) -> None:
    """Bring all figures up to now, s, shape (n,); see `Supply.advance`."""
    span = now - state[SINCE]
    state[DELIVERED] += total_power(limits.rest, state[WATTS], state[WATTS + 1]) * span
    state[DRAWN : DRAWN + _PARTS] += state[WATTS : WATTS + _PARTS] * span
    state[SINCE] = now
    _drain(state, limits, now)


def _live(state: Array, limits: _Limits, changes: _Changes, charges: Array) -> None:
    """Let batteries live through one change each; see `Supply.set` and `Supply.book`."""
    part, every = changes.part, np.arange(state.shape[1])
    step = changes.watts - state[WATTS + part, every]
    changed, booked = (step != 0.0) & ~np.isnan(step), ~np.isnan(changes.joules)
    some = changed | booked
    if not some.all():  # where nothing changes, nothing is added up
        own = np.flatnonzero(some)
        if len(own):
            less = state[:, own]
            _live(less, limits.take(own), changes.take(own), charges)
            state[:, own] = less
        return
    tick = np.spacing(changes.now)
    _advance(state, limits, changes.now)
    before = (changes.slots != NO_SLOT) & ~changes.last
    shares = state[LEVEL] / limits.capacity
    charges[changes.slots[before]] = shares[before]
    if changed.any():
        state[RESOLUTION] += clock_error(tick, np.where(changed, np.abs(step), 0.0))
        own = np.flatnonzero(changed)
        state[WATTS + part[own], own] = changes.watts[own]
    if booked.any():
        _book(state, limits, changes, np.flatnonzero(booked), tick)
    after = (changes.slots != NO_SLOT) & changes.last
    shares = state[LEVEL] / limits.capacity
    charges[changes.slots[after]] = shares[after]


def _book(state: Array, limits: _Limits, changes: _Changes, own: Numbers, tick: Array) -> None:
    """Settle the powers of a part of some clients with its meter; see `Supply.book`."""
    meter, drawn = METERED + changes.part[own], DRAWN + changes.part[own]
    shown = state[meter, own] + changes.joules[own]
    missing = np.zeros(state.shape[1])
    missing[own] = meter_gap(shown, state[meter, own], state[drawn, own])
    state[meter, own], state[drawn, own] = shown, 0.0
    state[SETTLED] += np.abs(missing)
    state[RESOLUTION] += clock_error(tick, np.where(missing != 0.0, changes.edge, 0.0))
    state[DELIVERED] += missing
    out = outtake(missing, limits.efficiency, state[LEVEL], limits.capacity)
    state[DRAINED] += out
    state[LEVEL] -= out


def _check_marks(level: Array, resolution: Array, limits: _Limits) -> None:
    """Check that levels, J, are above the marks below them.

    Raises:
        ReactionError: one is not.
    """
    if not (level - limits.mark > _NEAR * limits.capacity + _TICKS * resolution).all():
        raise ReactionError("a battery reaches a mark")
