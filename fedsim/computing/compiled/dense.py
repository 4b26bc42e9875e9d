"""Gradients, gradient steps and values of many clients, with dense rows."""

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.blocks import backward, forward
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
def _sum_up(
    X: Array,
    t: Array,
    drawn: NDArray[np.int64],
    kind: int,
    W: Array,
    head: Array,
    G: Array,
    to_head: Array,
    A: Array,
    o: Array,
) -> None:
    """Set G, shape (m, d), and `to_head` to the gradient of the sum over rows; all, if none drawn.

    The rows go by four; where fewer are left the last one fills up, with slopes of zero.
    """
    G[:] = 0
    to_head[:] = 0
    count = len(drawn) or len(X)
    row = np.empty(4, np.int64)
    for i in range(0, count, 4):
        left = min(4, count - i)
        for r in range(4):
            place = i + min(r, left - 1)
            row[r] = drawn[place] if len(drawn) else place
            if row[r] < 0:
                row[r] += len(X)
        x0, x1, x2, x3 = X[row[0]], X[row[1]], X[row[2]], X[row[3]]
        forward(x0, x1, x2, x3, W, A)
        A[left:] = 0
        for r in range(left):
            slopes(kind, A[r], t[row[r]], head, to_head, o)
        backward(x0, x1, x2, x3, A, G)


@part
def _load(w: Array, V: Array) -> None:
    """Set V, shape (m, d), to the transpose of the matrix (d, m) that `w` begins with."""
    m, d = V.shape
    for k in range(d):
        for c in range(m):
            V[c, k] = w[k * m + c]


@part
def _unload(V: Array, out: Array) -> None:
    """Set the beginning of `out` to the transpose of V, row by row."""
    m, d = V.shape
    for k in range(d):
        for c in range(m):
            out[k * m + c] = V[c, k]


@kernel
def run(form: Form, data: Data, items: Items) -> int:
    """Evaluate pieces of work, each by itself; return the first that names a row that is none.

    All rows that are drawn are there where -1 is returned.
    """
    kind, d, m, c, size, l1, l2 = form
    start, V = np.empty(size), np.empty(size)
    single = np.empty(size, data.like.dtype)
    G = np.empty(size, data.like.dtype)
    A, o = np.empty((4, m), data.like.dtype), np.empty(c, data.like.dtype)
    for j in range(len(items.client)):
        i, b = items.client[j], items.batch[j]
        n = data.rows[i]
        X = matrix_at(data.x[i], n, d, data.like)
        t = matrix_at(data.t[i], n, c, data.like)
        w = vector_at(items.model[j], size, V)
        _load(w, start[: m * d].reshape(m, d))
        copy(w[m * d :], start[m * d :])
        copy(start, V)
        scale = data.factor[i] * (n / b) if b else data.factor[i]
        for s in range(max(items.steps[j], 1)):
            drawn = vector_at(items.drawn[j] + 8 * s * b, b, items.client)
            if not rows_are_there(drawn, n):
                return j
            copy(V, single)
            _sum_up(
                X,
                t,
                drawn,
                kind,
                single[: m * d].reshape(m, d),
                single[m * d :],
                G[: m * d].reshape(m, d),
                G[m * d :],
                A,
                o,
            )
            if items.steps[j]:
                move(V, start, G, scale, l1, l2, items.eta[j], items.pull[j])
            else:
                differentiate(V, G, scale, l1, l2)
        _unload(V[: m * d].reshape(m, d), items.out[j])
        copy(V[m * d :], items.out[j, m * d :])
    return -1


@kernel
def values(form: Form, data: Data, first: int, w: Array, out: Array) -> None:
    """Set `out` to f_m(w) of the clients from `first` on, without their penalties."""
    kind, d, m, c, size, _, _ = form
    single = np.empty(size, data.like.dtype)
    W = single[: m * d].reshape(m, d)
    _load(w, W)
    copy(w[m * d :], single[m * d :])
    A, o = np.empty((4, m), data.like.dtype), np.empty(c, data.like.dtype)
    for j in range(len(out)):
        n = data.rows[first + j]
        X = matrix_at(data.x[first + j], n, d, data.like)
        t = matrix_at(data.t[first + j], n, c, data.like)
        total = 0.0
        for i in range(0, n, 4):
            last = n - 1
            forward(X[i], X[min(i + 1, last)], X[min(i + 2, last)], X[min(i + 3, last)], W, A)
            for r in range(min(4, n - i)):
                total += value(kind, A[r], t[i + r], single[m * d :], o)
        out[j] = data.factor[first + j] * total
