"""Removal of unneeded files from a folder of runs: earlier runs, the trash, and leftovers.

Leftovers are files of processes that were killed: drafts, progress files, staging folders, and the
parts of a table that is whole. Runs in their places stay, whether they have ended or not.

An earlier run is moved into the trash before it is removed. So a process that is killed meanwhile
leaves part of a run only where no command looks for one.
"""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import NamedTuple

from fedsim.core.atomic import check_links, is_draft, unwritable
from fedsim.core.errors import DataError
from fedsim.results.record.earlier import EARLIER, TRASH
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.live import LIVE
from fedsim.results.record.read import hold_no_runs, missing, run_folders
from fedsim.results.record.studies import study_in
from fedsim.running import staging
from fedsim.running.staging import MAKING

LEFTOVERS = "leftovers"
"""Files of killed processes; one of `KINDS`."""

KINDS = {"earlier": EARLIER, "trash": TRASH, LEFTOVERS: ""}
"""The kinds of what can be removed, and the folder of each in that of the runs."""

LARGE = 10**9
"""Size of earlier runs and trash from which commands mention it, bytes."""

_OLD = 60.0
"""Age from which a draft is a leftover, s: a reader such as `fedsim report` holds no lock."""


class Removable(NamedTuple):
    """What can be removed in one go.

    Attributes:
        kind: one of `KINDS`.
        path: of a file or a folder.
        variants: the name of the variant of each finished run in it.
        size: of its files, bytes.
        date: when it was last changed, s since 1970.
    """

    kind: str
    path: Path
    variants: tuple[str, ...]
    size: int
    date: float


def check_is_study(out: Path) -> None:
    """Check that a folder is one of runs.

    Raises:
        DataError: it is not.
    """
    if not out.is_dir():
        raise missing("clean", out)
    folders = (EARLIER, TRASH, MAKING, LIVE)
    if study_in(out) is None and not any((out / name).is_dir() for name in folders):
        raise DataError("clean", hold_no_runs(out))


def removable(out: Path, kinds: Collection[str] = tuple(KINDS)) -> list[Removable]:
    """Return what can be removed from a folder of runs, the largest first within each kind.

    Complete runs that killed workers have left in a staging folder are moved out of it first.

    Args:
        out: the folder of all runs, whose lock is held.
        kinds: of `KINDS`.

    Raises:
        OutputError: a symbolic link takes the place of a folder that fedsim writes.
    """
    for name in (EARLIER, TRASH, LIVE, MAKING):
        check_links(out, out / name)
    staging.rescue(out)
    items = list[Removable]()
    for kind, name in KINDS.items():
        if kind in kinds:
            paths = _leftovers(out) if kind == LEFTOVERS else _entries(out / name)
            of_kind = [_measure(kind, path) for path in paths]
            items += sorted(of_kind, key=lambda item: (-item.size, item.path))
    return items


def _entries(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from folder.iterdir()


def _leftovers(out: Path) -> Iterator[Path]:
    """Yield the files and folders that killed processes have left."""
    yield from (out / name for name in (LIVE, MAKING) if (out / name).is_dir())
    for run in run_folders(out):
        if (run / SUMMARY).exists():
            yield from (parts for parts in run.glob("*.parts") if not parts.is_symlink())
    skipped = {EARLIER, TRASH, LIVE, MAKING}
    for folder, below, files in os.walk(out):
        if Path(folder) == out:
            below[:] = [name for name in below if name not in skipped]
        staged = [name for name in below if _is_left(Path(folder, name))]
        below[:] = [name for name in below if name not in staged]
        yield from (Path(folder, name) for name in staged)
        yield from (path for name in files if _is_left(path := Path(folder, name)))


def _is_left(path: Path) -> bool:
    """Return whether a file is a draft that no process is writing any more."""
    try:
        return is_draft(path) and time.time() - path.lstat().st_mtime > _OLD
    except OSError:  # it has just got its name
        return False


def _measure(kind: str, path: Path) -> Removable:
    """Return a file or folder with its size; nothing is read through symbolic links."""
    variants, size, date = list[str](), 0, 0.0
    for file in _files_below(path):
        with suppress(OSError):
            facts = file.lstat()
            size, date = size + facts.st_size, max(date, facts.st_mtime)
            if file.name == SUMMARY:
                variants.append(file.parents[1].name)
    return Removable(kind, path, tuple(sorted(variants)), size, date)


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    for folder, below, files in os.walk(path):
        links = [name for name in below if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in (*files, *links))


def remove(out: Path, items: Sequence[Removable]) -> None:
    """Remove what `removable` has returned, under the same lock.

    Raises:
        OutputError: something cannot be removed; the rest of it is in the trash, or in its place.
    """
    for item in items:
        check_links(out, item.path.parent)
        path = _move_to_trash(out, item.path) if item.kind == "earlier" else item.path
        try:
            if path.is_dir() and not path.is_symlink():
                rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(path, error) from None
    for name in (EARLIER, TRASH):
        with suppress(OSError):  # something is left in it
            (out / name).rmdir()


def _move_to_trash(out: Path, path: Path) -> Path:
    place = out / TRASH / f"{path.name}-{token_hex(4)}"
    try:
        place.parent.mkdir(exist_ok=True)
        path.rename(place)
    except OSError as error:
        raise unwritable(place, error) from None
    return place


def is_large(out: Path, limit: int = LARGE) -> bool:
    """Return whether earlier runs and trash of a folder take more than `limit` bytes."""
    size = 0
    for name in (EARLIER, TRASH):
        folder = out / name
        if folder.is_dir() and not folder.is_symlink():
            for file in _files_below(folder):
                with suppress(OSError):
                    size += file.lstat().st_size
                if size > limit:
                    return True
    return False
