"""Compilation of the TCP kernels, and unchecked access to their buffer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from fedsim.addons.tcp.compiled import interpreted
from fedsim.addons.tcp.compiled.kinds import Integers, Reals
from fedsim.sim.kernels import inline, part, piece, stored_by
from fedsim.sim.network import link_share

__all__ = ["inline", "kernel", "part", "piece"]

_HERE = Path(__file__).parent
_SOURCES = [*sorted(_HERE.glob("*.py")), *sorted(_HERE.parent.glob("*.py"))]
kernel = stored_by([*_SOURCES, Path(link_share.__file__)])


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _integers_at(_: Any, address: Any) -> Any:
    return types.CPointer(types.int64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _reals_at(_: Any, address: Any) -> Any:
    return types.CPointer(types.float64)(address), _point


@intrinsic  # type: ignore[untyped-decorator]
def _fetch(_: Any, address: Any) -> Any:
    return types.void(address), _prefetch


def _prefetch(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    """Emit a prefetch of a cache line, which does not wait for the memory."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    numbers = [
        ir.Constant(number, value) for value in (1, 3, 1)
    ]  # for writing, keep in cache, data
    builder.call(call, [builder.inttoptr(arguments[0], pointer), *numbers])


def _point(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Emit a pointer from an integer address; its elements are accessed without any check.

    An array argument is seven numbers, reference-counted, and allows negative indices. With arrays,
    kernels take a third longer to compile and 1.8 times as long to run.
    """
    pointer: ir.Type = context.get_value_type(signature.return_type)
    return builder.inttoptr(arguments[0], pointer)


integers_at = cast("Callable[[int], Integers]", _integers_at)
"""Returns the 64-bit words at an address, as integers."""

prefetch = cast("Callable[[int], None]", _fetch)
"""Prefetches the cache line at an address."""

reals_at = cast("Callable[[int], Reals]", _reals_at)
"""Returns the 64-bit words at an address, as doubles."""

if config.DISABLE_JIT:
    integers_at, reals_at = interpreted.integers_at, interpreted.reals_at
    prefetch = interpreted.prefetch
