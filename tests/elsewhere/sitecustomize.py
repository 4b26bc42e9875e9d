"""Python as it is on Windows, as far as that can be imitated here.

The interpreter imports this file first, in child processes too, if its folder is in PYTHONPATH.
What Windows lacks is hidden after the standard library, which has its own form for each system, has
been loaded. In place of `msvcrt` stands a module that locks ranges of bytes by Linux's locks of
open file descriptions, which exclude each other as those of Windows do.
"""

import asyncio  # noqa: F401 - loaded before anything is hidden, as the following
import concurrent.futures.process  # noqa: F401
import errno
import fcntl
import importlib.metadata  # noqa: F401
import multiprocessing
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import shutil  # noqa: F401
import signal
import struct
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import zipfile  # noqa: F401
from types import ModuleType

MODULES = ("fcntl", "resource", "termios", "tty", "pty", "grp", "pwd")
OF_OS = (
    *("fork", "forkpty", "sched_getaffinity", "pread", "pwrite", "nice", "getpgid", "setsid"),
    *("killpg", "mkfifo", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY"),
)
OF_SIGNAL = ("SIGHUP", "SIGKILL", "SIGALRM", "setitimer", "pthread_sigmask", "SIG_BLOCK")


class LockedBytes(ModuleType):
    """`msvcrt.locking`, by locks of open file descriptions (fcntl(2))."""

    LK_UNLCK, LK_NBLCK = 0, 2

    def locking(self, file: int, mode: int, count: int) -> None:
        """Lock or free bytes from the file's position on."""
        kind = fcntl.F_UNLCK if mode == self.LK_UNLCK else fcntl.F_WRLCK
        start = os.lseek(file, 0, os.SEEK_CUR)
        try:
            fcntl.fcntl(
                file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, count, 0)
            )
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


multiprocessing.set_start_method("spawn")
vars(multiprocessing.resource_tracker)["_HAVE_SIGMASK"] = False  # it serves Linux's spawning
for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]  # so importing it is an ImportError
for name in OF_OS:
    delattr(os, name)
for name in OF_SIGNAL:
    delattr(signal, name)
sys.modules["msvcrt"] = LockedBytes("msvcrt")
