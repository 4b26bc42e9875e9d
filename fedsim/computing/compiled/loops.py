"""The loops over pieces of work and over clients, of dense rows as of sparse ones.

What differs between those is chosen when a loop is compiled. Both take a model w and give a
gradient flat, in the order that suits them, and have room for the products of four rows, A of
shape (4, m), and for a perceptron's outputs, `o` of shape (c,).
"""

from typing import Any

import numpy as np

from fedsim.computing.compiled import dense, sparse
from fedsim.computing.compiled.compiler import either, kernel, matrix_at, part, vector_at
from fedsim.computing.compiled.items import Data, Form, copy, differentiate, move, rows_are_there
from fedsim.computing.compiled.pages import (
    BATCH,
    CLIENT,
    DONE,
    DRAWN,
    ETA,
    MODEL,
    OLD,
    OUT,
    PULL,
    STEPS,
    WRONG,
    Whole,
    finish,
    take,
    take_next,
)
from fedsim.ports import Array

_rows = either(dense.rows_of, sparse.rows_of)
_load = either(dense.load, sparse.load)
_unload = either(dense.unload, sparse.unload)
_sum_up = either(dense.sum_up, sparse.sum_up)
_total = either(dense.total, sparse.total)


@part
def _piece(
    form: Form,
    data: Data,
    said: Whole,
    numbers: Array,
    parts: Any,  # noqa: ANN401 - vectors that may be overwritten
) -> bool:
    """Evaluate a piece of work; say whether all rows that are drawn are there."""
    kind, d, m, c, size, l1, l2 = form
    start, V, single, G, A, o = parts
    i, b, steps = said[CLIENT], said[BATCH], said[STEPS]
    n = data.rows[i]
    rows, t = _rows(data.places, data, i, d), matrix_at(data.t[i], n, c, data.like)
    scale = data.factor[i] * (n / b) if b else data.factor[i]
    for of in (OLD, MODEL):
        if said[of] == 0:
            continue
        if of == MODEL and said[OLD] != 0:
            copy(V, start)  # the gradient at the old model
        _load(rows, vector_at(said[of], size, V), V, d, m)
        if steps:
            copy(V, start)
        for s in range(max(steps, 1)):
            drawn = vector_at(said[DRAWN] + 8 * s * b, b, said)
            if not rows_are_there(drawn, n):
                return False
            copy(V, single)
            _sum_up(rows, t, drawn, kind, d, m, single, G, A, o)
            if steps:
                move(V, start, G, scale, l1, l2, numbers[ETA], numbers[PULL])
            else:
                differentiate(V, G, scale, l1, l2)
    if said[OLD] != 0:
        for k in range(size):
            V[k] -= start[k]
    _unload(rows, V, vector_at(said[OUT], size, V), d, m)
    return True


@kernel
def evaluate(
    form: Form,
    data: Data,
    table: Whole,
    numbers: Array,
    marks: int,
    room: Array,
    narrow: Array,
    only: int,
    most: int,
) -> int:
    """Evaluate pieces of a page that wait, each by itself, and return how many it were.

    Args:
        form: what the losses have in common.
        data: their samples.
        table: of the page, as the next two.
        numbers: likewise.
        marks: likewise.
        room: numbers that may be overwritten, as many as two models have.
        narrow: the same, of the samples' type; and as many as A and `o` have.
        only: the place of the one that is evaluated, if it waits; below 0 for any, in order.
        most: so many at most.
    """
    m, size = form.m, form.size
    A, o = narrow[2 * size : 2 * size + 4 * m].reshape(4, m), narrow[2 * size + 4 * m :]
    parts = room[:size], room[size:], narrow[:size], narrow[size : 2 * size], A, o
    for done in range(most):
        if only < 0:
            j = take_next(marks)
            if j < 0:
                return done
        else:
            j = only
            if not take(marks, j):
                return done
        right = _piece(form, data, table[j], numbers[j], parts)
        finish(marks, j, DONE if right else WRONG)
    return most


@kernel
def values(form: Form, data: Data, first: int, w: Array, out: Array) -> None:
    """Set `out` to f_m(w) of the clients from `first` on, without their penalties."""
    kind, d, m, c, size, _, _ = form
    single = np.empty(size, data.like.dtype)
    A, o = np.empty((4, m), data.like.dtype), np.empty(c, data.like.dtype)
    for j in range(len(out)):
        i = first + j
        rows = _rows(data.places, data, i, d)
        t = matrix_at(data.t[i], data.rows[i], c, data.like)
        if j == 0:
            _load(rows, w, single, d, m)
        out[j] = data.factor[i] * _total(rows, t, kind, d, m, single, A, o)
