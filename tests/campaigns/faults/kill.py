"""Kill commands at every moment: the study that is taken up again is the undisturbed one.

    python -m tests.campaigns.faults.kill --count 1000 --seed 1

A case is a way to make a study, what its folder holds before, a signal, and who gets it: the
command, or one of its workers. It comes at the n-th thing that the process does to a file, right
before it or amid a write, or at a random time. Then the command is given again, and in some
cases killed again, up to three times, on the way. Counted as faults are: after each kill, a
`fedsim status` or `fedsim compare` that says of anything that it is damaged, or shows a
traceback; a run that counts as ended and is not whole; of signals that can be heard, words other
than one line, and anything left behind; a worker's death that ends more than its own run. At the
end: a byte that differs from the undisturbed study's, and any file more or less.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fedsim.running import workers
from tests.campaigns.faults.campaign import command
from tests.campaigns.faults.commands import Ended, given
from tests.campaigns.faults.operations import Strike, beginning, met
from tests.campaigns.faults.studies import BEFORE, WAYS, Study, alone, noises

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_WEIGHTS = (0.6, 0.2, 0.2)
_AGAIN = 0.5  # the share of kills after which another one follows
_MOST = 4  # in a row
_COMPARED = 40  # so many cases have one in which compare is tried, which takes long
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

    @property
    def title(self) -> str:
        """What it is counted as."""
        return f"{self.way}, {len(self.blows)} in a row"

    def __str__(self) -> str:
        blows = ", then ".join(map(str, self.blows))
        return f"case {self.number} ({self.way}, {self.before}): {blows}"


def case_of(seed: int, number: int) -> Case:
    """Return a case; of each there is one."""
    rng = np.random.default_rng([seed, number])
    way = str(rng.choice(list(WAYS), p=(0.58, 0.02, 0.4)))
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
            before = study.leftovers()
            ended = struck(study, words, blow)
            if not blow.at_once:
                yield from alone(ended)
            yield from _after(ended, blow)
            if ended.code == 128 + blow.way:
                left = study.leftovers() - before
                yield from (f"{blow}: {each} is left behind" for each in sorted(left))
            if ended.code:
                break
        yield from study.mixed()
        yield from study.readable(compared=case.number % _COMPARED == 0)
    yield from study.completed()


def struck(study: Study, words: list[str | Path], blow: Blow) -> Ended:
    """Give a command that gets a blow."""
    fired = study.temporary / "fired"
    fired.unlink(missing_ok=True)
    strike = Strike(blow.number, blow.way, fired, half=blow.amid)
    within: AbstractContextManager[None] = nullcontext()
    if blow.worker:
        begin: Any = partial(beginning, study.out, strike)
        within = patch.object(workers, "_begin", begin)
    elif blow.number >= 0:
        within = met(study.out, strike)
    after = (blow.seconds, int(blow.way)) if blow.number < 0 else None
    return given(words, study.temporary, within, after)


def _after(ended: Ended, blow: Blow) -> Iterator[str]:
    """Yield what is wrong with how a command ended."""
    yield from noises(ended)
    accepted = {0} if blow.worker else {0, -blow.way, 128 + blow.way}
    if ended.code not in accepted:
        yield f"{blow}: ended with {ended.code}: {ended.said[-500:]}"
    if ended.code == 128 + blow.way and ended.said.count("interrupted") != 1:
        yield f"{blow}: did not say once that it was interrupted: {ended.said}"


if __name__ == "__main__":
    sys.exit(command("tests.campaigns.faults.kill", case_of, faults))
