"""What the live page of `fedsim run --watch` costs beside the runs that it shows.

    python analysis/benchmarks/watching.py --rounds 20000 --turns 9

One process makes the first variant of `censoring`, in turns without a page and with the page drawn
into a terminal that keeps nothing. Processor seconds are those of all threads of this process, so
that other programs of the machine count little. It reports medians and quartiles, and those of the
ratios to the run without a page of the same turn.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console

import fedsim
from fedsim.cli.live_page import live_page

WAYS = ("run", "run --watch")


class Taken(NamedTuple):
    """What a run has taken, s: of processors, and real time."""

    processor: float
    real: float


@contextmanager
def shown(way: str, out: Path) -> Iterator[None]:
    """Show the runs of a folder within the block."""
    if way == "run --watch":
        with live_page(Console(file=StringIO(), force_terminal=True, width=80, height=40), out):
            yield
    else:
        yield


def run_once(rounds: int, way: str) -> Taken:
    """Make one run; return what it has taken."""
    with TemporaryDirectory() as folder:
        overrides = ["variants={}", f"stop={{rounds: {rounds}}}"]
        own, real = time.process_time(), time.perf_counter()
        with shown(way, Path(folder) / "out"):
            fedsim.run("censoring", out=Path(folder) / "out", overrides=overrides)
            real = time.perf_counter() - real
        return Taken(time.process_time() - own, real)


def spread(values: Sequence[float], digits: int) -> str:
    """Return median and quartiles of some values."""
    low, _, high = quantiles(values, n=4) if len(values) > 1 else [*values] * 3
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def table(taken: Mapping[str, Sequence[Taken]]) -> Iterator[str]:
    """Yield the lines of the table of results, in Markdown."""
    yield "| | processor, s | ratio | real time, s | ratio |"
    yield "|---|---|---|---|---|"
    plain = taken[WAYS[0]]
    for way, own in taken.items():
        pairs = [*zip(own, plain, strict=True)]
        processor = [each.processor for each in own], [a.processor / b.processor for a, b in pairs]
        real = [each.real for each in own], [a.real / b.real for a, b in pairs]
        columns = [spread(processor[0], 2), spread(processor[1], 4)]
        columns += [spread(real[0], 2), spread(real[1], 3)]
        yield f"| `{way}` | {' | '.join(columns)} |"


def main() -> None:
    """Measure all ways in turns, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    for way in WAYS:  # what is loaded once
        run_once(min(given.rounds, 100), way)
    taken: dict[str, list[Taken]] = {way: [] for way in WAYS}
    for turn in range(given.turns):
        for place in range(len(WAYS)):  # each way comes first in turn
            way = WAYS[(turn + place) % len(WAYS)]
            taken[way].append(run_once(given.rounds, way))
    for line in table(taken):
        print(line)


if __name__ == "__main__":
    main()
