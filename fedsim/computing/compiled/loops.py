"""The loops over pieces of work and over clients, for dense and sparse rows.

The functions that differ between the two (`dense`, `sparse`) are chosen at compile time. Both take
the model w and the gradient as flat vectors in an order of their own, and two buffers: A, shape
(4, m), for the products of four rows, and `o`, shape (c,), for the outputs of a perceptron.
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
    fields: Whole,
    numbers: Array,
    parts: Any,  # noqa: ANN401 - buffers
) -> bool:
    """Evaluate a piece of work; return whether all drawn rows exist."""
    kind, d, m, c, size, l1, l2 = form
    start, V, single, G, A, o = parts
    i, b, steps = fields[CLIENT], fields[BATCH], fields[STEPS]
    n = data.rows[i]
    rows, t = _rows(data.places, data, i, d), matrix_at(data.t[i], n, c, data.like)
    scale = data.factor[i] * (n / b) if b else data.factor[i]
    # The gradient is evaluated at the old model first, if there is one, and then at the model; the
    # difference is taken at the end. V is the model in double precision and becomes the result; the
    # rows are multiplied with `single`, its copy in the precision of the samples.
    for of in (OLD, MODEL):
        if fields[of] == 0:
            continue
        if of == MODEL and fields[OLD] != 0:
            copy(V, start)  # the gradient at the old model
        _load(rows, vector_at(fields[of], size, V), V, d, m)
        if steps:
            copy(V, start)
        for s in range(max(steps, 1)):
            drawn = vector_at(fields[DRAWN] + 8 * s * b, b, fields)
            if not rows_are_there(drawn, n):
                return False
            copy(V, single)
            _sum_up(rows, t, drawn, kind, d, m, single, G, A, o)
            if steps:
                move(V, start, G, scale, l1, l2, numbers[ETA], numbers[PULL])
            else:
                differentiate(V, G, scale, l1, l2)
    if fields[OLD] != 0:
        for k in range(size):
            V[k] -= start[k]
    _unload(rows, V, vector_at(fields[OUT], size, V), d, m)
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
    """Evaluate pending pieces of a page, each by itself; return their number.

    Args:
        form: the specification of the losses.
        data: the samples of the clients.
        table: see `Page`.
        numbers: see `Page`.
        marks: see `Page`.
        room: a buffer of the length of two models.
        narrow: a buffer of the samples' type, of the length of two models, A and `o`.
        only: the place of a single piece to evaluate if it is pending; below 0 for all, in order.
        most: the largest number of pieces.
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
    """Set `out` to f_m(w) of the clients from `first` on, without penalties."""
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


# Minibatches exactly as NumPy draws them, from the same random bits, without the cost of its call.
#
# `Generator.choice` takes 9 us for a handful of numbers, nearly all of it to parse its arguments.
# Without replacement and without shuffling it draws Floyd's sample (Bentley, Floyd, "Programming
# Pearls: A Sample of Brilliance", CACM 1987), with bounded integers by Lemire's method ("Fast
# Random Integer Generation in an Interval", TOMACS 2019). Both are repeated here, step by step: the
# drawn numbers, and the state of the stream afterwards, must be those of the serial evaluator.
# NumPy does not guarantee its algorithm, so `_agrees` compares the two once in each process.

MOST = 10_000
"""The number of rows above which NumPy uses another algorithm."""

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = ctypes.py_object, ctypes.c_char_p

_ADDRESSES = np.zeros(0, np.int64)
"""The type of the interface of a bit generator (`numpy/random/bitgen.h`), read as addresses: of its
state, and of the functions that return the next 64 bits and the next 32 bits."""


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _call(_: Any, function: Any, state: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    """Call the function at an address with the state at another; return its 32 bits."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [pointer])
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(called, [builder.inttoptr(arguments[1], pointer)])

    return types.uint32(function, state), generate


@part
def _below(function: int, state: int, end: int) -> int:
    """Return a random number from 0 to `end` - 1; `end` is at most 2^32 - 1."""
    if end == 1:  # NumPy draws no bits for a single choice
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
    """Set each row of `taken` to a sample, without replacement, of the numbers below `rows`."""
    interface = vector_at(bits, 3, _ADDRESSES)
    state, function = interface[0], interface[2]
    place = np.full(rows, -1)  # the last sample with each number
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
    """See `fedsim.problems.samples.draw_minibatches`: same draws, same stream after it."""
    if rows > MOST or not _agrees():
        return reference(rng, rows, batch, count)
    taken = np.empty((count, batch), np.intp)
    _fill(_pointer_of(rng.bit_generator.capsule, b"BitGenerator"), rows, taken)
    return taken


@cache
def _agrees() -> bool:
    """Return whether NumPy's draws agree with those of `_fill`; if not, NumPy is called."""
    own, other = (np.random.default_rng(7) for _ in range(2))
    taken = np.empty((4, 9), np.intp)
    _fill(_pointer_of(own.bit_generator.capsule, b"BitGenerator"), 23, taken)
    same = np.array_equal(taken, reference(other, 23, 9, 4))
    return same and own.random() == other.random()
