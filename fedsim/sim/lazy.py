"""Lazy tables: entries are created at their first lookup, as the clients of a large fleet."""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import TypeVar, overload

import numpy as np

from fedsim.ports import Array

T = TypeVar("T")
S = TypeVar("S")


class LazyTable(dict[int, T]):
    """A table that creates the entry of a number at its first lookup.

    `in` and `get` create no entry.

    Args:
        make: returns the entry of a number.
    """

    def __init__(self, make: Callable[[int], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> T:
        made = self[number] = self._make(number)
        return made

    def in_order(self) -> list[T]:
        """Return the entries so far in the order of their numbers."""
        return [self[number] for number in sorted(self)]


class ComputedSequence(Sequence[T]):
    """A sequence whose items are computed at each lookup, by their index."""

    @abstractmethod
    def item(self, index: int) -> T:
        """Return the item of an index, from 0."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self.item(each) for each in range(*index.indices(len(self)))]
        return self.item(index)


class RunLengthSequence(Sequence[T]):
    """A run-length encoded sequence: equal neighbours are stored once.

    Args:
        runs: how many there are of what, in order.

    Attributes:
        runs: the same, without those of which there are none.
        ends: how many there are up to the end of each.
    """

    def __init__(self, runs: Iterable[tuple[int, T]]) -> None:
        self.runs = [(count, item) for count, item in runs if count]
        self.ends = list(accumulate(count for count, _ in self.runs))

    @classmethod
    def of(cls, items: Sequence[T]) -> "RunLengthSequence[T]":
        """Encode a sequence, whose runs are of identical objects."""
        if isinstance(items, cls):
            return items
        alike = (list(own) for _, own in groupby(items, id))
        return cls((len(own), own[0]) for own in alike)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} items, from 0, and no item {index}")
        return self.runs[bisect_right(self.ends, index)][1]

    def map(self, of: Callable[[T], S]) -> "RunLengthSequence[S]":
        """Apply a function to each item, once for each run."""
        return RunLengthSequence((count, of(item)) for count, item in self.runs)

    def where(self, holds: Callable[[T], object]) -> Iterator[int]:
        """Yield the positions of the items that satisfy a predicate."""
        for (count, item), end in zip(self.runs, self.ends, strict=True):
            if holds(item):
                yield from range(end - count, end)

    def array(self, of: Callable[[T], float]) -> Array:
        """Return a figure of each item as an array, shape (n,)."""
        figures = [of(item) for _, item in self.runs]
        return np.repeat(np.array(figures, np.float64), [count for count, _ in self.runs])


def joint(
    first: RunLengthSequence[T], second: RunLengthSequence[S]
) -> RunLengthSequence[tuple[T, S]]:
    """Return the pairs of two sequences of one length, run-length encoded."""
    ends = sorted({*first.ends, *second.ends})
    return RunLengthSequence(
        (end - begin, (first[begin], second[begin])) for begin, end in pairwise([0, *ends])
    )
