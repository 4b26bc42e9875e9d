"""Where kernels that Numba has compiled are kept: in the user's cache, compiled once a machine.

Their folder is named by a hash of all sources that are compiled into them: Numba's own check looks
at the file of the kernel alone, and would reuse it after a change of a function that it calls.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from fedsim.problems.partition import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel_folder(sources: Iterable[Path]) -> str:
    """Return the folder of the kernels that are compiled from some sources."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    base = Path(numba.config.CACHE_DIR or cache_folder() / "kernels")
    return str(base / digest[:16])


def cached_kernel(function: Function, folder: str, **options: Any) -> Function:
    """Return a kernel, compiled on its first call for the types of its arguments.

    Args:
        function: to compile.
        folder: see `kernel_folder`.
        options: of `numba.njit`.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = folder  # Numba reads it when it wraps the function
    try:
        return cast("Function", numba.njit(cache=True, **options)(function))
    finally:
        numba.config.CACHE_DIR = before
