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
        return self.bits - (self.mark if self.link is None else self.link.remaining_bits(self, now))

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        self.finished = _ignore
        if self.link is not None:
            self.link.remove(self)


class PartedError(Exception):
    """Equal transfers diverge by rounding: they have to be added one by one."""


def _add(total: float, number: float, count: int) -> float:
    """Return the sum after `count` additions of one number, each rounded."""
    return total + number if count == 1 else float(_totals(total, number, count)[-1])


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

    With caps c_i and capacity C, the rates are min(c_i, s). The fair share s makes them add up to
    C, and is infinite if all caps fit. Transfers at their cap have a fixed end. The others all run
    at s, and end in the order of a virtual time that passes at the rate s (processor sharing). A
    change moves only the transfers that change sides, so it costs O(log n) rather than a pass over
    all n. All changes of one instant are settled once, at its end.
    """

    # The virtual time makes a change cheap. It counts the bits that each sharing transfer has been
    # served. So a transfer that joins at V with b bits left ends at V + b, whatever the share is
    # until then: a change of the share moves the real times of all these ends, but no heap entry.
    # Only the next end has a timer.
    #
    # A transfer that changes sides, ends or is stopped leaves its entries in the heaps, since
    # removing them would cost O(n). An entry holds the number of `moves` at its insertion, by which
    # it is recognised as stale. Stale entries are dropped at the top, or all together once they are
    # most of a heap.

    def __init__(self, calendar: Calendar, capacity: float) -> None:
        self._calendar = calendar
        self._capacity = capacity
        self._serial = count()
        self._waiting: list[SharedTransfer] = []
        self._settling = False
        self._timer: Timer | None = None
        # The sharing side.
        self._virtual = 0.0  # bits that each transfer of this side has been served
        self._virtual_at = 0.0  # the time of that, s
        self._share = inf
        self._sharing = 0
        self._by_virtual_end: _Heap = []
        self._by_cap: _Heap = []
        self._target: float | None = None  # the virtual time of the next end, if it is on this side
        # The capped side.
        self._demand = 0.0
        self._capped = 0
        self._by_end: _Heap = []
        self._by_cap_descending: _Heap = []

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
        self._touch()
        return flow

    def remove(self, flow: SharedTransfer) -> None:
        """Cancel an unfinished transfer in O(log n)."""
        self._advance()
        # After `_advance`, which the virtual time of `remaining_bits` refers to. A transfer that
        # was added at this instant is on neither side, and is dropped from `_waiting` by its link.
        left, started = self.remaining_bits(flow, self._calendar.now), flow.moves > 0
        if started and flow.capped:
            self._leave_capped(flow)
        elif started:
            self._sharing -= 1
        self._drop(flow, left)
        self._tidy()
        self._touch()

    def remaining_bits(self, flow: SharedTransfer, now: float) -> float:
        """Return the bits of a transfer that have not passed by the time `now`."""
        if not flow.moves:  # it was added at this instant, and is on neither side yet
            return flow.bits
        if flow.capped:
            return flow.cap * (flow.mark - now)
        return flow.mark - self._virtual - self._share * (now - self._virtual_at)

    def _touch(self) -> None:
        if not self._settling:
            self._settling = True
            self._calendar.at(self._calendar.now, self._settle, priority=SETTLE)

    def _settle(self) -> None:
        """Admit new transfers, recompute the share, and wait for the next end."""
        self._settling = False
        self._advance()
        # Without a link: stopped at the instant of its start.
        waiting, self._waiting = [flow for flow in self._waiting if flow.link], []
        wanted = self._demand + sum([flow.cap for flow in waiting])
        # Term by term: a product would round differently from single transfers.
        if any(flow.count > 1 for flow in waiting):
            wanted = self._demand + sum(chain(*(repeat(flow.cap, flow.count) for flow in waiting)))
        # The first side of a new transfer is a matter of speed: `_balance` moves it if needed. If
        # all fit, the capped side is right, and two heaps are spared two moves.
        all_fit = wanted <= self._capacity and not self._sharing
        enter = self._to_capped if all_fit else self._to_sharing
        for flow in waiting:
            enter(flow, flow.bits)
        self._balance()
        self._wait()

    def _advance(self) -> None:
        """Bring the virtual time up to now."""
        now = self._calendar.now
        if self._sharing:
            self._virtual += self._share * (now - self._virtual_at)
        else:
            # No mark refers to it, so it restarts at full precision: at 1e15 bits, a day's work of
            # a link of 10 Gbit/s, a float does not resolve a tenth of a bit any more.
            self._virtual = 0.0
        self._virtual_at = now

    def _balance(self) -> None:
        """Move transfers between the sides until all rates are min(cap, share)."""
        # With n transfers that share, s = (C - D) / n. If one of cap c > s joins them, s becomes
        # (n s + c) / (n + 1) > s. If one of cap c < s leaves them, s becomes (n s - c) / (n - 1),
        # which is above s as well. So the share only rises here. A transfer that the second loop
        # caps stays capped, and the first loop need not run again: by then every capped transfer is
        # below the share. A transfer may cross twice, if many small ones arrive at a low share that
        # rises as they are capped; never more often.
        now = self._calendar.now
        share = self._fair_share()
        while (flow := _top(self._by_cap_descending)) and flow.cap > share:
            left = flow.cap * (flow.mark - now)
            self._check_whole(flow)
            self._leave_capped(flow)
            self._to_sharing(flow, left)
            share = self._fair_share()
        while (flow := _top(self._by_cap)) and flow.cap < share:
            left = flow.mark - self._virtual
            self._check_whole(flow)
            self._sharing -= flow.count
            self._to_capped(flow, left)
            share = self._fair_share()
        self._share = share

    def _fair_share(self) -> float:
        return (self._capacity - self._demand) / self._sharing if self._sharing else inf

    def _check_whole(self, flow: SharedTransfer) -> None:
        """Check that all of several equal transfers change sides, one after the other.

        Raises:
            PartedError: rounding would leave some of them where they are.
        """
        if flow.count == 1:
            return
        moved = np.arange(1, flow.count)
        change, joining = (-flow.cap, moved) if flow.capped else (flow.cap, -moved)
        demands = _totals(self._demand, change, flow.count)[1:-1]
        shares = (self._capacity - demands) / (self._sharing + joining)
        if not np.all(flow.cap > shares if flow.capped else flow.cap < shares):
            raise PartedError

    def _to_sharing(self, flow: SharedTransfer, left: float) -> None:
        self._sharing += flow.count
        flow.moves += 1
        flow.capped = False
        flow.mark = self._virtual + left
        heappush(self._by_virtual_end, (flow.mark, flow.serial, flow.moves, flow))
        heappush(self._by_cap, (flow.cap, flow.serial, flow.moves, flow))

    def _to_capped(self, flow: SharedTransfer, left: float) -> None:
        self._capped += flow.count
        self._demand = _add(self._demand, flow.cap, flow.count)
        flow.moves += 1
        flow.capped = True
        flow.mark = self._calendar.now + left / flow.cap
        heappush(self._by_end, (flow.mark, flow.serial, flow.moves, flow))
        heappush(self._by_cap_descending, (-flow.cap, flow.serial, flow.moves, flow))

    def _leave_capped(self, flow: SharedTransfer) -> None:
        self._capped -= flow.count
        self._demand = _add(self._demand, -flow.cap, flow.count) if self._capped else 0.0

    def _wait(self) -> None:
        """Set the timer to the next end on either side."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        capped, sharing = _top(self._by_end), _top(self._by_virtual_end)
        end = capped.mark if capped else inf
        self._target = None
        if sharing:
            shared_end = self._calendar.now + (sharing.mark - self._virtual) / self._share
            # A tie goes to this side, so that `_complete` sets the virtual time to the mark. Capped
            # ends of the same instant are found by their times in any case.
            if shared_end <= end:
                end, self._target = shared_end, sharing.mark
        if end < inf:
            self._timer = self._calendar.at(end, self._complete)

    def _complete(self) -> None:
        """Complete all transfers that end now, in the order of arrival."""
        self._timer = None
        self._advance()
        # The time of this end was computed from the mark, and the present virtual time from that
        # time. Rounding may leave it one unit short: nothing would end, and the timer would be set
        # to this same instant again and again. So it is set to the mark itself.
        if self._target is not None:
            self._virtual = self._target
        now, ended = self._calendar.now, []
        while (flow := _top(self._by_end)) and flow.mark <= now:
            self._leave_capped(flow)
            ended.append(self._drop(flow))
        while (flow := _top(self._by_virtual_end)) and flow.mark <= self._virtual:
            self._sharing -= flow.count
            ended.append(self._drop(flow))
        self._tidy()
        if self._sharing:  # these are faster now: settled with other changes of this instant
            self._touch()
        else:
            self._wait()
        # Last, when the link is consistent: a callback may add the next transfer at once.
        for flow in sorted(ended, key=attrgetter("serial")):
            flow.finished(flow.token)

    def _tidy(self) -> None:
        """Drop stale heap entries once they are the majority."""
        live = 2 * (self._sharing + self._capped) + _FEW
        for heap in (self._by_virtual_end, self._by_cap, self._by_end, self._by_cap_descending):
            if len(heap) > live:
                heap[:] = [entry for entry in heap if entry[3].moves == entry[2]]
                heapify(heap)

    @staticmethod
    def _drop(flow: SharedTransfer, left: float = 0.0) -> SharedTransfer:
        flow.moves += 1
        # `moves` makes its heap entries stale. `mark` keeps the bits that never pass, see `passed`.
        flow.link, flow.mark = None, left
        return flow


def _top(heap: _Heap) -> SharedTransfer | None:
    """Return the first transfer of a heap, after dropping stale entries."""
    while heap:
        _, _, moves, flow = heap[0]
        if flow.moves == moves:
            return flow
        heappop(heap)
    return None
