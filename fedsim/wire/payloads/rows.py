"""Vectors of many senders that are packed at once: rows of one array, each a payload like others.

A `DenseRows` is what a packer without a compressor makes of an array (n, d). Each row is a payload,
a `DenseRow`, which equals the `Dense` of that vector in values and bits.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Payload
from fedsim.core.threads import share_out
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.base import frozen
from fedsim.wire.payloads.dense import Dense, LongDense

_ALL = slice(None)


class AddRows(Protocol):
    """Adds rows to a vector in one pass over them: what compiled code can do, and NumPy cannot."""

    def __call__(
        self, total: Array, rows: NDArray[np.int64], like: NDArray[np.floating], factors: Array
    ) -> None:
        """Add a multiple of each row, one after the other; products and sums are rounded each.

        Args:
            total: contiguous, shape (c,), changed.
            rows: the address of each row, of c contiguous numbers, shape (n,).
            like: an empty array of their type, float64 or float32.
            factors: the factors of the rows, shape (n,).
        """
        ...


class DenseRows:
    """The vectors of n senders, all entries of each, held in the type in which they are sent.

    Args:
        vectors: shape (n, d).
        form: the format in which they are sent.
        add: adds them to a long sum, bit for bit as NumPy does; None to let NumPy do so.

    Attributes:
        bits: the bits of the encoding of one of them.
    """

    def __init__(self, vectors: Array, form: ValueFormat, add: AddRows | None = None) -> None:
        self._sent = form.narrow(vectors)
        self._form = form
        self.bits = Dense.length(vectors[0], form)
        self.add = add if form in _ADDED and self._sent.flags.c_contiguous else None

    @property
    def values(self) -> Array:
        """The vectors as they arrive, read-only, shape (n, d)."""
        return frozen(self.some(_ALL))

    def some(self, places: slice | NDArray[np.intp], columns: slice = _ALL) -> Array:
        """Return some coordinates of some senders' vectors as they arrive: a copy, (k, c)."""
        return self._form.widen(self._sent[places, columns])

    def one(self, place: int) -> Array:
        """Return the vector of a sender as it arrives, read-only, shape (d,)."""
        return frozen(self._form.widen(self._sent[place]))

    def part(self, place: int, some: slice, room: Array, factor: float | None = None) -> Array:
        """Return some coordinates of a sender's vector; see `Dense.part`."""
        return self._form.part(self._sent[place, some], room, factor)

    def memory(self) -> "_Memory":
        """Return where the vectors are held."""
        held = self._sent
        return _Memory(held.dtype, held.shape[1], held.ctypes.data, len(held))

    def payloads(self) -> "RowPayloads":
        """Return the payload of each sender in order."""
        count = len(self._sent)
        return RowPayloads([self], np.broadcast_to(np.int8(0), count), np.arange(count))


_ADDED = ValueFormat.FLOAT64, ValueFormat.FLOAT32
"""The formats whose values are numbers of a type that a processor computes with."""


class _Memory(NamedTuple):
    """Where rows of contiguous numbers are: the type, their length, the first one, how many."""

    kind: np.dtype[Any]
    length: int
    address: int
    rows: int


class DenseRow:
    """A payload whose vector is a row of an array."""

    __slots__ = ("place", "rows")

    def __init__(self, rows: DenseRows, place: int) -> None:
        self.rows = rows
        self.place = place

    @property
    def values(self) -> Array:
        """The vector, read-only, shape (d,)."""
        return self.rows.one(self.place)

    def part(self, some: slice, room: Array, factor: float | None = None) -> Array:
        """Return some of the values; see `Dense.part`."""
        return self.rows.part(self.place, some, room, factor)

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return self.rows.bits


class RowPayloads(Sequence[Payload]):
    """Payloads of many senders in columns; the object of one is made as it is looked up.

    Args:
        sources: arrays of vectors, of which each payload is a row, and payloads that stand for
            many senders each.
        which: the source of each payload, shape (n,).
        places: its row there, shape (n,).
    """

    def __init__(
        self,
        sources: Sequence[DenseRows | Payload],
        which: NDArray[np.integer],
        places: NDArray[np.integer],
    ) -> None:
        self._sources = sources
        self._which = which
        self._places = places

    def __len__(self) -> int:
        return len(self._which)

    @overload
    def __getitem__(self, index: int) -> Payload: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Payload]: ...
    def __getitem__(self, index: int | slice) -> Payload | Sequence[Payload]:
        if isinstance(index, slice):
            return RowPayloads(self._sources, self._which[index], self._places[index])
        source = self._sources[self._which[index]]
        return DenseRow(source, int(self._places[index])) if _is_rows(source) else source

    @property
    def in_rows(self) -> bool:
        """Whether each is a row of an array."""
        return all(map(_is_rows, self._sources))

    def vectors(self, begin: int, end: int, columns: slice = _ALL) -> Array:
        """Return coordinates of the vectors of some, all `in_rows`: a copy, shape (k, c)."""
        which, places = self._which[begin:end], self._places[begin:end]
        sources: Any = self._sources
        if (which == which[0]).all():
            one_run = bool((np.diff(places) == 1).all())  # it is sliced, which copies nothing
            some = slice(int(places[0]), int(places[-1]) + 1) if one_run else places
            found: Array = sources[which[0]].some(some, columns)
            return found
        parts = {source: np.flatnonzero(which == source) for source in np.unique(which).tolist()}
        order = np.argsort(np.concatenate([*parts.values()]))
        every = [
            sources[source].some(places[places_there], columns)
            for source, places_there in parts.items()
        ]
        return np.asarray(np.concatenate(every)[order])

    def adding(self, total: Array, factors: Array | None) -> Callable[[int, int], None] | None:
        """Return a function that adds a range of coordinates of all rows, times factors, to a sum.

        It makes one pass over the rows. None if no compiled code fits.
        """
        sources: Any = self._sources
        add = sources[0].add
        if add is None or any(source.add is not add for source in sources):
            return None
        kinds, lengths, first, counts = zip(*(source.memory() for source in sources), strict=True)
        which, places = self._which, np.asarray(self._places, np.int64)
        there = (places >= 0) & (places < np.array(counts)[which])
        if len(set(kinds)) > 1 or set(lengths) != {len(total)} or not there.all():
            return None  # NumPy says what is wrong
        size = kinds[0].itemsize
        rows = np.array(first, np.int64)[which] + size * len(total) * places
        weights = np.ones(len(rows)) if factors is None else np.array(factors, np.float64)
        like = np.empty(0, kinds[0])
        return lambda begin, end: add(total[begin:end], rows + size * begin, like, weights)


def _is_rows(source: DenseRows | Payload) -> TypeGuard[DenseRows]:
    return isinstance(source, DenseRows)


def weighted_sum(payloads: Sequence[Payload], weights: Array | None = None) -> Array:
    """Return the sum of payloads' vectors, from zero on, in their order.

    It is bit-identical to the sum of a loop. Rows of one array are added without a loop, and a long
    sum is divided among threads, by ranges of coordinates.

    Args:
        payloads: at least one; all of one shape.
        weights: the factors of the vectors, shape (n,); None if all are 1.
    """
    one = payloads[0]
    total: Array = np.zeros(one.shape if isinstance(one, LongDense) else one.values.shape)
    begin = 0
    for some in _runs(payloads):
        factors = None if weights is None else weights[begin : begin + len(some)]
        begin += len(some)
        add = _adding(total, some, factors)
        if add is None:
            _add(total, some, factors)
        elif total.size >= _WIDE and total.size * len(some) >= _SHARED:
            share_out(add, total.size)
        else:
            add(0, total.size)
    return total


_AT_ONCE = 2**16
"""The number of numbers that are added at once: about as many as the cache of a core holds."""

_SHARED = 2**21
"""A sum with at least this many products takes some milliseconds, so threads pay."""

_COMPILED = 2**16
"""A sum with at least this many products uses compiled code, if there is any. With fewer, NumPy
takes less time than collecting the addresses of the rows."""

_WIDE = 2**10
"""A sum with at least this many coordinates is divided among threads: each then has many."""

_LONG_ROW = 2**12
"""Rows with at least this many coordinates are added one by one: several exceed the cache."""

_LEAST = 2
"""A single column is contiguous, so NumPy would add it in pairs, with other roundings."""


def _runs(payloads: Sequence[Payload]) -> Iterator[Sequence[Payload]]:
    """Yield payloads in order; neighbours that are rows of one array come as `RowPayloads`."""
    if isinstance(payloads, RowPayloads):
        yield payloads
        return
    for rows, run in groupby(payloads, _rows_of):
        some = list(run)
        if rows is None:
            yield some
        else:
            places = np.array([row.place for row in some if isinstance(row, DenseRow)])
            yield RowPayloads([rows], np.zeros(len(some), np.int8), places)


def _rows_of(payload: Payload) -> DenseRows | None:
    return payload.rows if isinstance(payload, DenseRow) else None


def _add(total: Array, payloads: Sequence[Payload], factors: Array | None) -> None:
    """Add payloads' vectors, times factors, to a sum."""
    for place, payload in enumerate(payloads):
        total += payload.values if factors is None else factors[place] * payload.values


def _adding(
    total: Array, payloads: Sequence[Payload], factors: Array | None
) -> Callable[[int, int], None] | None:
    """Return a function that adds a range of coordinates; None if only whole vectors are added."""
    if total.ndim == 1 and total.size >= _LEAST:
        if isinstance(payloads, RowPayloads):
            if not payloads.in_rows:
                return None
            many = total.size * len(payloads) >= _COMPILED
            compiled = payloads.adding(total, factors) if many else None
            return compiled or partial(_add_rows, total, payloads, factors)
        dense = [payload for payload in payloads if isinstance(payload, Dense)]
        if len(dense) == len(payloads) and all(payload.shape == total.shape for payload in dense):
            return partial(_add_dense, total, dense, factors)
    return None


def _add_rows(
    total: Array, payloads: RowPayloads, factors: Array | None, begin: int, end: int
) -> None:
    """Add a range of coordinates of payloads that are rows of arrays."""
    sums = total[begin:end]
    if len(sums) >= _LONG_ROW:
        rows: Any = list(payloads)
        _add_dense(total, rows, factors, begin, end)
        return
    step = max(_AT_ONCE // len(sums), 1)
    for at in range(0, len(payloads), step):
        to = min(at + step, len(payloads))
        added = payloads.vectors(at, to, slice(begin, end))
        if factors is not None:
            added *= factors[at:to, None]
        # Along the first axis NumPy adds row after row, so the rounding is that of a loop.
        added[0] += sums
        np.add.reduce(added, axis=0, out=sums)


def _add_dense(
    total: Array, payloads: Sequence[Dense | DenseRow], factors: Array | None, begin: int, end: int
) -> None:
    """Add a range of coordinates of dense payloads, in parts that fit the cache."""
    room = np.empty(min(_AT_ONCE, end - begin))
    for at in range(begin, end, _AT_ONCE):
        some = slice(at, min(at + _AT_ONCE, end))
        sums, held = total[some], room[: some.stop - at]
        for place, payload in enumerate(payloads):
            sums += payload.part(some, held, None if factors is None else factors[place])
