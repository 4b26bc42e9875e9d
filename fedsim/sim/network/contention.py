"""Which flows are shared out together: pools grow together, fall apart, and wait for ends."""

from collections.abc import Callable
from operator import attrgetter
from typing import cast

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.pipes import Flow, Pipe
from fedsim.sim.network.pools import Pool

YOUNG = 64
"""How often a pool is shared out before it is worth a look whether it has fallen apart."""


class ContendedFlows:
    """The flows on contended links.

    All flows of a contended link are in one pool, and so are all contended links of a flow.
    A link that ceases to be contended stays where it is: to share out too much together is
    slow, not wrong. Whether a pool has fallen apart is looked at once in as many sharings as
    it has flows, so that the look costs no more than the sharings do.
    """

    def __init__(
        self,
        calendar: Calendar,
        wake: Callable[[], None],
        run_alone: Callable[[Flow], None],
        end: Callable[[list[Flow]], None],
    ) -> None:
        """Start without any.

        Args:
            calendar: the time.
            wake: asks for `settle` at the end of the instant.
            run_alone: takes a flow that has no contended link any more.
            end: takes those that end now, in the order of their arrival.
        """
        self._calendar = calendar
        self._wake = wake
        self._run_alone = run_alone
        self._end = end
        self._touched: list[Pool] = []

    def place(self, flow: Flow) -> bool:
        """Put a flow into the pool of its contended links; return whether it has any."""
        for pipe in flow.path.pipes:
            if (pool := _pool(pipe)) is not None:
                self._join(flow, pool)
            elif pipe.contended:
                self.contend(pipe)
        return flow.pool is not None

    def contend(self, pipe: Pipe) -> None:
        """Put a link that has become contended into one pool with all of its flows."""
        pool = Pool(self._calendar.now)
        for flow in list(pipe.flows):
            pool = self._join(flow, pool)
        pool.adopt(pipe)

    def resize(self, pipe: Pipe) -> None:
        """Take note that the capacity of a link in a pool has changed."""
        if (pool := _pool(pipe)) is not None:
            pool.resize(pipe)
            self._touch(pool)

    def release(self, pipe: Pipe) -> None:
        """Let a link go that has no flow any more, if it is in a pool."""
        if (pool := _pool(pipe)) is not None:
            pool.release(pipe)

    def leave(self, flow: Flow) -> None:
        """Let a flow in a pool go, up to date; its links are left by the caller, after this."""
        if (pool := _pool(flow)) is not None:
            pool.remove(flow, self._calendar.now)
            self._touch(pool)

    def settle(self) -> list[tuple[Flow, float]]:
        """Share anew whatever has changed; return who is to be told which rate."""
        news = list[tuple[Flow, float]]()
        for pool in self._touched:  # it grows where one falls apart
            pool.touched = False
            if pool.timer is not None:
                pool.timer.cancel()
                pool.timer = None
            if pool.flows and pool.age >= max(YOUNG, len(pool.flows)):
                self._split(pool)
            elif pool.flows:
                news += self._share(pool)
        self._touched = []
        return news

    def _share(self, pool: Pool) -> list[tuple[Flow, float]]:
        pool.advance(self._calendar.now)
        news = pool.share()
        pool.timer = self._calendar.at(pool.next_end(), self._complete, pool)
        return news

    def _complete(self, pool: Pool) -> None:
        """Let all go that end now."""
        pool.timer = None
        self._end(sorted(pool.ended(self._calendar.now), key=attrgetter("serial")))

    def _touch(self, pool: Pool) -> None:
        if not pool.touched:
            pool.touched = True
            self._touched.append(pool)
            self._wake()

    def _join(self, flow: Flow, pool: Pool) -> Pool:
        """Bring a flow into a pool, with all that is in its own; return what they become."""
        if (own := _pool(flow)) is None:
            flow.pause(self._calendar.now)
            pool.add(flow, flow.bound(self._calendar.now))
            self._await_change(flow)
        elif own is not pool:
            pool = self._merge(own, pool)
        self._touch(pool)
        return pool

    def _merge(self, one: Pool, other: Pool) -> Pool:
        """Bring the flows and links of the smaller of two pools into the larger one."""
        small, large = (one, other) if len(one.flows) < len(other.flows) else (other, one)
        pipes, now = small.pipes, self._calendar.now
        for flow in small.flows[::-1]:  # the last one goes without moving another
            small.remove(flow, now)
            large.add(flow, flow.bound(now))
        for pipe in pipes:
            small.release(pipe)
            large.adopt(pipe)
        self._touch(small)  # its timer is for nobody
        return large

    def _split(self, pool: Pool) -> None:
        """Take a pool apart, and let its flows find together anew."""
        flows, now = sorted(pool.flows, key=attrgetter("serial")), self._calendar.now
        for pipe in pool.pipes:
            pool.release(pipe)
        for flow in flows:
            pool.remove(flow, now)
            flow.pause(now)
        for flow in flows:
            if not self.place(flow):
                self._run_alone(flow)

    def _await_change(self, flow: Flow) -> None:
        """Wait until a flow's limit changes next, if it ever does."""
        if flow.limit is not None:
            when = flow.limit.next_change(self._calendar.now)
            flow.timer = self._calendar.at(when, self._vary, flow)

    def _vary(self, flow: Flow) -> None:
        """Take note that a flow's limit changes now."""
        if (pool := _pool(flow)) is not None:
            pool.rebound(flow, flow.bound(self._calendar.now))
            self._touch(pool)
            self._await_change(flow)


def _pool(part: Flow | Pipe) -> Pool | None:
    """Return the pool of a flow or a link; none but pools say that they share it out."""
    return cast("Pool | None", part.pool)
