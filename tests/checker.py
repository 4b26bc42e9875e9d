"""The cache of the type checker, which several tests share."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT


@contextmanager
def cache_of_mypy() -> Iterator[Path]:
    """Hold the project's cache of mypy, and return its folder.

    Most of a first run is what libraries have. A second one takes that from the cache; beside the
    first it would find out the same.
    """
    folder = ROOT / ".mypy_cache"
    folder.mkdir(exist_ok=True)
    with (folder / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
