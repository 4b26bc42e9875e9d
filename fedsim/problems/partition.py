"""The partition of rows over clients: a client's samples are views, created on access."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, overload

import numpy as np
import platformdirs
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from fedsim.core.columns import is_one, one_if_equal
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.samples import Block, Features, Samples

Indices = NDArray[np.intp]

Transform = Callable[[Features], Features]
"""A transformation of features, row by row."""

_DOUBLE = np.dtype(np.float64)

_AT_ONCE = 2**20
"""The number of values that are transformed together."""


class Cuts:
    """The division of ordered rows into a consecutive block per client.

    Args:
        sizes: the number of rows of each client, shape (M,).

    Attributes:
        sizes: the same; a single number in memory if all are equal.
        total: the number of all rows.
    """

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        self.sizes: NDArray[np.int64] = one_if_equal(sizes)
        equal = is_one(self.sizes)
        self.total = len(sizes) * int(self.sizes[0]) if equal else int(sizes.sum())
        kind = np.int32 if self.total < 2**31 else np.int64
        # Positions are not stored if all blocks are equal: for ten million clients they take 40 MB.
        self._ends: NDArray[np.signedinteger[Any]] | None = (
            None if equal else np.cumsum(sizes, dtype=kind)
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def begins(self, clients: NDArray[np.intp]) -> NDArray[np.signedinteger[Any]]:
        """Return the index of the first row of each of some clients, shape (n,)."""
        if self._ends is None:
            return np.asarray(clients * self.sizes[0])
        return np.asarray(self._ends[clients] - self.sizes[clients])

    def of(self, client: int) -> slice:
        """Return the slice of a client's rows."""
        rows = int(self.sizes[client])
        end = (client + 1) * rows if self._ends is None else int(self._ends[client])
        return slice(end - rows, end)


class Partition(Sequence[Samples]):
    """The samples of each client, as slices of one array in client order.

    Args:
        samples: the samples of all clients, client by client; their features are an array.
        cuts: the division of rows among clients.

    Attributes:
        cuts: the same.
        rows: the number of rows of each client, shape (M,).
        X: the features of all rows, client by client.
        y: the labels of all rows, client by client.
    """

    def __init__(self, samples: Samples, cuts: Cuts) -> None:
        self.X: Array = np.asarray(samples.X)
        self.y: Array = samples.y
        self._samples = samples
        self.cuts = cuts
        self.rows = cuts.sizes

    def __len__(self) -> int:
        return len(self.cuts)

    @overload
    def __getitem__(self, index: int) -> Samples: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Samples]: ...
    def __getitem__(self, index: int | slice) -> Samples | Sequence[Samples]:
        places = range(len(self))[index]
        return self._own(places) if isinstance(places, int) else [self._own(m) for m in places]

    def _own(self, client: int) -> Samples:
        of, own = self._samples, self.cuts.of(client)
        numbers = None if of.client is None else of.client[own]
        return Samples(of.X[own], of.y[own], numbers, of.truth)

    @property
    def features(self) -> int:
        """The number of features, d."""
        return self._samples.features

    @cached_property
    def alike(self) -> list[tuple[int, NDArray[np.intp] | range]]:
        """Pairs of a number of rows, ascending, and the clients that have this number."""
        sizes = self.rows
        if is_one(sizes):
            return [(int(sizes[0]), range(len(sizes)))]
        return [(rows, np.flatnonzero(sizes == rows)) for rows in np.unique(sizes).tolist()]

    def stack_rows(self, table: Array, whose: NDArray[np.intp], rows: int) -> Array:
        """Return the rows of some clients in a table, shape (clients, rows, ...).

        Args:
            table: has a row for each row of all clients. The result is a view for consecutive
                clients.
            whose: the clients, ascending.
            rows: the number of rows of each of them.
        """
        begins = self.cuts.begins(whose)
        first, last = int(begins[0]), int(begins[-1]) + rows
        # Rows of consecutive clients are a view, without a copy.
        if last - first == rows * len(whose):
            return table[first:last].reshape(len(whose), rows, *table.shape[1:])
        stacked: Array = table[begins[:, None] + np.arange(rows)]
        return stacked

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of each client's samples in turn, without creating the samples.

        The blocks of neighbours with equally many, few rows are joined.
        """
        d = self.features
        X = np.ascontiguousarray(self.X).reshape(-1).view(np.uint8)
        y = np.ascontiguousarray(self.y).reshape(-1).view(np.uint8)
        wide, size = len(X) // len(self.y), len(y) // len(self.y)
        types = f"{self.X.dtype.str} {self.y.dtype.str}"
        for first, last in pairwise([0, *self._changes(), len(self)]):
            rows = int(self.rows[first])
            head = f"{(rows, d)} {types}".encode()
            step = max(_AT_ONCE // max(rows * wide, 1), 1)
            for client in range(first, last, step):
                count, begin = min(step, last - client), self.cuts.of(client).start
                part = slice(begin * wide, (begin + count * rows) * wide)
                labels = slice(begin * size, (begin + count * rows) * size)
                if count == 1:
                    yield from (head, X[part].data, y[labels].data)
                    continue
                # Digests take long for many short blocks, so several clients share a block.
                parts = X[part].reshape(count, -1), y[labels].reshape(count, -1)
                heads = np.broadcast_to(np.frombuffer(head, np.uint8), (count, len(head)))
                yield np.concatenate([heads, *parts], axis=1).reshape(-1).data

    def _changes(self) -> list[int]:
        """Return the clients whose number of rows differs from that of the previous client."""
        return [] if is_one(self.rows) else (np.flatnonzero(np.diff(self.rows)) + 1).tolist()


class RowRuns(Sequence[Indices]):
    """The rows of each client, as consecutive parts of an order; created on access.

    Args:
        order: the order of all rows; a range if they are consecutive.
        cuts: the division among clients; further rows are dropped.
    """

    def __init__(self, order: Indices | range, cuts: Cuts) -> None:
        self.cuts = cuts
        self.order = order[: cuts.total]

    def __len__(self) -> int:
        return len(self.cuts)

    @overload
    def __getitem__(self, index: int) -> Indices: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Indices]: ...
    def __getitem__(self, index: int | slice) -> Indices | Sequence[Indices]:
        places = range(len(self))[index]
        return self._own(places) if isinstance(places, int) else [self._own(m) for m in places]

    def _own(self, client: int) -> Indices:
        return np.asarray(self.order[self.cuts.of(client)], np.intp)


def row_count(rows: Sequence[Indices]) -> int:
    """Return the number of rows of all clients together.

    Args:
        rows: the indices of each client's rows.
    """
    return rows.cuts.total if isinstance(rows, RowRuns) else sum(map(len, rows))


def partition(
    samples: Samples,
    rows: Sequence[Indices],
    treat: Transform | None = None,
    kind: np.dtype[Any] = _DOUBLE,
) -> Sequence[Samples]:
    """Return the samples of each client.

    Sparse rows are copied for each client, since they cannot be views.

    Args:
        samples: the samples of all clients.
        rows: the indices of each client's rows, in its order.
        treat: preprocessing to apply to the features, row by row; None for none.
        kind: the number type of the resulting features.
    """
    if not rows or not isinstance(samples.X, np.ndarray):
        whole = preprocess_samples(samples, treat, kind)
        return [whole.take(client_rows) for client_rows in rows]
    order: Indices | range
    if isinstance(rows, RowRuns):
        order, cuts = rows.order, rows.cuts
    else:
        cuts = Cuts(np.array([len(client_rows) for client_rows in rows], np.int64))
        order = np.concatenate(rows)
    if treat is None and samples.X.dtype == kind:
        return Partition(samples.take(order), cuts)
    # Labels and clients are ordered here; the features follow in blocks, to save memory.
    bare = Samples(np.empty((samples.rows, 0)), samples.y, samples.client, samples.truth)
    dealt = bare.take(order)
    held = _gather_rows(samples.X, order, treat, kind)
    return Partition(replace(dealt, X=held) if treat is None else dealt.with_features(held), cuts)


def preprocess_samples(
    samples: Samples, treat: Transform | None, kind: np.dtype[Any] = _DOUBLE
) -> Samples:
    """Return samples with preprocessed features of a number type.

    Raises:
        DataError: a value exceeds the range of the type.
    """
    if treat is None:
        return replace(samples, X=_convert(samples.X, kind))
    if isinstance(samples.X, np.ndarray):
        order = range(samples.rows)
        return samples.with_features(_gather_rows(samples.X, order, treat, kind))
    return samples.with_features(_convert(treat(samples.X), kind))


def _convert(X: Features, kind: np.dtype[Any]) -> Features:
    """Return features converted to a number type.

    Raises:
        DataError: a value is too large for float32.
    """
    with np.errstate(over="ignore"):
        return _in_range(X.astype(kind, copy=False))


def _in_range(X: Features) -> Features:
    values: Array = X if isinstance(X, np.ndarray) else X.data
    if values.dtype == np.float32 and values.size:
        least, most = float(values.min()), float(values.max())
        if not (isfinite(least) and isfinite(most)):
            text = "features are too large for float32, whose largest number is 3.4e38"
            raise DataError("data", f"{text}; give precision: float64, or preprocess them")
    return X


def _gather_rows(
    X: Array, order: Indices | range, treat: Transform | None, kind: np.dtype[Any]
) -> Array:
    """Return rows in an order, transformed and converted in blocks to save memory in float64.

    Raises:
        DataError: a value exceeds the range of the type.
    """
    width = X.shape[1] if treat is None else treat(X[np.asarray(order[:1])]).shape[1]
    held: Array = np.empty((len(order), width), kind)
    step = max(_AT_ONCE // max(width, X.shape[1], 1), 1)
    with np.errstate(over="ignore"):
        for at in range(0, len(order), step):
            some = X[np.asarray(order[at : at + step])]
            held[at : at + step] = some if treat is None else treat(some)
    _in_range(held)
    return held


def sizes(parts: Sequence[Samples]) -> NDArray[np.int64]:
    """Return the number of rows of each client, shape (M,)."""
    if isinstance(parts, Partition):
        return parts.rows
    return np.array([part.rows for part in parts], np.int64)


def labels(parts: Sequence[Samples]) -> Array:
    """Return the labels of all clients' rows, client by client, shape (n,)."""
    return parts.y if isinstance(parts, Partition) else np.concatenate([part.y for part in parts])


def blocks(parts: Sequence[Samples]) -> Iterator[Block]:
    """Yield the bytes that identify the samples of all clients, for a digest."""
    if isinstance(parts, Partition):
        yield from parts.blocks()
        return
    for part in parts:
        yield from part.blocks()


def stacked_features(parts: Sequence[Samples]) -> Features:
    """Return the features of all clients, client by client, as float64; sparse stays sparse."""
    wide = [part.X.astype(np.float64, copy=False) for part in parts]
    if all(isinstance(X, np.ndarray) for X in wide):
        return np.vstack(wide)
    return vstack([csr_array(X) for X in wide], format="csr")


# The user's cache, of downloads and reference optima.

CACHE_VARIABLE = "FEDSIM_CACHE"
"""The environment variable that overrides the folder of the cache."""


def cache_folder() -> Path:
    """Return the folder of the cache, which may not exist yet."""
    folder = os.environ.get(CACHE_VARIABLE)
    return Path(folder) if folder else Path(platformdirs.user_cache_dir("fedsim"))
