"""Radios in arrays: the states of all radios of a fleet between their messages.

These are the laws of `fedsim.sim.power.radio` for radios on mains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsim.columns import SparseColumn, is_one, one_if_equal
from fedsim.ports import Array
from fedsim.record.schema import Event
from fedsim.sim.arrays.channels import Channels, RadioFlow, RadioLeg
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.links import LinkLeg, pass_link
from fedsim.sim.arrays.order import EventOrder, Numbers
from fedsim.sim.arrays.rows import RowBlocks
from fedsim.sim.engine.calendar import SETTLE

Mask = NDArray[np.bool_]


class RadioArrays:
    """The radios of a fleet.

    Attributes:
        joules: that radios and processors have spent beyond idle power, by client, shape (M,).
    """

    # `_due` is when the timer of a stage's end is to happen, inf for none; `_armed` the number of
    # the event that has set it. While an exchange is played these are numbers of its order, with
    # `_base` added: what came before it is below `_base`, as the places of all events so far are.

    def __init__(self, table: ClassTable, channels: Channels, clients: int) -> None:
        self._table = table
        self._channels = channels
        self._stateful = table.any("stateful")
        self._paged = self._stateful and table.any("paged")
        self._base = 0
        self.joules = np.zeros(clients)
        if self._stateful:
            self._last = one_if_equal(table.every("last_stage").astype(np.int8))
            self._stage = self._last.copy()
            # Since when it is in its stage without bits. It can be reached as the run begins.
            cycle = one_if_equal(table.every("last_cycle").astype(np.float64, copy=False))
            self._since: Array | SparseColumn = (
                SparseColumn(clients, np.float64(0.0 - cycle[0])) if is_one(cycle) else 0.0 - cycle
            )
            self._due = SparseColumn(clients, np.float64(inf))
            self._armed = SparseColumn(clients, np.int64(0))
            self._round = SparseColumn(clients, np.int32(0))  # of the last message

    def transfer(self, leg: RadioLeg, order: EventOrder, rows: RowBlocks) -> "Passage":
        """Let the messages pass; return when their bits flowed, and in which events they arrive.

        Args:
            leg: the messages.
            order: takes the events.
            rows: takes the rows of promotions and tails.
        """
        table, up, ids = self._table, int(leg.up), leg.clients
        leg = replace(leg, ready=self._channels.ready_times(leg))
        ready, events = leg.ready, leg.events.copy()
        stateful = np.zeros(len(ids), np.bool_)
        if self._stateful:
            stateful |= table.of("stateful", ids).astype(np.bool_)
            ready, events = self._wake(leg, stateful, order, rows)
        began = ready + table.of(f"latency{up}", ids)
        links, full = (
            np.broadcast_to(table.of(f"{name}{up}", ids), ids.shape) for name in ("link", "full")
        )
        flows = np.flatnonzero(full | (links >= 0))
        sent = events.copy()
        if len(flows):
            events[flows] = order.add(began[flows], events[flows], joined=True)
        radios = np.flatnonzero(stateful)
        if len(radios):
            self._log_stage(ids[radios], began[radios], events[radios], rows)
        flow = self._channels.flow(leg, began)
        over = np.array(np.broadcast_to(flow.over, ids.shape))
        instant = np.broadcast_to(table.of(f"instant{up}", ids), over.shape)
        timed = np.flatnonzero(~instant & (links < 0))
        events[timed] = order.add(over[timed], events[timed])
        if table.shares_links:
            bits, caps = (
                np.broadcast_to(each, over.shape).astype(float) for each in (flow.bits, flow.caps)
            )
            whole = LinkLeg(began, bits, caps, events)
            self._pass_links(links, whole, order.places()[sent], order, over)
        self._channels.keep_silence(leg, flow, over)
        if len(radios):
            self._connect(ids[radios], over[radios], events[radios], busy=True)
        joules = np.broadcast_to(self._meter(ids, flow, over - began), over.shape)
        crowded = np.zeros(over.shape, np.bool_) if leg.up else _find_crowded(over, links)
        return Passage(began, over, joules, events, crowded, flow.again)

    def _meter(self, ids: Ids, flow: RadioFlow, spans: Array) -> Array:
        """Return the joules of messages that took some time, s; their radios have spent them."""
        joules = flow.per_bit * flow.bits + self._table.of("held", ids) * spans
        joules = joules + flow.on_air * spans
        self.joules[ids] += joules
        return joules

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

    def _wake(
        self, leg: RadioLeg, stateful: Mask, order: EventOrder, rows: RowBlocks
    ) -> tuple[Array, Numbers]:
        """Wake radios; return when each is ready, s, and in which event it is asked for bits."""
        ids, ready, events = leg.clients, leg.ready.copy(), leg.events.copy()
        if self._paged and not leg.up:
            self._page(ids, ready, events, order, rows)
        self._round[ids[stateful]] = leg.number
        out = np.flatnonzero(stateful & (self._stage[ids] > 0))
        if not len(out):
            return ready, events
        own, now, during = ids[out], ready[out], events[out]
        resting = self._stage[own] == self._last[own]
        self._log_stage(own[~resting], now[~resting], during[~resting], rows)
        self._due[own] = inf
        spans = self._table.of_stage("wake_time", own, self._stage[own])
        slow = resting | (spans > 0)
        self._connect(own[~slow], now[~slow], during[~slow], busy=False)
        own, spans = own[slow], spans[slow]
        awake = now[slow] + spans
        promoted = order.add(awake, during[slow])
        power = self._table.of_stage("wake_power", own, self._stage[own])
        self._log(Event.PROMOTION, own, awake - spans, awake, promoted, rows, power)
        self._connect(own, awake, promoted, busy=False)
        ready[out[slow]] = awake
        return ready, events

    def _page(
        self, ids: Ids, ready: Array, events: Numbers, order: EventOrder, rows: RowBlocks
    ) -> None:
        """Let messages wait until the radios that get them can be reached."""
        paged = np.broadcast_to(self._table.of("paged", ids), ids.shape) & (self._stage[ids] > 0)
        places = np.flatnonzero(paged)
        if not len(places):
            return
        own, now = ids[places], ready[places]
        reached = now.copy()
        for alike in self._table.alike(own):
            some = own[alike]
            states = self._table.states_of(int(some[0]))
            reached[alike] = states.reception_times(
                self._stage[some], self._since[some], now[alike]
            )
        late = np.flatnonzero(reached > now)
        if len(late):
            places, reached = places[late], reached[late]
            self.settle(ids[places], reached, order, rows)
            events[places] = order.add(reached, events[places])
            ready[places] = reached

    def _connect(self, ids: Ids, now: Array, events: Numbers, *, busy: bool) -> None:
        """Wait, connected, for bits; a timer that came while bits flowed is off."""
        if busy:
            self._due[ids[self._due[ids] < now]] = inf
        self._stage[ids] = 0
        self._since[ids] = now
        off = np.flatnonzero(self._due[ids] == inf)
        self._await_end(ids[off], now[off], events[off])

    def _await_end(self, ids: Ids, now: Array, events: Numbers) -> None:
        """Set the timers of the ends of stages that begin now."""
        times = self._table.of_stage("time", ids, self._stage[ids])
        self._due[ids] = now + times
        self._armed[ids] = events.astype(np.int64) + self._base

    def _log_stage(self, ids: Ids, now: Array, events: Numbers, rows: RowBlocks) -> None:
        """Record how long radios have waited, in their stages, up to now."""
        stages = self._stage[ids]
        power = self._table.of_stage("power", ids, stages)
        names = self._table.of_stage("name", ids, stages) if self._table.names else None
        self._log(Event.TAIL, ids, self._since[ids], now, events, rows, power, names)

    def _log(
        self,
        event: Event,
        ids: Ids,
        since: Array,
        now: Array,
        events: Numbers,
        rows: RowBlocks,
        power: Array,
        names: Numbers | None = None,
    ) -> None:
        """Meter and record the time in a state, up to now."""
        lasting, further = np.flatnonzero(now > since), {}
        if names is not None:
            further["detail"] = detail = np.full(len(lasting), -1)
            enter = partial(_enter, names[lasting], detail)
            rows.name(events, self._table.names, names, enter)  # though it has lasted no time
        if len(lasting) < len(ids):
            ids, events, power = ids[lasting], events[lasting], power[lasting]
            since, now = since[lasting], now[lasting]
        spans = now - since
        joules = power * spans
        self.joules[ids] += joules
        numbers = self._round[ids]
        rows.add(events, event, ids, t=now, duration=spans, round=numbers, joules=joules, **further)

    def settle(self, ids: Ids, until: Array | float, order: EventOrder, rows: RowBlocks) -> None:
        """Let the stages of radios end that do so before a time, s.

        Args:
            ids: of radios without bits.
            until: from when on bits, or another exchange, may keep a radio connected, shape (n,).
            order: takes the events.
            rows: takes the rows of stages.
        """
        until = np.broadcast_to(until, ids.shape)
        while len(ids):
            ends = self._since[ids] + self._table.of_stage("time", ids, self._stage[ids])
            # The timer was set for the end of an earlier wait: it is set anew.
            due = self._due[ids]
            early = np.flatnonzero((due < until) & (due < ends))
            if len(early):
                own = ids[early]
                set_anew = order.add(due[early], self._armed[own] - self._base, priority=SETTLE)
                self._armed[own] = set_anew.astype(np.int64) + self._base
                self._due[own] = ends[early]
            over = np.flatnonzero(ends < until)
            ids, until = ids[over], until[over]
            self._end_stage(ids, ends[over], order, rows)

    def _end_stage(self, ids: Ids, now: Array, order: EventOrder, rows: RowBlocks) -> None:
        """Let radios leave their stages, each for the next one."""
        events = order.add(now, self._armed[ids] - self._base, priority=SETTLE)
        self._log_stage(ids, now, events, rows)
        self._stage[ids] += 1
        self._since[ids] = now
        self._due[ids] = inf
        on = np.flatnonzero(self._stage[ids] < self._last[ids])
        self._await_end(ids[on], now[on], events[on])

    def settle_stateful(self, ids: Ids, until: Array, order: EventOrder, rows: RowBlocks) -> None:
        """Do so for those of some clients whose radios have states."""
        if self._stateful:
            mine = np.flatnonzero(np.broadcast_to(self._table.of("stateful", ids), ids.shape))
            self.settle(ids[mine], until[mine], order, rows)

    def settle_all(self, until: float, order: EventOrder, rows: RowBlocks) -> None:
        """Do so for all clients of the fleet, as an exchange is over."""
        if self._stateful:
            self.settle(self._due.below(until), until, order, rows)

    def number_events(self, places: Numbers) -> None:
        """Go on to the next exchange.

        Args:
            places: of all events of this one in their order.
        """
        if self._stateful:
            new = self._due.below(inf)  # no event of the others' counts any more
            new = new[self._armed[new] >= self._base]
            own = places[self._armed[new] - self._base]
            self._armed[new] = own.astype(np.int64) + self._base
        self._base += len(places)

    def switch_off(self, now: float, rows: RowBlocks) -> int:
        """End the world: record the stages in progress, client by client; return how many.

        Nothing is known of the stages afterwards: of many clients they take memory.
        """
        if not self._stateful:
            return 0
        ids = np.flatnonzero(self._stage < self._last)
        self._log_stage(ids, np.full(len(ids), now), np.arange(len(ids)), rows)
        self._stateful = False
        self._stage, self._last = np.zeros((2, 0), np.int8)
        del self._since, self._due, self._armed, self._round
        return len(ids)


@dataclass
class Passage:
    """How the messages of a `RadioLeg` have passed, shapes (n,).

    Attributes:
        began, over: when the bits began to flow, and had passed, s.
        joules: of the client's radio.
        events: during which event each arrives.
        crowded: whether that is the event of others, too.
        again: the bits that were sent again, shape (n,) or (1,).
    """

    began: Array
    over: Array
    joules: Array
    events: Numbers
    crowded: Mask
    again: NDArray[np.int64]

    def take(self, whose: Mask) -> "Passage":
        """Return how some of them have passed."""
        own = (getattr(self, each.name)[whose] for each in fields(self))
        return Passage(*own)


def _enter(which: Numbers, column: Numbers, numbers: Sequence[int]) -> None:
    """Enter the numbers of names in a column of those that rows have."""
    column[:] = np.array([*numbers, -1])[which]


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
