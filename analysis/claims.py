"""Which claims survive? What the papers count, and what the same runs cost by radio and silence.

    python analysis/claims.py [--out DIR] [--set KEY=VALUE] [--seeds N] [CLAIM ...]

Each claim says that one method needs less of something than another. Both are trained once, by a
scenario of scenarios/papers/, and the log is priced again under every radio of `RADIOS`. Where a
method keeps silent, and a server waits for a deadline in the place of beacons, who answers in time
decides, so that those runs are made afresh. Prints a table a claim with what explains it, and, when
all are asked for, writes analysis/claims.md and analysis/figures/claims.png. With --out the runs
are kept, and a command that was cut off goes on.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from textwrap import fill

from claimed.page import page, table
from claimed.papers import CLAIMS
from claimed.picture import draw
from claimed.reasons import Answer, answer, why
from claimed.worlds import runs
from rich.console import Console
from rich.progress import track

from fedsim.analysis import save

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/claims.md"
FIGURE = ROOT / "analysis/figures/claims.png"


def main() -> None:
    """Ask the claims, print what they come to, and write the page and its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=", ".join(CLAIMS))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, help="how many; as the scenarios have it if not given")
    options = parser.parse_args()
    if unknown := [claim for claim in options.claims if claim not in CLAIMS]:
        parser.error(f"no claim {unknown[0]!r}; there are {', '.join(CLAIMS)}")
    overrides = options.overrides + ([f"seeds={options.seeds}"] if options.seeds else [])
    console = Console(width=None if sys.stdout.isatty() else 140)
    found = dict[str, list[Answer]]()
    with tempfile.TemporaryDirectory() as temporary:
        place = options.out or Path(temporary)
        for key in track(options.claims or list(CLAIMS), console=Console(stderr=True)):
            worlds = runs(CLAIMS[key], place / key, overrides)
            found[key] = [answer(CLAIMS[key], *each) for each in worlds]
            console.print(
                table(CLAIMS[key], found[key]), fill(why(CLAIMS[key], found[key]), 108), ""
            )
    if not (options.claims or overrides):
        PAGE.write_text(page(found), encoding="utf-8")
        save(draw(found), FIGURE)


if __name__ == "__main__":
    main()
