"""Atomic file writing, with one clear error for each failure.

All that fedsim writes goes through a `Draft`: a temporary file that gets its name when it is
complete, and is removed on any error before. So a reader needs no lock: what has its final name is
complete.

Nothing is written or removed through a symbolic link, which may lead to files outside of the study.
Only the folder of the study itself may be reached through links, as is usual on clusters.
"""

import errno
import os
import re
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO

from fedsim.core.errors import OutputError
from fedsim.core.signals import defer_signals

ASIDE = ".aside"
"""Suffix of drafts, which remain after a kill."""

_DRAFT = re.compile(rf".+\.\d+-\d+{re.escape(ASIDE)}")

_TRIES, _MOMENT = 20 if os.name == "nt" else 0, 0.05
"""How often a file that cannot be replaced is tried again, and the pause between, s."""

_SERIALS = count()  # makes names of drafts unique among threads


class Draft:
    """A file being written; it is kept if its block ends normally, else dropped.

    It has the methods of a binary file, so that writers of formats can use it. They get no errors:
    the first one is stored, later writes are discarded, and `check` and `keep` raise the stored
    one. The reason is Parquet's writer, which writes once more when it is closed or collected: an
    error there would hide the first one, or be raised in a destructor, where none can be caught.

    Args:
        path: the final path; missing parents are created.

    Raises:
        OutputError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside = path.with_name(f"{path.name}.{os.getpid()}-{next(_SERIALS)}{ASIDE}")
        self._error: OSError | None = None
        if path.is_symlink():
            raise link_error(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = _open_new(self._aside)
        except OSError as error:
            raise unwritable(path, error) from None
        except BaseException:  # an interrupt: the file may exist already
            _remove(self._aside)
            raise

    def __enter__(self) -> "Draft":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None:
            self.keep()
        else:
            self.drop()

    def __del__(self) -> None:
        file: BinaryIO | None = getattr(self, "_file", None)  # None if __init__ failed
        if file is not None and not file.closed:
            self.drop()  # neither kept nor dropped

    @property
    def closed(self) -> bool:
        """Whether the file is closed for writing."""
        return self._file.closed

    def write(self, content: bytes) -> int:
        """Write bytes; return their number."""
        if self._error is None and not self.closed:
            try:
                self._file.write(content)
            except OSError as error:
                self._error = error
        return len(content)

    def flush(self) -> None:
        """Pass buffered bytes to the operating system."""
        if self._error is None and not self.closed:
            try:
                self._file.flush()
            except OSError as error:
                self._error = error

    def close(self) -> None:
        """Do nothing: a format's writer does not know whether the file is to be kept."""

    def check(self) -> None:
        """Raise the stored error, if any.

        Raises:
            OutputError: something could not be written.
        """
        if self._error is not None:
            raise unwritable(self.path, self._error)

    def keep(self) -> None:
        """Give the file its name.

        Raises:
            OutputError: not all of it could be written; nothing is left of it then.
        """
        try:
            self.check()
            self._file.close()
            _replace(self._aside, self.path)
        except OSError as error:
            self.drop()
            raise unwritable(self.path, error) from None
        except BaseException:  # an interrupt
            self.drop()
            raise

    def drop(self) -> None:
        """Remove the temporary file, ignoring errors."""
        with defer_signals():
            with suppress(OSError):  # what is still in memory is not needed
                self._file.close()
            _remove(self._aside)


def sweep(folder: Path) -> None:
    """Remove drafts that a killed process left in a folder; no process may be writing there."""
    for draft in folder.glob(f"*{ASIDE}"):
        if is_draft(draft):
            _remove(draft)


def is_draft(path: Path) -> bool:
    """Return whether a file has the name of a draft."""
    return _DRAFT.fullmatch(path.name) is not None


def _open_new(aside: Path) -> BinaryIO:
    """Create a file; an existing one is removed first, never written into: it may be a link."""
    try:
        return aside.open("xb")
    except FileExistsError:  # left by a killed process, or a link
        _remove(aside)
        return aside.open("xb")


def link_error(path: Path) -> OutputError:
    """Return the error for a symbolic link in the place of a file to be written."""
    text = "it is a symbolic link, through which nothing is written; remove it"
    return OutputError(errno.ELOOP, text, str(path))


def check_links(root: Path, path: Path) -> None:
    """Check that no component of a path below a folder is a symbolic link.

    Args:
        root: the folder, which may itself be reached through links.
        path: `root`, or a path below it; it need not exist.

    Raises:
        OutputError: one of the folders below `root`, or the place itself, is a link.
    """
    for name in reversed(path.relative_to(root).parents[:-1]):
        if (root / name).is_symlink():
            raise link_error(root / name)
    if path != root and path.is_symlink():
        raise link_error(path)


def _replace(aside: Path, path: Path) -> None:
    """Give a draft its name; Windows refuses that while a reader has the earlier file open."""
    for _ in range(_TRIES):
        try:
            aside.replace(path)
        except PermissionError:
            time.sleep(_MOMENT)
        else:
            return
    aside.replace(path)


def _remove(aside: Path) -> None:
    with suppress(OSError):  # a full or failing disk may refuse this as well
        aside.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: readers find the whole new content or the old one.

    Raises:
        OutputError: it cannot be written.
    """
    with Draft(path) as draft:
        draft.write(content)


def check_folder(folder: Path) -> None:
    """Check that files can be written into a folder, which need not exist yet.

    Raises:
        OutputError: it or a parent is a file, or is not writable.
    """
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        if not place.is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise unwritable(place, error) from None


def unwritable(path: Path, error: OSError) -> OutputError:
    """Return the error for a file or folder that cannot be written."""
    if isinstance(error, OutputError):
        return error
    return OutputError(error.errno or 0, error.strerror or str(error), str(path))
