"""Rows dealt out to clients: those of each are cut out of all when they are looked up."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.problems.samples import Block, Samples

Indices = NDArray[np.intp]


class Dealt(Sequence[Samples]):
    """The samples of each client, which stand one client after the other in one array.

    Args:
        samples: of all clients, client by client; their features are an array.
        ends: how many rows the clients up to each have together, shape (M,).

    Attributes:
        rows: how many each client has, shape (M,).
        y: the labels of all, client by client.
    """

    def __init__(self, samples: Samples, ends: NDArray[np.int64]) -> None:
        self.y: Array = samples.y
        self._samples = samples
        self._ends = [0, *ends.tolist()]

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many rows each client has, shape (M,)."""
        return np.diff(self._ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Samples: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Samples]: ...
    def __getitem__(self, index: int | slice) -> Samples | Sequence[Samples]:
        places = range(len(self))[index]
        return self._own(places) if isinstance(places, int) else [self._own(m) for m in places]

    def _own(self, client: int) -> Samples:
        of, own = self._samples, slice(self._ends[client], self._ends[client + 1])
        numbers = None if of.client is None else of.client[own]
        return Samples(of.X[own], of.y[own], numbers, of.truth)

    @property
    def features(self) -> int:
        """The number of features, d."""
        return self._samples.features

    def stacked(self, whose: NDArray[np.intp], rows: int) -> Array:
        """Return the features of clients that have so many rows each, shape (clients, rows, d)."""
        begins = np.array(self._ends)[whose]
        X: Array = np.asarray(self._samples.X)
        return X[begins[:, None] + np.arange(rows)]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of each client's samples in turn, without making these."""
        d = self.features
        X = np.ascontiguousarray(self._samples.X).reshape(-1).data.cast("B")
        y = np.ascontiguousarray(self.y).data.cast("B")
        wide, size = X.nbytes // len(self.y), y.nbytes // len(self.y)
        for begin, end in pairwise(self._ends):
            yield repr((end - begin, d)).encode()
            yield X[begin * wide : end * wide]
            yield y[begin * size : end * size]


def deal(samples: Samples, rows: Sequence[Indices]) -> Sequence[Samples]:
    """Return the samples of each client.

    Sparse rows are copied for each, as they cannot be cut out of others without that.

    Args:
        samples: all there are.
        rows: which of them each client has, in its order.
    """
    if not rows or not isinstance(samples.X, np.ndarray):
        return [samples.take(own) for own in rows]
    ends = np.cumsum([len(own) for own in rows], dtype=np.int64)
    return Dealt(samples.take(np.concatenate(rows)), ends)


def sizes(parts: Sequence[Samples]) -> NDArray[np.int64]:
    """Return how many rows each client has, shape (M,)."""
    if isinstance(parts, Dealt):
        return parts.rows
    return np.array([part.rows for part in parts], np.int64)


def labels(parts: Sequence[Samples]) -> Array:
    """Return the labels of all clients' rows, client by client, shape (n,)."""
    return parts.y if isinstance(parts, Dealt) else np.concatenate([part.y for part in parts])


def blocks(parts: Sequence[Samples]) -> Iterator[Block]:
    """Yield what makes the samples of all clients what they are, for a digest."""
    if isinstance(parts, Dealt):
        yield from parts.blocks()
        return
    for part in parts:
        yield from part.blocks()
