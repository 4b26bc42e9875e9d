"""Components of flows that share links: their growth, splits and completions."""

from collections.abc import Callable
from math import inf, nan
from operator import attrgetter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.sim.engine.calendar import Calendar, Timer
from fedsim.sim.network.flows import ContendedLink, Flow, SharedLink

# Weighted max-min fair rates of flows over any set of links, by progressive filling.

Indices = NDArray[np.intp]


def fill(paths: Indices, usage: Array, weights: Array, bounds: Array, capacities: Array) -> Array:
    """Return the weighted max-min fair rates of n flows over L links, bit/s, shape (n,).

    The rates are min(bound, weight * level). The level of each flow is as high as the links on its
    path allow: it could only rise at the cost of a flow of a lower or equal level. With equal
    weights this is max-min fairness; with the weight 1/penalty it is what SimGrid's solver computes
    (Casanova et al., "Versatile, scalable, and accurate simulation of distributed applications and
    platforms", JPDC 2014).

    All levels rise together (Bertsekas and Gallager, "Data Networks", 6.5.2), but the network need
    not be filled in that order: the level that a link can offer its flows only grows as other flows
    reach their bounds or their bottlenecks. So a flow whose bound is below the levels of all its
    links runs at its bound, and a link that is the tightest one for all of its flows is saturated,
    whatever happens elsewhere. One sweep settles all of these. The number of sweeps is the length
    of the longest chain of bottlenecks that depend on one another.

    Args:
        paths: the link of each hop of each flow, shape (K, n); shorter paths are padded with an
            infinite link, of usage 0.
        usage: the share of a flow's rate on the link of each hop, shape (K, n).
        weights: the weights of the flows, above 0, shape (n,).
        bounds: the limits of the flows, bit/s; they may be infinite if a link is finite.
        capacities: the capacities of the links, bit/s, shape (L,).
    """
    # Every sweep settles a flow, so the loop ends. The link of the lowest level is the tightest one
    # of each of its flows. Either one of these is at its bound and is settled, or the link waits
    # for none of them and settles them all. Link 0, the infinite one that pads short paths, has an
    # infinite level: it limits no flow, and a flow needs only one settled link.
    rates, spare, links = np.empty(len(bounds)), capacities, len(capacities)
    rest = np.arange(len(bounds))
    while len(rest):
        levels = _levels(paths, usage * weights, spare)
        offered = levels[paths]
        tightest = offered.min(axis=0)
        fair = weights * tightest
        at_bound = bounds <= fair
        # A link waits for every flow that has a tighter link, or has just reached its bound.
        waits = (offered > tightest) | at_bound
        waiting = np.bincount(paths.ravel(), waits.ravel(), links) > 0
        settled = at_bound | ~waiting[paths].all(axis=0)
        rates[rest[settled]] = np.where(at_bound, bounds, fair)[settled]
        if settled.all():
            break
        # Subtract the rates of settled flows. Rounding may take a little more than the capacity
        # that is left, and a negative capacity would give other flows a negative rate.
        taken = usage[:, settled] * rates[rest[settled]]
        spare = np.maximum(spare - _sums(paths[:, settled], taken, links), 0.0)
        on = ~settled
        rest, weights, bounds = rest[on], weights[on], bounds[on]
        paths, usage = paths[:, on], usage[:, on]
    return rates


def _sums(paths: Indices, amounts: Array, links: int) -> Array:
    """Add up amounts of shape (K, n) by link."""
    sums = np.bincount(paths.ravel(), weights=amounts.ravel(), minlength=links)
    return sums.astype(np.float64, copy=False)


def _levels(paths: Indices, usage: Array, spare: Array) -> Array:
    """Return the level at which each link would be full, shape (L,); inf if unused."""
    demand = _sums(paths, usage, len(spare))
    levels = np.full(len(spare), np.inf)
    np.divide(spare, demand, out=levels, where=demand > 0.0)
    return levels


# Components: flows that share contended links, directly or through others, and their rates.

_LEFT, _RATE, _END, _WEIGHT, _BOUND, _REPORTED, _WATCHED, _NEGLIGIBLE = range(8)

_FEW = 8  # initial capacity of tables: flows, links and hops


class Component:
    """Flows that share contended links, with one column of a table per flow.

    Attributes:
        flows: the flows by their slot.
        at: the time of the table, s.
        touched: whether its rates have to be computed again.
        age: the number of computations since its creation.
        timer: the timer of the next end.
    """

    # One column per flow and one row per figure, so that the bits of thousands of flows are
    # advanced, and their ends computed, by a few calls of NumPy. The columns have no gaps: if a
    # flow leaves, the last one takes its slot. So the slot of a flow may change, and is read from
    # the flow each time. Whatever happens in the order of arrival is sorted by serial, not by slot.

    def __init__(self, now: float) -> None:
        self.flows: list[Flow] = []
        self.at = now
        self.touched = False
        self.age = 0
        self.timer: Timer | None = None
        self._watched = 0
        self._table: Array = np.zeros((8, _FEW))
        self._paths = np.zeros((1, _FEW), dtype=np.intp)
        self._usage: Array = np.zeros((1, _FEW))
        # Link 0 is a placeholder for hops whose link is not in this component.
        self._links: list[SharedLink | None] = [None]
        self._capacities: Array = np.full(_FEW, inf)
        self._free: list[int] = []
        self._media: list[ContendedLink] = []

    @property
    def shared_links(self) -> list[SharedLink]:
        """The links."""
        return [link for link in self._links if link is not None]

    def adopt(self, link: SharedLink) -> None:
        """Add a link; its flows in the component share it from now on."""
        link.component = self
        if isinstance(link, ContendedLink):
            self._media.append(link)
        if self._free:
            link.index = self._free.pop()
            self._links[link.index] = link
        else:
            link.index = len(self._links)
            self._links.append(link)
            if link.index == len(self._capacities):
                self._capacities = np.append(self._capacities, np.full(link.index, inf))
        self._capacities[link.index] = link.capacity
        for flow, hop in link.flows.items():
            if flow.component is self:
                self._paths[hop, flow.slot] = link.index
                self._usage[hop, flow.slot] = flow.path.usage[hop]

    def release(self, link: SharedLink) -> None:
        """Remove a link without flows."""
        self._links[link.index] = None
        self._capacities[link.index] = inf
        self._free.append(link.index)
        link.component = None
        if isinstance(link, ContendedLink):
            self._media.remove(link)

    def resize(self, link: SharedLink) -> None:
        """Update a link's capacity."""
        self._capacities[link.index] = link.capacity

    def add(self, flow: Flow, bound: float) -> None:
        """Add a paused flow, with its present limit, bit/s."""
        slot, hops = len(self.flows), len(flow.path.shared_links)
        self._make_room(slot, hops)
        self.flows.append(flow)
        flow.component, flow.slot = self, slot
        watched = flow.changed is not None
        self._watched += watched
        self._table[:, slot] = (
            flow.left,
            0.0,
            inf,
            flow.path.weight,
            bound,
            flow.reported,
            watched,
            flow.negligible,
        )
        self._paths[:, slot] = 0
        self._usage[:, slot] = 0.0
        for hop, link in enumerate(flow.path.shared_links):
            if link.component is self:
                self._paths[hop, slot] = link.index
                self._usage[hop, slot] = flow.path.usage[hop]

    def _make_room(self, slot: int, hops: int) -> None:
        """Grow the tables, to twice their size or more."""
        rows, size = self._paths.shape
        if slot == size:
            self._table = np.hstack((self._table, np.zeros_like(self._table)))
            self._paths = np.hstack((self._paths, np.zeros_like(self._paths)))
            self._usage = np.hstack((self._usage, np.zeros_like(self._usage)))
        if hops > rows:
            more = ((0, hops - rows), (0, 0))
            self._paths, self._usage = np.pad(self._paths, more), np.pad(self._usage, more)

    def remove(self, flow: Flow, now: float) -> None:
        """Remove a flow, and leave it paused."""
        slot, last = flow.slot, len(self.flows) - 1
        # Read before the last column moves into this slot.
        flow.left, flow.since = self.remaining(slot, now), now
        flow.reported, flow.component = self._table.item(_REPORTED, slot), None
        self._watched -= flow.changed is not None
        moved = self.flows.pop()
        # The last flow takes the free slot, unless it is the one that leaves.
        if slot != last:
            self.flows[slot], moved.slot = moved, slot
            for table in (self._table, self._paths, self._usage):
                table[:, slot] = table[:, last]

    def remaining(self, slot: int, now: float) -> float:
        """Return the bits of a flow that have not passed by the time `now`."""
        left, rate = self._table.item(_LEFT, slot), self._table.item(_RATE, slot)
        return max(left - rate * (now - self.at), 0.0)

    def rate(self, slot: int) -> float:
        """Return the rate of a flow as of the last sharing."""
        return self._table.item(_RATE, slot)

    def rebound(self, flow: Flow, bound: float) -> None:
        """Set a flow's present limit; its rate callback is called again.

        The rate may stay the same, but it is then a different share of the flow's own limit.
        """
        self._table[_BOUND, flow.slot] = bound
        # NaN differs from every rate, so the next computation reports the flow in any case.
        self._table[_REPORTED, flow.slot] = nan

    def advance(self, now: float) -> None:
        """Advance the bits of all flows to now, at the rates of the last computation."""
        if now > self.at:
            left, rates = self._table[_LEFT], self._table[_RATE]
            left -= rates * (now - self.at)
            np.maximum(left, 0.0, out=left)
        self.at = now

    def share(self) -> list[tuple[Flow, float]]:
        """Compute the rates; return the flows whose rate has changed."""
        self.age += 1
        for medium in self._media:
            self._set_terms(medium)
        n = len(self.flows)
        left, rates, ends, weights, bounds, reported, watched, negligible = self._table[:, :n]
        capacities = self._capacities[: len(self._links)]
        rates[:] = fill(self._paths[:, :n], self._usage[:, :n], weights, bounds, capacities)
        # At a rate of 0 a flow has no end, unless its remaining bits are rounding
        # (`Flow.negligible`).
        ends[:] = np.where(left > negligible, inf, 0.0)
        np.divide(left, rates, out=ends, where=rates > 0.0)
        ends += self.at
        if not self._watched:
            return []
        news = np.flatnonzero((rates != reported) & (watched > 0.0))
        reported[news] = rates[news]
        return [(self.flows[slot], float(rates[slot])) for slot in news]

    def _set_terms(self, medium: ContendedLink) -> None:
        """Set the terms and weights of flows on a medium, which depend on all of these flows."""
        terms, flows = medium.terms(), list(medium.flows)
        slots = [flow.slot for flow in flows]
        figures = np.array([terms[medium.kind(flow)] for flow in flows])
        # A medium is the first link of every path over it.
        self._usage[0, slots], self._table[_WEIGHT, slots] = figures.T

    def next_end(self) -> float:
        """Return the time of the next end, by the rates of the last computation, s."""
        return float(self._table[_END, : len(self.flows)].min())

    def completed_flows(self, now: float) -> list[Flow]:
        """Return the flows that have ended by now, by the rates of the last computation."""
        # Ends are compared, not bits: the timer was set to the minimum of these very numbers, so at
        # least one is reached. Bits minus rate x time might miss 0 by rounding.
        ends = self._table[_END, : len(self.flows)]
        return [self.flows[slot] for slot in np.flatnonzero(ends <= now)]


YOUNG = 64
"""Number of rate computations after which a component is checked for having fallen apart."""


class ContendedFlows:
    """The flows on contended links.

    All flows of a contended link are in one component, and so are all contended links of a flow. A
    link that ceases to be contended stays in its component: solving too much together is slow, not
    wrong. A component is checked for having fallen apart once per as many computations as it has
    flows, so that the checks cost no more than the computations.
    """

    # Components are the connected components of the graph of flows and contended links, maintained
    # as in union-find. Merging two is cheap, since the smaller one moves: a flow moves O(log n)
    # times on its way into a component of n. Detecting that one has fallen apart would take a
    # search after every flow that leaves. So a component may hold flows that share nothing. `fill`
    # computes the same rates for these. From time to time a component is taken apart and its flows
    # are placed anew (`_split`).

    def __init__(
        self,
        calendar: Calendar,
        wake: Callable[[], None],
        run_alone: Callable[[Flow], None],
        end: Callable[[list[Flow]], None],
    ) -> None:
        """Start without flows.

        Args:
            calendar: the calendar.
            wake: requests a call of `settle` at the end of the instant.
            run_alone: receives a flow that has no contended link any more.
            end: receives the flows that end now, in the order of their arrival.
        """
        self._calendar = calendar
        self._wake = wake
        self._run_alone = run_alone
        self._end = end
        self._touched: list[Component] = []

    def place(self, flow: Flow) -> bool:
        """Put a flow into the component of its contended links; return whether it has any."""
        for link in flow.path.shared_links:
            if (component := _component_of(link)) is not None:
                self._join(flow, component)
            elif link.contended:
                self.contend(link)
        return flow.component is not None

    def contend(self, link: SharedLink) -> None:
        """Put a newly contended link and all its flows into one component."""
        # Its flows may be in components of other links already; `_join` then merges these. The link
        # is adopted last, so that its rows are written for all of its flows at their final slots.
        component = Component(self._calendar.now)
        for flow in list(link.flows):
            component = self._join(flow, component)
        component.adopt(link)

    def resize(self, link: SharedLink) -> None:
        """Apply a change of the capacity of a link, if it is in a component."""
        if (component := _component_of(link)) is not None:
            component.resize(link)
            self._touch(component)

    def release(self, link: SharedLink) -> None:
        """Remove a link that has no flow any more, if it is in a component."""
        if (component := _component_of(link)) is not None:
            component.release(link)

    def leave(self, flow: Flow) -> None:
        """Bring a flow up to date and remove it from its component; the caller leaves its links."""
        if (component := _component_of(flow)) is not None:
            component.remove(flow, self._calendar.now)
            self._touch(component)

    def settle(self) -> list[tuple[Flow, float]]:
        """Recompute the rates of changed components; return the flows whose rate changed."""
        news = list[tuple[Flow, float]]()
        # The list grows during the iteration: the parts of a component that is split are touched,
        # too.
        for component in self._touched:
            component.touched = False
            if component.timer is not None:
                component.timer.cancel()
                component.timer = None
            if component.flows and component.age >= max(YOUNG, len(component.flows)):
                self._split(component)
            elif component.flows:
                news += self._share(component)
        self._touched = []
        return news

    def _share(self, component: Component) -> list[tuple[Flow, float]]:
        component.advance(self._calendar.now)
        news = component.share()
        component.timer = self._calendar.at(component.next_end(), self._complete, component)
        return news

    def _complete(self, component: Component) -> None:
        """Complete the flows that end now, in the order of their arrival."""
        component.timer = None
        self._end(sorted(component.completed_flows(self._calendar.now), key=attrgetter("serial")))

    def _touch(self, component: Component) -> None:
        if not component.touched:
            component.touched = True
            self._touched.append(component)
            self._wake()

    def _join(self, flow: Flow, component: Component) -> Component:
        """Move a flow into a component, along with its component; return the result."""
        if (component_of_flow := _component_of(flow)) is None:
            flow.pause(self._calendar.now)
            component.add(flow, flow.rate_bound(self._calendar.now))
            self._await_change(flow)
        elif component_of_flow is not component:
            component = self._merge(component_of_flow, component)
        self._touch(component)
        return component

    def _merge(self, one: Component, other: Component) -> Component:
        """Move the flows and links of the smaller of two components into the larger one."""
        small, large = (one, other) if len(one.flows) < len(other.flows) else (other, one)
        shared_links, now = small.shared_links, self._calendar.now
        # From the last flow on, so that no flow moves into the slot of a removed one. The timers of
        # varying limits stay: they look up the flow's component when they expire.
        for flow in small.flows[::-1]:
            small.remove(flow, now)
            large.add(flow, flow.rate_bound(now))
        for link in shared_links:
            small.release(link)
            large.adopt(link)
        self._touch(small)  # to cancel its timer: it has no flows any more
        return large

    def _split(self, component: Component) -> None:
        """Take a component apart, and place its flows in the components that they form now."""
        # All flows are removed and paused before the first one is placed: `place` reads the
        # components of links, and must not see the old one. Flows are placed in the order of
        # arrival. So the new components, and the order in which floats are summed, depend only on
        # the run.
        flows, now = sorted(component.flows, key=attrgetter("serial")), self._calendar.now
        for link in component.shared_links:
            component.release(link)
        for flow in flows:
            component.remove(flow, now)
            flow.pause(now)
        for flow in flows:
            if not self.place(flow):
                self._run_alone(flow)

    def _await_change(self, flow: Flow) -> None:
        """Wait for the next change of a flow's limit, if any."""
        if flow.limit is not None:
            when = flow.limit.next_change(self._calendar.now)
            flow.timer = self._calendar.at(when, self._vary, flow)

    def _vary(self, flow: Flow) -> None:
        """Apply a change of a flow's limit."""
        if (component := _component_of(flow)) is not None:
            component.rebound(flow, flow.rate_bound(self._calendar.now))
            self._touch(component)
            self._await_change(flow)


def _component_of(part: Flow | SharedLink) -> Component | None:
    """Return the component of a flow or a link; `flows` declares only its interface."""
    return cast("Component | None", part.component)
