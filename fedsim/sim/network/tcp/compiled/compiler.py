"""How the kernels of TCP are compiled: to the operations that Python does, in its order.

Unlike kernels of gradients they may not reorder anything, for their times must be those of the
classes to the last bit. They are stored in the user's cache, in a folder named by a hash of their
sources, and of those of the classes, whose constants are compiled into them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedsim.computing.kernel_cache import Function, cached_kernel, kernel_folder
from fedsim.sim.network.tcp.compiled.kinds import Integers, Reals

_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}
_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _sources() -> list[Path]:
    here = Path(__file__).parent
    return [*sorted(here.glob("*.py")), *sorted(here.parent.glob("*.py"))]


def part(function: Function) -> Function:
    """Return a function that is compiled where a kernel calls it."""
    return cast("Function", numba.njit(**_OPTIONS, **_PART)(function))


def inlined(function: Function) -> Function:
    """Return a function that becomes part of each that calls it: what most events need.

    A call of a small function takes longer than what it does.
    """
    return cast("Function", numba.njit(forceinline=True, **_OPTIONS, **_PART)(function))


def piece(function: Function) -> Function:
    """Return a function that becomes a piece of the only one that calls it.

    A function that calls most others costs as much to compile as the kernel.
    """
    return cast("Function", numba.njit(inline="always", **_OPTIONS, **_PART)(function))


def kernel(function: Function) -> Function:
    """Return a kernel, which is compiled on its first call for the types of its arguments."""
    return cached_kernel(function, kernel_folder(_sources()), **_OPTIONS)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _integers_at(_: Any, address: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    return types.CPointer(types.int64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _reals_at(_: Any, address: Any) -> Any:  # noqa: ANN401
    return types.CPointer(types.float64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _fetch(_: Any, address: Any) -> Any:  # noqa: ANN401
    return types.void(address), _prefetch


def _prefetch(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
    """Let a line of memory be taken into the processor's cache, without waiting for it."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    numbers = [ir.Constant(number, each) for each in (1, 3, 1)]  # to write, to keep, data
    builder.call(call, [builder.inttoptr(arguments[0], pointer), *numbers])


def _point(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
    """Let an integer address be a pointer, whose numbers are read and written without any check.

    An array is handed to a function as seven numbers, is counted, and may have negative indices:
    with arrays kernels take a third longer to compile, and 1.8 times as long to run.
    """
    pointer: ir.Type = context.get_value_type(signature.return_type)
    return builder.inttoptr(arguments[0], pointer)


integers_at = cast("Callable[[int], Integers]", _integers_at)
"""Returns the 64-bit words at an address, as integers."""

prefetch = cast("Callable[[int], None]", _fetch)
"""Lets a line at an address be taken into the processor's cache, ahead of its use."""

reals_at = cast("Callable[[int], Reals]", _reals_at)
"""Returns the 64-bit words at an address, as doubles."""
