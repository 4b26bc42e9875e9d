"""Vectorised radios: the stages of all radios of a fleet, between messages and during them.

The laws are those of `fedsim.sim.power.radio`, applied to all clients of an exchange at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.columns import SparseColumn, is_one, one_if_equal
from fedsim.core.ports import Array
from fedsim.results.record.schema import Event
from fedsim.sim.arrays.channels import Channels, RadioFlow, RadioLeg
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.links import LinkLeg, pass_link
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError
from fedsim.sim.arrays.rows import RowBlocks
from fedsim.sim.arrays.supplies import NO_SLOT, SupplyArrays
from fedsim.sim.engine.calendar import SETTLE
from fedsim.sim.power.supply import Part
from fedsim.sim.worlds.open_spans import NO_SPANS, Spans, States, tails

Mask = NDArray[np.bool_]


class _Paid(NamedTuple):
    """Energy of radios in a stage, J, and the state-of-charge slots of the rows, shapes (n,)."""

    joules: Array
    slots: Numbers


class RadioArrays:
    """The radios of a fleet.

    Args:
        table: the constants of clients.
        channels: the channels of clients.
        clients: the number of clients, M.
        supplies: the clients' batteries; None if all clients are on mains.

    Attributes:
        joules: energy of radios and processors beyond idle power, by client, shape (M,).
    """

    # State of each radio: `_stage` is its stage (0: connected), `_since` the time since which it
    # has been in that stage without bits, s, and `_due` the time of its stage timer, inf if none is
    # set. `_armed` is the number of the event that has set the timer; it decides ties between
    # timers. Event numbers are global: those of the current exchange are its own plus `_base`, and
    # those of earlier exchanges are below `_base`.

    def __init__(
        self,
        table: ClassTable,
        channels: Channels,
        clients: int,
        supplies: SupplyArrays | None = None,
    ) -> None:
        self._table = table
        self._supplies = supplies
        self._channels = channels
        self._stateful = table.any("stateful")
        self._paged = self._stateful and table.any("paged")
        self._base = 0
        self.joules = np.zeros(clients)
        if self._stateful:
            self._last = one_if_equal(table.every("last_stage").astype(np.int8))
            self._stage = self._last.copy()
            # One paging cycle before 0, so that a paged radio can be reached as the run begins.
            cycle = one_if_equal(table.every("last_cycle").astype(np.float64, copy=False))
            self._since: Array | SparseColumn = (
                SparseColumn(clients, np.float64(0.0 - cycle[0])) if is_one(cycle) else 0.0 - cycle
            )
            self._due = SparseColumn(clients, np.float64(inf))
            self._armed = SparseColumn(clients, np.int64(0))
            self._round = SparseColumn(clients, np.int32(0))  # of the last message

    def transfer(self, leg: RadioLeg, order: EventOrder, rows: RowBlocks) -> "Passage":
        """Transmit messages; return when their bits flowed, and the events in which they arrive.

        Args:
            leg: the messages of one direction.
            order: receives the events.
            rows: receives the rows of promotions and tails.
        """
        table, up, ids = self._table, int(leg.up), leg.clients
        leg = replace(leg, ready=self._channels.ready_times(leg))
        ready, events = leg.ready, leg.events.copy()  # the caller's events stay those of sending
        stateful = np.zeros(len(ids), np.bool_)
        if self._stateful:
            stateful |= table.of("stateful", ids).astype(np.bool_)
            # Steps of a message: the radio wakes up, the latency passes, bits begin to flow, bits
            # have passed. Only steps that are events of the calendar in the event-by-event run are
            # added.
            ready, events = self._wake(leg, stateful, order, rows)
        began = ready + table.of(f"latency{up}", ids)
        links, full = (
            np.broadcast_to(table.of(f"{name}{up}", ids), ids.shape) for name in ("link", "full")
        )
        flows = np.flatnonzero(full | (links >= 0))
        # The order of sending, which decides between messages that begin on a link together.
        sent = events.copy()
        if len(flows):
            events[flows] = order.add(began[flows], events[flows], joined=True)
        radios = np.flatnonzero(stateful)
        waited = _Paid(np.zeros(0), np.zeros(0, int))
        if len(radios):
            waited = self._log_stage(ids[radios], began[radios], events[radios], rows)
        flow = self._channels.flow(leg, began)
        if self._supplies is not None:
            # Copied, as `events` becomes the events of arrival below.
            self._begin(ids, began, events.copy(), flow, radios, waited)
        # `over` is preliminary for messages that share a link: `_pass_links` overwrites it.
        over = np.array(np.broadcast_to(flow.over, ids.shape))
        instant = np.broadcast_to(table.of(f"instant{up}", ids), over.shape)
        timed = np.flatnonzero(~instant & (links < 0))
        events[timed] = order.add(over[timed], events[timed])
        if table.shares_links:
            bits, caps = (
                np.broadcast_to(column, over.shape).astype(float)
                for column in (flow.bits, flow.caps)
            )
            shared = LinkLeg(began, bits, caps, events)
            self._pass_links(links, shared, order.places()[sent], order, over)
        self._channels.keep_silence(leg, flow, over)
        if len(radios):
            self._connect(ids[radios], over[radios], events[radios], busy=True)
        joules = np.broadcast_to(self._meter(ids, flow, over - began), over.shape)
        crowded = np.zeros(over.shape, np.bool_) if leg.up else _find_crowded(over, links)
        slots = self._end(ids, over, events, joules)
        return Passage(began, over, joules, events, crowded, flow.again, slots)

    def _begin(
        self,
        ids: Ids,
        now: Array,
        events: Numbers,
        flow: RadioFlow,
        radios: Numbers,
        waited: _Paid,
    ) -> None:
        """Set the radio power of batteries as bits begin to flow, and settle the wait before."""
        if self._supplies is None:
            return
        rates = np.where(flow.caps < inf, flow.caps, 0.0)  # an instantaneous message draws no power
        watts = self._table.of("held", ids) + flow.per_bit * rates
        joules, slots = np.full(len(ids), nan), np.full(len(ids), NO_SLOT)
        joules[radios], slots[radios] = waited
        self._supplies.change(ids, events, Part.RADIO, now, watts=watts, joules=joules, slots=slots)

    def _end(self, ids: Ids, now: Array, events: Numbers, joules: Array) -> Numbers | None:
        """Set the radio power of batteries as bits have passed; return the slots of their rows.

        Returns None if all clients are on mains.
        """
        if self._supplies is None:
            return None
        slots = np.full(len(ids), NO_SLOT)
        held = np.broadcast_to(self._table.of("battery", ids) > 0, ids.shape)
        slots[held] = self._supplies.reserve(int(np.count_nonzero(held)))
        watts = self._stage_power(ids, np.zeros(len(ids), np.int8))
        self._supplies.change(ids, events, Part.RADIO, now, watts=watts, joules=joules, slots=slots)
        return slots

    def _stage_power(self, ids: Ids, stages: Numbers) -> Array:
        """Return the powers of stages, W, shape (n,); 0 for radios without states."""
        stateful = self._table.of("stateful", ids)
        return np.where(stateful, self._table.of_stage("power", ids, stages), 0.0)

    def _meter(self, ids: Ids, flow: RadioFlow, spans: Array) -> Array:
        """Return the energy of messages, J, and add it to the joules of their radios."""
        # The terms are added in the order of `RadioMeter.end`, which the last bit depends on. A
        # client has one message per direction, so `+=` with an array of indices loses nothing, and
        # no span is shared by two messages.
        joules = flow.per_bit * flow.bits + self._table.of("held", ids) * spans
        joules = joules + flow.on_air * spans
        self.joules[ids] += joules
        return joules

    def _pass_links(
        self, links: Numbers, leg: LinkLeg, sent: Numbers, order: EventOrder, over: Array
    ) -> None:
        """Transmit messages over shared links; write their ends to `over` and `leg.events`."""
        for link in np.unique(links[links >= 0]).tolist():
            members = np.flatnonzero(links == link)
            # By beginning, then in the order of sending: `LinkLeg` requires it.
            members = members[np.lexsort((sent[members], leg.began[members]))]
            over[members], leg.events[members] = pass_link(
                self._table.capacities[link], leg.take(members), order
            )

    def _wake(
        self, leg: RadioLeg, stateful: Mask, order: EventOrder, rows: RowBlocks
    ) -> tuple[Array, Numbers]:
        """Wake radios; return when each is ready, s, and the event in which it is.

        Raises:
            ReactionError: bits flow at the very instant at which a radio with a battery wakes up.
        """
        ids, ready, events = leg.clients, leg.ready.copy(), leg.events.copy()
        if self._paged and not leg.up:
            self._page(ids, ready, events, order, rows)
        # Before the wake-up is logged: its rows bear the number of the round of this message.
        self._round[ids[stateful]] = leg.number
        indices = np.flatnonzero(stateful & (self._stage[ids] > 0))
        if not len(indices):
            return ready, events
        asleep, now, at_events = ids[indices], ready[indices], events[indices]
        # A radio in its last stage is at rest: no tail is in progress that had to be recorded.
        resting = self._stage[asleep] == self._last[asleep]
        waited = self._log_stage(asleep[~resting], now[~resting], at_events[~resting], rows)
        self._due[asleep] = inf
        spans = self._table.of_stage("wake_time", asleep, self._stage[asleep])
        # Waking from an unfinished tail may take no time. Then there is no promotion, and no event.
        slow = resting | (spans > 0)
        if self._supplies is not None:
            joules, slots = np.full(len(asleep), nan), np.full(len(asleep), NO_SLOT)
            joules[~resting], slots[~resting] = waited
            connected = self._stage_power(asleep, np.zeros(len(asleep), np.int8))
            waking = self._table.of_stage("wake_power", asleep, self._stage[asleep])
            watts = np.where(slow, waking, connected)
            self._supplies.change(
                asleep, at_events, Part.RADIO, now, watts=watts, joules=joules, slots=slots
            )
        self._connect(asleep[~slow], now[~slow], at_events[~slow], busy=False)
        asleep, spans = asleep[slow], spans[slow]
        awake = now[slow] + spans
        promoted = order.add(awake, at_events[slow])
        if self._supplies is not None:
            # Both events fall on one instant. The order of the two changes of power then depends on
            # the rest of the fleet.
            at_once = awake + self._table.of(f"latency{int(leg.up)}", asleep) == awake
            if (at_once & (self._table.of("battery", asleep) > 0)).any():
                raise ReactionError("bits flow as a radio wakes")
        power = self._table.of_stage("wake_power", asleep, self._stage[asleep])
        paid = self._log(Event.PROMOTION, asleep, awake - spans, awake, promoted, rows, power)
        self._connect(asleep, awake, promoted, busy=False)
        self._enter_stage(asleep, awake, promoted, paid)
        ready[indices[slow]] = awake
        return ready, events

    def _page(
        self, ids: Ids, ready: Array, events: Numbers, order: EventOrder, rows: RowBlocks
    ) -> None:
        """Delay messages until the receiving radios listen, in their paging cycle."""
        paged = np.broadcast_to(self._table.of("paged", ids), ids.shape) & (self._stage[ids] > 0)
        places = np.flatnonzero(paged)
        if not len(places):
            return
        from fedsim.sim.arrays.paging import reception_times  # a kernel, which few radios need

        asleep, now = ids[places], ready[places]
        labels, stages = self._table.labels(asleep), self._table.stages
        reached = reception_times(stages, labels, self._stage[asleep], self._since[asleep], now)
        late = np.flatnonzero(reached > now)
        # While a message waits, its radio may move on to its next stage, from which it is woken.
        if len(late):
            places, reached = places[late], reached[late]
            self.settle(ids[places], reached, order, rows)
            events[places] = order.add(reached, events[places])
            ready[places] = reached

    def _connect(self, ids: Ids, now: Array, events: Numbers, *, busy: bool) -> None:
        """Enter stage 0 without bits. With `busy`, cancel timers that expired while bits flowed."""
        if busy:
            # A timer that expired while bits flowed found the radio busy, and has set no other one.
            self._due[ids[self._due[ids] < now]] = inf
        self._stage[ids] = 0
        self._since[ids] = now
        # A timer that is still set stays: `settle` moves it when it expires, as `Radio` does.
        off = np.flatnonzero(self._due[ids] == inf)
        self._await_end(ids[off], now[off], events[off])

    def _enter_stage(self, ids: Ids, now: Array, events: Numbers, paid: _Paid) -> None:
        """Set the radio power of batteries for new stages, and settle the energy of the last."""
        if self._supplies is not None:
            watts = self._stage_power(ids, self._stage[ids])
            self._supplies.change(
                ids, events, Part.RADIO, now, watts=watts, joules=paid.joules, slots=paid.slots
            )

    def _await_end(self, ids: Ids, now: Array, events: Numbers) -> None:
        """Set the timers of the ends of stages that begin now."""
        times = self._table.of_stage("time", ids, self._stage[ids])
        self._due[ids] = now + times
        # The event that sets the timer is the parent of its expiry: of timers that expire together,
        # the one set first expires first.
        self._armed[ids] = events.astype(np.int64) + self._base

    def _log_stage(self, ids: Ids, now: Array, events: Numbers, rows: RowBlocks) -> _Paid:
        """Record the time that radios have waited in their stages, up to now."""
        stages = self._stage[ids]
        power = self._table.of_stage("power", ids, stages)
        names = self._table.stage_names(ids, stages) if self._table.names else None
        return self._log(Event.TAIL, ids, self._since[ids], now, events, rows, power, names)

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
    ) -> _Paid:
        """Meter and record the time in a state, up to now."""
        lasting, further = np.flatnonzero(now > since), dict[str, Numbers]()
        paid = _Paid(np.zeros(len(ids)), np.full(len(ids), NO_SLOT))
        if self._supplies is not None:
            further["state_of_charge"] = slots = self._supplies.reserve(len(lasting))
            paid.slots[lasting] = slots
        if names is not None:
            further["detail"] = detail = np.full(len(lasting), -1)
            enter = partial(_enter, names[lasting], detail)
            # The event-by-event run enters the name of a stage even if it has lasted no time.
            rows.name(events, self._table.names, names, enter)
        if len(lasting) < len(ids):
            ids, events, power = ids[lasting], events[lasting], power[lasting]
            since, now = since[lasting], now[lasting]
        spans = now - since
        joules = paid.joules[lasting] = power * spans
        self.joules[ids] += joules
        numbers = self._round[ids]
        rows.add(events, event, ids, t=now, duration=spans, round=numbers, joules=joules, **further)
        return paid

    def settle(self, ids: Ids, until: Array | float, order: EventOrder, rows: RowBlocks) -> None:
        """End the stages of idle radios that expire before a time.

        Args:
            ids: radios without bits.
            until: the time from which bits, or another exchange, may keep a radio connected, s,
                shape (n,) or ().
            order: receives the events.
            rows: receives the rows of stages.
        """
        until = np.broadcast_to(until, ids.shape)
        while len(ids):
            ends = self._since[ids] + self._table.of_stage("time", ids, self._stage[ids])
            # As in `Radio`, a message does not move the timer. A timer that expires before the end
            # of the present wait is set once more, which is an event of its own.
            due = self._due[ids]
            early = np.flatnonzero((due < until) & (due < ends))
            if len(early):
                waiting = ids[early]
                rearmed = order.add(due[early], self._armed[waiting] - self._base, priority=SETTLE)
                self._armed[waiting] = rearmed.astype(np.int64) + self._base
                self._due[waiting] = ends[early]
            over = np.flatnonzero(ends < until)
            ids, until = ids[over], until[over]
            self._end_stage(ids, ends[over], order, rows)

    def _end_stage(self, ids: Ids, now: Array, order: EventOrder, rows: RowBlocks) -> None:
        events = order.add(now, self._armed[ids] - self._base, priority=SETTLE)
        paid = self._log_stage(ids, now, events, rows)
        self._stage[ids] += 1
        self._since[ids] = now
        self._due[ids] = inf
        on = np.flatnonzero(self._stage[ids] < self._last[ids])
        self._await_end(ids[on], now[on], events[on])
        self._enter_stage(ids, now, events, paid)

    def settle_stateful(self, ids: Ids, until: Array, order: EventOrder, rows: RowBlocks) -> None:
        """Expire the stages of the stateful radios among some clients; see `settle`."""
        if self._stateful:
            stateful = np.flatnonzero(np.broadcast_to(self._table.of("stateful", ids), ids.shape))
            self.settle(ids[stateful], until[stateful], order, rows)

    def settle_all(self, until: float, order: EventOrder, rows: RowBlocks) -> None:
        """Expire the stages of the whole fleet at the end of an exchange."""
        if self._stateful:
            self.settle(self._due.below(until), until, order, rows)

    def open_spans(self, now: float) -> Spans:
        """Return the stages in progress between two exchanges, with their energy so far."""
        if not self._stateful:
            return NO_SPANS
        ids = self._awake()
        watts = self._table.of_stage("power", ids, self._stage[ids])
        return Spans.at_power(ids, self._since[ids], now, watts)

    def tails(self, now: float) -> Sequence[Spans]:
        """Return the stages of radios from now on until they sleep; see `open_spans.tails`."""
        if not self._stateful:
            return []
        ids = self._awake()
        stages, figure = self._stage[ids].astype(np.intp), self._table.of_stage
        until = self._since[ids] + figure("time", ids, stages)
        states = States(ids, until, figure("power", ids, stages), stages + 1)
        return [*tails(states, now, self._last[ids], figure)]

    def _awake(self) -> Ids:
        return np.flatnonzero(self._stage < self._last)

    def number_events(self, places: Numbers) -> None:
        """Replace the event numbers of this exchange by places, before the next one.

        Args:
            places: the place of each event of this exchange.
        """
        if self._stateful:
            new = self._due.below(inf)  # the number counts only while a timer is set
            new = new[self._armed[new] >= self._base]
            rank = places[self._armed[new] - self._base]
            self._armed[new] = rank.astype(np.int64) + self._base
        # The roots of an exchange count among its places, so numbers of later exchanges are above
        # all of these.
        self._base += len(places)

    def switch_off(self, now: float, rows: RowBlocks) -> int:
        """Record the stages in progress as the world ends; return how many there are.

        The stages are deleted, as they take memory in a large fleet.
        """
        ids = self._awake() if self._stateful else np.zeros(0, int)
        if self._stateful:
            paid = self._log_stage(ids, np.full(len(ids), now), np.arange(len(ids)), rows)
            self._stage[ids] = self._last[ids]
            self._enter_stage(ids, np.full(len(ids), now), np.arange(len(ids)), paid)
        if self._supplies is not None:
            others = self._supplies.others(ids)
            stages = self._table.of("last_stage", others).astype(int)
            watts = self._stage_power(others, np.broadcast_to(stages, others.shape))
            change = np.zeros(len(others), int), Part.RADIO, np.full(len(others), now)
            self._supplies.change(others, *change, watts=watts, joules=0.0)
        if not self._stateful:
            return 0
        self._stateful = False
        self._stage, self._last = np.zeros((2, 0), np.int8)
        del self._since, self._due, self._armed, self._round
        return len(ids)


@dataclass
class Passage:
    """The transmission of the messages of a `RadioLeg`, shapes (n,).

    Attributes:
        began, over: the times at which bits begin to flow and have passed, s.
        joules: the energy of the client's radio.
        events: the event in which each message arrives.
        crowded: whether other messages arrive in the same event.
        again: the bits that are retransmitted, shape (n,) or (1,).
        slots: the state-of-charge slots of the rows, `NO_SLOT` for a client on mains; None if all
            clients are on mains.
    """

    began: Array
    over: Array
    joules: Array
    events: Numbers
    crowded: Mask
    again: NDArray[np.int64]
    slots: Numbers | None = None

    def take(self, whose: Mask) -> "Passage":
        """Return the transmissions of some messages."""
        columns = (getattr(self, field.name) for field in fields(self))
        taken = (
            None if column is None else np.broadcast_to(column, whose.shape)[whose]
            for column in columns
        )
        return Passage(*taken)  # type: ignore[arg-type]  # only slots may be None


def _enter(which: Numbers, column: Numbers, numbers: Sequence[int]) -> None:
    """Write the numbers of names into a column of rows; -1 where a row has no name."""
    column[:] = np.array([*numbers, -1])[which]


def _find_crowded(over: Array, links: Numbers) -> Mask:
    """Return which messages leave a link at the same time as others, shape (n,)."""
    crowded = np.zeros(len(over), np.bool_)
    if not (links >= 0).any():
        return crowded
    for link in np.unique(links[links >= 0]).tolist():
        members = np.flatnonzero(links == link)
        _, place, count = np.unique(over[members], return_inverse=True, return_counts=True)
        crowded[members] = count[place] > 1
    return crowded
