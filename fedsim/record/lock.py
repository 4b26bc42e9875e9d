"""One writer a folder: whoever writes into it holds its lock, and says beside it who that is.

The lock is the operating system's, so it goes with its processes, however these end: what a kill
leaves behind stops nobody. Workers hold the lock with their parent; where that is killed, nobody
else writes before the last of them has ended. Reading takes no lock, for what has a name is whole.
"""

import errno
import fcntl
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from fedsim.errors import OccupiedError
from fedsim.record.writing import linked, sweep, unwritable, write_whole
from fedsim.signals import uninterrupted

# The lock of a folder, as the operating system keeps it, and who has it together with a process.
#
# It belongs to an open file, and so to all processes that have that file from its opener: it is
# free once the last of them has closed it, or has ended, however that came about.

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


# Who writes into a folder, as that is told to others in a file beside the lock.
#
# A kill leaves the file there; so it tells of nobody where the lock is free.

HOLDER = ".lock.json"
"""The file that tells who holds the lock; it goes with that."""


def name_oneself(folder: Path) -> None:
    """Tell that this process writes into a folder.

    Raises:
        OutputError: it cannot be written.
    """
    write_whole(folder / HOLDER, _oneself().encode())


def unname(folder: Path) -> None:
    """Tell no longer who holds a folder."""
    with suppress(OSError):
        (folder / HOLDER).unlink(missing_ok=True)


def _told(folder: Path) -> dict[str, Any]:
    """Return what is told of who holds a folder: nothing, where that has only begun."""
    try:
        content = json.loads((folder / HOLDER).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_at_work(folder: Path) -> bool:
    """Say whether whoever is told to hold a folder is there; on other machines nobody looks."""
    told = _told(folder)
    process = told.get("process")
    if not isinstance(process, int) or process < 1:
        return False
    try:
        if told.get("host") == platform.node():
            os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def refusal(folder: Path) -> str:
    """Say who writes into a folder, as far as that is known."""
    told = _told(folder)
    try:
        process, host, since, command = (
            ascii(told[key])[1:-1] if isinstance(told[key], str) else f"{told[key]:d}"
            for key in ("process", "host", "since", "command")
        )
        who = f"process {process} on {host} writes into it since {since} ({command})"
    except (ValueError, KeyError, TypeError):
        who = "another process writes into it"
    return f"{folder} is in use: {who}; let it end, or give another folder with --out"


def _oneself() -> str:
    """Return what others are told of this process, as JSON."""
    name = Path(sys.argv[0] or sys.executable)
    called = name.parent.name if name.name == "__main__.py" else name.name
    now = datetime.now(UTC).astimezone()
    holder = {
        "process": os.getpid(),
        "host": platform.node(),
        "since": now.isoformat(sep=" ", timespec="seconds"),
        "command": shlex.join([called, *sys.argv[1:]]),
    }
    return json.dumps(holder) + "\n"


_MOMENT = 0.05  # seconds of real time
_HOLDING, _JOINING, _CHECKING = 10, 40, 3
"""So many moments one waits for who looks whether a folder is held, or is about to end; for who
begins to share it; and for whether those who share it do so for the same."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one that writes into a folder, which is made where there is none.

    Where that ends in an error and nothing has been written, the folder is left as it was.

    Raises:
        OccupiedError: somebody else writes into it, in this process or in another one.
        OutputError: the folder cannot be written.
    """
    made = [path for path in (folder / LOCK, folder, *folder.parents) if not path.exists()]
    with lock_of(folder) as lock:
        _wait(lock)
        try:
            sweep(folder)
            name_oneself(folder)
            yield
        except BaseException:
            with uninterrupted():
                _retreat(folder, made)
            raise
        finally:
            with uninterrupted():
                unname(folder)


@contextmanager
def shared(
    folder: Path, begin: Callable[[], None], check: Callable[[], None], end: Callable[[], None]
) -> Iterator[None]:
    """Be one of several that write into a folder, each what spoils nobody else's.

    Args:
        folder: which is made where there is none.
        begin: called where nobody else is there, while nobody else can come.
        check: called where others are; it raises where one does not belong to them.
        end: called where nobody else is there any more, while nobody else can come.

    Raises:
        OccupiedError: somebody writes into it who shares it with nobody.
        OutputError: the folder cannot be written.
    """
    with lock_of(folder) as lock:
        _join(lock, begin, check)
        try:
            name_oneself(folder)
            yield
        finally:
            with uninterrupted():
                if lock.take(fcntl.LOCK_EX):
                    end()
                    unname(folder)


def is_held(folder: Path) -> bool:
    """Say whether somebody writes into a folder, as far as its file system can tell."""
    for how in (os.O_RDWR, os.O_RDONLY):  # over NFS who takes this lock has to be able to write
        try:
            file = os.open(folder / LOCK, how)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        else:
            return False
        finally:
            os.close(file)
    return False


def _wait(lock: FolderLock) -> None:
    """Take a lock alone; nobody waits for who is at work."""
    for left in reversed(range(_HOLDING)):
        if lock.take(fcntl.LOCK_EX):
            return
        if not left or is_at_work(lock.folder):
            raise OccupiedError(refusal(lock.folder))
        time.sleep(_MOMENT)


def _join(lock: FolderLock, begin: Callable[[], None], check: Callable[[], None]) -> None:
    """Join those who share a folder; who has just come holds it alone for a moment."""
    checks = 0
    for _ in range(_JOINING):
        if lock.take(fcntl.LOCK_EX):
            sweep(lock.folder)
            begin()
            lock.share()
            return
        if lock.take(fcntl.LOCK_SH):
            try:
                check()
            except OccupiedError:  # unless it is who looks whether the folder is held
                checks += 1
                if checks >= _CHECKING:
                    raise
                lock.drop()
            else:
                return
        time.sleep(_MOMENT)
    raise OccupiedError(refusal(lock.folder))


def _retreat(folder: Path, made: Sequence[Path]) -> None:
    """Leave no trace of a hold under which nothing has been written, while it lasts.

    Whoever has the file open already, to lock it next, sees that it has lost its name.

    Args:
        folder: that is held.
        made: what was not there before: its lock, itself, and folders above it.
    """
    with suppress(OSError):  # what cannot be undone stays, and hides no error
        (folder / HOLDER).unlink(missing_ok=True)
        if {path.name for path in folder.iterdir()} <= {LOCK}:
            for path in made:
                path.rmdir() if path.is_dir() else path.unlink()
