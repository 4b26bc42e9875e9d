"""Locks of open files, by what the operating system has: flock, or locked bytes on Windows.

No other module of fedsim imports `fcntl` or `msvcrt`. The library filelock has the same fallback.
It is not used, since its locks are exclusive, and end with the process that has taken them.

A lock by flock belongs to an open file description, and so to all processes that inherit it: it is
free once the last of them has closed it or has ended. (A lock by `fcntl` would belong to one
process, and end when that closes any descriptor of the file.)

Windows has locks of ranges of bytes, which belong to one process, and are exclusive. One byte per
holder makes them shared: who wants the file alone locks all of these bytes, who shares it a single
one. They lie behind all content, since Windows refuses to read a locked byte.
"""

import os
from importlib import import_module
from typing import Any

fcntl: Any
try:
    fcntl = import_module("fcntl")
except ImportError:  # Windows
    fcntl = None

INHERITED = fcntl is not None
"""Whether a child process that receives the descriptor holds the lock, too."""

_FIRST, _COUNT = 2**30, 64
"""The position of the first byte that is locked on Windows, and the largest number of holders."""


class FileLock:
    """An advisory lock of an open file; no method waits.

    Args:
        file: the descriptor, which `close` closes.
    """

    def __init__(self, file: int) -> None:
        self.file = file

    def take(self, *, exclusive: bool) -> bool:
        """Try to acquire the lock, or to change its kind; return whether that succeeded.

        Raises:
            OSError: the file system has no locks.
        """
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(self.file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the file; the lock is free unless a child process holds it, too."""
        os.close(self.file)


class ByteLock(FileLock):
    """The same by locked bytes; the lock ends with this process."""

    def __init__(self, file: int) -> None:
        super().__init__(file)
        self._bytes = set[int]()
        self._system: Any = import_module("msvcrt")

    def take(self, *, exclusive: bool) -> bool:
        """See `FileLock.take`; a byte that is held is kept, so an exclusive lock becomes shared."""
        before = set(self._bytes)
        # From both ends, so that those who share the file do not let two who want it alone meet.
        for byte in range(_COUNT) if exclusive else reversed(range(_COUNT)):
            if not exclusive and self._bytes:
                self._free(self._bytes - {max(self._bytes)})
                return True
            if byte not in self._bytes and not self._lock(byte) and exclusive:
                self._free(self._bytes - before)
                return False
        return bool(self._bytes)

    def _lock(self, byte: int) -> bool:
        try:
            self._call(self._system.LK_NBLCK, byte)
        except PermissionError:  # it is locked
            return False
        self._bytes.add(byte)
        return True

    def _free(self, which: set[int]) -> None:
        for byte in which:
            self._call(self._system.LK_UNLCK, byte)
            self._bytes.discard(byte)

    def _call(self, how: int, byte: int) -> None:
        os.lseek(self.file, _FIRST + byte, os.SEEK_SET)
        self._system.locking(self.file, how, 1)

    def close(self) -> None:
        """See `FileLock.close`; left to Windows, the bytes would be free only after a while."""
        self._free(set(self._bytes))
        super().close()


def lock_of_file(file: int) -> FileLock:
    """Return the lock of an open file, which is not taken yet."""
    return FileLock(file) if fcntl is not None else ByteLock(file)
