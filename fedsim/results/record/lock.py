"""Exclusive and shared folder locks, with the lock's owner published beside them.

The lock is the operating system's (`fedsim.core.file_locks`), so it ends with its processes,
however these end: a killed process blocks no other, which a lock that is a mere file would. Workers
inherit the lock of their parent, but not on Windows; if the parent is killed, the folder stays
locked until its last worker ends. Readers take no lock: a file with its final name is complete
(`fedsim.core.atomic`).
"""

import errno
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsim.core.atomic import link_error, sweep, unwritable, write_whole
from fedsim.core.errors import OccupiedError
from fedsim.core.file_locks import INHERITED, FileLock, lock_of_file
from fedsim.core.files import WITHOUT_LINKS, open_descriptor, read_file
from fedsim.core.signals import defer_signals

# Advisory folder locks of the operating system, and their inheritance by child processes.
#
# When the last holder removes the lock file, another process may already have opened it and wait
# for the lock. It would then hold a lock on a file without a name, while a third process creates a
# new file and locks that one. So after acquiring a lock, the number of links of the file is
# checked: if it is 0, the lock is worthless, and the attempt is repeated with the new file.

LOCK = ".lock"
"""The locked file, which is empty and remains."""

_FLAGS = os.O_RDWR | os.O_CREAT | WITHOUT_LINKS
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
        self._lock: FileLock | None = None

    def take(self, *, exclusive: bool) -> bool:
        """Try to acquire the lock, exclusive or shared; return whether that succeeded.

        Raises:
            OutputError: the folder is not writable, or its file system has no locks.
        """
        try:
            if self._lock is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock = lock_of_file(open_descriptor(self.folder / LOCK, _FLAGS))
            if not self._lock.take(exclusive=exclusive):
                return False
            if not os.fstat(self._lock.file).st_nlink:  # a previous holder has removed the file
                self.drop()
                return False
        except OSError as error:
            raise _lock_error(self.folder / LOCK, error) from None
        _HELD.add(self._lock.file)
        return True

    def drop(self) -> None:
        """Release this process's share of the lock; running workers keep theirs."""
        if self._lock is not None:
            _HELD.discard(self._lock.file)
            self._lock.close()
        self._lock = None


@contextmanager
def lock_of(folder: Path) -> Iterator[FolderLock]:
    """Context manager that yields the folder's lock and releases it on exit."""
    lock = FolderLock(folder)
    try:
        yield lock
    finally:
        lock.drop()


class Handed:
    """This process's locks, pickled for a child: the locks last until both have ended.

    Windows has no such locks; there a child receives none.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        if not INHERITED:
            return _receive, ()
        from multiprocessing.reduction import DupFd  # which Windows does not have

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

    So are all on Windows, where signal 0 is Ctrl-C, and would end it.

    Args:
        host: its name, as recorded.
        process: its number, as recorded.
    """
    if not isinstance(process, int) or process < 1:
        return False
    try:
        if host == platform.node() and os.name == "posix":
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


def command_line() -> list[str]:
    """Return the words of the command that started this process: fedsim, run, its arguments."""
    name = Path(sys.argv[0] or sys.executable)
    called = name.parent.name if name.name == "__main__.py" else name.name
    return [called, *sys.argv[1:]]


def _describe_owner() -> str:
    """Return this process's identity for the lock-owner file, as JSON."""
    now = datetime.now(UTC).astimezone()
    holder = {
        "process": os.getpid(),
        "host": platform.node(),
        "since": now.isoformat(sep=" ", timespec="seconds"),
        "command": shlex.join(command_line()),
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
                _retreat(lock, created)
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
                if lock.take(exclusive=True):
                    end()
                    remove_owner(folder)


def is_held(folder: Path) -> bool:
    """Return whether a process holds a folder's lock, as far as the file system can tell."""
    for how in (os.O_RDWR, os.O_RDONLY):  # over NFS an exclusive lock needs write access
        try:
            lock = lock_of_file(open_descriptor(folder / LOCK, how))
        except OSError:
            continue
        try:
            return not lock.take(exclusive=True)
        except OSError:
            return False
        finally:
            lock.close()
    return False


def _wait(lock: FolderLock) -> None:
    """Acquire the exclusive lock; fail immediately if its owner is alive."""
    for tries_left in reversed(range(_HOLDING)):
        if lock.take(exclusive=True):
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
        if lock.take(exclusive=True):
            sweep(lock.folder)
            begin()
            lock.take(exclusive=False)
            return
        if lock.take(exclusive=False):
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


def _retreat(lock: FolderLock, created: Sequence[Path]) -> None:
    """Remove the lock file and new folders if nothing was written, while the lock is held.

    A process that has opened the lock file before detects that it has no name any more. Windows
    removes no file that is open: there the lock ends first, and the file stays if another process
    has opened it.

    Args:
        lock: of the folder.
        created: paths that did not exist before: the lock file, the folder, its parents.
    """
    with suppress(OSError):  # cleanup must not hide the error that led here
        (lock.folder / HOLDER).unlink(missing_ok=True)
        if {path.name for path in lock.folder.iterdir()} <= {LOCK}:
            if not INHERITED:
                lock.drop()
            for path in created:
                path.rmdir() if path.is_dir() else path.unlink()
