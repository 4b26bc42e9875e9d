"""Columns: a number for each of many clients, or for one client in each of many worlds.

Formulas are written for a number. With `larger`, `smaller` and `choose` they also hold for a column
of numbers, entry by entry. The columns of a fleet take less memory than an array, if possible.
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
    """Return one of two figures if a condition holds, else the other; entry by entry for columns.

    >>> choose(True, 1.0, 2.0), choose(np.array([True, False]), 1.0, 2.0)
    (1.0, array([1., 2.]))
    """
    if isinstance(condition, np.ndarray):
        return np.where(condition, one, other)
    return one if condition else other


def one_if_equal(column: NDArray[N]) -> NDArray[N]:
    """Return a read-only column that takes the memory of one number if all entries are equal.

    Do not use it for factors of a matrix product: NumPy would add the terms in another order.
    """
    if is_one(column):
        return column
    equal = len(column) > 0 and bool((column == column[0]).all())
    return np.broadcast_to(column[:1].copy(), column.shape) if equal else column


def is_one(column: NDArray[N]) -> bool:
    """Return whether a column takes the memory of one number; see `one_if_equal`."""
    return column.strides == (0,)


def sizes_and_counts(column: NDArray[N]) -> tuple[NDArray[N], NDArray[np.intp]]:
    """Return the distinct numbers of a column, ascending, and how often each occurs."""
    if is_one(column):
        return column[:1], np.full(1, len(column))
    return np.unique(column, return_counts=True)


_BLOCK = 16
"""The number of consecutive clients in a block, which gets memory as a whole."""

_MANY_BLOCKS = 4
"""If more than 1/4 of the blocks have been written to, all blocks get memory."""


class SparseColumn:
    """A number for each client of a fleet in which few may ever be asked, shape (M,).

    It is read and written like an array, by the numbers of clients. Only blocks of clients that
    were written to take memory: for ten million clients an array would take 80 MB.

    Args:
        clients: M, the number of clients.
        initial: the initial number of all clients.
    """

    # `_held` stacks the blocks that were written to, in the order of their first write, after one
    # block that stands for all others. `_places` gives the position of each block in `_held`, and
    # `_owners` the block at each position. If there are many blocks, `_held` has all clients in
    # order, and `_places` is None.

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
        """Return the clients whose numbers are below `most`, which is at most the initial one."""
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
        """Allocate blocks that were not written to before."""
        count = len(self._owners)
        if _MANY_BLOCKS * (count + len(new)) > len(places):
            every = np.full((len(places), _BLOCK), self._initial)
            every[self._owners[1:]] = self._held[: count * _BLOCK].reshape(-1, _BLOCK)[1:]
            self._held, self._places = every.reshape(-1)[: self._clients], None
            return
        places[new] = np.arange(count, count + len(new))
        self._owners = np.append(self._owners, new)
        short = len(self._owners) * _BLOCK - len(self._held)
        if short > 0:  # at least doubled, so that few rounds allocate
            room = np.full(max(short, len(self._held)), self._initial)
            self._held = np.concatenate([self._held, room])
