"""Let the disk of a study fail in every way: it says so, leaves nothing by halves, and goes on.

    python -m tests.campaigns.faults.disk --count 1000 --seed 1

A case is one of these, while a study is made in one of its ways:

- error: an operation on a file fails, alone or with all that follow, for want of room (ENOSPC), of
  quota (EDQUOT), by a fault of the disk (EIO), or as nothing can be written any more (EROFS); some
  writes get half through before. Counted as faults are: an end without an error where what was
  to be written is not there; an error that is not one line that names the folder and the reason;
  a traceback; a run that counts as ended and is not whole; a folder that cannot be read.
- limit: files may have so many bytes only (RLIMIT_FSIZE), as the system has it: likewise.
- power: the machine goes off amid it: the command is killed, and of each file that it has written
  all, a part, nothing or only zeros is on disk, for nothing is synced. Nothing of that may be taken
  for a run.
- writers: the same command twice at once. Shards share the folder, also two that make the
  same; of ordinary commands one is told who else is there, and that without touching anything.
- clock: the machine's clock goes back or forth by years, once a second or so, before 1970 and
  beyond 2100: files have such times. Nothing but an estimate may depend on that.

Each time the same commands, given again, are to lead to the bytes of the undisturbed study.
"""

import errno
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from fedsim.results.record import lock
from fedsim.running import workers
from tests.campaigns.faults.campaign import command
from tests.campaigns.faults.commands import Ended, begun, ended, given
from tests.campaigns.faults.operations import Operation, Strike, beginning, met
from tests.campaigns.faults.studies import BEFORE, WAYS, Study, alone, noises

KINDS = ("error", "limit", "power", "writers", "clock")
_WEIGHTS = (0.6, 0.1, 0.15, 0.075, 0.075)
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)

_OPERATIONS = {"turn": 175, "jobs": 80, "shards": 125}
_FREEING = frozenset({"unlink", "rmdir"})
_SPARED = {errno.ENOSPC: _FREEING | {"rename"}, errno.EDQUOT: _FREEING | {"rename"}}
"""What goes on where there is no room."""

_COMPARED = 40  # one case in so many has a comparison, which takes long
_YEARS = (-3, -80, 0.001, 2, 90, 300)


@dataclass(frozen=True)
class Case:
    """What is done to a study.

    Attributes:
        number: of the case.
        kind: one of `KINDS`.
        way, before: of the study.
        at: the operation at which something happens; of a limit, its bytes.
        error: the number of the error.
        lasting: whether all that follows fails, too.
        half: whether a write gets half through.
    """

    number: int
    kind: str
    way: str
    before: str
    at: int
    error: int
    lasting: bool
    half: bool

    @property
    def title(self) -> str:
        """What it is counted as."""
        return f"{self.kind}, {self.way}"

    def __str__(self) -> str:
        what = {
            "error": f"{errno.errorcode[self.error]}{' half through' * self.half} at operation"
            f" {self.at}{' and after it' * self.lasting}",
            "limit": f"of {self.at} bytes",
            "power": f"off at operation {self.at}",
        }.get(self.kind, "")
        return f"case {self.number} ({self.way}, {self.before}): {self.kind} {what}".rstrip()


class Failing:
    """Meets operations, and lets them fail from a certain one on."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._halved = False

    def __call__(self, operation: Operation) -> int | None:
        case = self._case
        early, late = operation.number < case.at, operation.number > case.at + self._halved
        if early or (late and not case.lasting):
            return None
        if operation.name in _SPARED.get(case.error, ()):
            return None
        if case.half and operation.name == "write" and not self._halved:
            self._halved = True
            return operation.write_half()
        raise OSError(case.error, os.strerror(case.error))


def case_of(seed: int, number: int) -> Case:
    """Return a case; of each there is one."""
    rng = np.random.default_rng([seed, number, 2])
    kind = str(rng.choice(KINDS, p=_WEIGHTS))
    way = str(rng.choice(list(WAYS), p=(0.6, 0.04, 0.36)))
    least, most = (3000, 12_000) if kind == "limit" else (0, _OPERATIONS[way])
    return Case(
        number,
        kind,
        way,
        str(rng.choice(BEFORE)),
        int(rng.integers(least, most)),
        int(rng.choice(ERRORS)),
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.3),
    )


def faults(case: Case, study: Study) -> Iterator[str]:
    """Yield what is wrong in a case."""
    study.begin()
    yield from _TRIED[case.kind](case, study)
    yield from study.readable(compared=case.number % _COMPARED == 0, damaged=case.kind == "power")
    yield from study.completed()


def _failing(case: Case, study: Study) -> Iterator[str]:
    for words in study.commands:
        if case.way == "jobs":
            begin: Any = partial(beginning, study.out, Failing(case))
            within: Any = patch.object(workers, "_begin", begin)
        else:
            within = met(study.out, Failing(case))
        end = given(words, study.temporary, within)
        reason = os.strerror(case.error)
        yield from _told(end, reason, study)
        if end.code:
            break
    else:
        yield from study.differences(leftovers=False)
    yield from study.mixed()


def _limited(case: Case, study: Study) -> Iterator[str]:
    limit = case.at
    for words in study.commands:
        end = given(words, study.temporary, _limit(limit))
        yield from _told(end, os.strerror(errno.EFBIG), study)
        if end.code:
            break
    else:
        yield from study.differences(leftovers=False)
    yield from study.mixed()


@contextmanager
def _limit(size: int) -> Iterator[None]:
    """Let no file have more bytes, as `ulimit -f` does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield


def _told(end: Ended, reason: str, study: Study) -> Iterator[str]:
    """Yield what is wrong with how a command ends that could not write."""
    yield from alone(end)
    yield from noises(end)
    if end.code == 0:
        return
    lines = [line for line in end.said.splitlines() if reason in line]
    if end.code not in {1, 2} or not any(f"cannot write {study.out}" in line for line in lines):
        yield f"ended with {end.code}: {end.said[-800:]}"
    if len({line for line in lines if not line.startswith("note: ")}) > 1:
        yield f"told more than once: {lines}"


def _off(case: Case, study: Study) -> Iterator[str]:
    rng = np.random.default_rng([case.number, 3])
    for words in study.commands:
        before = {path: path.read_bytes() for path in study.out.rglob("*") if path.is_file()}
        fired = study.temporary / "fired"
        fired.unlink(missing_ok=True)
        strike = Strike(case.at, signal.SIGKILL, fired)
        end = given(words, study.temporary, met(study.out, strike))
        yield from alone(end)
        for path in sorted(each for each in study.out.rglob("*") if each.is_file()):
            content = path.read_bytes()
            if before.get(path) != content and path.name != ".lock":
                path.write_bytes(_torn(content, rng))


def _torn(content: bytes, rng: np.random.Generator) -> bytes:
    """Return what may be on disk of a file that was not synced."""
    cut = int(rng.integers(len(content) + 1))
    torn = (content, content[:cut], b"", bytes(len(content)), content[:cut] + bytes(64))
    return torn[rng.choice(5, p=(0.6, 0.1, 0.1, 0.1, 0.1))]


def _twice(case: Case, study: Study) -> Iterator[str]:
    folders = study.temporary, study.home / "said-too"
    folders[1].mkdir(exist_ok=True)
    words = list(study.commands)
    for both in zip(words, words if case.half else reversed(words), strict=True):
        children = [begun(each, place) for each, place in zip(both, folders, strict=True)]
        ends = [ended(child, place) for child, place in zip(children, folders, strict=True)]
        for end in ends:
            yield from noises(end)
        codes = sorted(end.code for end in ends)
        refused = [end for end in ends if end.code == 2]
        if case.way == "shards" and codes != [0, 0]:
            yield f"of two shards one is refused: {refused[0].said[-300:] if refused else codes}"
        elif codes not in ([0, 0], [0, 2]) or any("is in use: " not in e.said for e in refused):
            yield f"two writers end with {codes}: {[end.said[-300:] for end in ends]}"
    yield from study.differences()


def _jumping(case: Case, study: Study) -> Iterator[str]:
    rng = np.random.default_rng([case.number, 4])
    for words in study.commands:
        yield from noises(given(words, study.temporary, _clock(float(rng.choice(_YEARS)))))
    for path in study.out.rglob("*"):
        moment = datetime.now(UTC).timestamp() + 365.25 * 86400 * float(rng.choice(_YEARS))
        os.utime(path, (moment, moment))
    yield from study.differences()


@contextmanager
def _clock(years: float) -> Iterator[None]:
    """Let the clock be wrong by so many years."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(days=365.25 * years)

    with patch.object(lock, "datetime", Clock):
        yield


_TRIED = {
    "error": _failing,
    "limit": _limited,
    "power": _off,
    "writers": _twice,
    "clock": _jumping,
}


if __name__ == "__main__":
    sys.exit(command("tests.campaigns.faults.disk", case_of, faults))
