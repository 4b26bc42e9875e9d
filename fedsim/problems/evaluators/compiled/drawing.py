"""Minibatches exactly as NumPy draws them, from the same random bits, without the cost of its call.

`Generator.choice` takes 9 us for a handful of numbers, nearly all of it for parsing its arguments.
Without replacement and without shuffling it draws Floyd's sample (Bentley, Floyd, "Programming
Pearls: A Sample of Brilliance", CACM 1987), with bounded integers by Lemire's method ("Fast Random
Integer Generation in an Interval", TOMACS 2019). Both are repeated here step by step: drawn
numbers, and the state of the stream afterwards, have to equal those of the serial evaluator. NumPy
does not guarantee its algorithm, so `agrees` compares the two once per process.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedsim.problems.evaluators.compiled.compiler import kernel, part, vector_at
from fedsim.problems.evaluators.compiled.rows import Whole
from fedsim.problems.samples import draw_minibatches as reference

MOST = 10_000
"""The number of rows above which NumPy uses another algorithm."""

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = ctypes.py_object, ctypes.c_char_p

_ADDRESSES = np.zeros(0, np.int64)
"""The type of the interface of a bit generator (`numpy/random/bitgen.h`), read as addresses: of its
state, and of the functions that return the next 64 bits and the next 32 bits."""


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _call(_: Any, function: Any, state: Any) -> Any:
    """Call the function at an address with the state at another; return its 32 bits."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
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
    # Lemire: the high half of bits * end is uniform below `end`, if the low half is not among the
    # few values that would bias it.
    product = np.uint64(_call(function, state)) * np.uint64(end)
    low = product & np.uint64(0xFFFFFFFF)
    if low < np.uint64(end):
        threshold = np.uint64((0x100000000 - end) % end)
        while low < threshold:
            product = np.uint64(_call(function, state)) * np.uint64(end)
            low = product & np.uint64(0xFFFFFFFF)
    return np.int64(product >> np.uint64(32))  # type: ignore[return-value]  # compiled


@part
def sample(bits: int, place: Whole, taken: Whole, mark: int) -> None:
    """Set `taken` to a sample, without replacement, of the numbers below the length of `place`.

    Args:
        bits: the address of the bit generator's interface.
        place: by number, the mark of the last sample that contains it; updated.
        taken: receives the sample.
        mark: the mark of this sample, different from those of earlier ones.
    """
    interface = vector_at(bits, 3, _ADDRESSES)
    # The generator returns 32 bits from the same buffer as NumPy: half of a 64-bit number.
    state, function = interface[0], interface[2]
    for i in range(len(taken)):
        largest = len(place) - len(taken) + i
        # Floyd: a number that is taken already is replaced by the largest one, which cannot be.
        number = _below(function, state, largest + 1)
        if place[number] == mark:
            number = largest
        place[number] = mark
        taken[i] = number


@kernel
def _fill(bits: int, rows: int, taken: NDArray[np.intp]) -> None:
    """Set each row of `taken` to a sample, without replacement, of the numbers below `rows`."""
    place = np.full(rows, -1)
    for s in range(taken.shape[0]):
        sample(bits, place, taken[s], s)


def draw_minibatches(
    rng: np.random.Generator, rows: int, batch: int, count: int
) -> NDArray[np.intp]:
    """See `fedsim.problems.samples.draw_minibatches`: same draws, same stream after it."""
    if rows > MOST or not agrees():
        return reference(rng, rows, batch, count)
    taken = np.empty((count, batch), np.intp)
    _fill(interface_of(rng), rows, taken)
    return taken


def interface_of(rng: np.random.Generator) -> int:
    """Return the address of the interface of a stream's bit generator; it lives as long as that."""
    return int(_pointer_of(rng.bit_generator.capsule, b"BitGenerator"))


@cache
def agrees() -> bool:
    """Return whether NumPy's draws agree with those of `_fill`; if not, NumPy is called."""
    tested, expected = (np.random.default_rng(7) for _ in range(2))
    # 9 of 23 rows: numbers repeat, so that replacements are tested, too.
    taken = np.empty((4, 9), np.intp)
    _fill(interface_of(tested), 23, taken)
    same = np.array_equal(taken, reference(expected, 23, 9, 4))
    return same and tested.random() == expected.random()
