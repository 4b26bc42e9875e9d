"""Sums over compressed sparse rows. A model is stored as (d, m): a row of features reads few rows.

The arguments are those of `loops`.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import part, vector_at
from fedsim.computing.compiled.loss_functions import slopes, value
from fedsim.computing.compiled.rows import Data, Whole, copy
from fedsim.ports import Array

Rows: TypeAlias = tuple[Array, NDArray[np.integer], NDArray[np.integer]]
"""The stored numbers, their columns, and the offsets of the rows."""


@part
def rows_of(places: Whole, data: Data, i: int, _: int) -> Rows:
    """Return the features of a client."""
    ends = vector_at(data.ends[i], data.rows[i] + 1, data.place)
    stored = ends[data.rows[i]]
    x = vector_at(data.x[i], stored, data.like)
    return x, vector_at(places[i], stored, data.place), ends


@part
def load(_: Rows, w: Array, V: Array, d: int, m: int) -> None:  # noqa: ARG001 - as of dense rows
    """Copy a model to V."""
    copy(w, V)


@part
def unload(_: Rows, V: Array, out: Array, d: int, m: int) -> None:  # noqa: ARG001
    """Copy V to `out`."""
    copy(V, out)


@part
def _forward(x: Array, places: NDArray[np.integer], W: Array, a: Array) -> None:
    """Set `a`, shape (m,), to the product of a row with W, shape (d, m)."""
    a[:] = 0
    for p in range(len(x)):
        for c in range(len(a)):
            a[c] += x[p] * W[places[p], c]


@part
def sum_up(
    rows: Rows,
    t: Array,
    drawn: NDArray[np.int64],
    kind: int,
    d: int,
    m: int,
    w: Array,
    gradient: Array,
    A: Array,
    o: Array,
) -> None:
    """Set `gradient` to that of the sum over the drawn rows, or over all rows if none is drawn."""
    x, places, ends = rows
    W, G, a = w.reshape(d, m), gradient.reshape(d, m), A[0]
    gradient[:] = 0
    n = len(ends) - 1
    for i in range(len(drawn) or n):
        row = drawn[i] if len(drawn) else i
        if row < 0:
            row += n
        begin, end = ends[row], ends[row + 1]
        _forward(x[begin:end], places[begin:end], W, a)
        slopes(kind, a, t[row], o[:0], o[:0], o)
        for p in range(begin, end):
            for c in range(len(a)):
                G[places[p], c] += x[p] * a[c]


@part
def total(rows: Rows, t: Array, kind: int, d: int, m: int, w: Array, A: Array, o: Array) -> float:
    """Return the sum of the rows' losses."""
    x, places, ends = rows
    W, a, losses = w.reshape(d, m), A[0], 0.0
    for i in range(len(ends) - 1):
        begin, end = ends[i], ends[i + 1]
        _forward(x[begin:end], places[begin:end], W, a)
        losses += value(kind, a, t[i], o[:0], o)
    return losses
