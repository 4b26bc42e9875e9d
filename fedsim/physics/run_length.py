"""Run-length encoded sequences, which store equal properties of many clients once."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import eq
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array

T = TypeVar("T")
S = TypeVar("S")


class RunLengthSequence(Sequence[T]):
    """A run-length encoded sequence: equal neighbours are stored once.

    Args:
        runs: pairs of a count and an item, in order.

    Attributes:
        runs: the same, without counts of zero.
        ends: the number of items up to the end of each run.
    """

    def __init__(self, runs: Iterable[tuple[int, T]]) -> None:
        self.runs = [(count, item) for count, item in runs if count]
        self.ends = list(accumulate(count for count, _ in self.runs))

    @classmethod
    def of(cls, items: Sequence[T]) -> "RunLengthSequence[T]":
        """Encode a sequence; neighbours form a run if they are the same object."""
        if isinstance(items, cls):
            return items
        alike = (list(run) for _, run in groupby(items, id))
        return cls((len(run), run[0]) for run in alike)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            places = range(*index.indices(len(self)))
            return self._between(places) if places.step == 1 else [self[place] for place in places]
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} items, from 0, and no item {index}")
        return self.runs[bisect_right(self.ends, index)][1]

    def _between(self, places: range) -> list[T]:
        """Return the items at consecutive positions."""
        items = list[T]()
        for (count, item), end in zip(self.runs, self.ends, strict=True):
            # For runs outside of the wanted positions the count is negative, which gives an empty
            # list.
            items += [item] * (min(end, places.stop) - max(end - count, places.start))
        return items

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(repeat(item, count) for count, item in self.runs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RunLengthSequence) and self.runs == other.runs:
            return True
        if not isinstance(other, RunLengthSequence | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))  # equal to that of an equal tuple

    def map(self, of: Callable[[T], S]) -> "RunLengthSequence[S]":
        """Apply a function to each item; it is called once per run."""
        return RunLengthSequence((count, of(item)) for count, item in self.runs)

    def where(self, holds: Callable[[T], object]) -> Iterator[int]:
        """Yield the positions of the items that satisfy a predicate."""
        for (count, item), end in zip(self.runs, self.ends, strict=True):
            if holds(item):
                yield from range(end - count, end)

    def array(self, of: Callable[[T], float]) -> Array:
        """Return a number per item as an array, shape (n,), read-only if all are equal."""
        figures = np.array([of(item) for _, item in self.runs], np.float64)
        if len(figures) == 1:
            # A view with stride 0: for a fleet of millions, equal numbers take no memory.
            return np.broadcast_to(figures, len(self))
        return np.repeat(figures, [count for count, _ in self.runs])

    def numbers(self: "RunLengthSequence[int]") -> NDArray[np.int64]:
        """Return a sequence of whole numbers as an array, shape (n,)."""
        items = np.array([item for _, item in self.runs], np.int64)
        return np.repeat(items, [count for count, _ in self.runs])


def joint(
    first: RunLengthSequence[T], second: RunLengthSequence[S]
) -> RunLengthSequence[tuple[T, S]]:
    """Return the pairs of items of two equally long sequences, run-length encoded."""
    ends = sorted({*first.ends, *second.ends})
    return RunLengthSequence(
        (end - begin, (first[begin], second[begin])) for begin, end in pairwise([0, *ends])
    )
