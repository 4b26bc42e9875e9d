"""Kill commands at every moment: the study that is taken up again is the undisturbed one.

    python -m tests.faults.kill --count 1000 --seed 1

A case is a way to make a study, what its folder holds before, a signal, and who gets it: the
command, or one of its workers. It comes at the n-th thing that the process does to a file, right
before it or amid a write, or at a random time. Then the command is given again, and in some
cases killed again, up to three times, on the way. Counted as faults are: after each kill, a
`fedsim status` or `fedsim compare` that says of anything that it is damaged, or shows a
traceback; a run that counts as ended and is not whole; of signals that can be heard, words other
than one line, and anything left behind; a worker's death that ends more than its own run. At the
end: a byte that differs from the undisturbed study's, and any file more or less.
"""

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from fedsim.running import workers
from tests.faults import operations
from tests.faults.commands import Ended, given, load
from tests.faults.operations import Operation, met
from tests.faults.studies import BEFORE, STUDY, WAYS, Study, alone, noises

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_WEIGHTS = (0.6, 0.2, 0.2)
_AGAIN = 0.5  # the share of kills after which another one follows
_MOST = 4  # in a row
_COMPARED = 8  # so many cases have one in which compare is tried, which takes long
_LONGEST = 0.4  # seconds of real time until a random moment


@dataclass(frozen=True)
class Blow:
    """A signal, and when it comes.

    Attributes:
        way: the signal.
        worker: whether a worker gets it.
        number: of the operation at which it comes; -1 for a time.
        amid: whether it comes amid that, where that is a write.
        seconds: from the command's start, where it comes at a time.
        at_once: whether the next command is given before the workers of this one are gone.
    """

    way: signal.Signals
    worker: bool
    number: int
    amid: bool
    seconds: float
    at_once: bool

    def __str__(self) -> str:
        whom = "a worker" if self.worker else "the command"
        when = f"operation {self.number}" if self.number >= 0 else f"{self.seconds:.3f} s"
        return f"{self.way.name} to {whom} {'amid' if self.amid else 'at'} {when}"


@dataclass(frozen=True)
class Case:
    """What is killed, and how often."""

    number: int
    way: str
    before: str
    blows: tuple[Blow, ...]

    def __str__(self) -> str:
        blows = ", then ".join(map(str, self.blows))
        return f"case {self.number} ({self.way}, {self.before}): {blows}"


class _Strike:
    """Meets operations, and sends a signal at one of them.

    Args:
        blow: the signal, and when.
        fired: a file that is made by whoever is the first of several workers.
    """

    def __init__(self, blow: Blow, fired: Path) -> None:
        self._blow, self._fired = blow, fired

    def __call__(self, operation: Operation) -> int | None:
        if operation.number != self._blow.number or not self._is_first():
            return None
        written = operation.write_half() if self._blow.amid else None
        os.kill(os.getpid(), self._blow.way)
        return written or None

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self._fired, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True


def case_of(seed: int, number: int) -> Case:
    """Return a case; of each there is one."""
    rng = np.random.default_rng([seed, number])
    way = str(rng.choice(list(WAYS), p=(0.55, 0.05, 0.4)))
    blows = [_blow(rng, way)]
    while len(blows) < _MOST and rng.random() < _AGAIN:
        blows.append(_blow(rng, way))
    return Case(number, way, str(rng.choice(BEFORE)), tuple(blows))


def _blow(rng: np.random.Generator, way: str) -> Blow:
    number = SIGNALS[rng.choice(3, p=_WEIGHTS)]
    worker = way == "jobs" and bool(rng.random() < 0.5)
    timed = bool(rng.random() < 0.2) and not worker
    most = {"turn": 175, "jobs": 80 if worker else 24, "shards": 125}[way]
    return Blow(
        signal.SIGKILL if worker else number,
        worker,
        -1 if timed else int(rng.integers(most)),
        bool(rng.random() < 0.3),
        float(_LONGEST * rng.random()) if timed else 0.0,
        bool(rng.random() < 0.5),
    )


def faults(case: Case, study: Study) -> Iterator[str]:
    """Yield what is wrong in a case."""
    study.begin()
    for blow in case.blows:
        for words in study.commands:
            ended = struck(study, words, blow)
            if not blow.at_once:
                yield from alone(ended)
            yield from _after(study, ended, blow)
            if ended.code:
                break
        yield from study.mixed()
        yield from study.readable(compared=case.number % _COMPARED == 0)
    yield from study.completed()


def struck(study: Study, words: list[str | Path], blow: Blow) -> Ended:
    """Give a command that gets a blow."""
    fired = study.temporary / "fired"
    fired.unlink(missing_ok=True)
    strike = _Strike(blow, fired)
    within: AbstractContextManager[None] = nullcontext()
    if blow.worker:
        within = patch.object(workers, "_begin", partial(beginning, study.out, strike))
    elif blow.number >= 0:
        within = met(study.out, strike)
    after = (blow.seconds, int(blow.way)) if blow.number < 0 else None
    return given(words, study.temporary, within, after)


def beginning(root: Path, meet: operations.Meet, *given: Any) -> None:
    """Begin a worker, in its own process, that a fault meets from now on."""
    met(root, meet).__enter__()
    workers._begin(*given)


def _after(study: Study, ended: Ended, blow: Blow) -> Iterator[str]:
    """Yield what is wrong with how a command ended."""
    yield from noises(ended)
    accepted = {0} if blow.worker else {0, -blow.way, 128 + blow.way}
    if ended.code not in accepted:
        yield f"{blow}: ended with {ended.code}: {ended.said[-500:]}"
    if ended.code == 128 + blow.way:
        if ended.said.count("interrupted") != 1:
            yield f"{blow}: did not say once that it was interrupted: {ended.said}"
        yield from (f"{blow}: {left}" for left in study.swept())


def campaign(seed: int, numbers: Iterable[int], home: Path) -> Iterator[tuple[Case, list[str]]]:
    """Yield cases, and what is wrong in each."""
    load(STUDY)
    studies: dict[tuple[str, str], Study] = {}
    for number in numbers:
        case = case_of(seed, number)
        key = case.way, case.before
        if key not in studies:
            studies[key] = Study(home, *key)
            assert studies[key].wanted
        yield case, list(faults(case, studies[key]))


def main() -> int:
    """Kill what the command line asks for; return 1 where there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="this one alone")
    asked = parser.parse_args()
    tried, kills, wrong = Counter[str](), 0, 0
    with TemporaryDirectory() as home:
        numbers = range(asked.count) if asked.case is None else [asked.case]
        for case, found in campaign(asked.seed, numbers, Path(home)):
            tried[f"{case.way}, {case.before}"] += 1
            kills += len(case.blows)
            wrong += bool(found)
            for each in found:
                print(f"{case}: {each}", flush=True)  # noqa: T201
    for name, count in sorted(tried.items()):
        print(f"{name:>16} {count:6}")  # noqa: T201
    print(f"{sum(tried.values())} cases, {kills} kills, {wrong} cases with faults")  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
