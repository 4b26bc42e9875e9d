"""Processor sharing: one link shared max-min fairly, at a cost of O(log n) per change."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import chain, count, repeat
from math import inf
from operator import attrgetter
from typing import Any

import numpy as np

from fedsim.core.ports import Array
from fedsim.sim.engine.calendar import SETTLE, Calendar, Timer
from fedsim.sim.network import link_share
from fedsim.sim.network.link_share import (
    CAPPED_CAPS,
    CAPPED_ENDS,
    SHARING_CAPS,
    SHARING_ENDS,
    all_fit,
    enter,
)

Finished = Callable[[Any], None]
"""Called with the token of a completed transfer."""


class SharedTransfer:
    """A transfer through a link.

    Attributes:
        moves: the number of changes of side; heap entries with an older number are stale.
        capped: whether it runs at its cap; otherwise at the link's fair share.
        mark: if capped, the time of its end; otherwise the link's virtual time of its end. Once it
            is over: the bits that have not passed.
        link: its link; None once it has completed or was stopped.
        count: the number of equal consecutive transfers that it stands for.
    """

    __slots__ = (
        "bits",
        "cap",
        "capped",
        "count",
        "finished",
        "link",
        "mark",
        "moves",
        "serial",
        "token",
    )

    def __init__(
        self,
        link: "FairLink",
        serial: int,
        bits: float,
        cap: float,
        finished: Finished,
        token: object,
        count: int = 1,
    ) -> None:
        self.count = count
        self.link: FairLink | None = link
        self.serial = serial
        self.bits = bits
        self.cap = cap
        self.finished = finished
        self.token = token
        self.capped = False
        self.mark = inf
        self.moves = 0

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`, the present or a recent one."""
        link = self.link
        return self.bits - (
            self.mark if link is None else link_share.remaining_bits(link, self, now)
        )

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        self.finished = _ignore
        if self.link is not None:
            self.link.remove(self)


class PartedError(Exception):
    """Equal transfers diverge by rounding: they have to be added one by one."""


def _totals(total: float, number: float, count: int) -> Array:
    """Return the sums after 0 to `count` additions, each rounded, shape (count + 1,)."""
    terms = np.full(count + 1, number)
    terms[0] = total
    return np.add.accumulate(terms)


def _ignore(_: object) -> None:
    """Ignore the end of a stopped transfer."""


_FEW = 64  # stale entries that are not worth a clean-up

_Heap = list[tuple[float, int, int, SharedTransfer]]


class FairLink:
    """A link shared max-min fairly: a transfer could only be faster at the cost of a slower one.

    Its laws, and the attributes that they need, are those of `fedsim.sim.network.link_share`. A
    change moves only the transfers that change sides, so it costs O(log n) rather than a pass over
    all n. All changes of one instant are settled once, at its end.
    """

    # There is a heap for each order of transfers. Only the next end has a timer.
    #
    # A transfer that changes sides, ends or is stopped leaves its entries in the heaps, since
    # removing them would cost O(n). An entry holds the number of `moves` at its insertion, by which
    # it is recognised as stale. Stale entries are dropped at the top, or all together once they are
    # most of a heap.

    def __init__(self, calendar: Calendar, capacity: float) -> None:
        self.calendar = calendar
        self.capacity = capacity
        self.virtual = self.virtual_at = self.demand = 0.0
        self.share = self.target = inf
        self.sharing = self.capped = 0
        self.settling = False
        self._serial = count()
        self._waiting: list[SharedTransfer] = []
        self._ended: list[SharedTransfer] = []
        self._timer: Timer | None = None
        self._heaps: tuple[_Heap, _Heap, _Heap, _Heap] = ([], [], [], [])

    # Equal consecutive transfers of one instant behave alike, so they are one entry. Its `count` is
    # the number of times that it enters a sum, one rounded addition each.

    def add(
        self, bits: float, cap: float, finished: Finished, token: object, count: int = 1
    ) -> SharedTransfer:
        """Start a transfer at `cap` bit/s at most; `finished(token)` is called at its end.

        With a `count`, it stands for that many equal transfers, which end together and are never
        stopped.
        """
        flow = SharedTransfer(self, next(self._serial), bits, cap, finished, token, count)
        self._waiting.append(flow)
        self.touch()
        return flow

    remove, _settle = link_share.remove, link_share.settle

    # What the laws need beside attributes.

    def touch(self) -> None:
        """Settle the changes of this instant at its end."""
        if not self.settling:
            self.settling = True
            self.calendar.at(self.calendar.now, self._settle, priority=SETTLE)

    def admit(self) -> None:
        """Let new transfers enter a side."""
        if not self._waiting:
            return
        # Without a link: stopped at the instant of its start.
        waiting, self._waiting = [flow for flow in self._waiting if flow.link], []
        wanted = sum([flow.cap for flow in waiting])
        # Term by term: a product would round differently from single transfers.
        if any(flow.count > 1 for flow in waiting):
            wanted = sum(chain(*(repeat(flow.cap, flow.count) for flow in waiting)))
        capped = all_fit(self, wanted)
        for flow in waiting:
            enter(self, flow, flow.bits, capped)

    def add_demand(self, cap: float, count: int) -> None:
        """Add the cap of equal transfers to the demand."""
        if count == 1:
            self.demand += cap
        else:
            self.demand = float(_totals(self.demand, cap, count)[-1])

    def check_whole(self, flow: SharedTransfer) -> None:
        """Check that all of several equal transfers change sides, one after the other.

        Raises:
            PartedError: rounding would leave some of them where they are.
        """
        if flow.count == 1:
            return
        moved = np.arange(1, flow.count)
        change, joining = (-flow.cap, moved) if flow.capped else (flow.cap, -moved)
        demands = _totals(self.demand, change, flow.count)[1:-1]
        shares = (self.capacity - demands) / (self.sharing + joining)
        if not np.all(flow.cap > shares if flow.capped else flow.cap < shares):
            raise PartedError

    def hold(self, flow: SharedTransfer) -> None:
        """Push a transfer that has entered a side onto the heaps of that side."""
        heaps, serial, moves = self._heaps, flow.serial, flow.moves
        if flow.capped:
            heappush(heaps[CAPPED_ENDS], (flow.mark, serial, moves, flow))
            heappush(heaps[CAPPED_CAPS], (-flow.cap, serial, moves, flow))
        else:
            heappush(heaps[SHARING_ENDS], (flow.mark, serial, moves, flow))
            heappush(heaps[SHARING_CAPS], (flow.cap, serial, moves, flow))

    def first(self, order: int) -> SharedTransfer:
        """Return the first transfer in an order, after dropping stale entries."""
        heap = self._heaps[order]
        while True:
            _, _, moves, flow = heap[0]
            if flow.moves == moves:
                return flow
            heappop(heap)

    def await_end(self, end: float) -> None:
        """Set the timer to the next end, and drop stale heap entries once they are the majority."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.calendar.at(end, self._complete) if end < inf else None
        live = 2 * (self.sharing + self.capped) + _FEW
        for heap in self._heaps:
            if len(heap) > live:
                heap[:] = [entry for entry in heap if entry[3].moves == entry[2]]
                heapify(heap)

    def _complete(self) -> None:
        """Complete all transfers that end now, in the order of arrival."""
        self._timer = None
        link_share.complete(self)
        ended, self._ended = self._ended, []
        # Last, when the link is consistent: a callback may add the next transfer at once.
        for flow in sorted(ended, key=attrgetter("serial")):
            flow.finished(flow.token)

    def end(self, flow: SharedTransfer) -> None:
        """Drop a transfer that is complete."""
        flow.moves += 1  # `drop`, inlined, as every transfer ends
        flow.link, flow.mark = None, 0.0
        self._ended.append(flow)

    def drop(self, flow: SharedTransfer, left: float) -> None:
        """Drop a transfer, with the bits that never pass: see `SharedTransfer.passed`."""
        flow.moves += 1  # makes its heap entries stale
        flow.link, flow.mark = None, left
