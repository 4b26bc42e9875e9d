"""Plays many worlds, in as many processes as one likes, and tells what became of them."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from .drawing import world
from .files import write_files
from .playing import Outcome, play

AGAIN = 20
"""Of so many worlds one is run twice."""

_BATCH = 50


class Played(NamedTuple):
    """A world and what became of it."""

    number: int
    outcome: Outcome


@contextmanager
def prepared() -> Iterator[Path]:
    """Provide the files that worlds name, and keep caches and threads from mattering."""
    with tempfile.TemporaryDirectory() as name, threadpool_limits(limits=1):
        folder = Path(name)
        write_files(folder)
        yield folder


def played(numbers: Iterable[int], files: Path) -> list[Played]:
    """Play the worlds of some numbers."""
    return [
        Played(number, play(world(number), files, twice=number % AGAIN == 0)) for number in numbers
    ]


def _batch(numbers: Sequence[int]) -> list[Played]:
    os.environ.setdefault("FEDSIM_CACHE", tempfile.gettempdir())
    with prepared() as files:
        return played(numbers, files)


def campaign(numbers: Sequence[int], jobs: int) -> Iterator[Played]:
    """Play the worlds of some numbers; they come in order."""
    batches = [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)]
    if jobs == 1:
        for batch in batches:
            yield from _batch(batch)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for done in pool.map(_batch, batches):
            yield from done


def report(worlds: Sequence[Played]) -> str:
    """Return how worlds ended, the share that was accepted, and what was refused why."""
    ends = Counter(each.outcome.end for each in worlds)
    accepted = len(worlds) - ends["refused"]
    lines = [
        f"{len(worlds)} worlds, {accepted / max(len(worlds), 1):.1%} accepted as drawn",
        *(f"{count:7}  {end}" for end, count in ends.most_common()),
    ]
    for end in ("done", "refused", "finding"):
        signs = Counter(each.outcome.sign for each in worlds if each.outcome.end == end)
        if signs:
            lines.append(f"{end}:")
            lines += [f"{count:7}  {sign}" for sign, count in signs.most_common()]
    return "\n".join(lines)
