"""`python -m tests.campaigns.hostile`: read much that means harm, or one case of it."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guarded import Play, faults, guarded, in_process, table, tally

from . import __doc__ as about
from .data import Files
from .scenarios import Scenarios
from .wire import EACH, Strings

TARGETS: dict[str, Callable[[Path, int], Play]] = {
    "scenarios": Scenarios,
    "data": Files,
    "wire": Strings,
}


def main() -> int:
    """Do what the command line asks for; return 1 where there is a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.hostile",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign")
    parser.add_argument("--case", type=int, help="play this one only, in this process")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="hostile-") as folder:
        prepare = partial(TARGETS[asked.target], Path(folder), asked.seed)
        if asked.case is not None:
            found = in_process(prepare(), [asked.case])
        else:
            each = EACH if asked.target == "wire" else 1
            found = guarded(prepare, range(-(-asked.count // each)))
        counts = tally(found, sys.stdout.write)
    sys.stdout.write(table(counts))
    return int(faults(counts) > 0)


if __name__ == "__main__":
    sys.exit(main())
