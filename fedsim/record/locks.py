"""The lock of a folder, as the operating system keeps it, and who has it together with a process.

It belongs to an open file, and so to all processes that have that file from its opener: it is
free once the last of them has closed it, or has ended, however that came about.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from fedsim.record.writing import linked, unwritable

LOCK = ".lock"
"""The file that is locked, which is empty and stays."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
"""How the file is opened, which may be made: not where a link leads."""

_HELD: set[int] = set()
"""The descriptors by which this process holds locks."""


class FolderLock:
    """The lock of a folder, which is nobody's, or this process's.

    Args:
        folder: which is made where there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = -1

    def take(self, how: int) -> bool:
        """Take the lock, alone or with others, and say whether that can be done now.

        Raises:
            OutputError: the folder cannot be written, or nothing there can be locked.
        """
        try:
            if self._file < 0:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.folder / LOCK, _FLAGS, 0o644)
            fcntl.flock(self._file, how | fcntl.LOCK_NB)
            if not os.fstat(self._file).st_nlink:  # who had it before has retreated
                self.drop()
                return False
        except BlockingIOError:
            return False
        except OSError as error:
            raise _unlocked(self.folder / LOCK, error) from None
        _HELD.add(self._file)
        return True

    def share(self) -> None:
        """Let others in, once one has it alone."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def drop(self) -> None:
        """Have it no longer; workers that are left do have it."""
        _HELD.discard(self._file)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


@contextmanager
def lock_of(folder: Path) -> Iterator[FolderLock]:
    """Have the lock of a folder at hand; it is dropped with the block."""
    lock = FolderLock(folder)
    try:
        yield lock
    finally:
        lock.drop()


class Handed:
    """The locks of this process, for a process that it begins: they last until both have ended."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, tuple(map(DupFd, sorted(_HELD)))


def _received(*files: Any) -> Handed:
    for file in files:
        os.set_inheritable(file.detach(), False)  # noqa: FBT003 - it has no name
    return Handed()


def _unlocked(path: Path, error: OSError) -> OSError:
    if path.is_symlink():
        return linked(path)
    if error.errno in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
        return unwritable(path, OSError(error.errno, "the file system there has no locks (flock)"))
    return unwritable(path, error)
