"""The loops over pieces of work and over clients, of dense rows as of sparse ones.

What differs between those is chosen when a loop is compiled. Both take a model w and give a
gradient flat, in the order that suits them, and have room for the products of four rows, A of
shape (4, m), and for a perceptron's outputs, `o` of shape (c,).
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedsim.computing.compiled import dense, sparse
from fedsim.computing.compiled.compiler import either, kernel, matrix_at, part, vector_at
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
from fedsim.computing.compiled.rows import (
    Data,
    LossSpecification,
    copy,
    differentiate,
    move,
    rows_are_there,
)
from fedsim.ports import Array
from fedsim.problems.samples import draw_minibatches as reference

_rows = either(dense.rows_of, sparse.rows_of)
_load = either(dense.load, sparse.load)
_unload = either(dense.unload, sparse.unload)
_sum_up = either(dense.sum_up, sparse.sum_up)
_total = either(dense.total, sparse.total)


@part
def _piece(
    form: LossSpecification,
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
    form: LossSpecification,
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
def values(form: LossSpecification, data: Data, first: int, w: Array, out: Array) -> None:
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


# Minibatches as NumPy draws them, from the same bits, without what its call costs.
#
# `Generator.choice` takes 9 us for a handful of numbers, nearly all of it to read its arguments.
# What it draws without replacement and without shuffling is Floyd's sample (Bentley, Floyd,
# "Programming Pearls: A Sample of Brilliance", CACM 1987), of numbers within bounds by Lemire's
# method ("Fast Random Integer Generation in an Interval", TOMACS 2019).

MOST = 10_000
"""Of more rows than that NumPy may draw in another way."""

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = ctypes.py_object, ctypes.c_char_p

_ADDRESSES = np.zeros(0, np.int64)
"""What a bit generator's interface (`numpy/random/bitgen.h`) is read as: addresses.

Of its state, and of what returns the next 64 bits and the next 32.
"""


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _call(_: Any, function: Any, state: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    """Return the 32 bits that the function at an address returns for the state at another."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [pointer])
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(called, [builder.inttoptr(arguments[1], pointer)])

    return types.uint32(function, state), generate


@part
def _below(function: int, state: int, end: int) -> int:
    """Return a number from 0 to before `end`, which is at most 2^32 - 1."""
    if end == 1:
        return 0
    product = np.uint64(_call(function, state)) * np.uint64(end)
    low = product & np.uint64(0xFFFFFFFF)
    if low < np.uint64(end):
        threshold = np.uint64((0x100000000 - end) % end)
        while low < threshold:
            product = np.uint64(_call(function, state)) * np.uint64(end)
            low = product & np.uint64(0xFFFFFFFF)
    return np.int64(product >> np.uint64(32))  # type: ignore[return-value]  # compiled


@kernel
def _fill(bits: int, rows: int, taken: NDArray[np.intp]) -> None:
    """Set each row of `taken` to a sample of the numbers below `rows`."""
    interface = vector_at(bits, 3, _ADDRESSES)
    state, function = interface[0], interface[2]
    place = np.full(rows, -1)  # the last sample that has each
    for s in range(taken.shape[0]):
        batch = taken.shape[1]
        for i in range(batch):
            largest = rows - batch + i
            number = _below(function, state, largest + 1)
            if place[number] == s:
                number = largest
            place[number] = s
            taken[s, i] = number


def draw_minibatches(
    rng: np.random.Generator, rows: int, batch: int, count: int
) -> NDArray[np.intp]:
    """As `fedsim.problems.samples.draw_minibatches`: the same numbers, the same stream after it."""
    if rows > MOST or not _agrees():
        return reference(rng, rows, batch, count)
    taken = np.empty((count, batch), np.intp)
    _fill(_pointer_of(rng.bit_generator.capsule, b"BitGenerator"), rows, taken)
    return taken


@cache
def _agrees() -> bool:
    """Return whether NumPy draws as it did when this was written: streams go before speed."""
    own, other = (np.random.default_rng(7) for _ in range(2))
    taken = np.empty((4, 9), np.intp)
    _fill(_pointer_of(own.bit_generator.capsule, b"BitGenerator"), 23, taken)
    same = np.array_equal(taken, reference(other, 23, 9, 4))
    return same and own.random() == other.random()
