"""Vectors of many senders that are packed at once: rows of one array, each a payload like others.

A `DenseRows` is what a packer without a compressor makes of an array (n, d). Each row is a payload,
a `DenseRow`, which equals the `Dense` of that vector in values and bits.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array, Payload
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.base import frozen
from fedsim.wire.payloads.dense import Dense, LongDense


class DenseRows:
    """The vectors of n senders, all entries of each, held in the type in which they are sent.

    Attributes:
        bits: of the encoding of one of them.
    """

    def __init__(self, vectors: Array, form: ValueFormat) -> None:
        self._sent = form.narrow(vectors)
        self._form = form
        self.bits = Dense.length(vectors[0], form)

    @property
    def values(self) -> Array:
        """The vectors as they arrive, read-only, shape (n, d)."""
        return frozen(self.some(slice(None)))

    def some(self, places: slice | NDArray[np.intp]) -> Array:
        """Return the vectors of some senders as they arrive: a copy, shape (k, d)."""
        return self._form.widen(self._sent[places])

    def one(self, place: int) -> Array:
        """Return the vector of a sender as it arrives, read-only, shape (d,)."""
        return frozen(self._form.widen(self._sent[place]))

    def payloads(self) -> "RowPayloads":
        """Return the payload of each sender in order."""
        count = len(self._sent)
        return RowPayloads([self], np.broadcast_to(np.int8(0), count), np.arange(count))


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

    def vectors(self, begin: int, end: int) -> Array:
        """Return the vectors of some, which are all `in_rows`: a copy, shape (k, d)."""
        which, places = self._which[begin:end], self._places[begin:end]
        sources: Any = self._sources
        if (which == which[0]).all():
            one_run = bool((np.diff(places) == 1).all())  # it is sliced, which copies nothing
            some = slice(int(places[0]), int(places[-1]) + 1) if one_run else places
            found: Array = sources[which[0]].some(some)
            return found
        parts = {each: np.flatnonzero(which == each) for each in np.unique(which).tolist()}
        order = np.argsort(np.concatenate([*parts.values()]))
        every = [sources[each].some(places[own]) for each, own in parts.items()]
        return np.asarray(np.concatenate(every)[order])


def _is_rows(source: DenseRows | Payload) -> TypeGuard[DenseRows]:
    return isinstance(source, DenseRows)


def weighted_sum(payloads: Sequence[Payload], weights: Array | None = None) -> Array:
    """Return the sum of payloads' vectors, from zero on, in their order.

    It is bit-identical to that of a loop; rows of one array are added without one.

    Args:
        payloads: at least one; all of one shape.
        weights: what each vector is multiplied by, shape (n,); None for 1.
    """
    one = payloads[0]
    total: Array = np.zeros(one.shape if isinstance(one, LongDense) else one.values.shape)
    begin = 0
    for some in _runs(payloads):
        factors = None if weights is None else weights[begin : begin + len(some)]
        begin += len(some)
        if not (isinstance(some, RowPayloads) and some.in_rows and total.size >= _LEAST):
            _add(total, some, factors)
            continue
        step = max(_AT_ONCE // len(total), 1)
        for at in range(0, len(some), step):
            end = min(at + step, len(some))
            added = some.vectors(at, end)
            if factors is not None:
                added *= factors[at:end, None]
            # Down the rows of an array, entry by entry, NumPy adds one after the other.
            added[0] += total
            np.add.reduce(added, axis=0, out=total)
    return total


_AT_ONCE = 2**16
"""So many numbers are added at once: half of what the fast memory of a processor holds."""

_LEAST = 2
"""A column alone is contiguous, and NumPy adds that in pairs."""


def _runs(payloads: Sequence[Payload]) -> Iterator[Sequence[Payload]]:
    """Yield payloads in their order, neighbours that are rows of one array in columns."""
    if isinstance(payloads, RowPayloads):
        yield payloads
        return
    for rows, own in groupby(payloads, _rows_of):
        some = list(own)
        if rows is None:
            yield some
        else:
            places = np.array([each.place for each in some if isinstance(each, DenseRow)])
            yield RowPayloads([rows], np.zeros(len(some), np.int8), places)


def _rows_of(payload: Payload) -> DenseRows | None:
    return payload.rows if isinstance(payload, DenseRow) else None


def _add(total: Array, payloads: Sequence[Payload], factors: Array | None) -> None:
    """Add payloads' vectors, times factors, to a sum: long ones a part of all after the other."""
    long = [each for each in payloads if isinstance(each, LongDense)]
    if len(long) < len(payloads):
        for place, payload in enumerate(payloads):
            total += payload.values if factors is None else factors[place] * payload.values
        return
    for at in range(0, len(total), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        for place, payload in enumerate(long):
            part = payload.part(some)
            if factors is not None:
                part *= factors[place]
            total[some] += part
