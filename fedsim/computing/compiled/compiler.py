"""The compiler of kernels: Numba, where it is installed.

Kernels are compiled once a machine and kept in the user's cache, in a folder that is named by a
hash of their sources, so that no change of one of them finds what was compiled before it. They
run without Python's global lock, so threads run them at once.
"""

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from fedsim.problems.partition import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILER = f"numba {version('numba')}"
"""What compiles, for manifests: another one may round differently."""

_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
"""Sums may run in any order that is fixed when they are compiled, so that they are vectorised."""


def _cache() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    base = Path(numba.config.CACHE_DIR or cache_folder() / "kernels")
    return str(base / digest[:16])


def kernel(function: Function) -> Function:
    """Return a function compiled for the types that it is called with, when it first is."""
    return _compile(function, nogil=True)


def brief(function: Function) -> Function:
    """Return a function compiled alike that keeps the lock: it takes no longer than to let go."""
    return _compile(function, nogil=False)


def _compile(function: Function, *, nogil: bool) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER  # read when the function is wrapped
    try:
        return cast("Function", numba.njit(cache=True, nogil=nogil, **_OPTIONS)(function))
    finally:
        numba.config.CACHE_DIR = before


def part(function: Function) -> Function:
    """Return a function that is compiled into those that call it.

    Left as functions of their own, parts would be compiled once more for each caller, and which
    of their copies is taken would depend on what else is loaded; they may differ in last bits.
    """
    return cast("Function", numba.njit(forceinline=True, **_OPTIONS)(function))


def either(dense: Function, sparse: Function) -> Function:
    """Return what is compiled as one of two parts: the first where its first argument is a matrix.

    Dense rows are a matrix, sparse ones a tuple of vectors.
    """

    def named(*_: Any) -> Any:  # noqa: ANN401 - whatever the parts take and return
        raise NotImplementedError("it is called by compiled code only")

    def choose(first: Any, *_: Any) -> Any:  # noqa: ANN401 - types of Numba
        chosen: Any = dense if getattr(first, "ndim", 1) == 2 else sparse
        return chosen.py_func

    overload(named, strict=False, jit_options={"forceinline": True, **_OPTIONS})(choose)
    return cast("Function", named)


_FOLDER = _cache()


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types for it
def _pointer(_: Any, address: Any) -> Any:  # noqa: ANN401 - what Numba hands over
    """Return a pointer of an address that is an integer."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@part
def matrix_at(address: int, rows: int, columns: int, like: Any) -> Any:  # noqa: ANN401
    """Return the array (rows, columns) at an address, C-contiguous, of the type that `like` has."""
    return numba.carray(_pointer(address), (rows, columns), like.dtype)


@part
def vector_at(address: int, length: int, like: Any) -> Any:  # noqa: ANN401
    """Return the array (length,) at an address, of the type that `like` has."""
    return numba.carray(_pointer(address), (length,), like.dtype)
