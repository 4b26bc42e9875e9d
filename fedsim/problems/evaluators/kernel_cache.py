"""The cache of kernels that Numba has compiled, in the user's cache folder.

A kernel's folder is named after a hash of all sources that are compiled into it. Numba's own check
looks at the file of the kernel alone, and would reuse a kernel after a change of a function that it
calls. The location of the sources does not matter: checkouts and environments with the same sources
share kernels.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import UserProvidedCacheLocator

from fedsim.problems.partition import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


class KernelLocator(UserProvidedCacheLocator):  # type: ignore[misc]  # Numba's classes have no types
    """Locates the cache of a kernel by the contents of its sources, not by their location."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the name of a file's package, which is its folder below the common one."""
        return Path(py_file).parent.name

    def get_source_stamp(self) -> str:
        """Return a constant, as the name of the folder has the hash of all sources."""
        return ""


_LOCATOR = f"{__name__}.{KernelLocator.__name__}"


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
        options: the options of `numba.njit`.
    """
    settings = {"CACHE_DIR": folder, "CACHE_LOCATOR_CLASSES": _LOCATOR}
    before = {name: getattr(numba.config, name, "") for name in settings}
    vars(numba.config).update(settings)  # Numba reads them when it wraps the function
    try:
        return cast("Function", numba.njit(cache=True, **options)(function))
    finally:
        vars(numba.config).update(before)
