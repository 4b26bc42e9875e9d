"""What the live page of `fedsim run --watch` costs beside the runs that it shows.

    python analysis/benchmarks/watching.py --rounds 20000 --turns 9

One process makes the first variant of the quickstart, with the page drawn into a terminal that
keeps nothing and without it, in turns. Seconds are those in which a processor was at work, so that
other programs of the machine count little: all threads of the process are in them, that of the page
too. It reports the median of each, and the median and the quartiles of their ratios by turn.
"""

import argparse
import time
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from rich.console import Console

import fedsim
from fedsim.cli.live_page import live_page


def run_once(rounds: int, *, watched: bool) -> float:
    """Make one run; return the seconds of processors that it has taken."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        console = Console(file=StringIO(), force_terminal=True, width=80, height=40)
        overrides = ["variants={}", f"stop={{rounds: {rounds}}}"]
        before = time.process_time()
        with live_page(console, out) if watched else nullcontext():
            fedsim.run("quickstart", out=out, overrides=overrides)
        return time.process_time() - before


def main() -> None:
    """Measure both, and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    run_once(min(given.rounds, 100), watched=True)  # what is loaded once
    pairs = [
        (run_once(given.rounds, watched=False), run_once(given.rounds, watched=True))
        for _ in range(given.turns)
    ]
    ratios = [watched / plain for plain, watched in pairs]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    plain, watched = (median(each) for each in zip(*pairs, strict=True))
    print(f"without the page {plain:.2f} s, with it {watched:.2f} s, medians of {given.turns}")
    print(f"ratio {median(ratios):.4f}, quartiles {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    main()
