"""Compilation of event kernels: compiled code performs the operations of Python, in their order.

Unlike gradient kernels they may not reorder operations, since their times have to equal those of
the classes to the last bit. Compiled kernels are stored in the user's cache, in a folder named
after a hash of their sources and of the sources of the classes, whose constants are compiled in.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite import ir
from numba.extending import intrinsic, overload, register_jitable

from fedsim.core import laws
from fedsim.problems.evaluators.kernel_cache import Function, cached_kernel, kernel_folder

# Fast-math would reassociate sums. NumPy's error model divides by zero without an exception, which
# the kernels could not pass to Python.
OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}
PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def part(function: Function) -> Function:
    """Return a function that is compiled where a kernel calls it."""
    return cast("Function", numba.njit(**OPTIONS, **PART)(function))


def inline(function: Function) -> Function:
    """Return a function that is inlined into all its callers, for steps of most events.

    A call of a small function takes longer than its body.
    """
    return cast("Function", numba.njit(forceinline=True, **OPTIONS, **PART)(function))


def piece(function: Function) -> Function:
    """Return a function that is inlined into its only caller.

    A function that calls most others would cost as much to compile as the kernel.
    """
    return cast("Function", numba.njit(inline="always", **OPTIONS, **PART)(function))


def stored_by(sources: Iterable[Path]) -> Callable[[Function], Function]:
    """Return a decorator of kernels, which are compiled on the first call for given types.

    Args:
        sources: what a stored kernel depends on.
    """
    folder = kernel_folder([*sources, Path(__file__), Path(laws.__file__)])

    def kernel(function: Function) -> Function:
        return cached_kernel(function, folder, **OPTIONS)

    return kernel


_registered = set[Callable[..., Any]]()


def register_laws() -> None:
    """Let kernels call all laws that are marked so far."""
    for function, inlined in laws.LAWS.items():
        if function not in _registered:
            register_jitable(forceinline=inlined, **OPTIONS, **PART)(function)
            _registered.add(function)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _opaque(_: Any, number: Any) -> Any:
    return numba.float64(number), _hide


def _hide(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    """Emit an empty instruction whose result, its operand, no optimiser knows."""
    word = ir.IntType(64)
    kind = ir.FunctionType(word, [word])
    hidden = builder.asm(kind, "", "=r,0", [builder.bitcast(arguments[0], word)], False)
    return builder.bitcast(hidden, ir.DoubleType())


@overload(laws.power, jit_options=OPTIONS, strict=False)  # type: ignore[untyped-decorator]
def _power(base: Any, exponent: Any) -> Any:  # noqa: ARG001 - types, of which there is one choice
    # A compiler that knows an exponent replaces the power by products, which round otherwise.
    return lambda base, exponent: base ** _opaque(exponent)
