"""Plays many worlds, in as many processes as one likes, and tells what became of them."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from shutil import copy
from typing import NamedTuple

from ruamel.yaml import YAML
from threadpoolctl import threadpool_limits

from .dice import Block
from .drawing import world
from .files import named_in, write_files
from .playing import Outcome, play
from .shrinking import shrunk

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


def campaign(first: int, count: int, jobs: int) -> Iterator[Played]:
    """Play so many worlds from a number on; they come in order."""
    batches = [
        range(start, min(start + _BATCH, first + count))
        for start in range(first, first + count, _BATCH)
    ]
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


def as_yaml(block: Block, path: Path) -> None:
    """Write a world as a file that `fedsim run` takes."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    with path.open("w", encoding="utf-8") as stream:
        yaml.dump(block, stream)


def keep(failed: Played, folder: Path) -> Path:
    """Write a world that failed, made as small as it goes, beside the files that it names."""
    folder.mkdir(parents=True, exist_ok=True)
    with prepared() as files:

        def fails(block: Block) -> bool:
            outcome = play(block, files, twice=failed.outcome.sign == "twice")
            return (outcome.end, outcome.sign) == (failed.outcome.end, failed.outcome.sign)

        small = shrunk(world(failed.number), fails)
        for name in named_in(small):
            copy(files / name, folder / name)
    path = folder / f"world-{failed.number}.yaml"
    as_yaml(small, path)
    return path
