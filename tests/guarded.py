"""Cases that may crash, hang or take all memory, played in a process that may die of them.

What plays the cases is made in a process of its own, which has a limit of address space, and an
alarm for every case. Where it dies, that is told of the case that it had begun, and another process
goes on with the next.
"""

import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NamedTuple

FAULT = "fault"
"""The outcome that no case should have."""

ROOM = 3 * 10**9
"""The bytes of address space that cases may take, beside what there is when they begin."""

GROWTH = 600_000
"""The kilobytes that one case may add to the most that were resident."""


class Tried(NamedTuple):
    """What came of one thing that was tried in a case.

    Attributes:
        what: was tried; one of few.
        outcome: one of few, too; `FAULT` for what should not be.
        text: says more of a fault.
    """

    what: str
    outcome: str
    text: str = ""


Play = Callable[[int], Iterable[Tried]]
"""Plays the case of a number."""


class Hang(BaseException):
    """A case takes longer than it may; no `except Exception` is to keep it."""


def guarded(
    prepare: Callable[[], Play], cases: Sequence[int], seconds: int = 30
) -> Iterator[tuple[int, Tried]]:
    """Play cases, and yield what came of each.

    Args:
        prepare: makes what plays them; it is pickled.
        cases: their numbers.
        seconds: of processor time that one may take.
    """
    done = 0
    while done < len(cases):
        ours, theirs = (context := get_context("spawn")).Pipe(duplex=False)
        child = context.Process(target=_child, args=(prepare, cases[done:], seconds, theirs))
        child.start()
        theirs.close()
        ready = False
        try:
            ready = ours.recv()
            while done < len(cases):
                yield from ((cases[done], each) for each in ours.recv())
                done += 1
        except EOFError:
            child.join()
            if not ready:
                raise RuntimeError("what plays the cases cannot be made") from None
            yield cases[done], Tried("the process", FAULT, f"has died ({child.exitcode})")
            done += 1
        finally:
            ours.close()
            child.terminate()
            child.join()


def in_process(play: Play, cases: Iterable[int]) -> Iterator[tuple[int, Tried]]:
    """Play cases in this process, without limits of time and memory; see `guarded`."""
    for number in cases:
        yield from ((number, each) for each in _played(play, number))


def _child(
    prepare: Callable[[], Play], cases: Sequence[int], seconds: int, told: Connection
) -> None:
    """Play cases, and tell of each in turn."""
    play = prepare()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    told.send(True)
    for number in cases:
        told.send(_played(play, number, seconds))


def _played(play: Play, number: int, seconds: int | None = None) -> list[Tried]:
    before = _resident()
    tried: list[Tried] = []
    try:
        with _alarm(seconds):
            tried.extend(play(number))
    except Hang:
        tried.append(Tried("the case", FAULT, f"takes longer than {seconds} s"))
    if (grown := _resident() - before) > GROWTH:
        tried.append(Tried("the case", FAULT, f"takes {grown // 1000} MB of memory"))
    return tried


def _resident() -> int:
    """Return the most kilobytes that were resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _alarm(seconds: int | None) -> Iterator[None]:
    """Raise `Hang` after so many seconds of processor time, or ten times as many of real time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    if seconds is None:
        yield
        return
    signal.signal(signal.SIGPROF, ring)
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def tally(found: Iterable[tuple[int, Tried]], tell: Callable[[str], object]) -> Counter[str]:
    """Count what was tried and what came of it, and tell of each fault as it comes.

    An interrupt ends it: what has been counted by then is returned, as a long campaign may be cut.

    Args:
        found: what came of which case.
        tell: told a line of each fault.
    """
    counts: Counter[str] = Counter()
    number = -1
    try:
        for number, tried in found:
            counts[f"{tried.what}: {tried.outcome}"] += 1
            if tried.outcome == FAULT:
                tell(f"case {number}: {tried.what}: {tried.text}\n")
    except KeyboardInterrupt:
        tell(f"interrupted after case {number}\n")
    return counts


def table(counts: Counter[str]) -> str:
    """Return counts as lines: what was tried, and how often each came of it."""
    rows: dict[str, dict[str, int]] = {}
    for key, count in counts.items():
        what, _, outcome = key.rpartition(": ")
        rows.setdefault(what, {})[outcome] = count
    outcomes = sorted({outcome for row in rows.values() for outcome in row})
    wide = max(map(len, rows), default=0)
    lines = [" " * wide + "".join(f"{outcome:>14}" for outcome in outcomes)]
    for what, row in sorted(rows.items()):
        lines.append(f"{what:{wide}}" + "".join(f"{row.get(each, 0):14,}" for each in outcomes))
    return "\n".join(lines) + "\n"


def faults(counts: Counter[str]) -> int:
    """Return how many of what was tried are faults."""
    return sum(count for key, count in counts.items() if key.endswith(f": {FAULT}"))
