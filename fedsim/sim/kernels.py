"""Compilation of event kernels: compiled code performs the operations of Python, in their order.

Unlike gradient kernels they may not reorder operations, since their times have to equal those of
the classes to the last bit. Compiled kernels are stored in the user's cache, in a folder named
after a hash of their sources and of the sources of the classes, whose constants are compiled in.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import numba

from fedsim.problems.evaluators.kernel_cache import Function, cached_kernel, kernel_folder

# Fast-math would reassociate sums. NumPy's error model divides by zero without an exception, which
# the kernels could not pass to Python.
_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}
_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def part(function: Function) -> Function:
    """Return a function that is compiled where a kernel calls it."""
    return cast("Function", numba.njit(**_OPTIONS, **_PART)(function))


def inline(function: Function) -> Function:
    """Return a function that is inlined into all its callers, for steps of most events.

    A call of a small function takes longer than its body.
    """
    return cast("Function", numba.njit(forceinline=True, **_OPTIONS, **_PART)(function))


def piece(function: Function) -> Function:
    """Return a function that is inlined into its only caller.

    A function that calls most others would cost as much to compile as the kernel.
    """
    return cast("Function", numba.njit(inline="always", **_OPTIONS, **_PART)(function))


def stored_by(sources: Iterable[Path]) -> Callable[[Function], Function]:
    """Return a decorator of kernels, which are compiled on the first call for given types.

    Args:
        sources: what a stored kernel depends on.
    """
    folder = kernel_folder([*sources, Path(__file__)])

    def kernel(function: Function) -> Function:
        return cached_kernel(function, folder, **_OPTIONS)

    return kernel
