"""Minibatches as NumPy draws them, from the same bits, without what its call costs.

`Generator.choice` takes 9 us for a handful of numbers, nearly all of it to read its arguments.
What it draws without replacement and without shuffling is Floyd's sample (Bentley, Floyd,
"Programming Pearls: A Sample of Brilliance", CACM 1987), of numbers within bounds by Lemire's
method ("Fast Random Integer Generation in an Interval", TOMACS 2019).
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import kernel, part, vector_at
from fedsim.problems.minibatches import drawn as reference

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


def drawn(rng: np.random.Generator, rows: int, batch: int, count: int) -> NDArray[np.intp]:
    """See `fedsim.problems.minibatches.drawn`: the same numbers, the stream left in one state."""
    if rows > MOST or not _agrees():
        return reference(rng, rows, batch, count)
    taken = np.empty((count, batch), np.intp)
    _fill(_pointer_of(rng.bit_generator.capsule, b"BitGenerator"), rows, taken)
    return taken


@cache
def _agrees() -> bool:
    """Say whether NumPy draws as it did when this was written: streams go before speed."""
    own, other = (np.random.default_rng(7) for _ in range(2))
    taken = np.empty((4, 9), np.intp)
    _fill(_pointer_of(own.bit_generator.capsule, b"BitGenerator"), 23, taken)
    same = np.array_equal(taken, reference(other, 23, 9, 4))
    return same and own.random() == other.random()
