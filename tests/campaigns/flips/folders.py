"""The folders that are damaged: a study that has ended, one that was cut off, one priced again."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import fedsim
from fedsim.results.record.lock import LOCK
from fedsim.running.run import RunProgress
from tests.runs import files, small

VARIANTS = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
OTHER_RADIO = "fleet.0.radio=wifi"

SHORT = small(stop={"rounds": 3}, seeds=2, models={"every": 2}, variants=VARIANTS)
LONG = small(stop={"rounds": 70}, seeds=2, models={"every": 30}, variants=VARIANTS)
"""Long enough that a table is written in parts."""


@dataclass(frozen=True)
class Home:
    """A folder of runs that is copied, damaged and read.

    Attributes:
        whole: where it is; it stays as it is.
        source: the scenario of its runs.
        ended: the bytes of its files once all runs have ended.
        uses: which uses are made of it.
    """

    whole: Path
    source: dict[str, Any]
    ended: dict[str, bytes]
    uses: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """The files that can be damaged: all that hold something."""
        return [name for name, content in files(self.whole).items() if content]

    def copied(self, place: Path) -> Path:
        """Return a copy of it, in a place of which nothing is left."""
        rmtree(place, ignore_errors=True)
        return Path(copytree(self.whole, place / "out"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return what runs have left in a folder, without what commands have made of it."""
    return {name: content for name, content in files(folder).items() if name != LOCK}


_READ = ("summary", "events", "rounds", "clients", "models", "model", "notes", "shown")


def homes(place: Path) -> dict[str, Home]:
    """Make all folders in a place, and return them by their names."""
    read = (*_READ, "status", "compare", "report", "trace")
    ended = fedsim.run(SHORT, out=place / "ended").folder
    priced = fedsim.reprice(ended, [OTHER_RADIO], place / "priced").folder
    cut, full = _cut_off(place / "cut"), fedsim.run(LONG, out=place / "full").folder
    return {
        "ended": Home(ended, SHORT, contents(ended), (*read, "reprice", "run")),
        "cut": Home(cut, LONG, contents(full), (*read, "run")),
        "priced": Home(priced, SHORT, contents(priced), read),
    }


def _cut_off(out: Path) -> Path:
    """Make a study of four runs: one fails, one ends, one is interrupted, one is left."""

    def watch(progress: RunProgress) -> None:
        where = progress.variant, progress.seed, progress.round
        if where == ("base", 1, 66):
            raise ArithmeticError("a block of one's own has failed in round 67")
        if where == ("base", 2, 66):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        fedsim.run(LONG, out=out, watch=watch)
    return out
