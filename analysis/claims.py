"""Claims in time and energy: counts of papers, and what the runs cost by radio and silence.

    python analysis/claims.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

Each claim says that one method needs less of something than another. Both are trained once, by a
scenario of scenarios/papers/, and the log is re-priced under every radio of `RADIOS`. Where a
server waits for a deadline in place of beacons, the replies in time decide, so that those runs
are repeated. The others are also priced in worlds whose constants are sampled from their
intervals. Prints a table a claim with its explanation, and, when all parts run, writes
analysis/claims.md and analysis/figures/claims.png. With --out the runs are kept, and an
interrupted command resumes.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from claim_checks.explanations import Answer, answer, why
from claim_checks.figure import draw
from claim_checks.page import page, table
from claim_checks.papers import CLAIMS
from claim_checks.worlds import runs
from rich.table import Table

from fedsim.analysis import run_parts, save

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/claims.md"
FIGURE = ROOT / "analysis/figures/claims.png"


def main() -> None:
    """Ask the claims, print what they come to, and write the page and its figure."""
    found, changed = dict[str, list[Answer]](), False

    def ask(part: str, out: Path, overrides: Sequence[str]) -> tuple[Sequence[Table], str]:
        nonlocal changed
        changed = bool(overrides)
        worlds = runs(CLAIMS[part], out / part, overrides)
        found[part] = [answer(CLAIMS[part], *each) for each in worlds]
        return [table(CLAIMS[part], found[part])], fill(why(CLAIMS[part], found[part]), 108) + "\n"

    run_parts(__doc__ or "", CLAIMS, ask)
    if len(found) == len(CLAIMS) and not changed:
        PAGE.write_text(page({key: found[key] for key in CLAIMS}), encoding="utf-8")
        save(draw(found), FIGURE)


if __name__ == "__main__":
    main()
