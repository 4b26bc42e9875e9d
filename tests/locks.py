"""What processes of a test run do one at a time."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

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
    first it would find out the same. Tests that ask for it are marked `first`, the longest before
    the others, so one process does them in turn and none waits.
    """
    folder = ROOT / ".mypy_cache"
    folder.mkdir(exist_ok=True)
    with locked(folder / "tests.lock"):
        yield folder


@contextmanager
def copy_of_mypys_cache() -> Iterator[Path]:
    """Return a copy of that cache, for a run that finds the same modules in other places."""
    with TemporaryDirectory() as folder:
        with cache_of_mypy() as known:
            shutil.copytree(known, folder, dirs_exist_ok=True)
        yield Path(folder)
