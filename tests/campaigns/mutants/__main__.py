"""`python -m tests.campaigns.mutants`: try a sample of mutants, or some of them again."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads cannot be split safely

from tests.tiers import DEFAULT

from .copies import load_libraries, make_copy
from .listed import SAMPLE, listed
from .packages import ROOMS, ROOT
from .places import Place, places, sample
from .reach import Reach, measured
from .results import ALIVE, KILLED, UNREACHED, Trial, kept, line, outcome, table
from .trials import Trials


def main() -> int:
    """Try what the command line asks for; return 1 where a mutant lives on without a reason."""
    asked = arguments()
    if asked.listed:
        return reported(tried_listed(asked), asked, len(listed(asked.listed)))
    chosen = (
        places(ROOT, asked.at)
        if asked.at
        else sample(ROOT, asked.count, asked.seed, asked.rooms, each=asked.each)
    )
    before = kept(asked.out) if asked.out and asked.out.exists() else {}
    left = [place for place in chosen if place not in before]
    earlier = [before[place] for place in chosen if place in before]
    return reported(tried(left, asked), asked, len(chosen), earlier)


def reported(
    trying: Iterator[Trial],
    asked: argparse.Namespace,
    count: int,
    earlier: Sequence[Trial] = (),
) -> int:
    """Print and keep what becomes of mutants; return 1 where one lives on without a reason."""
    trials = [*earlier]
    try:
        for trial in trying:
            trials.append(trial)
            if outcome(trial) != KILLED:
                tell(f"{len(trials)}/{count} {line(trial)}")
            if asked.out:
                with asked.out.open("a", encoding="utf-8") as stream:
                    stream.write(f"{trial.as_json()}\n")
    except KeyboardInterrupt:
        tell(f"interrupted after {len(trials)} of {count} mutants")
    tell(table(trials))
    return int(any(outcome(trial) in {ALIVE, UNREACHED} for trial in trials))


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=600, help="how many mutants")
    parser.add_argument("--each", action="store_true", help="so many of each room")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS, help="only there")
    parser.add_argument(
        "--listed", type=Path, nargs="?", const=SAMPLE, help="those of a list, sample.toml if none"
    )
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant")
    parser.add_argument("--reach", type=Path, help="a file that keeps which test reaches what")
    parser.add_argument("--out", type=Path, help="a file that keeps what became of each")
    parser.add_argument("--at", nargs="+", default=[], help="only these, as they are told")
    parser.add_argument("--fast", action="store_true", help="without the tests marked slow")
    parser.add_argument("--tests", nargs="+", default=[], help="ask these tests alone")
    return parser.parse_args()


def tried_listed(asked: argparse.Namespace) -> Iterator[Trial]:
    """Try the mutants of the list in a copy of the checkout."""
    load_libraries()
    with tempfile.TemporaryDirectory() as folder:
        work, copy = Path(folder), Path(folder, "copy")
        copy.mkdir()
        make_copy(ROOT, copy)
        trials = Trials(copy, work, Reach({}, {}), asked.budget, asked.tests)
        wanted = (
            each
            for each in listed(asked.listed)
            if str(each.file).startswith(tuple(asked.at or [""]))
        )
        yield from trials.of_list(wanted)


def tried(chosen: Sequence[Place], asked: argparse.Namespace) -> Iterator[Trial]:
    """Try mutants one by one in a copy of the checkout."""
    load_libraries()
    with tempfile.TemporaryDirectory() as folder:
        work, copy = Path(folder), Path(folder, "copy")
        copy.mkdir()
        make_copy(ROOT, copy)
        reach = Reach({}, {}) if asked.tests else reached(copy, work, asked)
        trials = Trials(copy, work, reach, asked.budget, asked.tests, tier_of(asked))
        yield from trials.of_places(chosen)


def reached(copy: Path, work: Path, asked: argparse.Namespace) -> Reach:
    """Return which tests reach what, from a file where it is there."""
    if asked.reach and asked.reach.exists():
        return Reach.load(asked.reach)
    reach = measured(copy, work, asked.rooms, tier_of(asked))
    if asked.reach:
        reach.save(asked.reach)
    return reach


def tier_of(asked: argparse.Namespace) -> str:
    """Return the expression of markers that selects the tests."""
    return DEFAULT if asked.fast else ""


def tell(text: str) -> None:
    """Say something at once, as a long campaign is watched."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
