"""Radios in arrays: the states of all radios of a fleet between their messages.

These are the laws of `fedsim.sim.power.radio` for radios on mains at constant rates, with a
promotion and one tail at most.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.record.schema import Event
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.links import LinkLeg, pass_link
from fedsim.sim.arrays.order import EventOrder, Numbers
from fedsim.sim.arrays.rows import RowBlocks
from fedsim.sim.engine.calendar import SETTLE

Mask = NDArray[np.bool_]


@dataclass
class RadioLeg:
    """One message of each of some clients, in one direction.

    Attributes:
        clients: theirs, shape (n,).
        up: its direction.
        ready: when each was sent, s, shape (n,).
        events: during which event that was, shape (n,).
        bits: of each, framing included, shape (n,) or (1,).
        number: of the round.
    """

    clients: Ids
    up: bool
    ready: Array
    events: Numbers
    bits: NDArray[np.int64]
    number: int


class RadioArrays:
    """The radios of a fleet.

    Attributes:
        joules: that radios and processors have spent beyond idle power, by client, shape (M,).
    """

    # `_due` is when the timer of a radio's tail is to happen, inf for none; `_armed` the number of
    # the event that has set it. While an exchange is played these are numbers of its order, with
    # `_base` added: what came before it is below `_base`, as the places of all events so far are.

    def __init__(self, table: ClassTable, clients: int) -> None:
        self._table = table
        self._stateful = table.any("stateful")
        self._base = 0
        self.joules = np.zeros(clients)
        if self._stateful:
            self._connected = np.zeros(clients, np.bool_)
            self._since = np.zeros(clients)  # when connected: without bits since then
            self._due = np.full(clients, inf)
            self._armed = np.zeros(clients, np.int64)
            self._round = np.zeros(clients, np.int32)  # of the last message

    def transfer(self, leg: RadioLeg, order: EventOrder, rows: RowBlocks) -> "Passage":
        """Let the messages pass; return when their bits flowed, and in which events they arrive.

        Args:
            leg: the messages.
            order: takes the events.
            rows: takes the rows of promotions and tails.
        """
        table, up, ids = self._table, int(leg.up), leg.clients
        ready, events = leg.ready, leg.events.copy()
        stateful = np.zeros(len(ids), np.bool_)
        if self._stateful:
            stateful |= table.of("stateful", ids).astype(np.bool_)
            ready = self._wake(leg, stateful, order, rows)
        began = ready + table.of(f"latency{up}", ids)
        links = np.broadcast_to(table.of(f"link{up}", ids), ids.shape)
        flows = np.flatnonzero(stateful | (links >= 0))
        sent = events.copy()
        if len(flows):
            events[flows] = order.add(began[flows], events[flows], joined=True)
        flows = np.flatnonzero(stateful)
        if len(flows):
            self._tail(ids[flows], began[flows], events[flows], rows)
        over = began + leg.bits / table.of(f"cap{up}", ids)
        instant = np.broadcast_to(table.of(f"instant{up}", ids), over.shape)
        timed = np.flatnonzero(~instant & (links < 0))
        events[timed] = order.add(over[timed], events[timed])
        if table.shares_links:
            bits, caps = (
                np.broadcast_to(each, over.shape).astype(float)
                for each in (leg.bits, table.of(f"cap{up}", ids))
            )
            whole = LinkLeg(began, bits, caps, events)
            self._pass_links(links, whole, order.places()[sent], order, over)
        if len(flows):
            self._connect(ids[flows], over[flows], events[flows], busy=True)
        joules = table.of(f"per_bit{up}", ids) * leg.bits
        joules = joules + table.of("held", ids) * (over - began)
        self.joules[ids] += joules
        crowded = np.zeros(over.shape, np.bool_) if leg.up else _find_crowded(over, links)
        return Passage(began, over, np.broadcast_to(joules, over.shape), events, crowded)

    def _pass_links(
        self, links: Numbers, leg: LinkLeg, sent: Numbers, order: EventOrder, over: Array
    ) -> None:
        """Let messages pass the links that they share; enter when, and in which events."""
        for link in np.unique(links[links >= 0]).tolist():
            own = np.flatnonzero(links == link)
            own = own[np.lexsort((sent[own], leg.began[own]))]
            over[own], leg.events[own] = pass_link(
                self._table.capacities[link], leg.take(own), order
            )

    def _wake(self, leg: RadioLeg, stateful: Mask, order: EventOrder, rows: RowBlocks) -> Array:
        """Wake radios that are idle; return when each is ready, s."""
        ids, ready = leg.clients, leg.ready.copy()
        self._round[ids] = leg.number
        idle = np.flatnonzero(stateful & ~self._connected[ids])
        if not len(idle):
            return ready
        own = ids[idle]
        spans = self._table.of("wake_time", own)
        ready[idle] = awake = ready[idle] + spans
        events = order.add(awake, leg.events[idle])
        self._log(Event.PROMOTION, own, awake - spans, awake, events, rows, "wake_power")
        self._connect(own, awake, events, busy=False)
        return ready

    def _connect(self, ids: Ids, now: Array, events: Numbers, *, busy: bool) -> None:
        """Wait, connected, for bits; a tail's timer that came while bits flowed is off."""
        if busy:
            self._due[ids[self._due[ids] < now]] = inf
        self._connected[ids] = True
        self._since[ids] = now
        off = np.flatnonzero(self._due[ids] == inf)
        own = ids[off]
        self._due[own] = now[off] + self._table.of("tail_time", own)
        self._armed[own] = events[off] + self._base

    def _tail(self, ids: Ids, now: Array, events: Numbers, rows: RowBlocks) -> None:
        """Record how long radios have waited for the bits that flow from now on."""
        self._log(Event.TAIL, ids, self._since[ids], now, events, rows, "tail_power")

    def _log(
        self,
        event: Event,
        ids: Ids,
        since: Array,
        now: Array,
        events: Numbers,
        rows: RowBlocks,
        power: str,
    ) -> None:
        """Meter and record the time in a state, up to now."""
        lasting = np.flatnonzero(now > since)
        if len(lasting) < len(ids):
            ids, events = ids[lasting], events[lasting]
            since, now = since[lasting], now[lasting]
        spans = now - since
        joules = self._table.of(power, ids) * spans
        self.joules[ids] += joules
        numbers = self._round[ids]
        rows.add(events, event, ids, t=now, duration=spans, round=numbers, joules=joules)

    def settle(self, ids: Ids, until: Array | float, order: EventOrder, rows: RowBlocks) -> None:
        """Let the tails of radios end that do so before a time, s.

        Args:
            ids: of connected radios without bits.
            until: from when on bits, or another exchange, may keep a radio connected, shape (n,).
            order: takes the events.
            rows: takes the rows of tails.
        """
        ends = self._since[ids] + self._table.of("tail_time", ids)
        # The timer was set for the end of an earlier tail: it is set anew.
        due = self._due[ids]
        early = np.flatnonzero((due < until) & (due < ends))
        if len(early):
            own = ids[early]
            self._armed[own] = self._base + order.add(
                due[early], self._armed[own] - self._base, priority=SETTLE
            )
            self._due[own] = ends[early]
        over = np.flatnonzero(ends < until)
        if len(over):
            own, now = ids[over], ends[over]
            events = order.add(now, self._armed[own] - self._base, priority=SETTLE)
            self._tail(own, now, events, rows)
            self._connected[own] = False
            self._due[own] = inf

    def settle_stateful(self, ids: Ids, until: Array, order: EventOrder, rows: RowBlocks) -> None:
        """Do so for those of some clients whose radios have states."""
        if self._stateful:
            mine = np.flatnonzero(np.broadcast_to(self._table.of("stateful", ids), ids.shape))
            self.settle(ids[mine], until[mine], order, rows)

    def settle_all(self, until: float, order: EventOrder, rows: RowBlocks) -> None:
        """Do so for all clients of the fleet, as an exchange is over."""
        if self._stateful:
            self.settle(np.flatnonzero(self._due < until), until, order, rows)

    def number_events(self, places: Numbers) -> None:
        """Go on to the next exchange.

        Args:
            places: of all events of this one in their order.
        """
        if self._stateful:
            new = np.flatnonzero(self._armed >= self._base)
            self._armed[new] = self._base + places[self._armed[new] - self._base]
        self._base += len(places)

    def switch_off(self, now: float, rows: RowBlocks) -> int:
        """End the world: record the tails in progress, client by client; return how many."""
        if not self._stateful:
            return 0
        ids = np.flatnonzero(self._connected)
        self._tail(ids, np.full(len(ids), now), np.arange(len(ids)), rows)
        self._connected[:] = False
        return len(ids)


@dataclass
class Passage:
    """How the messages of a `RadioLeg` have passed, shapes (n,).

    Attributes:
        began, over: when the bits began to flow, and had passed, s.
        joules: of the client's radio.
        events: during which event each arrives.
        crowded: whether that is the event of others, too.
    """

    began: Array
    over: Array
    joules: Array
    events: Numbers
    crowded: Mask


def _find_crowded(over: Array, links: Numbers) -> Mask:
    """Return which messages pass a link at the same time as others do, shape (n,)."""
    found = np.zeros(len(over), np.bool_)
    if not (links >= 0).any():
        return found
    for link in np.unique(links[links >= 0]).tolist():
        own = np.flatnonzero(links == link)
        _, place, count = np.unique(over[own], return_inverse=True, return_counts=True)
        found[own] = count[place] > 1
    return found
