"""`python -m tests.campaigns.soak events --count 100000000`: go through a load, and tell."""

import argparse
import sys
import tempfile
import tracemalloc
from pathlib import Path

from .loads import LOADS, go_through
from .measuring import FEWEST, Sample, after_warming_up, growth, left_open, slowing

MOST = {"events": 1.0, "rounds": 16.0, "runs": 200.0}
"""Bytes of memory that a further event, round or run may take for good.

Of an event that is not nothing: Parquet's writer holds what a file's footer says of each group of
rows, some 14 kB for 65,536 of them, until the file is closed. A Python object has fifty or more.
"""

SLACK = 2**16
"""Bytes that may come to stay in all, such as the samples themselves."""

SIZES = {"events": 10**6, "rounds": 10**4, "runs": 500}


def main() -> int:
    """Go through what is asked for; return 1 where memory grows, or a file stays open."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.soak", description=__doc__)
    parser.add_argument("load", choices=LOADS, help="what is gone through")
    parser.add_argument("--count", type=int, help="how many events, rounds or runs")
    parser.add_argument("--traced", action="store_true", help="measure Python's own allocator")
    parser.add_argument("--out", type=Path, help="where runs are written; a temporary folder")
    asked = parser.parse_args()
    if asked.traced:
        tracemalloc.start()
    with tempfile.TemporaryDirectory(dir=asked.out) as folder:
        samples = go_through(asked.load, asked.count or SIZES[asked.load], Path(folder))
    if len(samples) < FEWEST:
        parser.error(f"cut off after {len(samples)} samples; growth is told from {FEWEST} on")
    sys.stdout.write(report(asked.load, samples))
    return int(bool(faults(asked.load, samples)))


def allowed(load: str, samples: list[Sample]) -> float:
    """Return how many bytes of each may come to stay."""
    steady = after_warming_up(samples)
    return max(MOST[load], SLACK / (steady[-1].done - steady[0].done))


def faults(load: str, samples: list[Sample]) -> list[str]:
    """Return what has grown and should not."""
    found = []
    slope, most = growth(samples), allowed(load, samples)
    if slope > most:
        found.append(f"memory grows by {slope:.3g} bytes of each, {most:.3g} at most")
    if (handles := left_open(samples)) > 0:
        found.append(f"{handles} files stay open")
    return found


def _size(memory: int) -> str:
    return f"{memory / 2**20:.1f} MiB"


def report(load: str, samples: list[Sample]) -> str:
    """Return a table of what was measured, and the faults."""
    first, last = samples[0], samples[-1]
    pace = (last.done - first.done) / (last.seconds - first.seconds)
    most = max(each.memory for each in samples)
    lines = [
        f"{last.done} {load} in {last.seconds:.0f} s of CPU, {pace:.0f} a second",
        f"memory: {_size(first.memory)} at {first.done}, {_size(last.memory)} at last",
        f"at most: {_size(most)}",
        f"growth: {growth(samples):.3g} bytes of each ({allowed(load, samples):.3g} at most)",
        f"open files: {first.handles} at first, {last.handles} at the end",
        f"time of each, last tenth over first: {slowing(samples):.3f}",
        *(f"fault: {fault}" for fault in faults(load, samples)),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
