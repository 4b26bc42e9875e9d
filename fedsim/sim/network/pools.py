"""Pools: flows that share contended links, directly or through others, and their rates."""

from math import inf, nan

import numpy as np

from fedsim.ports import Array
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.filling import fill
from fedsim.sim.network.pipes import Flow, Pipe

_LEFT, _RATE, _END, _WEIGHT, _BOUND, _TOLD, _WATCHED, _NEGLIGIBLE = range(8)

_FEW = 8  # flows, links and hops that there is room for at first


class Pool:
    """Flows that are shared out together, one column of a table each.

    Attributes:
        flows: by their slot.
        at: the time that the table stands for.
        touched: whether its rates are due to be shared anew.
        age: how often they were since the pool was made.
        timer: the next end.
    """

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
        # The link of number 0 stands for none: for hops that no other flow contends for.
        self._pipes: list[Pipe | None] = [None]
        self._capacities: Array = np.full(_FEW, inf)
        self._free: list[int] = []

    @property
    def pipes(self) -> list[Pipe]:
        """The links."""
        return [pipe for pipe in self._pipes if pipe is not None]

    def adopt(self, pipe: Pipe) -> None:
        """Take in a link; those of its flows that are in the pool are shared out over it."""
        pipe.pool = self
        if self._free:
            pipe.index = self._free.pop()
            self._pipes[pipe.index] = pipe
        else:
            pipe.index = len(self._pipes)
            self._pipes.append(pipe)
            if pipe.index == len(self._capacities):
                self._capacities = np.append(self._capacities, np.full(pipe.index, inf))
        self._capacities[pipe.index] = pipe.capacity
        for flow, hop in pipe.flows.items():
            if flow.pool is self:
                self._paths[hop, flow.slot] = pipe.index
                self._usage[hop, flow.slot] = flow.path.usage[hop]

    def release(self, pipe: Pipe) -> None:
        """Let a link go that has no flow any more."""
        self._pipes[pipe.index] = None
        self._capacities[pipe.index] = inf
        self._free.append(pipe.index)
        pipe.pool = None

    def resize(self, pipe: Pipe) -> None:
        """Take note of a link's present capacity."""
        self._capacities[pipe.index] = pipe.capacity

    def add(self, flow: Flow, bound: float) -> None:
        """Take in a flow that is paused, and its present limit."""
        slot, hops = len(self.flows), len(flow.path.pipes)
        self._make_room(slot, hops)
        self.flows.append(flow)
        flow.pool, flow.slot = self, slot
        watched = flow.changed is not None
        self._watched += watched
        self._table[:, slot] = (
            flow.left,
            0.0,
            inf,
            flow.path.weight,
            bound,
            flow.told,
            watched,
            flow.negligible,
        )
        self._paths[:, slot] = 0
        self._usage[:, slot] = 0.0
        for hop, pipe in enumerate(flow.path.pipes):
            if pipe.pool is self:
                self._paths[hop, slot] = pipe.index
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
        """Let a flow go, paused."""
        slot, last = flow.slot, len(self.flows) - 1
        flow.left, flow.since = self.remaining(slot, now), now
        flow.told, flow.pool = self._table.item(_TOLD, slot), None
        self._watched -= flow.changed is not None
        moved = self.flows.pop()
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
        """Take note of a flow's present limit; whoever watches is told of its rate again.

        The rate may stay, and is another share of what the flow could reach alone.
        """
        self._table[_BOUND, flow.slot] = bound
        self._table[_TOLD, flow.slot] = nan

    def advance(self, now: float) -> None:
        """Let the bits flow until now."""
        if now > self.at:
            left, rates = self._table[_LEFT], self._table[_RATE]
            left -= rates * (now - self.at)
            np.maximum(left, 0.0, out=left)
        self.at = now

    def share(self) -> list[tuple[Flow, float]]:
        """Share anew from the present time on; return who is to be told which rate."""
        self.age += 1
        n = len(self.flows)
        left, rates, ends, weights, bounds, told, watched, negligible = self._table[:, :n]
        capacities = self._capacities[: len(self._pipes)]
        rates[:] = fill(self._paths[:, :n], self._usage[:, :n], weights, bounds, capacities)
        ends[:] = np.where(left > negligible, inf, 0.0)  # of those that are held up
        np.divide(left, rates, out=ends, where=rates > 0.0)
        ends += self.at
        if not self._watched:
            return []
        news = np.flatnonzero((rates != told) & (watched > 0.0))
        told[news] = rates[news]
        return [(self.flows[slot], float(rates[slot])) for slot in news]

    def next_end(self) -> float:
        """Return when the next flow ends, by the rates of the last sharing."""
        return float(self._table[_END, : len(self.flows)].min())

    def ended(self, now: float) -> list[Flow]:
        """Return those that have ended by now, by the rates of the last sharing."""
        ends = self._table[_END, : len(self.flows)]
        return [self.flows[slot] for slot in np.flatnonzero(ends <= now)]
