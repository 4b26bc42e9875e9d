"""Who writes into a folder, as that is told to others in a file beside the lock.

A kill leaves the file there; so it tells of nobody where the lock is free.
"""

import json
import os
import platform
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsim.record.writing import write_whole

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
