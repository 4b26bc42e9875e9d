"""`python -m tests.campaigns`: run every campaign, or some of them, at a share of their cases."""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import NamedTuple


class Part(NamedTuple):
    """A command of a campaign.

    Attributes:
        module: below `tests.campaigns`.
        words: what it is told whatever the share.
        cases: how many the whole of it has; zero where cases have no number.
        shortened: what it is told in place of a count below the whole.
    """

    module: str
    words: tuple[str, ...] = ()
    cases: int = 0
    shortened: tuple[str, ...] = ()

    def command(self, share: float) -> list[str]:
        """Return the words that follow `python -m`, for a share of the cases."""
        if share < 1 and self.shortened:
            return [f"tests.campaigns.{self.module}", *self.words, *self.shortened]
        count = ["--count", str(max(1, round(self.cases * share)))] if self.cases else []
        return [f"tests.campaigns.{self.module}", *self.words, *count]


CAMPAIGNS: dict[str, tuple[Part, ...]] = {
    "worlds": (Part("worlds", cases=20_000), Part("worlds.in_arrays", cases=12_000)),
    "soak": (
        Part("soak", ("events",), 10**8),
        Part("soak", ("rounds",), 10**5),
        Part("soak", ("runs",), 10**4),
    ),
    "flips": (Part("flips", cases=10_000),),
    "same_bytes": (Part("same_bytes", shortened=("--few",)),),
    "hostile": (
        Part("hostile", ("scenarios",), 100_000),
        Part("hostile", ("data",), 60_000),
        Part("hostile", ("wire",), 1_000_000),
    ),
    "faults": (Part("faults.kill", cases=2000), Part("faults.disk", cases=2000)),
    "cluster_faults": (Part("cluster_faults", cases=600),),
    "mutants": (Part("mutants", cases=600, shortened=("--listed",)),),
}
"""Every campaign, and the commands of the whole of it."""


class Ended(NamedTuple):
    """A command that has ended, with what it printed and the seconds that it took."""

    words: list[str]
    code: int
    printed: str
    seconds: float


def main() -> int:
    """Run what the command line asks for; return 1 where a campaign has found something."""
    asked = arguments()
    commands = [
        part.command(asked.share) for name in asked.names or CAMPAIGNS for part in CAMPAIGNS[name]
    ]
    if asked.list:
        tell("\n".join(f"python -m {' '.join(words)}" for words in commands))
        return 0
    found = [each for each in ended(commands, asked.jobs) if each.code]
    for each in found:
        tell(f"ended with code {each.code}: python -m {' '.join(each.words)}")
    return int(bool(found))


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--share", type=float, default=1, help="of the cases of each, up to 1")
    parser.add_argument("--jobs", type=int, default=1, help="how many commands at a time")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in CAMPAIGNS]:
        parser.error(f"there is no campaign {', '.join(unknown)}; expected {', '.join(CAMPAIGNS)}")
    if not 0 < asked.share <= 1:
        parser.error(f"--share: got {asked.share:g}; expected a number above 0, up to 1")
    return asked


def ended(commands: Sequence[list[str]], jobs: int) -> Iterator[Ended]:
    """Run commands, so many at a time; tell of each as it ends, in order."""
    with ThreadPoolExecutor(jobs) as pool:
        for each in pool.map(run, commands):
            tell(f"== python -m {' '.join(each.words)}: {each.seconds:.0f} s\n{each.printed}")
            yield each


def run(words: list[str]) -> Ended:
    """Run one command."""
    begun = monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ended(words, done.returncode, done.stdout, monotonic() - begun)


def tell(text: str) -> None:
    """Say something at once, as campaigns are long."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
