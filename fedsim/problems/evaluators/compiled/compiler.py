"""Compiler of kernels: Numba.

Kernels are compiled once per machine, from all sources of this package; see
`fedsim.problems.evaluators.kernel_cache`. They release Python's global lock, so threads run them in
parallel.
"""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from fedsim.problems.evaluators.kernel_cache import Function, cached_kernel, kernel_folder

COMPILER = f"numba {version('numba')}"
"""The compiler and its version, for manifests: another version may round differently."""

_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
"""Options of all kernels. They allow reordering of sums, which vectorisation needs: the order is
fixed at compile time, so it is the same for every call. NaN and infinity keep their meaning."""


_FOLDER = kernel_folder(sorted(Path(__file__).parent.glob("*.py")))


def kernel(function: Function) -> Function:
    """Return a kernel, which is compiled on its first call for the types of its arguments."""
    return _compile(function, nogil=True)


def exact(function: Function) -> Function:
    """Return a `kernel` that rounds each product and sum by itself, in the written order.

    NumPy does the same, so that results agree bit for bit.
    """
    return _compile(function, nogil=True, fastmath=False)


def brief(function: Function) -> Function:
    """Return a kernel that keeps Python's lock: for calls too short for releasing it."""
    return _compile(function, nogil=False)


def _compile(function: Function, **options: Any) -> Function:
    return cached_kernel(function, _FOLDER, **{**_OPTIONS, **options})


def part(function: Function) -> Function:
    """Return a function that is inlined into its callers.

    As separate functions, parts would be compiled again for each caller, and the linker would
    choose among the copies depending on what else is loaded; the copies may differ in last bits.
    """
    return cast("Function", numba.njit(forceinline=True, **_OPTIONS)(function))


def in_order(function: Function) -> Function:
    """Return a `part` whose sums are taken in the order in which they are written."""
    options = {**_OPTIONS, "fastmath": _OPTIONS["fastmath"] - {"reassoc"}}
    return cast("Function", numba.njit(forceinline=True, **options)(function))


def rounded(function: Function) -> Function:
    """Return a `part` whose products and sums are rounded one by one: see `exact`."""
    return cast(
        "Function", numba.njit(forceinline=True, **{**_OPTIONS, "fastmath": False})(function)
    )


def either(rows: Function, columns: Function, sparse: Function | None = None) -> Function:
    """Return a function that is compiled as the one for the type of its first argument.

    Dense rows are a matrix; those that are stored by columns a tuple of one; sparse ones, or the
    addresses of their parts, are neither. The choice is made at compile time.

    Args:
        rows: for dense rows.
        columns: for those that are stored by columns.
        sparse: for sparse rows, unless they are no case.
    """

    def named(*_: Any) -> Any:
        raise NotImplementedError("only compiled code can call this function")

    def choose(first: Any, *_: Any) -> Any:
        matrix = getattr(first, "ndim", 1) == 2
        single = isinstance(first, types.BaseTuple) and len(first) == 1
        # The Python function, not the compiled one: it is inlined with the options below.
        chosen: Any = rows if matrix else columns if single else sparse
        return chosen.py_func

    overload(named, strict=False, jit_options={"forceinline": True, **_OPTIONS})(choose)
    return cast("Function", named)


def as_single(V: Any, single: Any) -> Any:
    """Return V, if `single` is of its type; else `single`, which becomes a copy of it.

    The choice is made at compile time.
    """
    raise NotImplementedError("only compiled code can call this function")


@overload(as_single, strict=False, jit_options={"forceinline": True, **_OPTIONS})  # type: ignore[untyped-decorator]
def _choose_operand(V: Any, single: Any) -> Any:
    def same(V: Any, single: Any) -> Any:
        return V

    def copied(V: Any, single: Any) -> Any:
        for k in range(len(V)):
            single[k] = V[k]
        return single

    return same if V.dtype == single.dtype else copied


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _pointer(_: Any, address: Any) -> Any:
    """Return an integer address as a pointer."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def _multiply_add(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


multiply_add = cast("Callable[[float, float, float], float]", _multiply_add)
"""Returns a b + c, rounded once, wherever it is inlined; elsewhere it is the compiler that chooses
which of several products and sums are rounded together."""


@part
def matrix_at(address: int, rows: int, columns: int, like: Any) -> Any:
    """Return the C-contiguous array (rows, columns) at an address, of the type of `like`."""
    return numba.carray(_pointer(address), (rows, columns), like.dtype)


@part
def vector_at(address: int, length: int, like: Any) -> Any:
    """Return the array (length,) at an address, of the type of `like`."""
    return numba.carray(_pointer(address), (length,), like.dtype)


@part
def lent(array: Any) -> Any:
    """Return an array on the memory of another one, whose owner keeps it until the kernel ends.

    Numba counts references to memory that it owns, with an atomic instruction whenever a row is
    taken. That takes ten times as long as the arithmetic of a short row.
    """
    return numba.carray(_pointer(array.ctypes.data), array.shape, array.dtype)


@part
def single_at(address: int, length: int) -> Any:
    """Return the array (length,) of float32 at an address."""
    return numba.carray(_pointer(address), (length,), np.float32)
