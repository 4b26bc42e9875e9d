"""Sequences whose items are made when they are looked up, as of the clients of a large fleet."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")

KEPT = 10_000
"""So many items of a sequence are kept once they are made: a client's loss takes about 1 kB."""


class Made(Sequence[T]):
    """A sequence that makes an item when it is looked up, and keeps the first ones it has made.

    Which are kept changes no result: what is made again is the same again.

    Args:
        count: how many there are.
        make: returns the item of a number.
        kept: how many are kept at most.
    """

    def __init__(self, count: int, make: Callable[[int], T], kept: int = KEPT) -> None:
        self._count = count
        self._make = make
        self._kept = kept
        self._made: dict[int, T] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._count, self._make, self._kept)  # what is made can be made again

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(self._count))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        places = range(self._count)[index]
        return self._item(places) if isinstance(places, int) else [self._item(m) for m in places]

    def _item(self, number: int) -> T:
        try:
            return self._made[number]
        except KeyError:
            made = self._make(number)
            if len(self._made) < self._kept:
                self._made[number] = made
            return made
