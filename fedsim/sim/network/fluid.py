"""The fluid network: flows over any set of links, which share them max-min fairly."""

from collections.abc import Sequence
from itertools import count
from math import inf

from fedsim.physics.radios import RateLaw
from fedsim.physics.signals import Signal
from fedsim.physics.topology import Discipline
from fedsim.sim.engine.calendar import SETTLE, Calendar
from fedsim.sim.network.flows import Changed, Finished, Flow, Link, Path, Pipe, Slots, Turns
from fedsim.sim.network.sharing import ContendedFlows


class Fluid:
    """Flows over links, and nothing else: no latency, no lanes.

    Rates are weighted max-min fair (`fedsim.sim.network.sharing`) at every moment. They can
    change when a flow starts or ends, or a capacity or a limit changes; what changes within
    one instant is settled once, at the end of the instant. Only flows are looked at that
    such a change can reach: those that share contended links with it, directly or through
    others, form a pool. A flow on open links runs at its own limit and has a timer of its own.

    """

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._serial = count()
        self._settling = False
        self._fresh: list[Flow] = []
        self._strained: list[Pipe] = []
        self._news: list[tuple[Flow, float]] = []
        self._pools = ContendedFlows(calendar, self._wake, self._run, self._end)

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._calendar.now

    @staticmethod
    def link(capacity: RateLaw, discipline: Discipline = "fair", users: int = 1) -> Link:
        """Return a new link.

        Args:
            capacity: what it carries; of an infinite rate for no limit.
            discipline: how it is shared.
            users: the number of shares of a slotted one, whether they are used or not.
        """
        if discipline == "fair":
            return Pipe(capacity)
        return Turns(capacity) if discipline == "fifo" else Slots(capacity.with_factor(1 / users))

    @staticmethod
    def path(
        links: Sequence[Link],
        usage: Sequence[float] | None = None,
        weight: float = 1.0,
        limit: float = inf,
    ) -> Path:
        """Return a way over links, each of them once.

        Args:
            links: in any order.
            usage: how much of a flow's rate each link carries, if it is a fair one; all of it
                when not given.
            weight: a flow's rate where a link holds it back, in proportion to the others'.
            limit: what every flow is held back to besides, bit/s.
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
        """Let `bits` pass, from now on or as soon as every link on the way lets them.

        What has no bits, or meets no limit, passes within the instant.

        Args:
            path: the way.
            bits: how many.
            cap: the most that the flow can do, bit/s.
            finished: called with the token when the last bit has passed.
            token: whatever the caller wants to be told.
            changed: called with the token and the rate whenever the rate changes: at the end of
                the instant at which it does; with 0 at the end, before `finished`. A transfer
                that takes no time has no rate.
            signal: what it can do at most besides, where that varies.
        """
        flow = Flow(self, next(self._serial), path, bits, cap, finished, token, changed, signal)
        for turn in path.turns:  # in one instant for all, so that no circular wait is possible
            turn.queue[flow] = None
        if flow.first:
            self._enter(flow)
        return flow

    def _enter(self, flow: Flow) -> None:
        """Let a flow onto its links."""
        flow.entered = True
        if not flow.instant:
            for hop, pipe in enumerate(flow.path.pipes):
                if not pipe.flows:
                    self._open(pipe)
                pipe.enter(flow, hop)
        self._fresh.append(flow)
        self._wake()

    def _open(self, pipe: Pipe) -> None:
        """Follow a link's capacity for as long as it is used."""
        if (signal := pipe.signal) is not None:
            now = self._calendar.now
            pipe.capacity = signal.at(now)
            pipe.timer = self._calendar.at(signal.next_change(now), self._resize, pipe)

    def _resize(self, pipe: Pipe) -> None:
        """Take note that a link's capacity changes now."""
        self._open(pipe)
        if pipe.pool is not None:
            self._pools.resize(pipe)
        elif pipe.contended:
            self._strained.append(pipe)
            self._wake()

    def _wake(self) -> None:
        if not self._settling:
            self._settling = True
            self._calendar.at(self._calendar.now, self._settle, priority=SETTLE)

    def _settle(self) -> None:
        """Take in what has come or changed, share anew where that matters, and tell."""
        fresh = [flow for flow in self._fresh if not flow.over]
        strained, self._fresh, self._strained = self._strained, [], []
        for pipe in strained:
            if pipe.pool is None and pipe.contended:
                self._pools.contend(pipe)
        for flow in fresh:
            if not (flow.instant or self._pools.place(flow)):
                self._run(flow)
        news = self._pools.settle()
        self._settling = False
        news, self._news = self._news + news, []
        for flow, rate in news:
            if flow.changed is not None:
                flow.changed(flow.token, rate)
        self._end([flow for flow in fresh if flow.instant])

    def _run(self, flow: Flow) -> None:
        """Let a flow run on its own, as fast as its limit lets it."""
        flow.since = now = self._calendar.now
        if flow.changed is None and (signal := flow.signal) is not None:
            flow.trace = signal
            flow.timer = self._calendar.at(signal.when(now, flow.left), self._finish, flow)
            return
        flow.pace = rate = flow.rate_bound(now)
        if rate != flow.told and flow.changed is not None:
            flow.told = rate
            self._news.append((flow, rate))
        held_up = now if flow.left <= flow.negligible else inf
        end = now + flow.left / rate if rate else held_up
        change = inf if flow.limit is None else flow.limit.next_change(now)
        if end <= change:
            flow.timer = self._calendar.at(end, self._finish, flow)
        else:
            flow.timer = self._calendar.at(change, self._step, flow)

    def _step(self, flow: Flow) -> None:
        """Take note that the limit of a flow on its own changes now."""
        flow.pause(self._calendar.now)
        self._run(flow)
        self._wake()

    def _finish(self, flow: Flow) -> None:
        self._end([flow])

    def _end(self, flows: Sequence[Flow]) -> None:
        """Complete flows whose last bit has passed, and call their callbacks."""
        for flow in flows:
            if not flow.over:
                self._leave(flow)
                flow.left = 0.0
        for flow in flows:
            if flow.told and flow.changed is not None:
                flow.changed(flow.token, 0.0)
            flow.finished(flow.token)

    def stop(self, flow: Flow) -> None:
        """Cancel a flow; its completion callback is not called if it is still open."""
        flow.finished = _untold
        if not flow.over:
            self._leave(flow)
            if flow.told and flow.changed is not None:
                flow.changed(flow.token, 0.0)
        flow.changed = None

    def _leave(self, flow: Flow) -> None:
        """Take a flow off its links, up to date."""
        if flow.pool is not None:
            self._pools.leave(flow)
        flow.pause(self._calendar.now)
        flow.over = True
        for pipe in flow.path.pipes:
            if flow in pipe.flows:
                self._close(flow, pipe)
        self._take_turns(flow)

    def _close(self, flow: Flow, pipe: Pipe) -> None:
        """Take a flow off a link; one that is unused waits for nothing."""
        pipe.leave(flow)
        if not pipe.flows:
            if pipe.timer is not None:
                pipe.timer.cancel()
                pipe.timer = None
            self._pools.release(pipe)

    def _take_turns(self, flow: Flow) -> None:
        """Leave the queues, and admit the flows that are next."""
        for turn in flow.path.turns:
            del turn.queue[flow]
        for turn in flow.path.turns:
            following = turn.first
            if following is not None and not following.entered and following.first:
                self._enter(following)


def _untold(_: object) -> None:
    """Ignore a rate change."""
