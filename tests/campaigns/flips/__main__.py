"""`python -m tests.campaigns.flips`: damage many files, or show one case."""

import argparse
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guarded import faults, guarded, in_process, table, tally

from . import __doc__ as about
from .campaign import Flips


def main() -> int:
    """Do what the command line asks for; return 1 where there is a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.flips",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign")
    parser.add_argument("--uses", type=int, default=1, help="of each damaged folder")
    parser.add_argument("--case", type=int, help="play this one only, in this process")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="flips-") as folder:
        if asked.case is not None:
            flips = Flips(Path(folder), asked.seed, asked.uses)
            name, damage, uses = flips.case(asked.case)
            sys.stdout.write(f"{name}: {damage}; {', '.join(uses)}\n")
            found = in_process(flips, [asked.case])
        else:
            prepare = partial(Flips, Path(folder), asked.seed, asked.uses)
            found = guarded(prepare, range(asked.count))
        counts = tally(found, sys.stdout.write)
    sys.stdout.write(table(counts))
    return int(faults(counts) > 0)


if __name__ == "__main__":
    sys.exit(main())
