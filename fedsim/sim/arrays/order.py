"""Order of events: the order in which the calendar would execute events whose times are known.

The calendar's key is (time, priority, serial). An event gets its serial while the event that
schedules it, its parent, executes. So among events of one time and priority, the one whose parent
came first is first. With all times known, the order is a fixed point: events are sorted by time,
priority and the place of their parents in that same order. The fixed point is unique, because a
parent always precedes the events that it schedules.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array

Numbers = NDArray[np.signedinteger[Any]]
"""Numbers of events, or their places in an order; 4 bytes each if they fit."""


_HALF = 2**31
"""Numbers below it take 4 bytes. Ten million clients have a hundred million events."""


_MANY, _SHARE = 1024, 16
"""Times of at least `_MANY` events are stored as runs of equal times, if the average run is at
least `_SHARE` events long. Similar clients act at the same times."""


_AT_ONCE = 2**18
"""Number of events compared at once, which bounds memory."""


class ReactionError(Exception):
    """A round does not fit arrays after all; the caller repeats the run event by event."""


class _Runs(NamedTuple):
    """Times of events, run-length encoded.

    Attributes:
        times: the time of each run, s, shape (k,).
        sizes: the number of events in each run, shape (k,).
    """

    times: Array
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, times: Array) -> "Array | _Runs":
        """Return times as runs, or unchanged if runs would be short."""
        size = len(times)
        differs = times[1:] != times[:-1]
        if size < _MANY or np.count_nonzero(differs) > size // _SHARE:
            return times
        begins = np.concatenate([[0], np.flatnonzero(differs) + 1])
        return cls(times[begins], np.diff(np.concatenate([begins, [size]])))


def _every(times: Array | _Runs) -> Array:
    """Return times as an array."""
    return times if isinstance(times, np.ndarray) else np.repeat(times.times, times.sizes)


def _runs(times: Array | _Runs) -> _Runs:
    """Return times as runs."""
    return times if isinstance(times, _Runs) else _Runs(times, np.ones(len(times), np.intp))


class EventOrder:
    """Collects events and computes their order.

    Args:
        roots: the number of parents that have executed already. Their numbers are 0 to `roots - 1`,
            and the numbers of added events follow. A negative number is a parent before all roots;
            smaller numbers are earlier.

    Attributes:
        count: the number of events added so far.
    """

    def __init__(self, roots: int) -> None:
        self.count = 0
        self._roots = roots
        self._times: list[Array | _Runs] = []
        self._settles: list[tuple[int, float]] = []
        self._parents: list[Numbers] = []
        self._joined: list[tuple[int, bool]] = []

    @property
    def following(self) -> int:
        """The number of the event that is added next."""
        return self._roots + self.count

    def add(
        self, times: Array, parents: Numbers, *, priority: float = 1.0, joined: bool = False
    ) -> Numbers:
        """Add events; return their numbers.

        Args:
            times: the times of the events, s, shape (n,).
            parents: the numbers of the events that schedule them, shape (n,).
            priority: the calendar priority of all of them.
            joined: whether added events of equal time are one event of the calendar. The first of
                their parents schedules it, and its parts execute in the order of their parents.
        """
        size = len(times)
        self._times.append(_Runs.of(times))
        self._parents.append(_small(parents))
        self._settles.append((size, priority))
        self._joined.append((size, joined))
        begin = self._roots + self.count
        self.count += size
        return np.arange(begin, begin + size, dtype=event_type(begin + size))

    def places(self, *, last: bool = False) -> Numbers:
        """Return the place of each root and event, by number, shape (roots + count,).

        Args:
            last: whether no event is added later, so that memory can be freed.

        Raises:
            ReactionError: a part of a joined event comes before its own parent.
        """
        if not self.count:
            return np.arange(self._roots, dtype=event_type(self._roots))
        # Memory decides here: ten million clients have a hundred million events.
        order, instants = self._in_time(last=last)
        parents = np.concatenate(self._parents)
        self._parents = [parents]
        joined = _spread(self._joined, np.bool_)
        kind = event_type(self._roots + self.count) if parents.dtype == np.int32 else np.int64
        places: Numbers = np.arange(self._roots + self.count, dtype=kind)
        while True:
            # Iterate to the fixed point: sort events of an instant by the places of their parents,
            # which changes the places of their own children. Each pass settles one more generation
            # of events, so the loop ends.
            places[self._roots + order] = np.arange(self._roots, len(places), dtype=kind)
            ranks: Numbers = np.take(places, parents, mode="clip")
            # A negative parent was clipped to 0; its number itself is its rank.
            np.copyto(ranks, parents, where=parents < 0, casting="same_kind")
            first = _first_of_joined(ranks, joined, instants, order)
            # Checking is much cheaper than sorting, and the first order is usually right: `lexsort`
            # is stable, and events are added in the order of clients.
            if not _is_out_of_order(order, instants, first, ranks):
                if (ranks >= places[self._roots :]).any():
                    raise ReactionError("the parts of one event would execute at different places")
                return places
            del order
            # `ranks` only orders the parts of a joined event; without joined events both are the
            # same.
            keys = (first, instants)
            order = _sort_events(keys if first is ranks else (ranks, *keys))

    def _in_time(self, *, last: bool) -> tuple[Numbers, Numbers]:
        """Return events by time and priority, and the rank of each event's instant, (count,)."""
        if self._few_runs():
            return self._runs_in_time()
        times = np.concatenate([_every(batch) for batch in self._times])
        self._times = [times]
        priorities = _spread(_rank(self._settles), np.int8)
        order = _sort_events((priorities, times))
        instants = np.empty(len(order), order.dtype)
        # An instant is a time and a priority: events that differ in either are in order already,
        # and only those of one instant are ordered by their parents.
        position, rank = 0, 0
        # In chunks that overlap by one event, so that no pair of neighbours is missed.
        while position < len(order):
            chunk = order[position : position + _AT_ONCE + 1]
            left, right = chunk[:-1], chunk[1:]
            later = (times[left] != times[right]) | (priorities[left] != priorities[right])
            ranks = rank + np.concatenate([[0], np.cumsum(later)])
            instants[chunk] = ranks
            position, rank = position + _AT_ONCE, int(ranks[-1])
        if last:
            self._times = []
        return order, instants

    def _runs_in_time(self) -> tuple[Numbers, Numbers]:
        """Return the same as `_in_time`, from times that are stored as runs."""
        runs = [_runs(batch) for batch in self._times]
        times, sizes = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        begins = np.cumsum(sizes) - sizes
        ends, ranks = np.cumsum([size for size, _ in self._settles]), _rank(self._settles)
        batches = np.searchsorted(ends, begins, side="right")
        priorities = np.array([rank for _, rank in ranks], np.int8)[batches]
        places = np.lexsort((priorities, times))
        later = np.zeros(len(places), np.bool_)
        for key in (priorities, times):
            later[1:] |= key[places][1:] != key[places][:-1]
        instants = np.empty(len(places), kind := event_type(self.count))
        instants[places] = np.cumsum(later)
        # Expand runs in their new order: element k of a run is `begins + k`. `moved` is the shift
        # from the position in the output to the number of the event.
        moved = begins[places] - (np.cumsum(sizes[places]) - sizes[places])
        order = np.repeat(moved.astype(kind), sizes[places])
        order += np.arange(self.count, dtype=kind)
        return order, np.repeat(instants, sizes)

    def _few_runs(self) -> bool:
        """Return whether all long arrays of times are stored as runs."""
        as_runs = [isinstance(batch, _Runs) or len(batch) < _MANY for batch in self._times]
        return all(as_runs) and any(isinstance(batch, _Runs) for batch in self._times)


def event_type(end: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type for numbers below an end."""
    return np.int32 if end <= _HALF else np.int64


def _small(numbers: Numbers) -> Numbers:
    """Return numbers as 4-byte integers if all fit."""
    if numbers.dtype == np.int32 or not len(numbers):
        return numbers.astype(np.int32, copy=False)
    fits = numbers.min() >= -_HALF and numbers.max() < _HALF
    return numbers.astype(np.int32) if fits else numbers


def _sort_events(keys: tuple[NDArray[Any], ...]) -> Numbers:
    """Return the order of events; the last key is the primary one."""
    return _small(np.lexsort(keys))


def _is_out_of_order(order: Numbers, instants: Numbers, first: Numbers, ranks: Numbers) -> bool:
    """Return whether events of one instant are not in the order of their parents."""
    # In chunks that overlap by one event, so that no pair of neighbours is missed.
    for begin in range(0, len(order) - 1, _AT_ONCE):
        chunk = order[begin : begin + _AT_ONCE + 1]
        left, right = chunk[:-1], chunk[1:]
        same = instants[left] == instants[right]
        left, right = left[same], right[same]
        before, after = first[left], first[right]
        misplaced = after < before
        if first is not ranks:
            misplaced |= (after == before) & (ranks[right] < ranks[left])
        if misplaced.any():
            return True
    return False


def _rank(runs: Sequence[tuple[int, float]]) -> list[tuple[int, int]]:
    """Replace priorities by their ranks, which fit into 1 byte."""
    # Only comparisons matter, so ranks sort as the priorities do.
    ranked = sorted({priority for _, priority in runs})
    return [(size, ranked.index(priority)) for size, priority in runs]


def _spread(runs: Sequence[tuple[int, float]], kind: type) -> NDArray[Any]:
    sizes, values = zip(*runs, strict=True)
    return np.repeat(np.array(values, kind), sizes)


def _first_of_joined(
    ranks: Numbers, joined: NDArray[np.bool_], instants: Numbers, order: Numbers
) -> Numbers:
    """Return the place of the parent that schedules each event: the first one of joined events.

    Returns `ranks` itself if no events are joined.
    """
    # In the order of time, so that the members of one instant are neighbours.
    members = order[joined[order]]
    if not len(members):
        return ranks
    at = instants[members]
    begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    sizes = np.diff(np.concatenate([begins, [len(members)]]))
    first = ranks.copy()
    first[members] = np.repeat(np.minimum.reduceat(ranks[members], begins), sizes)
    return first
