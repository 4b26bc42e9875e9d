"""Vectorised power supplies: batteries that only drain, with the accounts of `Supply`.

During an exchange, changes of power are collected in the order of computation. Once events have an
order, each battery applies its own changes in it: the first changes of all batteries at once, then
the second ones, and so on.
"""

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, ClientId
from fedsim.physics.state_of_charge import BatteryStore
from fedsim.results.record.ledger import Stores
from fedsim.sim.arrays.batteries import Batteries
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, empty_at, total_power
from fedsim.sim.worlds.open_spans import Spans, bounds

NO_SLOT = -1
"""Stands for the slot of a row without a state of charge."""


class _Changes(NamedTuple):
    """Changes of the power or the meter of parts of clients; see `SupplyArrays.change`."""

    now: Array
    watts: Array
    joules: Array
    edge: Array
    events: Numbers
    slots: Numbers
    batteries: Numbers
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
    # clients. If all clients have batteries, `_places` is None and the two numberings agree.

    def __init__(
        self,
        table: ClassTable,
        clients: int,
        calendar: Calendar,
        store: Callable[[ClientId], BatteryStore],
    ) -> None:
        self._store = store
        self._calendar = calendar
        held = np.broadcast_to(table.every("battery") > 0, clients)
        self._ids: Ids = np.flatnonzero(held)
        self._places: NDArray[np.int32] | None = None
        if not held.all():
            self._places = np.where(held, np.cumsum(held) - 1, -1).astype(np.int32)
        self._batteries = Batteries.at_start(table, self._ids)
        self._initial = np.broadcast_to(table.of("initial", self._ids), self._ids.shape)
        self._until = -inf  # no mark is reached up to this time
        self._changes: list[list[Any]] = []
        self._slots = 0
        self._queried: list[int] = []  # not brought up to `_queried_at` yet
        self._queried_at = 0.0

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
        return float(self._batteries.pick(np.array([place])).shares[0])

    def _look(self) -> None:
        """Bring the batteries that were queried up to the time of the query."""
        # Unique, as assignment through repeated indices would drop all but one result.
        for held in self._batteries.among(np.unique(np.array(self._queried, int))):
            held.advance(self._queried_at)
        self._queried = []

    # -- tails after a commit ----------------------------------------------------------

    def may_empty(self, tails: Sequence[Spans], now: float) -> NDArray[np.bool_]:
        """Return which clients' batteries may not outlast the first of some tails, shape (n,)."""
        clients = tails[0].clients
        places = clients if self._places is None else self._places[clients].astype(np.intp)
        held = self._batteries.pick(places)
        until, most = bounds(tails)
        # From the present state at the most power, until the last radio sleeps.
        level = held.level - held.gone(held.load, now - held.now)
        gone = held.gone(total_power(held.watts[Part.REST], 0.0, most), until - now)
        low: NDArray[np.bool_] = (places >= 0) & (level - gone <= held.mark)
        return low

    def empty_at(self, client: ClientId, loads: Sequence[tuple[float, float]]) -> float:
        """Return when a client's battery is empty, s, if only its radio draws power."""
        store, now = self._store(client), self._calendar.now
        held = self._batteries.pick(np.array([self._place(client)]))
        held.advance(now)
        store.now, store.level = now, float(held.level[0])
        return empty_at(store, float(held.watts[Part.REST, 0]), loads)

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
        change: list[Any] = [now, watts, joules, edge, events, slots, places, part, last]
        # Clients on mains have no battery to change.
        if not (held := places >= 0).all():
            change = [column[held] if np.ndim(column) else column for column in change]
        if held.any():
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
        collected, self._changes, self._slots = self._changes, [], 0
        if not collected:
            return charges
        sizes = [len(change[0]) for change in collected]
        columns = zip(*collected, strict=True)
        changes = _Changes(*(np.concatenate([*map(np.broadcast_to, c, sizes)]) for c in columns))
        # The sort is stable: changes of one event stay in their order.
        turns = np.lexsort((order[changes.events], changes.batteries))
        touched, begins, counts = np.unique(
            changes.batteries[turns], return_index=True, return_counts=True
        )
        for held in self._batteries.among(touched):
            # Turn k applies the k-th change of every battery that has one.
            for turn in range(int(counts.max())):
                remaining = np.flatnonzero(counts > turn)
                for some in held.among(remaining):
                    _apply(some, changes.take(turns[begins[remaining] + turn]), charges)
                    # Power is constant between changes and levels only fall, so that checking at
                    # changes suffices.
                    some.check()
        return charges

    def check(self, until: float) -> None:
        """Check that no battery reaches a mark before `until`, s, at its present power.

        Raises:
            ReactionError: a battery does.
        """
        held = self._batteries
        # Levels fall linearly up to `until`, as no power changes before.
        held.check(held.gone(held.load, until - held.now))
        self._until = until

    def others(self, clients: Ids) -> Ids:
        """Return the clients with batteries that are not among `clients`."""
        return np.setdiff1d(self._ids, clients, assume_unique=True)

    def stores(self) -> Stores:
        """Return the accounts of the batteries at this time."""
        self._look()
        held = self._batteries
        held.advance_to(self._calendar.now)
        nothing = np.zeros(len(self._ids))
        return Stores(
            self._ids.astype(np.intp, copy=False),
            self._initial,
            final=held.level,
            charged=nothing,
            drained=held.drained,
            delivered=held.delivered,
            depletions=nothing.astype(np.intp),
            settled=held.settled,
            resolution=held.resolution,
        )


def _apply(batteries: Batteries, changes: _Changes, charges: Array) -> None:
    """Apply one change to each battery; see `Supply.set` and `Supply.book`."""
    # NaN marks a power that stays. Without a change no sum is split, which would round differently.
    booked, stays = ~np.isnan(changes.joules), np.isnan(changes.watts)
    for part in (Part.PROCESSOR, Part.RADIO):
        switched = ~(stays | (changes.watts == batteries.watts[part]))
        places = np.flatnonzero((changes.part == part) & (switched | booked))
        some = changes if len(places) == len(booked) else changes.take(places)
        for held in batteries.among(places):
            which = np.flatnonzero(switched[places]), np.flatnonzero(booked[places])
            _apply_to(held, part, some, which, charges)


def _apply_to(
    held: Batteries,
    part: Part,
    changes: _Changes,
    which: tuple[Numbers, Numbers],
    charges: Array,
) -> None:
    """Apply changes of one part; `which` are those of its power, and those of its meter."""
    now, slots, ticks = changes.now, changes.slots, np.spacing(changes.now)
    held.advance_to(now)
    before, after = (np.flatnonzero((slots != NO_SLOT) & (changes.last == n)) for n in (0, 1))
    charges[slots[before]] = held.shares[before]
    switched, booked = which
    for some in held.among(switched):
        some.change(part, changes.watts[switched], ticks[switched])
    for some in held.among(booked):
        some.book(part, changes.joules[booked], changes.edge[booked], ticks[booked])
    charges[slots[after]] = held.shares[after]
