"""One writer a folder: whoever writes into it holds its lock, and says beside it who that is.

The lock is the operating system's, so it goes with its processes, however these end: what a kill
leaves behind stops nobody. Workers hold the lock with their parent; where that is killed, nobody
else writes before the last of them has ended. Reading takes no lock, for what has a name is whole.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsim.errors import OccupiedError
from fedsim.record.holder import HOLDER, is_at_work, name_oneself, refusal, unname
from fedsim.record.locks import LOCK, FolderLock, lock_of
from fedsim.record.writing import sweep
from fedsim.signals import uninterrupted

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
