"""Staging of runs that workers make, which may be on other machines.

A worker can write into the campaign's folder only if it sees the same file system. It finds out by
a token, a file with a random name that the parent leaves in the folder. A worker that sees it makes
a run in a staging folder below `.making` and renames that into place when the run is complete;
any other worker makes the run in a temporary folder and returns its files to the parent. In both
cases a run appears at once and whole. So a worker that was taken for dead and comes back, or two
workers that make the same run, cannot mix their files.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import TemporaryDirectory

from fedsim.core.atomic import check_links, unwritable, write_whole
from fedsim.core.errors import OutputError
from fedsim.core.files import read_file
from fedsim.core.signals import defer_signals
from fedsim.results.record.earlier import is_copy, set_aside
from fedsim.results.record.folder import RESULTS, SCENARIO, SUMMARY
from fedsim.results.record.manifest import MANIFEST

MAKING = ".making"
"""In OUT: the staging folders of a campaign; removed at its end."""

_OLD = "-old"
"""Suffix of a copy, or of an unfinished run, that a complete one has replaced."""

Files = Mapping[str, bytes]
"""The files of a run by their names."""


@dataclass(frozen=True)
class Place:
    """A folder of runs, for workers on any machine.

    Attributes:
        out: its path on the parent's machine, absolute.
        token: the name of a unique file in it.
    """

    out: Path
    token: str

    @property
    def is_here(self) -> bool:
        """Whether this process sees the same folder."""
        return (self.out / MAKING / self.token).is_file()

    def homes(self) -> Iterator[Path]:
        """Yield the staging folders that workers have here."""
        return (self.out / MAKING).glob(f"{self.token}-*")

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """Create a staging folder; it is removed when its runs have been published or sent."""
        if not self.is_here:
            with TemporaryDirectory(prefix="fedsim-") as folder:
                yield Path(folder)
            return
        home = self.out / MAKING / f"{self.token}-{token_hex(8)}"
        try:
            home.mkdir()
        except OSError as error:
            raise unwritable(home, error) from None
        try:
            yield home
        finally:
            with defer_signals():
                rmtree(home, ignore_errors=True)


@contextmanager
def share_folder(out: Path) -> Iterator[Place]:
    """Leave a token in a folder within the block.

    Raises:
        OutputError: it cannot be written.
    """
    place = Place(out.absolute(), token_hex(16))
    check_links(place.out, place.out / MAKING)
    try:
        write_whole(place.out / MAKING / place.token, b"")
        yield place
    finally:
        with defer_signals():
            _close(place)


def _close(place: Place) -> None:
    for leftover in (place.out / MAKING).glob(f"{place.token}*"):
        with suppress(OSError):
            leftover.unlink() if leftover.is_file() else rmtree(leftover)
    with suppress(OSError):  # other campaigns still stage runs there
        (place.out / MAKING).rmdir()


def clear(out: Path) -> None:
    """Remove leftovers of killed workers; no other process may be working there.

    Complete runs among them are kept; see `rescue`.

    Raises:
        OutputError: a symbolic link takes the place of the staging folder.
    """
    rescue(out)
    rmtree(out / MAKING, ignore_errors=True)


def rescue(out: Path) -> None:
    """Move complete runs that killed workers had no time to publish into their places.

    Where another run is in the place, a run goes to the earlier ones.

    Args:
        out: the folder of all runs; no other process may be working there.

    Raises:
        OutputError: a symbolic link takes the place of the staging folder.
    """
    check_links(out, out / MAKING)
    for summary in (out / MAKING).glob(f"*/*/seed-*/{SUMMARY}"):
        run = summary.parent
        if run.name.endswith(_OLD):  # a copy of the run in the place
            continue
        place = out / run.parent.name / run.name
        with suppress(OSError, OutputError):  # else the run is made again
            check_links(out, run)
            check_links(out, place)
            place.parent.mkdir(parents=True, exist_ok=True)
            if not _move(run, place) and not is_copy(run, place):
                set_aside(out, run)


def publish(made: Path, place: Path, trash: str = "") -> None:
    """Move a complete run into place, and an older one out of it.

    Two renames are needed, since a folder that is not empty cannot be replaced by one. Between them
    there is no run in that place: a process killed at that moment leaves the new run to `clear`.
    Another process may publish the same run at the same time; then one of both remains.

    Args:
        made: the folder of the complete run.
        place: where it goes, `OUT/<variant>/seed-<n>`.
        trash: where a finished run goes that is there; see
            `fedsim.results.record.earlier.set_aside`.

    Raises:
        OutputError: the run cannot be moved.
    """
    check_links(place.parent.parent, place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        while not _move(made, place):
            if is_copy(made, place) or set_aside(place.parent.parent, place, trash) is None:
                with suppress(FileNotFoundError):  # another process has just moved it
                    place.rename(made.with_name(f"{made.name}-{token_hex(4)}{_OLD}"))
    except OSError as error:
        raise unwritable(place, error) from None


def _move(made: Path, place: Path) -> bool:
    """Move a folder to a free place; return False if the place is taken."""
    try:
        made.rename(place)
    except OSError as error:
        if error.errno in {ENOTEMPTY, EEXIST}:
            return False
        raise
    return True


def pack(folder: Path) -> Files:
    """Return the files of a complete run."""
    return {name: read_file(folder / name) for name in (*RESULTS, MANIFEST)}


def unpack(files: Files, place: Path, out: Place, seconds: float, trash: str = "") -> None:
    """Write a run that a worker on another machine made, whole or not at all.

    Args:
        files: of the run.
        place: its folder.
        out: the folder of all runs.
        seconds: how long it took, s of real time.
        trash: as for `publish`.

    Raises:
        OutputError: it cannot be written.
    """
    with out.stage() as home:
        run = home / place.parent.name / place.name
        for name, content in files.items():
            write_whole(run / name, content)
        set_times(run, seconds)
        publish(run, place, trash)


def set_times(made: Path, seconds: float) -> None:
    """Set the dates of a run's first and last file apart by its duration; see `run_duration`."""
    with suppress(OSError):  # it is only informative
        last = (made / SUMMARY).stat().st_mtime_ns
        first = last - round(seconds * 1e9)
        os.utime(made / SCENARIO, ns=(first, first))
