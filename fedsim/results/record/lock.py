"""Exclusive and shared folder locks, with the lock's owner published beside them.

The lock is the operating system's (flock), so it ends with its processes, however these end: a
killed process blocks no other, which a lock that is a mere file would. Workers inherit the lock of
their parent; if the parent is killed, the folder stays locked until its last worker ends. Readers
take no lock: a file with its final name is complete (`fedsim.core.atomic`).
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

from fedsim.core.atomic import link_error, sweep, unwritable, write_whole
from fedsim.core.errors import OccupiedError
from fedsim.core.files import open_descriptor, read_file
from fedsim.core.signals import defer_signals

# Advisory folder locks of the operating system, and their inheritance by child processes.
#
# A flock belongs to an open file description, and so to all processes that inherit it: the lock is
# free once the last of them has closed it or has ended, for whatever reason. (A lock by `fcntl`
# would belong to one process, and end when that closes any descriptor of the file.)
#
# When the last holder removes the lock file, another process may already have opened it and wait
# for the lock. It would then hold a lock on a file without a name, while a third process creates a
# new file and locks that one. So after acquiring a lock, the number of links of the file is
# checked: if it is 0, the lock is worthless, and the attempt is repeated with the new file.

LOCK = ".lock"
"""The locked file, which is empty and remains."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
"""Flags for opening the file: it is created if missing, and links are not followed."""

_HELD: set[int] = set()
"""The descriptors by which this process holds locks."""


class FolderLock:
    """An advisory lock on a folder, held by this process or not at all.

    Args:
        folder: created if needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = -1

    def take(self, how: int) -> bool:
        """Try to acquire the lock, exclusive or shared; return whether that succeeded.

        Raises:
            OutputError: the folder is not writable, or its file system has no locks.
        """
        try:
            if self._file < 0:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = open_descriptor(self.folder / LOCK, _FLAGS)
            fcntl.flock(self._file, how | fcntl.LOCK_NB)
            if not os.fstat(self._file).st_nlink:  # a previous holder has removed the file
                self.drop()
                return False
        except BlockingIOError:
            return False
        except OSError as error:
            raise _lock_error(self.folder / LOCK, error) from None
        _HELD.add(self._file)
        return True

    def share(self) -> None:
        """Downgrade the exclusive lock to a shared one."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def drop(self) -> None:
        """Release this process's share of the lock; running workers keep theirs."""
        _HELD.discard(self._file)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


@contextmanager
def lock_of(folder: Path) -> Iterator[FolderLock]:
    """Context manager that yields the folder's lock and releases it on exit."""
    lock = FolderLock(folder)
    try:
        yield lock
    finally:
        lock.drop()


class Handed:
    """This process's locks, pickled for a child: the locks last until both have ended."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, tuple(map(DupFd, sorted(_HELD)))


def _receive(*files: Any) -> Handed:
    for file in files:
        os.set_inheritable(file.detach(), False)  # noqa: FBT003 - positional-only
    return Handed()


def _lock_error(path: Path, error: OSError) -> OSError:
    if path.is_symlink():
        return link_error(path)
    if error.errno in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
        return unwritable(path, OSError(error.errno, "the file system there has no locks (flock)"))
    return unwritable(path, error)


# The owner of a folder's lock, published in a file beside it.
#
# A killed process leaves the file behind, so it is only valid while the lock is held.

HOLDER = ".lock.json"
"""The file that describes the lock's owner; removed with the lock."""


def write_owner(folder: Path) -> None:
    """Write this process's identity as the owner of a folder's lock.

    Raises:
        OutputError: it cannot be written.
    """
    write_whole(folder / HOLDER, _describe_owner().encode())


def remove_owner(folder: Path) -> None:
    """Remove the lock-owner file."""
    with suppress(OSError):
        (folder / HOLDER).unlink(missing_ok=True)


def _read_owner(folder: Path) -> dict[str, Any]:
    """Return the recorded lock owner; empty if there is none, or it is half-written."""
    try:
        content = json.loads(read_file(folder / HOLDER))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_at_work(folder: Path) -> bool:
    """Return whether the recorded owner may be running; other hosts' owners are taken to be."""
    owner = _read_owner(folder)
    return may_run(owner.get("host"), owner.get("process"))


def may_run(host: object, process: object) -> bool:
    """Return whether a process may be running; those of other hosts are taken to be.

    Args:
        host: its name, as recorded.
        process: its number, as recorded.
    """
    if not isinstance(process, int) or process < 1:
        return False
    try:
        if host == platform.node():
            os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        pass
    return True


def refusal(folder: Path) -> str:
    """Describe the process that writes into a folder, as far as it is known."""
    owner = _read_owner(folder)
    try:
        process, host, since, command = (
            ascii(owner[key])[1:-1] if isinstance(owner[key], str) else f"{owner[key]:d}"
            for key in ("process", "host", "since", "command")
        )
        writer = f"process {process} on {host} writes into it since {since} ({command})"
    except (ValueError, KeyError, TypeError):
        writer = "another process writes into it"
    return f"{folder} is in use: {writer}; wait for its end, or give another folder with --out"


def _describe_owner() -> str:
    """Return this process's identity for the lock-owner file, as JSON."""
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
"""How many moments to wait: for a process that only tests the lock or is about to end; for one that
holds it exclusively while it begins to share; and how often `check` may fail, see `_join`."""


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a folder's exclusive lock; the folder is created if needed.

    On an error before anything was written, the folder is restored as it was.

    Raises:
        OccupiedError: another writer, in this process or another one, holds it.
        OutputError: the folder cannot be written.
    """
    created = [path for path in (folder / LOCK, folder, *folder.parents) if not path.exists()]
    with lock_of(folder) as lock:
        _wait(lock)
        try:
            sweep(folder)
            write_owner(folder)
            yield
        except BaseException:
            with defer_signals():
                _retreat(folder, created)
            raise
        finally:
            with defer_signals():
                remove_owner(folder)


@contextmanager
def share(
    folder: Path, begin: Callable[[], None], check: Callable[[], None], end: Callable[[], None]
) -> Iterator[None]:
    """Hold a folder's lock together with other writers of disjoint files.

    Args:
        folder: created if needed.
        begin: called by the first holder, before others can join.
        check: called if others hold it; it raises if this process must not join them.
        end: called by the last holder, before others can join.

    Raises:
        OccupiedError: another process holds it exclusively.
        OutputError: the folder cannot be written.
    """
    with lock_of(folder) as lock:
        _join(lock, begin, check)
        try:
            write_owner(folder)
            yield
        finally:
            with defer_signals():
                if lock.take(fcntl.LOCK_EX):
                    end()
                    remove_owner(folder)


def is_held(folder: Path) -> bool:
    """Return whether a process holds a folder's lock, as far as the file system can tell."""
    for how in (os.O_RDWR, os.O_RDONLY):  # over NFS an exclusive lock needs write access
        try:
            file = open_descriptor(folder / LOCK, how)
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
    """Acquire the exclusive lock; fail immediately if its owner is alive."""
    for tries_left in reversed(range(_HOLDING)):
        if lock.take(fcntl.LOCK_EX):
            return
        if not tries_left or is_at_work(lock.folder):
            raise OccupiedError(refusal(lock.folder))
        time.sleep(_MOMENT)


def _join(lock: FolderLock, begin: Callable[[], None], check: Callable[[], None]) -> None:
    """Join the holders of a shared lock; the first one holds it exclusively for a moment.

    Two processes that start at once both try the exclusive lock. One gets it, prepares the folder
    and downgrades; the other finds neither kind of lock free until then, and retries. A process
    that only tests the lock (`is_held`) can make the exclusive attempt fail although no process
    shares the folder; `check` then compares with the record of an earlier plan, and fails. So only
    a repeated failure is final.
    """
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
            except OccupiedError:  # final only if repeated, see above
                checks += 1
                if checks >= _CHECKING:
                    raise
                lock.drop()
            else:
                return
        time.sleep(_MOMENT)
    raise OccupiedError(refusal(lock.folder))


def _retreat(folder: Path, created: Sequence[Path]) -> None:
    """Remove the lock file and new folders if nothing was written, while the lock is held.

    A process that has opened the lock file before detects that it has no name any more.

    Args:
        folder: the locked one.
        created: paths that did not exist before: the lock file, the folder, its parents.
    """
    with suppress(OSError):  # cleanup must not hide the error that led here
        (folder / HOLDER).unlink(missing_ok=True)
        if {path.name for path in folder.iterdir()} <= {LOCK}:
            for path in created:
                path.rmdir() if path.is_dir() else path.unlink()
