"""Lazy tables: entries are created at their first lookup, as the clients of a large fleet."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


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
        entry = self[number] = self._make(number)
        return entry

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
            return [self.item(position) for position in range(*index.indices(len(self)))]
        return self.item(index)
