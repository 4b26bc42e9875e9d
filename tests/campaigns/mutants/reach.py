"""Which tests reach which lines, and how long each takes: measured once, by coverage."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

import coverage
import pytest

from .copies import in_copy, run_tests
from .packages import LEFT_OUT, asked, tests_of
from .places import Place, statement_lines
from .plugin import SECONDS_TO


@dataclass(frozen=True)
class Reach:
    """Tests by the lines that they reach."""

    seconds: dict[str, float]
    """What every test took, by its name."""
    contexts: dict[str, dict[int, list[str]]]
    """By file and line: the tests that reached it, or the files of tests whose fixtures did."""
    texts: dict[str, str] = field(default_factory=dict)
    """The hashes of the files as they were then."""

    def tests(self, place: Place, source: str) -> list[str]:
        """Return the tests that reach a mutant's statement, those that should know it first.

        Where none does (it is run at import alone, as a default is, or in processes that nobody
        measures) or the file has changed since, all that reach anything of it; where there are
        none, its room's.
        """
        lines = self.contexts.get(str(place.file), {})
        own = tests_of(place.room)
        found = (
            self._named(name for line in self._lines(place, source) for name in lines.get(line, ()))
            or self._named(name for names in lines.values() for name in names)
            or {test for test in self.seconds if test.startswith(own)}
        )
        return sorted(found, key=lambda test: (not test.startswith(own), self.seconds[test], test))

    def at_import(self, place: Place, source: str) -> bool:
        """Return whether a mutant's statement is run outside of tests, as modules are imported."""
        lines = self.contexts.get(str(place.file), {})
        return any("" in lines.get(line, ()) for line in self._lines(place, source))

    def _lines(self, place: Place, source: str) -> range:
        """Return the lines of a mutant's statement; none where they were others when measured."""
        same = self.texts.get(str(place.file)) == sha256(source.encode()).hexdigest()
        return _statement(place, source) if same else range(0)

    def _named(self, contexts: Iterable[str]) -> set[str]:
        names = set(contexts) - {""}
        files = {name for name in names if "::" not in name}
        of_files = {test for test in self.seconds if test.partition("::")[0] in files}
        return of_files | {name for name in names if name in self.seconds}

    def save(self, file: Path) -> None:
        """Keep it for another time, each name once."""
        names = sorted(
            {name for lines in self.contexts.values() for of in lines.values() for name in of}
        )
        number = {name: place for place, name in enumerate(names)}
        by_line = {
            source: {line: [number[name] for name in of] for line, of in lines.items()}
            for source, lines in self.contexts.items()
        }
        file.write_text(json.dumps([self.seconds, names, by_line, self.texts]), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Reach":
        """Read what was kept."""
        seconds, names, by_line, texts = json.loads(file.read_text(encoding="utf-8"))
        contexts = {
            source: {int(line): [names[number] for number in of] for line, of in lines.items()}
            for source, lines in by_line.items()
        }
        return cls(seconds, contexts, texts)


def _statement(place: Place, source: str) -> range:
    around = (span for span in statement_lines(source) if place.line in span)
    return min(around, key=len, default=range(place.line, place.line + 1))


def measured(copy: Path, work: Path, rooms: Sequence[str], tier: str = "") -> Reach:
    """Run the tests of some rooms and of a tier in the copy under coverage; all take an hour.

    A test that fails without any mutant is left out: it says nothing about one.
    """
    data = work / "coverage"
    code = in_copy(copy, partial(_measure, copy, data, work / "seconds", rooms, tier), work / "log")
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        end = (work / "log").read_text(encoding="utf-8")[-3000:]
        message = f"the tests come to no end without any mutant:\n{end}"
        raise RuntimeError(message)
    read = coverage.CoverageData(str(data))
    read.read()
    contexts = {
        str(Path(file).relative_to(copy)): read.contexts_by_lineno(file)
        for file in read.measured_files()
    }
    texts = {file: sha256((copy / file).read_bytes()).hexdigest() for file in contexts}
    return Reach(json.loads((work / "seconds").read_text(encoding="utf-8")), contexts, texts)


def _measure(copy: Path, data: Path, seconds: Path, rooms: Sequence[str], tier: str) -> int:
    os.environ[SECONDS_TO] = str(seconds)
    measuring = coverage.Coverage(
        data_file=str(data),
        include=[f"{copy}/fedsim/*"],
        omit=[f"{copy}/fedsim/{each}" for each in LEFT_OUT],
        config_file=False,
    )
    measuring.start()
    code = run_tests(asked(rooms), tier=tier)
    measuring.stop()
    measuring.save()
    return code
