"""Notes: what a scenario says that has no effect, or not the one that its words suggest.

They are no errors, and no conditions of a theory. `fedsim check` and `fedsim run` print them alike,
before anything runs where that can be known; `Result.notes` holds them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

RUNS = "runs"
"""The key of what is said of the runs that a folder has from before."""

RISEN = "objective"
"""The key of the note that a run has ended above where it began."""

DESERTED = "clients"
"""The key of the note that a run has ended because no client was left."""

_MARKS = {RISEN: "rose", DESERTED: "no clients left"}
"""What stands behind the label of a variant of which a run has such a note."""


class Note(NamedTuple):
    """A note.

    Attributes:
        about: the variant, or the run.
        key: of the scenario, or one of `RUNS`, `RISEN` and `DESERTED`.
        text: a sentence.
    """

    about: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.key}: {self.text}"


Tell = Callable[[Note], None]
"""Told of every note as it is known."""


def untold(note: Note) -> None:
    """Nobody is told."""


def marked(labels: Mapping[str, str], notes: Sequence[Note]) -> dict[str, str]:
    """Return the labels of variants, with a word at those of which a run has ended badly."""
    marks = {
        note.about.split(", seed")[0]: _MARKS[note.key] for note in notes if note.key in _MARKS
    }
    return {
        name: f"{label} ({marks[name]})" if name in marks else label
        for name, label in labels.items()
    }


def once(notes: Sequence[Note]) -> list[Note]:
    """Return the notes of runs, of several seeds that have one alike the first."""
    alike: dict[tuple[str, str], list[Note]] = {}
    for note in notes:
        alike.setdefault((note.about.split(", seed")[0], note.key), []).append(note)
    return [
        first._replace(text=f"{first.text} ({len(more)} more of its seeds alike)")
        if more
        else first
        for first, *more in alike.values()
    ]
