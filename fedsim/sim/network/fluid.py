"""The fluid network: flows over any set of links, which share them max-min fairly."""

from collections.abc import Sequence
from itertools import count
from math import inf, nan

from fedsim.physics.radios import RateLaw
from fedsim.physics.signals import Signal
from fedsim.physics.topology import Discipline
from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.network.flows import (
    Changed,
    FifoLink,
    Finished,
    Flow,
    Link,
    Path,
    SharedLink,
    SlottedLink,
)
from fedsim.sim.network.sharing import ContendedFlows


class Fluid:
    """Flows over links, without latency or lanes.

    Rates are weighted max-min fair (`fedsim.sim.network.sharing`) at every moment. They can change
    when a flow starts or ends, or when a capacity or a limit changes. All changes of one instant
    are settled once, at its end. Flows that share contended links, directly or through others, form
    a component, and a change affects only its component. A flow on open links runs at its own
    limit and has its own timer.
    """

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._serial = count()
        self._settling = False
        self._fresh: list[Flow] = []  # admitted or changed since the last settlement
        self._strained: list[SharedLink] = []  # contended since a change of their capacity
        self._news: list[tuple[Flow, float]] = []  # rates to be reported
        self._components = ContendedFlows(calendar, self._wake, self._run, self._end)

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._calendar.now

    @staticmethod
    def link(capacity: RateLaw, discipline: Discipline = "fair", users: int = 1) -> Link:
        """Return a new link.

        Args:
            capacity: the rate law of its capacity; an infinite rate for no limit.
            discipline: how it is shared.
            users: the number of shares of a slotted link, whether they are used or not.
        """
        if discipline == "fair":
            return SharedLink(capacity)
        return (
            FifoLink(capacity)
            if discipline == "fifo"
            else SlottedLink(capacity.with_factor(1 / users))
        )

    @staticmethod
    def path(
        links: Sequence[Link],
        usage: Sequence[float] | None = None,
        weight: float = 1.0,
        limit: float = inf,
    ) -> Path:
        """Return a path over links, each of them once.

        Args:
            links: the links, in any order.
            usage: the share of a flow's rate that each fair link carries; 1 by default.
            weight: the weight of a flow on a fair link that limits it, relative to other flows.
            limit: a further limit of every flow, bit/s.
        """
        return Path(links, [1.0] * len(links) if usage is None else usage, weight, limit)

    def add(
        self,
        path: Path,
        bits: float,
        cap: float,
        finished: Finished,
        token: object,
        changed: Changed | None = None,
        signal: Signal | None = None,
    ) -> Flow:
        """Start a flow, now or as soon as every link of its path admits it.

        A flow without bits, or without a limit, completes within the instant.

        Args:
            path: the path of the flow.
            bits: the number of bits.
            cap: the largest rate of the flow, bit/s.
            finished: called with the token when the last bit has passed.
            token: passed to the callbacks.
            changed: called with the token and the rate whenever the rate changes, at the end of the
                instant of the change; with 0 at the end, before `finished`. A transfer that takes
                no time has no rate.
            signal: a further limit that varies.
        """
        # A flow joins all of its queues at one instant, in the order of the serials, so any two
        # flows stand in the same order in every queue that both are in. Therefore the oldest
        # waiting flow is first in all of its queues, and there is no circular wait.
        flow = Flow(self, next(self._serial), path, bits, cap, finished, token, changed, signal)
        for queue_link in path.queues:
            queue_link.queue[flow] = None
        # A flow that is not first is entered by `_leave_queues`, as the one before it leaves.
        if flow.first:
            self._enter(flow)
        return flow

    def _enter(self, flow: Flow) -> None:
        """Put a flow on its links."""
        flow.entered = True
        # A flow without bits would count against its links until the instant is settled, and might
        # merge components that have nothing to do with each other.
        if not flow.instant:
            for hop, link in enumerate(flow.path.shared_links):
                if not link.flows:
                    self._open(link)
                link.enter(flow, hop)
        self._fresh.append(flow)
        self._wake()

    # A capacity that follows a trace changes for ever. Its timer is set only while the link is
    # used: otherwise the calendar would never run empty, and a deadlock would not be noticed.

    def _open(self, link: SharedLink) -> None:
        """Follow a link's capacity while it is used."""
        if (signal := link.signal) is not None:
            now = self._calendar.now
            # The next change is read from the signal each time: nothing is scheduled beyond it, so
            # a trace of any length costs one timer.
            link.capacity = signal.at(now)
            link.timer = self._calendar.at(signal.next_change(now), self._resize, link)

    def _resize(self, link: SharedLink) -> None:
        """Apply a change of a link's capacity."""
        self._open(link)
        if link.component is not None:
            self._components.resize(link)
        # A fall of the capacity can strain an open link. A rise needs nothing: an open link delays
        # none of its flows, and a component is solved anew anyway.
        elif link.contended:
            self._strained.append(link)
            self._wake()

    # Rates are settled once per instant, after all starts and ends in it: a broadcast that starts a
    # hundred flows is solved once. Until then rates are stale, which is harmless, since no time
    # passes and no bit flows. Callbacks come after the rates: they may start or stop flows at this
    # same instant, which requests another settlement.

    def _wake(self) -> None:
        if not self._settling:
            self._settling = True
            self._calendar.at(self._calendar.now, self._settle, priority=SETTLE)

    def _settle(self) -> None:
        """Admit new and changed flows, recompute rates where needed, and report them."""
        fresh = [flow for flow in self._fresh if not flow.over]
        strained, self._fresh, self._strained = self._strained, [], []
        for link in strained:
            if link.component is None and link.contended:
                self._components.contend(link)
        # By now a fresh flow may already be in a component, with all flows of a link that has
        # become contended. `place` merges it with the components of the flow's other links.
        for flow in fresh:
            if not (flow.instant or self._components.place(flow)):
                self._run(flow)
        news = self._components.settle()
        # From here on, a change requests a new settlement: a callback may cause one.
        self._settling = False
        news, self._news = self._news + news, []
        for flow, rate in news:
            if flow.changed is not None:
                flow.changed(flow.token, rate)
        self._end([flow for flow in fresh if flow.instant])

    def _run(self, flow: Flow) -> None:
        """Run a flow alone, at its limit."""
        flow.since = now = self._calendar.now
        # Without a callback, a trace is integrated ahead to the last bit: one timer, however often
        # the rate changes. With a callback, or with several limits, there is a timer per change.
        if flow.changed is None and (signal := flow.signal) is not None:
            flow.trace = signal
            flow.timer = self._calendar.at(signal.when(now, flow.left), self._finish, flow)
            return
        flow.pace = rate = flow.rate_bound(now)
        if rate != flow.reported and flow.changed is not None:
            flow.reported = rate
            self._news.append((flow, rate))  # not called here: it could stop what is being settled
        # At a rate of 0 there is no end, unless the remainder is rounding: a few bits of 1e12 that
        # exact arithmetic would not have left must not wait for an outage to end.
        held_up = now if flow.left <= flow.negligible else inf
        end = now + flow.left / rate if rate else held_up
        change = inf if flow.limit is None else flow.limit.next_change(now)
        if end <= change:
            flow.timer = self._calendar.at(end, self._finish, flow)
        else:
            flow.timer = self._calendar.at(change, self._step, flow)

    def _step(self, flow: Flow) -> None:
        """Apply a change of the limit of a flow that runs alone; report its rate again.

        The rate may stay the same, but it is then a different share of the flow's own limit.
        """
        flow.pause(self._calendar.now)
        flow.reported = nan
        self._run(flow)
        self._wake()

    def _finish(self, flow: Flow) -> None:
        self._end([flow])

    def _end(self, flows: Sequence[Flow]) -> None:
        """Complete flows whose last bit has passed, and call their callbacks."""
        # All flows leave before the first callback. It may start the next message of its lane at
        # once, which has to find the links without any of these flows.
        for flow in flows:
            if not flow.over:
                self._leave(flow)
                flow.left = 0.0
        for flow in flows:
            # If the last report was 0, or there was none, the radio knows that no bits flow.
            if flow.reported and flow.changed is not None:
                flow.changed(flow.token, 0.0)
            flow.finished(flow.token)

    def stop(self, flow: Flow) -> None:
        """Cancel a flow; its completion callback is not called if it is still open."""
        # Also if it is over: it may be one of several flows that end at this instant, and be
        # stopped by the callback of an earlier one before its own turn in `_end`.
        flow.finished = _ignore
        if not flow.over:
            self._leave(flow)
            if flow.reported and flow.changed is not None:
                flow.changed(flow.token, 0.0)
        flow.changed = None

    def _leave(self, flow: Flow) -> None:
        """Bring a flow up to date and take it off its links."""
        if flow.component is not None:
            self._components.leave(flow)
        flow.pause(self._calendar.now)
        flow.over = True
        for link in flow.path.shared_links:
            if flow in link.flows:
                self._close(flow, link)
        self._leave_queues(flow)

    def _close(self, flow: Flow, link: SharedLink) -> None:
        """Take a flow off a link; an unused link has no timer."""
        link.leave(flow)
        if not link.flows:
            if link.timer is not None:
                link.timer.cancel()
                link.timer = None
            self._components.release(link)

    def _leave_queues(self, flow: Flow) -> None:
        """Leave the queues, and admit the flows that are next."""
        for queue_link in flow.path.queues:  # all before any admission: a flow may wait for several
            del queue_link.queue[flow]
        for queue_link in flow.path.queues:
            following = queue_link.first
            if following is not None and not following.entered and following.first:
                self._enter(following)


def _ignore(_: object) -> None:
    """Ignore the end of a stopped flow."""
