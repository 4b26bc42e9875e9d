"""What the campaigns of faults have in common: cases by their numbers, and a table of counts."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

from tests.campaigns.faults.commands import load
from tests.campaigns.faults.studies import STUDY, Study


class Case(Protocol):
    """A case: a way to make a study, what its folder holds before, and what is done to it."""

    @property
    def way(self) -> str: ...

    @property
    def before(self) -> str: ...

    @property
    def title(self) -> str:
        """What it is counted as."""
        ...


_C = TypeVar("_C", bound=Case)


class Studies:
    """Studies that have been made undisturbed, each once.

    Args:
        home: an empty folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[tuple[str, str], Study] = {}
        load(STUDY)

    def of(self, case: Case) -> Study:
        """Return the study of a case."""
        key = case.way, case.before
        if key not in self._known:
            study = Study(self._home, *key)
            assert study.wanted
            self._known[key] = study
        return self._known[key]


def command(
    name: str,
    case_of: Callable[[int, int], _C],
    faults: Callable[[_C, Study], Iterator[str]],
) -> int:
    """Try what the command line asks for; print each fault, then counts; return 1 with faults."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--count", type=int, default=100, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="the one of this number alone")
    asked = parser.parse_args()
    numbers: Iterable[int] = range(asked.count) if asked.case is None else [asked.case]
    tried, wrong = Counter[str](), 0
    with TemporaryDirectory() as home:
        studies = Studies(Path(home))
        try:
            for number in numbers:
                case = case_of(asked.seed, number)
                found = list(faults(case, studies.of(case)))
                tried[case.title] += 1
                wrong += bool(found)
                for each in found:
                    _say(f"{case}: {each}")
        except KeyboardInterrupt:
            _say("interrupted")
    for title, count in sorted(tried.items()):
        _say(f"{title:>20} {count:6}")
    _say(f"{sum(tried.values())} cases, {wrong} with faults")
    return int(bool(wrong))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
