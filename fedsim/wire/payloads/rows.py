"""Vectors of many senders that are packed at once: rows of one array, each a payload like others.

A `DenseRows` is what a packer without a compressor makes of an array (n, d). Of each row it hands
out a `DenseRow`, which equals the `Dense` of that vector in values and bits.
"""

from collections.abc import Sequence
from itertools import groupby

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

    def payloads(self, count: int | None = None) -> list["DenseRow"]:
        """Return the payload of each sender in order, or of so many first ones."""
        return [DenseRow(self, place) for place in range(len(self._sent))[:count]]


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
    for rows, own in groupby(payloads, _rows_of):
        some = list(own)
        factors = None if weights is None else weights[begin : begin + len(some)]
        begin += len(some)
        if rows is None or len(total) < _LEAST:
            _add(total, some, factors)
        else:
            places = np.array([each.place for each in some if isinstance(each, DenseRow)])
            step, first = max(_AT_ONCE // len(total), 1), int(places[0])
            one_run = bool((np.diff(places) == 1).all())  # it is sliced, which copies nothing
            for at in range(0, len(places), step):
                end = min(at + step, len(places))
                added = rows.some(slice(first + at, first + end) if one_run else places[at:end])
                if factors is not None:
                    added *= factors[at:end, None]
                # Down the rows of an array, entry by entry, NumPy adds one after the other.
                added[0] += total
                total = np.add.reduce(added, axis=0)
    return total


_AT_ONCE = 2**16
"""So many numbers are added at once: half of what the fast memory of a processor holds."""

_LEAST = 2
"""A column alone is contiguous, and NumPy adds that in pairs."""


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
