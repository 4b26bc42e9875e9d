"""Gradients, gradient steps and values of many clients, with compressed sparse rows."""

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import kernel, matrix_at, part, vector_at
from fedsim.computing.compiled.heads import slopes, value
from fedsim.computing.compiled.items import (
    Data,
    Form,
    Items,
    copy,
    differentiate,
    move,
    rows_are_there,
)
from fedsim.ports import Array


@part
def _forward(x: Array, places: NDArray[np.integer], W: Array, a: Array) -> None:
    """Set `a`, shape (m,), to the product of a row with W, shape (d, m)."""
    a[:] = 0
    for p in range(len(x)):
        for c in range(len(a)):
            a[c] += x[p] * W[places[p], c]


@part
def _sum_up(
    x: Array,
    places: NDArray[np.integer],
    ends: NDArray[np.integer],
    t: Array,
    drawn: NDArray[np.int64],
    kind: int,
    W: Array,
    G: Array,
    a: Array,
    o: Array,
) -> None:
    """Set G, shape (d, m), to the gradient of the sum over rows; over all, if none is drawn."""
    G[:] = 0
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


@kernel
def run(form: Form, data: Data, items: Items) -> int:
    """Evaluate pieces of work, each by itself; see `fedsim.computing.compiled.dense.run`."""
    kind, d, m, c, size, l1, l2 = form
    V = np.empty(size)
    single, G = np.empty(size, data.like.dtype), np.empty(size, data.like.dtype)
    a, o = np.empty(m, data.like.dtype), np.empty(c, data.like.dtype)
    for j in range(len(items.client)):
        i, b = items.client[j], items.batch[j]
        n = data.rows[i]
        ends = vector_at(data.ends[i], n + 1, data.place)
        x = vector_at(data.x[i], ends[n], data.like)
        places = vector_at(data.places[i], ends[n], data.place)
        t = matrix_at(data.t[i], n, c, data.like)
        start = vector_at(items.model[j], size, V)
        copy(start, V)
        scale = data.factor[i] * (n / b) if b else data.factor[i]
        for s in range(max(items.steps[j], 1)):
            drawn = vector_at(items.drawn[j] + 8 * s * b, b, items.client)
            if not rows_are_there(drawn, n):
                return j
            copy(V, single)
            _sum_up(x, places, ends, t, drawn, kind, single.reshape(d, m), G.reshape(d, m), a, o)
            if items.steps[j]:
                move(V, start, G, scale, l1, l2, items.eta[j], items.pull[j])
            else:
                differentiate(V, G, scale, l1, l2)
        copy(V, items.out[j])
    return -1


@kernel
def values(form: Form, data: Data, first: int, w: Array, out: Array) -> None:
    """Set `out` to f_m(w) of the clients from `first` on, without their penalties."""
    kind, d, m, c, size, _, _ = form
    single = np.empty(size, data.like.dtype)
    copy(w, single)
    W = single.reshape(d, m)
    a, o = np.empty(m, data.like.dtype), np.empty(c, data.like.dtype)
    for j in range(len(out)):
        n = data.rows[first + j]
        ends = vector_at(data.ends[first + j], n + 1, data.place)
        x = vector_at(data.x[first + j], ends[n], data.like)
        places = vector_at(data.places[first + j], ends[n], data.place)
        t = matrix_at(data.t[first + j], n, c, data.like)
        total = 0.0
        for i in range(n):
            _forward(x[ends[i] : ends[i + 1]], places[ends[i] : ends[i + 1]], W, a)
            total += value(kind, a, t[i], o[:0], o)
        out[j] = data.factor[first + j] * total
