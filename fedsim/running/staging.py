"""Where runs go that workers make: into the folder itself where they see it, else to the parent.

Workers may be on other machines. Whether the folder is theirs, too, is found out: the parent
leaves a token in it. A run that somebody else makes is made aside and moved into its place once
it is whole, so that a worker that was given up, and comes back, spoils nothing.
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

from fedsim.record.atomic import check_links, unwritable, write_whole
from fedsim.record.folder import RESULTS, SCENARIO, SUMMARY, RunFolder
from fedsim.record.manifest import MANIFEST
from fedsim.signals import defer_signals

MAKING = ".making"
"""In OUT: what workers are making; it goes with the campaign."""

_OLD = "-old"
"""How the name of a run ends that a newer one takes the place of."""

Files = Mapping[str, bytes]
"""The files of a run by their names."""


@dataclass(frozen=True)
class Place:
    """A folder of runs, as it is known elsewhere.

    Attributes:
        out: its path on the parent's machine, absolute.
        token: the name of a unique file in it.
    """

    out: Path
    token: str

    @property
    def is_here(self) -> bool:
        """Whether this process sees the very folder."""
        return (self.out / MAKING / self.token).is_file()

    def mark(self, variant: str, seed: int) -> None:
        """Let others see that a run goes on, which is made where they do not look."""
        with suppress(OSError):  # it is only informative
            self._mark_file(variant, seed).mkdir(parents=True)

    def unmark(self, variant: str, seed: int) -> None:
        """Let others see that it no longer does."""
        with suppress(OSError):
            self._mark_file(variant, seed).rmdir()

    def _mark_file(self, variant: str, seed: int) -> Path:
        return RunFolder.place(self.out / MAKING / f"{self.token}-told", variant, seed)

    @contextmanager
    def aside(self) -> Iterator[Path]:
        """Make a folder to make a run in; it goes when that has been settled, or sent."""
        if not self.is_here:
            with TemporaryDirectory(prefix="fedsim-") as made:
                yield Path(made)
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
def open_place(out: Path) -> Iterator[Place]:
    """Leave a token in a folder for as long as runs are made elsewhere.

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
    for left in (place.out / MAKING).glob(f"{place.token}*"):
        with suppress(OSError):
            left.unlink() if left.is_file() else rmtree(left)
    with suppress(OSError):  # others are making runs
        (place.out / MAKING).rmdir()


def clear(out: Path) -> None:
    """Remove leftovers of killed workers; no other process may be working there.

    A run that was whole is moved where it was to go, unless there is something.

    Raises:
        OutputError: a symbolic link stands where runs are made.
    """
    check_links(out, out / MAKING)
    for summary in (out / MAKING).glob(f"*/*/seed-*/{SUMMARY}"):
        made = summary.parent
        if not made.name.endswith(_OLD):
            place = out / made.parent.name / made.name
            with suppress(OSError):  # it is made again
                check_links(out, made)
                check_links(out, place)
                place.parent.mkdir(parents=True, exist_ok=True)
                made.rename(place)
    rmtree(out / MAKING, ignore_errors=True)


def settle(made: Path, place: Path) -> None:
    """Move a run that is whole into its place, and an older one to where this one was made.

    Another process may do the same at the same moment, with the same run: one of them stays. For a
    moment there may be neither the old one nor the new one; a process killed then leaves the new
    one to `clear`.

    Raises:
        OutputError: it cannot be moved.
    """
    check_links(place.parent.parent, place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        while not _move(made, place):
            with suppress(FileNotFoundError):  # another process has just moved it
                place.rename(made.with_name(f"{made.name}-{token_hex(4)}{_OLD}"))
    except OSError as error:
        raise unwritable(place, error) from None


def _move(made: Path, place: Path) -> bool:
    """Move a folder to where there is none, and say whether it could be done."""
    try:
        made.rename(place)
    except OSError as error:
        if error.errno in {ENOTEMPTY, EEXIST}:
            return False
        raise
    return True


def pack(folder: Path) -> Files:
    """Return the files of a run that is whole."""
    return {name: (folder / name).read_bytes() for name in (*RESULTS, MANIFEST)}


def unpack(files: Files, place: Path, out: Place, seconds: float) -> None:
    """Write a run that was made elsewhere, whole or not at all.

    Args:
        files: of the run.
        place: where it belongs.
        out: the folder of all runs.
        seconds: of real time that it took.

    Raises:
        OutputError: it cannot be written.
    """
    with out.aside() as home:
        made = home / place.parent.name / place.name
        for name, content in files.items():
            write_whole(made / name, content)
        date(made, seconds)
        settle(made, place)


def date(made: Path, seconds: float) -> None:
    """Let the files of a run say how long it took, as they do where it was made: first to last."""
    with suppress(OSError):  # it is only informative
        last = (made / SUMMARY).stat().st_mtime_ns
        first = last - round(seconds * 1e9)
        os.utime(made / SCENARIO, ns=(first, first))
