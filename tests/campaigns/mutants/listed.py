"""A short list of mutants, each before the tests that have to notice it.

`sample.toml` keeps them: mistakes that were once made on purpose, that no test noticed, and that
the named tests notice now. They are few enough to be tried whenever the project is tested.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .packages import ROOT
from .places import Place

SAMPLE = Path(__file__).with_name("sample.toml")


class Listed(NamedTuple):
    """A mutant that is written down.

    Attributes:
        file: relative to the checkout.
        before: a text that stands in it once.
        after: what the mutant has in its place.
        tests: that notice it: `tests/folder/test_file.py::test_name`.
    """

    file: Path
    before: str
    after: str
    tests: tuple[str, ...]

    def place(self, source: str) -> Place:
        """Return where it is in a text of its file.

        Raises:
            ValueError: what it changes does not stand there once.
        """
        if source.count(self.before) != 1:
            message = f"{self.file} has {source.count(self.before)} times {self.before!r}, not once"
            raise ValueError(message)
        above = source[: source.index(self.before)]
        column = len(above) - above.rfind("\n") - 1
        return Place(self.file, above.count("\n") + 1, column, SAMPLE.stem, 0)

    def mutated(self, source: str) -> str:
        """Return the text of its file with the mutant in it."""
        return source.replace(self.before, self.after)


@cache
def listed(file: Path = SAMPLE) -> tuple[Listed, ...]:
    """Return the list."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
    return tuple(
        Listed(Path(each["file"]), each["before"], each["after"], tuple(each["tests"]))
        for each in entries
    )


def sources_of(mutants: tuple[Listed, ...]) -> dict[Path, str]:
    """Return the texts of the files that mutants change."""
    return {each.file: (ROOT / each.file).read_text(encoding="utf-8") for each in mutants}
