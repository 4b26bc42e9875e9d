"""Columns: a figure of each of many clients, or of one client in many worlds.

Laws are written for a number and hold for a column of numbers as well, entry by entry, by `larger`,
`smaller` and `choose`. Those of a fleet are held in less memory than an array where they allow it.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

N = TypeVar("N", bound=np.generic)


Figure = Any
"""A number, or a column of numbers."""


def larger(one: Figure, other: Figure) -> Figure:
    """Return the larger of two figures.

    >>> larger(1.0, 2.0), larger(np.array([1.0, 3.0]), 2.0)
    (2.0, array([2., 3.]))
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.maximum(one, other)
    return max(one, other)


def smaller(one: Figure, other: Figure) -> Figure:
    """Return the smaller of two figures.

    >>> smaller(1.0, 2.0), smaller(np.array([1.0, 3.0]), 2.0)
    (1.0, array([1., 2.]))
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.minimum(one, other)
    return min(one, other)


def choose(condition: Figure, one: Figure, other: Figure) -> Figure:
    """Return one of two figures where a condition holds, a truth or a column, and else the other.

    >>> choose(True, 1.0, 2.0), choose(np.array([True, False]), 1.0, 2.0)
    (1.0, array([1., 2.]))
    """
    if isinstance(condition, np.ndarray):
        return np.where(condition, one, other)
    return one if condition else other


def one_if_equal(column: NDArray[N]) -> NDArray[N]:
    """Return a column, read-only and as one number in memory where all of it are the same.

    Not for factors of a matrix product, whose terms NumPy then adds in another order.
    """
    if is_one(column):
        return column
    equal = len(column) > 0 and bool((column == column[0]).all())
    return np.broadcast_to(column[:1].copy(), column.shape) if equal else column


def is_one(column: NDArray[N]) -> bool:
    """Return whether a column is one number in memory, as `one_if_equal` makes it."""
    return column.strides == (0,)


def sizes_and_counts(column: NDArray[N]) -> tuple[NDArray[N], NDArray[np.intp]]:
    """Return the distinct numbers of a column, ascending, and how many there are of each."""
    if is_one(column):
        return column[:1], np.full(1, len(column))
    return np.unique(column, return_counts=True)


_BLOCK = 16
"""So many clients, one after the other, have room for their figures together."""

_MANY_BLOCKS = 4
"""Where more than one block in so many is written to, all of them get room."""


class SparseColumn:
    """A figure of each client of a fleet of which few may ever be asked, shape (M,).

    It is read and written like an array, by the numbers of clients. There is room only for blocks
    of clients of which one was written to: of ten million clients an array takes 80 MB.

    Args:
        clients: M.
        initial: the figure of all clients at first.
    """

    # `_held` has the blocks that were written to, in order of that, after one that stands for all
    # others; `_places` which of them is whose, `_owners` whose each is. If these are many, `_held`
    # has all clients in their order, and `_places` is None.

    def __init__(self, clients: int, initial: np.number[Any]) -> None:
        self._clients = clients
        self._initial = initial
        self._held: NDArray[Any] = np.full(_BLOCK, initial)
        self._owners = np.zeros(1, np.int64)
        self._places: NDArray[np.int32] | None = np.zeros(-(-clients // _BLOCK), np.int32)

    def __getitem__(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        return self._held[self._at(ids)]

    def __setitem__(self, ids: NDArray[np.int64], figures: NDArray[Any] | float) -> None:
        if self._places is not None:
            blocks = ids // _BLOCK
            new = np.unique(blocks[self._places[blocks] == 0])
            if len(new):
                self._make_room(self._places, new)
        self._held[self._at(ids)] = figures

    def below(self, most: float) -> NDArray[np.int64]:
        """Return the clients whose figures are below a number, which is at most the initial one."""
        places = np.flatnonzero(self._held < most)
        if self._places is None:
            return places
        found: NDArray[np.int64] = self._owners[places // _BLOCK] * _BLOCK + places % _BLOCK
        return np.sort(found)

    def _at(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of clients in `_held`."""
        if self._places is None:
            return ids
        return self._places[ids // _BLOCK].astype(np.int64) * _BLOCK + ids % _BLOCK

    def _make_room(self, places: NDArray[np.int32], new: NDArray[np.int64]) -> None:
        """Let blocks be held that were not written to yet."""
        count = len(self._owners)
        if _MANY_BLOCKS * (count + len(new)) > len(places):
            every = np.full((len(places), _BLOCK), self._initial)
            every[self._owners[1:]] = self._held[: count * _BLOCK].reshape(-1, _BLOCK)[1:]
            self._held, self._places = every.reshape(-1)[: self._clients], None
            return
        places[new] = np.arange(count, count + len(new))
        self._owners = np.append(self._owners, new)
        short = len(self._owners) * _BLOCK - len(self._held)
        if short > 0:  # as much again, so that few rounds make room
            room = np.full(max(short, len(self._held)), self._initial)
            self._held = np.concatenate([self._held, room])
