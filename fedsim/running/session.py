"""Folders for runs that nobody names one for: they stay until the session ends."""

import atexit
import os
import re
from functools import cache
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp


def session_folder(name: str) -> Path:
    """Return a new, empty folder, called as a study is; it is removed when Python ends."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "runs"
    home = _home(os.getpid())
    names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
    folder = next(home / each for each in names if not (home / each).exists())
    folder.mkdir()
    return folder


@cache
def _home(process: int) -> Path:
    """Return the folder of all of a process; one that was forked from it has another."""
    folder = Path(mkdtemp(prefix="fedsim-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)
