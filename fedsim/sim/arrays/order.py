"""The order of events: how the calendar would take many of them that are known at once.

The calendar's key is (time, priority, serial), and an event gets its serial as the event that
schedules it, its parent, happens. So of two events that are due at one instant, at one priority,
that one comes first whose parent came first. With all times known, the order of all events is the
one that agrees with itself: sorted by time, priority and the place of the parent in that very
order. It is unique, for a parent comes before what it schedules.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array

Numbers = NDArray[np.signedinteger[Any]]
"""Numbers of events, or their places in an order; in 4 bytes where they fit."""


_HALF = 2**31
"""Numbers below it take 4 bytes: of ten million clients there are a hundred million events."""


_MANY, _SHARE = 1024, 16
"""The times of so many events or more are held as runs, if there is one run for so many of them: of
clients that are alike, all do the same at one time."""


_AT_ONCE = 2**18
"""So many events are compared at once, which bounds what memory that takes."""


class ReactionError(Exception):
    """A round is not to be played in arrays; the run is made again by events."""


class _Runs(NamedTuple):
    """Times of events, of which many are those of the event before.

    Attributes:
        times: of the events that differ from the one before, s, shape (k,).
        sizes: how many have each of these, shape (k,).
    """

    times: Array
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, times: Array) -> "Array | _Runs":
        """Return times as runs, if there are few of these."""
        size = len(times)
        differs = times[1:] != times[:-1]
        if size < _MANY or np.count_nonzero(differs) > size // _SHARE:
            return times
        begins = np.concatenate([[0], np.flatnonzero(differs) + 1])
        return cls(times[begins], np.diff(np.concatenate([begins, [size]])))


def _every(some: Array | _Runs) -> Array:
    """Return times as an array, whatever they are held as."""
    return some if isinstance(some, np.ndarray) else np.repeat(some.times, some.sizes)


def _runs(some: Array | _Runs) -> _Runs:
    """Return times as runs, whatever they are held as."""
    return some if isinstance(some, _Runs) else _Runs(some, np.ones(len(some), np.intp))


class EventOrder:
    """Finds the places of events among all of them.

    Args:
        roots: what has happened before schedules some of the events. There are so many of these
            parents at the beginning; their numbers are 0 to `roots - 1`, and the events' own
            numbers follow. A negative number is a parent that came before all roots: the smaller,
            the earlier.

    Attributes:
        count: the number of events so far.
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
            times: of the events, s, shape (n,).
            parents: the numbers of what schedules them, shape (n,).
            priority: of all of them, as the calendar has it.
            joined: whether those of one time are one event, scheduled by the first of their
                parents, in which they follow each other.
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
        """Return the places of roots and events, by number, shape (roots + count,).

        Args:
            last: whether none are added later, so that nothing need be kept.

        Raises:
            ReactionError: of those that are joined, one comes before its own parent.
        """
        if not self.count:
            return np.arange(self._roots, dtype=event_type(self._roots))
        # Of ten million clients there are a hundred million events: what is kept of each is small.
        order, instants = self._in_time(last=last)
        parents = np.concatenate(self._parents)
        self._parents = [parents]
        joined = _spread(self._joined, np.bool_)
        kind = event_type(self._roots + self.count) if parents.dtype == np.int32 else np.int64
        places: Numbers = np.arange(self._roots + self.count, dtype=kind)
        while True:
            places[self._roots + order] = np.arange(self._roots, len(places), dtype=kind)
            came: Numbers = np.take(places, parents, mode="clip")  # below 0 that of the first one
            np.copyto(came, parents, where=parents < 0, casting="same_kind")
            first = _first_of_joined(came, joined, instants, order)
            if not _is_out_of_order(order, instants, first, came):
                if (came >= places[self._roots :]).any():
                    raise ReactionError("what is one event would happen twice in an instant")
                return places
            del order
            keys = (first, instants)
            order = _sort_events(keys if first is came else (came, *keys))

    def _in_time(self, *, last: bool) -> tuple[Numbers, Numbers]:
        """Return the events by time and priority, and the rank of each one's, shape (count,)."""
        if self._few_runs():
            return self._runs_in_time()
        times = np.concatenate([_every(some) for some in self._times])
        self._times = [times]
        priorities = _spread(_rank(self._settles), np.int8)
        order = _sort_events((priorities, times))
        instants = np.empty(len(order), order.dtype)
        at, rank = 0, 0
        while at < len(order):  # of equal clients all are due at one time
            some = order[at : at + _AT_ONCE + 1]
            one, other = some[:-1], some[1:]
            later = (times[one] != times[other]) | (priorities[one] != priorities[other])
            ranks = rank + np.concatenate([[0], np.cumsum(later)])
            instants[some] = ranks
            at, rank = at + _AT_ONCE, int(ranks[-1])
        if last:
            self._times = []
        return order, instants

    def _runs_in_time(self) -> tuple[Numbers, Numbers]:
        """Return the same where few events differ in time from the one before them."""
        runs = [_runs(some) for some in self._times]
        times, sizes = (np.concatenate(each) for each in zip(*runs, strict=True))
        begins = np.cumsum(sizes) - sizes
        ends, ranks = np.cumsum([size for size, _ in self._settles]), _rank(self._settles)
        own = np.searchsorted(ends, begins, side="right")
        priorities = np.array([rank for _, rank in ranks], np.int8)[own]
        places = np.lexsort((priorities, times))
        later = np.zeros(len(places), np.bool_)
        for key in (priorities, times):
            later[1:] |= key[places][1:] != key[places][:-1]
        instants = np.empty(len(places), kind := event_type(self.count))
        instants[places] = np.cumsum(later)
        moved = begins[places] - (np.cumsum(sizes[places]) - sizes[places])
        order = np.repeat(moved.astype(kind), sizes[places])
        order += np.arange(self.count, dtype=kind)
        return order, np.repeat(instants, sizes)

    def _few_runs(self) -> bool:
        """Return whether times are held as runs, but for a few."""
        held = [isinstance(some, _Runs) or len(some) < _MANY for some in self._times]
        return all(held) and any(isinstance(some, _Runs) for some in self._times)


def event_type(end: int) -> type[np.signedinteger[Any]]:
    """Return the type of numbers below an end."""
    return np.int32 if end <= _HALF else np.int64


def _small(numbers: Numbers) -> Numbers:
    """Return numbers in 4 bytes, if all fit."""
    if numbers.dtype == np.int32 or not len(numbers):
        return numbers.astype(np.int32, copy=False)
    fits = numbers.min() >= -_HALF and numbers.max() < _HALF
    return numbers.astype(np.int32) if fits else numbers


def _sort_events(keys: tuple[NDArray[Any], ...]) -> Numbers:
    """Return the order of events by some keys, the last one first."""
    return _small(np.lexsort(keys))


def _is_out_of_order(order: Numbers, instants: Numbers, first: Numbers, came: Numbers) -> bool:
    """Return whether some that are due at one time and priority are not in their parents' order."""
    for begin in range(0, len(order) - 1, _AT_ONCE):  # of equal clients all are due at one time
        some = order[begin : begin + _AT_ONCE + 1]
        one, other = some[:-1], some[1:]
        same = instants[one] == instants[other]
        one, other = one[same], other[same]
        before, after = first[one], first[other]
        wrong = after < before
        if first is not came:
            wrong |= (after == before) & (came[other] < came[one])
        if wrong.any():
            return True
    return False


def _rank(runs: Sequence[tuple[int, float]]) -> list[tuple[int, int]]:
    """Return the ranks of priorities in place of them."""
    every = sorted({priority for _, priority in runs})
    return [(size, every.index(priority)) for size, priority in runs]


def _spread(runs: Sequence[tuple[int, float]], kind: type) -> NDArray[Any]:
    sizes, values = zip(*runs, strict=True)
    return np.repeat(np.array(values, kind), sizes)


def _first_of_joined(
    came: Numbers, joined: NDArray[np.bool_], instants: Numbers, order: Numbers
) -> Numbers:
    """Return the places of the parents that schedule the events: of joined ones, the first.

    It is `came` itself where none are joined.
    """
    own = order[joined[order]]
    if not len(own):
        return came
    at = instants[own]
    begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    sizes = np.diff(np.concatenate([begins, [len(own)]]))
    first = came.copy()
    first[own] = np.repeat(np.minimum.reduceat(came[own], begins), sizes)
    return first
