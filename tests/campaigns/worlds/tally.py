"""How far a campaign has come, in a file: one that is cut off goes on where it was."""

import json
from collections.abc import Iterator
from pathlib import Path

from .campaign import Played
from .playing import Outcome


class Tally:
    """What became of each world, a line of JSON each, appended as they end.

    Args:
        path: the file; None to keep nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> Iterator[Played]:
        """Yield the worlds that were played; a last line that was cut off is left out."""
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                number, *outcome = json.loads(line)
                yield Played(number, Outcome(*outcome))

    def add(self, played: Played) -> None:
        """Append a world."""
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([played.number, *played.outcome]) + "\n")
