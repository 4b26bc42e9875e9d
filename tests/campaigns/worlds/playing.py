"""Plays one world, and says how it ended: done, stopped, refused, or with a finding."""

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import fedsim
from fedsim.core.errors import ScenarioError, TheoryWarning
from fedsim.results.record.summary import ENDS
from fedsim.scenario import load
from fedsim.sim.engine.calendar import Calendar

from .auditor import audit
from .dice import Block
from .evidence import Evidence
from .rules import recomputed

MOST_EVENTS = 4_000_000
"""What is scheduled in a world at most, which has a few rounds of a few clients.

A million or two there are where all wait two days for a client and another one's small battery
dies twice a second, or a trace of milliseconds lets few bits a second pass."""

End = Literal["done", "nobody left", "diverged", "refused", "finding"]


class Outcome(NamedTuple):
    """How a world ended.

    Attributes:
        end: of which kind.
        text: why.
        sign: what makes two outcomes the same, such as the kind of a finding.
    """

    end: End
    text: str
    sign: str


class Endless(BaseException):
    """A world schedules more than any world of its size has reason to.

    No `Exception`, so that nobody who lets a run fail gracefully takes it for a failed run.
    """


class Bounded(Calendar):
    """A calendar that comes to an end."""

    def __init__(self) -> None:
        super().__init__()
        self._eid: Any = _serials()


def _serials() -> Iterator[int]:
    yield from range(MOST_EVENTS)
    raise Endless(f"more than {MOST_EVENTS} events")


@contextmanager
def _strictly() -> Iterator[None]:
    """Let every warning but those of theory be an error, and calendars be bounded."""
    with warnings.catch_warnings(), patch("fedsim.sim.world.Calendar", Bounded):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TheoryWarning)
        yield


def play(world: Block, files: Path, *, twice: bool = False) -> Outcome:
    """Play a world.

    Args:
        world: the scenario, with paths relative to `files`.
        files: the folder of the files that it names.
        twice: whether it is to be run again, for the same bytes.
    """
    with tempfile.TemporaryDirectory() as out, chdir(files), _strictly(), recomputed():
        try:
            return _play(world, Path(out), twice=twice)
        except ScenarioError as error:
            return _refused(error)
        except (Exception, Endless) as error:
            return _failed(error)


def _play(world: Block, out: Path, *, twice: bool) -> Outcome:
    (folder,) = fedsim.run(world, out=out / "first", check=False).runs
    (variant,) = load(world).variants
    run = Evidence.of(folder, variant.scenario)
    status, reason = run.summary["status"], run.reason
    if status not in {*ENDS, "diverged"}:
        return Outcome("finding", f"{status}: {reason}", f"status {status}")
    if findings := audit(run):
        return Outcome("finding", "\n".join(findings), findings[0].partition(":")[0])
    if twice:
        (again,) = fedsim.run(world, out=out / "second", check=False).runs
        if different := _different(folder, again):
            return Outcome("finding", f"run again, it writes another {different}", "twice")
    if status == "diverged":
        return Outcome("diverged", reason, "diverged")
    if status == "no-clients":
        return Outcome("nobody left", reason, "nobody left")
    return Outcome("done", reason, reason.partition(":")[0])


def _different(one: Path, other: Path) -> str:
    """Return the name of a file that differs between two folders; empty for none."""
    names = sorted({path.name for folder in (one, other) for path in folder.iterdir()})
    for name in names:
        files = [folder / name for folder in (one, other)]
        if not all(map(os.path.isfile, files)):
            return name
        if files[0].read_bytes() != files[1].read_bytes():
            return name
    return ""


def _refused(error: ScenarioError) -> Outcome:
    """A refusal names a key and a reason."""
    first = error.faults[0]
    if not all(fault.key and fault.message for fault in error.faults):
        return Outcome("finding", f"a refusal without a key: {error}", "nameless refusal")
    key = re.sub(r"\.\d+", "", first.key)
    return Outcome("refused", str(error), f"{key}: {_plain(first.message)}")


def _failed(error: BaseException) -> Outcome:
    frames = [frame for frame in extract_tb(error.__traceback__) if "fedsim" in frame.filename]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-5:]))
    text = f"{type(error).__name__}: {error} ({where})"
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return Outcome("finding", text, f"{type(error).__name__} in {place}")


def _plain(text: str) -> str:
    """Return a message without its numbers and names, so that the like of it count together."""
    text = re.sub(r'"[^"]*"', "...", text)
    return re.sub(r"[-+]?\d[\d.e+-]*", "N", text)[:90]
