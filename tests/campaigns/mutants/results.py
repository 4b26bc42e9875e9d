"""What became of mutants, and the reasons why some live on."""

import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .packages import ROOMS
from .places import Change, Place

KILLED, TIMED_OUT, ALIVE, UNREACHED = "killed", "timed out", "alive", "not reached"
EXCUSED = "with a reason"

REASONS = Path(__file__).with_name("reasons.toml")


class Trial(NamedTuple):
    """What became of a mutant."""

    place: Place
    change: Change
    end: str
    tests: int
    """How many tests were asked at most."""
    by: str = ""
    """The test that noticed it, where it is known."""

    def as_json(self) -> str:
        """Return it as a line of text."""
        return json.dumps([str(self.place.file), *self.place[1:], *self.change, *self[2:]])

    @classmethod
    def from_json(cls, text: str) -> "Trial":
        """Read such a line."""
        file, line, column, operator, occurrence, before, after, *rest = json.loads(text)
        place = Place(Path(file), line, column, operator, occurrence)
        return cls(place, Change(before, after), *rest)


def kept(file: Path) -> dict[Place, Trial]:
    """Return what a file has kept of earlier trials."""
    trials = map(Trial.from_json, file.read_text(encoding="utf-8").splitlines())
    return {trial.place: trial for trial in trials}


@cache
def reasons(file: Path = REASONS) -> dict[tuple[str, Change], str]:
    """Return why no test can notice some mutants, by file and what is changed."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("mutant", [])
    return {
        (each["file"], Change(each["before"], each["after"])): each["reason"] for each in entries
    }


def outcome(trial: Trial) -> str:
    """Return what became of a mutant, where a reason counts."""
    known = (str(trial.place.file), trial.change) in reasons()
    return EXCUSED if known and trial.end in {ALIVE, UNREACHED} else trial.end


def line(trial: Trial) -> str:
    """Return what is told of a mutant that was not killed."""
    return f"{outcome(trial)}: {trial.place}\n    {trial.change.before}\n    {trial.change.after}"


def table(trials: Sequence[Trial]) -> str:
    """Return how many of each room were noticed."""
    ends = (KILLED, TIMED_OUT, EXCUSED, ALIVE, UNREACHED)
    lines = [f"{'':12}" + "".join(f"{head:>15}" for head in ("mutants", *ends, "noticed"))]
    there = {trial.place.room for trial in trials}
    for room in (*(each for each in ROOMS if each in there), "all"):
        counts = Counter(outcome(trial) for trial in trials if room in {trial.place.room, "all"})
        share = (counts[KILLED] + counts[TIMED_OUT]) / max(counts.total(), 1)
        figures = "".join(f"{counts[end]:15}" for end in ends)
        lines.append(f"{room:12}{counts.total():15}{figures}{share:15.1%}")
    return "\n".join(lines)
