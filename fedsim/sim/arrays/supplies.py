"""Vectorised power supplies: batteries that only drain, with the accounts of `Supply`.

During an exchange, changes of power are collected in the order of computation. Once events have an
order, each battery applies its own changes in it: the first changes of all batteries at once, then
the second ones, and so on.
"""

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, ClientId
from fedsim.physics.state_of_charge import BatteryStore, outflow, outtake
from fedsim.results.record.ledger import Stores
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, clock_error, empty_at, meter_gap, total_power
from fedsim.sim.worlds.open_spans import Spans, bounds

_PARTS = 2
"""Processor and radio. The power at rest is constant and not a part."""

_NEAR, _TICKS = 1e-9, 16
"""Tolerances of a mark: this share of the capacity, and this multiple of the clock's resolution
error. Both exceed the rounding that could decide on which side of the mark a battery is."""

LEVEL, DRAINED, AT, DELIVERED, SINCE, SETTLED, RESOLUTION = range(7)
"""Rows of the state of batteries. AT is the time of LEVEL and DRAINED, SINCE that of DELIVERED."""

WATTS, DRAWN, METERED = 7, 9, 11
"""The first of two rows each: processor, then radio."""

_ROWS = 13

NO_SLOT = -1
"""Stands for the slot of a row without a state of charge."""


class _Change(NamedTuple):
    """Changes of the power or the meter of one part of some clients; see `SupplyArrays.change`."""

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
    """All changes, sorted by battery and then by event, shape (n,)."""

    now: Array
    watts: Array
    joules: Array
    edge: Array
    slots: Numbers
    part: Numbers
    last: NDArray[np.bool_]

    def take(self, places: Numbers) -> "_Changes":
        """Return some of the changes."""
        return _Changes(*(column[places] for column in self))  # type: ignore[arg-type]


class SupplyArrays:
    """The batteries of a fleet, if none is charged or reaches a mark.

    Args:
        table: the constants of clients.
        clients: the number of clients, M.
        calendar: the calendar of the run.
        store: creates the battery of a client, as it is at the start.
    """

    # `_places` maps clients to batteries, with -1 for a client on mains, and `_ids` batteries to
    # clients. If all clients have batteries, both are None and the two numberings agree.

    def __init__(
        self,
        table: ClassTable,
        clients: int,
        calendar: Calendar,
        store: Callable[[ClientId], BatteryStore],
    ) -> None:
        self._table = table
        self._store = store
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
        self._queried: list[int] = []  # not brought up to `_queried_at` yet
        self._queried_at = 0.0

    def _of(self, name: str, batteries: Numbers | slice) -> Array:
        """Return a constant of batteries, shape (n,), or () if all clients have the same."""
        if isinstance(batteries, slice):
            batteries = np.arange(self._count)
        return self._table.of(name, batteries if self._ids is None else self._ids[batteries])

    def _place(self, client: ClientId) -> int:
        return client if self._places is None else int(self._places[client])

    # -- queries of the server ---------------------------------------------------------

    def look(self, client: ClientId) -> None:
        """Bring a client's battery up to now, as a query of its readiness does.

        Raises:
            ReactionError: a mark may have been reached meanwhile.
        """
        now = self._calendar.now
        # Before the first exchange batteries have only idled, which `check` covers up to now.
        # Later, nothing is known beyond the horizon of the last exchange.
        if now > self._until:
            if self._until > -inf:
                raise ReactionError("the server waits after an exchange")
            self.check(now)
        # Queries of one instant are collected, and batteries are brought up to date at once.
        if now != self._queried_at:
            self._look()
            self._queried_at = now
        if (place := self._place(client)) >= 0:
            self._queried.append(place)

    def share(self, client: ClientId) -> float:
        """Return the state of charge of a client's battery now; NaN on mains."""
        if (place := self._place(client)) < 0:
            return nan
        self.look(client)
        self._look()
        capacity = np.broadcast_to(self._of("capacity", np.array([place])), 1)
        return float(self._state[LEVEL, place]) / float(capacity[0])

    def _look(self) -> None:
        """Bring the batteries that were queried up to the time of the query."""
        if self._queried:
            # Unique, as assignment through repeated indices would drop all but one result.
            places = np.unique(self._queried)
            self._queried = []
            state = self._state[:, places]
            _drain(state, self._limits(places), np.broadcast_to(self._queried_at, len(places)))
            self._state[:, places] = state

    # -- tails after a commit ----------------------------------------------------------

    def may_empty(self, tails: Sequence[Spans], now: float) -> NDArray[np.bool_]:
        """Return which clients' batteries may not outlast the first of some tails, shape (n,)."""
        clients = tails[0].clients
        places = clients if self._places is None else self._places[clients].astype(np.intp)
        state, limits = self._state[:, places], self._limits(places)
        until, most = bounds(tails)
        # From the present state at the most power, until the last radio sleeps.
        load = total_power(limits.rest, state[WATTS], state[WATTS + 1])
        level = state[LEVEL] - outflow(load, limits.efficiency, limits.leak) * (now - state[AT])
        load = total_power(limits.rest, 0.0, most)
        gone = outflow(load, limits.efficiency, limits.leak) * (until - now)
        low: NDArray[np.bool_] = (places >= 0) & (level - gone <= limits.mark)
        return low

    def empty_at(self, client: ClientId, loads: Sequence[tuple[float, float]]) -> float:
        """Return when a client's battery is empty, s, if only its radio draws power."""
        store, now = self._store(client), self._calendar.now
        places = np.array([self._place(client)])
        state, limits = self._state[:, places], self._limits(places)
        _drain(state, limits, np.array([now]))
        store.now, store.level = now, float(state[LEVEL, 0])
        return empty_at(store, float(np.broadcast_to(limits.rest, 1)[0]), loads)

    # -- changes by an exchange --------------------------------------------------------

    def reserve(self, count: int) -> Numbers:
        """Return slots for the states of charge of `count` rows; see `settle`."""
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
        """Change the power of a part of some clients, settle it with the part's meter, or both.

        Changes of one client in one event apply in the order in which they were added.

        Args:
            clients: the numbers of the clients, shape (n,); clients on mains are skipped.
            events: the event of each change, shape (n,).
            part: the part of the clients.
            now: the time of each change, s, shape (n,).
            watts: the new power, W; NaN to keep it. This and all that follow have shape (n,), or
                are one value for all.
            joules: the energy that the meter has added, J; NaN to leave the meter alone.
            edge: the power of use that may have begun and ended within one instant, W.
            slots: slots for the states of charge in rows; `NO_SLOT` for none.
            last: whether these are the states after the change; otherwise those before it.
        """
        places: Numbers = clients if self._places is None else self._places[clients]
        change = _Change(places, events, now, watts, joules, edge, slots, part - 1, last)
        # Clients on mains have no battery to change.
        if not (held := places >= 0).all():
            change = _Change(*(column[held] if np.ndim(column) else column for column in change))  # type: ignore[arg-type, index]
        if len(change.batteries):
            self._changes.append(change)

    def settle(self, order: Numbers) -> Array:
        """Apply all collected changes to the batteries.

        Args:
            order: the place of each event, shape (n,).

        Returns:
            The states of charge by slot. The last one is NaN, for `NO_SLOT`.

        Raises:
            ReactionError: a battery reaches a mark.
        """
        self._look()
        charges = np.full(self._slots + 1, nan)
        changes, self._changes, self._slots = self._changes, [], 0
        if not changes:
            return charges
        batteries = np.concatenate([change.batteries for change in changes])
        events = np.concatenate([order[change.events] for change in changes])
        turns = np.lexsort((events, batteries))  # stable: changes of one event stay in their order
        del events
        batteries = batteries[turns]
        begins = np.flatnonzero(np.concatenate([[True], batteries[1:] != batteries[:-1]]))
        touched = batteries[begins]
        counts = np.diff(np.concatenate([begins, [len(turns)]]))
        all_changes = _concatenate(changes, turns)
        # A copy, written back at the end: if a battery reaches a mark, the run starts again without
        # these arrays.
        state, limits = self._state[:, touched], self._limits(touched)
        # Turn k applies the k-th change of every battery that has one.
        for turn in range(int(counts.max())):
            remaining = np.flatnonzero(counts > turn)
            part, part_limits = state, limits
            if len(remaining) < len(touched):
                part, part_limits = state[:, remaining], limits.take(remaining)
            _apply(part, part_limits, all_changes.take(begins[remaining] + turn), charges)
            # Power is constant between changes and levels only fall, so that checking at changes
            # suffices.
            _check_marks(part[LEVEL], part[RESOLUTION], part_limits)
            if part is not state:
                state[:, remaining] = part
        self._state[:, touched] = state
        return charges

    def check(self, until: float) -> None:
        """Check that no battery reaches a mark before `until`, s, at its present power.

        Raises:
            ReactionError: a battery does.
        """
        state, limits = self._state, self._limits(slice(None))
        load = total_power(limits.rest, state[WATTS], state[WATTS + 1])
        # Levels fall linearly up to `until`, as no power changes before.
        gone = outflow(load, limits.efficiency, limits.leak) * (until - state[AT])
        _check_marks(state[LEVEL] - gone, state[RESOLUTION], limits)
        self._until = until

    def _limits(self, batteries: Numbers | slice) -> "_Limits":
        names = ("rest", "efficiency", "leak", "capacity", "mark")
        return _Limits(*(self._of(name, batteries) for name in names))

    def others(self, clients: Ids) -> Ids:
        """Return the clients with batteries that are not among `clients`."""
        held = np.arange(self._count) if self._ids is None else self._ids
        return np.setdiff1d(held, clients, assume_unique=True)

    def stores(self) -> Stores:
        """Return the accounts of the batteries at this time."""
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
    """The constants of batteries, shape (n,), or () if all clients have the same."""

    rest: Array
    efficiency: Array
    leak: Array
    capacity: Array
    mark: Array

    def take(self, places: Numbers) -> "_Limits":
        """Return the constants of some batteries."""
        return _Limits(*(column[places] if column.ndim else column for column in self))


def _concatenate(changes: list[_Change], turns: Numbers) -> _Changes:
    """Return changes as columns, sorted by `turns`."""
    columns = list[NDArray[np.generic]]()
    for name in _Changes._fields:
        parts = [
            np.broadcast_to(getattr(change, name), change.batteries.shape) for change in changes
        ]
        columns.append(np.concatenate(parts)[turns])
    return _Changes(*columns)  # type: ignore[arg-type]  # columns have the types of the fields


# The laws of `BatteryStore` and `Supply`, applied to a state of shape (13, n). Operations and their
# order are the same as there, so that the results agree to the last bit.


def _drain(state: Array, limits: _Limits, now: Array) -> None:
    """Bring levels up to now, s, shape (n,); see `BatteryStore.advance`."""
    load = total_power(limits.rest, state[WATTS], state[WATTS + 1])
    # Linear in time, since power is constant between two changes. All figures are in J.
    gone = outflow(load, limits.efficiency, limits.leak) * (now - state[AT])
    state[LEVEL] -= gone
    state[DRAINED] += gone
    state[AT] = now


def _advance(state: Array, limits: _Limits, now: Array) -> None:
    """Bring all figures up to now, s, shape (n,); see `Supply.advance`."""
    # Before `_drain`: both use the powers that applied up to now.
    span = now - state[SINCE]
    state[DELIVERED] += total_power(limits.rest, state[WATTS], state[WATTS + 1]) * span
    state[DRAWN : DRAWN + _PARTS] += state[WATTS : WATTS + _PARTS] * span
    state[SINCE] = now
    _drain(state, limits, now)


def _apply(state: Array, limits: _Limits, changes: _Changes, charges: Array) -> None:
    """Apply one change to each battery; see `Supply.set` and `Supply.book`."""
    part, batteries = changes.part, np.arange(state.shape[1])
    # NaN marks a power that stays.
    # One change per battery and turn, so that indexing by battery reaches each at most once.
    step = changes.watts - state[WATTS + part, batteries]
    changed, booked = (step != 0.0) & ~np.isnan(step), ~np.isnan(changes.joules)
    affected = changed | booked
    if not affected.all():  # without a change no sum is split, which would round differently
        indices = np.flatnonzero(affected)
        if len(indices):
            part_state = state[:, indices]
            _apply(part_state, limits.take(indices), changes.take(indices), charges)
            state[:, indices] = part_state
        return
    # The resolution of the clock bounds how well the time of a change is known.
    tick = np.spacing(changes.now)
    _advance(state, limits, changes.now)
    # Slots of a change are filled either before it or after it, as `last` says.
    before = (changes.slots != NO_SLOT) & ~changes.last
    shares = state[LEVEL] / limits.capacity
    charges[changes.slots[before]] = shares[before]
    if changed.any():
        state[RESOLUTION] += clock_error(tick, np.where(changed, np.abs(step), 0.0))
        indices = np.flatnonzero(changed)
        state[WATTS + part[indices], indices] = changes.watts[indices]
    if booked.any():
        _book(state, limits, changes, np.flatnonzero(booked), tick)
    after = (changes.slots != NO_SLOT) & changes.last
    shares = state[LEVEL] / limits.capacity
    charges[changes.slots[after]] = shares[after]


def _book(state: Array, limits: _Limits, changes: _Changes, indices: Numbers, tick: Array) -> None:
    """Settle a part of some clients with its meter; see `Supply.book`."""
    meter, drawn = METERED + changes.part[indices], DRAWN + changes.part[indices]
    shown = state[meter, indices] + changes.joules[indices]
    missing = np.zeros(state.shape[1])
    # The meter is exact, power x time is rounded: the battery pays the difference.
    missing[indices] = meter_gap(shown, state[meter, indices], state[drawn, indices])
    state[meter, indices], state[drawn, indices] = shown, 0.0
    state[SETTLED] += np.abs(missing)
    state[RESOLUTION] += clock_error(tick, np.where(missing != 0.0, changes.edge, 0.0))
    state[DELIVERED] += missing
    taken = outtake(missing, limits.efficiency, state[LEVEL], limits.capacity)
    state[DRAINED] += taken
    state[LEVEL] -= taken


def _check_marks(level: Array, resolution: Array, limits: _Limits) -> None:
    """Check that levels, J, are clearly above their marks.

    Raises:
        ReactionError: a level is not.
    """
    if not (level - limits.mark > _NEAR * limits.capacity + _TICKS * resolution).all():
        raise ReactionError("a battery reaches a mark")
