"""Journals: files of JSON lines to which several processes append.

A line is appended by one write under a lock of the file, so that lines of processes on other
machines, over NFS too, do not mix. A journal is informative: what cannot be written is left out,
and a damaged line, such as one that a full disk has cut off, is skipped by readers.
"""

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fedsim.core.file_locks import FileLock, lock_of_file
from fedsim.core.files import WITHOUT_LINKS, open_descriptor, read_file

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | WITHOUT_LINKS
"""Flags for opening the file: it is created if missing, and links are not followed."""

_TRIES, _MOMENT = 40, 0.05
"""How often the lock is tried, and the pause between, s; a writer holds it for less than 1 ms."""


Append = Callable[..., bool]
"""Appends mappings of plain data, a line each; returns whether that was possible."""


def append_lines(path: Path, *lines: Mapping[str, Any]) -> bool:
    """Append lines to a journal; return whether that was possible.

    Args:
        path: of the file; its folder exists.
        lines: of plain data.
    """
    with _locked(path) as file:
        return file is not None and _append(file, *lines)


@contextmanager
def locked_journal(path: Path) -> Iterator[tuple[list[dict[str, Any]], Append]]:
    """Context manager that locks a journal, and yields its lines and a function to append some.

    If it cannot be opened, it yields no lines, and nothing can be appended.
    """
    with _locked(path) as file:
        append = (lambda *_: False) if file is None else partial(_append, file)
        yield read_lines(path), append


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Context manager that locks a journal, and yields its descriptor; None if it cannot open."""
    try:
        file = _open(path)
    except OSError:
        yield None
        return
    lock = lock_of_file(file)
    try:
        _wait(lock)
        yield file
    finally:
        lock.close()


def _open(path: Path) -> int:
    """Open a journal that has this one name: a line in it would be a line in another file, too."""
    file = open_descriptor(path, _FLAGS)
    if os.fstat(file).st_nlink > 1:
        os.close(file)
        raise OSError(errno.EMLINK, "it is a hard link, through which nothing is written")
    return file


def _append(file: int, *lines: Mapping[str, Any]) -> bool:
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    try:
        size = os.fstat(file).st_size
        if size:
            os.lseek(file, size - 1, os.SEEK_SET)  # what is written is appended all the same
            if os.read(file, 1) != b"\n":  # the last line was cut off
                content = b"\n" + content
        return os.write(file, content) == len(content)
    except OSError:
        return False


def _wait(lock: FileLock) -> None:
    """Acquire a lock; without it after all tries, lines are still written one by one."""
    for _ in range(_TRIES):
        try:
            if lock.take(exclusive=True):
                return
        except OSError:  # the file system has no locks
            return
        time.sleep(_MOMENT)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal, the oldest first; none if there is no journal."""
    try:
        content = read_file(path)
    except OSError:
        return []
    entries = list[dict[str, Any]]()
    for line in content.splitlines():
        try:
            held = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(held, dict):
            entries.append(held)
    return entries
