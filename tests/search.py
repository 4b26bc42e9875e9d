"""The random search: the property tests with other examples every time, as often as one likes.

`python -m tests.search --times 20 tests/wire` runs those below tests/wire under twenty seeds.
What fails is told with its seed and its smallest example, and belongs into the test as an
`@example`, for the tests themselves draw the same examples every time.
"""

import argparse
import subprocess
import sys


def command(seed: int, arguments: list[str]) -> list[str]:
    """Return the command that searches under one seed."""
    profile = ["--hypothesis-profile=search", f"--hypothesis-seed={seed}"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "hypothesis"]
    return [*pytest, *profile, *arguments]


def main() -> int:
    """Search; return 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--times", type=int, default=10, help="how many seeds")
    asked, arguments = parser.parse_known_args()
    seeds = range(asked.seed, asked.seed + asked.times)
    codes = [subprocess.run(command(seed, arguments), check=False).returncode for seed in seeds]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
