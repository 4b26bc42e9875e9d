"""One writer a folder: whoever writes into it holds its lock, and says beside it who that is.

The lock is the operating system's, so it goes with its process, however that ends: what a kill
leaves behind stops nobody. Reading takes no lock, for what has a name is whole.
"""

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
from pathlib import Path

from filelock import FileLock, Timeout

from fedsim.errors import OccupiedError
from fedsim.record.writing import unwritable, write_whole

LOCK, HOLDER = ".lock", ".lock.json"
"""The file that is locked, which is empty and stays, and who holds it, which goes with the lock."""

_MOMENT, _MOMENTS = 0.05, 40
"""Seconds of real time, and how many of them whoever begins to share a folder has at the most."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one that writes into a folder, which is made where there is none.

    Where that ends in an error and nothing has been written, the folder is left as it was.

    Raises:
        OccupiedError: somebody else writes into it, in this process or in another one.
        OutputError: the folder cannot be written.
    """
    lock = FileLock(folder / LOCK)
    made = [path for path in (folder / LOCK, folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise OccupiedError(_refusal(folder)) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        write_whole(folder / HOLDER, _oneself().encode())
        yield
    except BaseException:
        _retreat(folder, made)
        raise
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


@contextmanager
def shared(folder: Path, begin: Callable[[], None], check: Callable[[], None]) -> Iterator[None]:
    """Be one of several that write into a folder, each what spoils nobody else's.

    Args:
        folder: which is made where there is none.
        begin: called where nobody else is there, while nobody else can come.
        check: called where others are; it raises where one does not belong to them.

    Raises:
        OccupiedError: somebody writes into it who shares it with nobody.
        OutputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        if _locked(file, fcntl.LOCK_EX):
            begin()
            fcntl.flock(file, fcntl.LOCK_SH)
        else:
            _join(file, folder)
            check()
        write_whole(folder / HOLDER, _oneself().encode())
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        os.close(file)


def is_held(folder: Path) -> bool:
    """Say whether somebody writes into a folder."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _locked(file, fcntl.LOCK_EX)
    finally:
        os.close(file)


def _join(file: int, folder: Path) -> None:
    """Join those who share a folder; who has just come holds it alone for a moment."""
    for _ in range(_MOMENTS):
        if _locked(file, fcntl.LOCK_SH):
            return
        time.sleep(_MOMENT)
    raise OccupiedError(_refusal(folder))


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


def _refusal(folder: Path) -> str:
    """Say who writes into a folder, as far as that is known."""
    try:
        content = json.loads((folder / HOLDER).read_bytes())
        process, host, since, command = (
            ascii(content[key])[1:-1] if isinstance(content[key], str) else f"{content[key]:d}"
            for key in ("process", "host", "since", "command")
        )
        who = f"process {process} on {host} writes into it since {since} ({command})"
    except (OSError, ValueError, KeyError, TypeError):  # it has only begun, or is about to end
        who = "another process writes into it"
    return f"{folder} is in use: {who}; let it end, or give another folder with --out"
