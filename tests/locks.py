"""What processes of a test run do one at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds a file, and hold it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def cache_of_mypy() -> Iterator[Path]:
    """Hold the project's cache of mypy, and return its folder.

    Most of a first run is what libraries have. A second one takes that from the cache; beside the
    first it would find out the same.
    """
    folder = ROOT / ".mypy_cache"
    folder.mkdir(exist_ok=True)
    with locked(folder / "tests.lock"):
        yield folder
