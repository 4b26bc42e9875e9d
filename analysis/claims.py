"""Claims in time and energy: counts of papers, and what the runs cost by radio and silence.

    python analysis/claims.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

A claim says that one method needs less of something than others. It belongs to a figure or a table
of a paper; its methods are trained once, with the settings of that row of analysis/papers. What
holds in the paper's own count is re-priced under every radio of `RADIOS`. Where a server waits for
a deadline in place of beacons, the replies in time decide, so that those runs are repeated. The
others are also priced in worlds whose constants are sampled from their intervals. Prints a table a
claim with its explanation, and, when all parts run, writes analysis/claims.md and
analysis/figures/claims.png. With --out the runs are kept, and an interrupted command resumes. A
part whose files are not here is left out, and then the page stays as it is.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from claim_checks.asking import ask_parts
from claim_checks.explanations import Finding, examine, why
from claim_checks.figure import draw
from claim_checks.page import WIDTH, page, summary, table
from claim_checks.papers import EXPERIMENTS
from rich.table import Table

from fedsim.results.analysis import save

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/claims.md"
FIGURE = ROOT / "analysis/figures/claims.png"


def main() -> None:
    """Ask the claims, print what they come to, and write the page and its figure."""
    found = ask_parts(__doc__ or "", EXPERIMENTS, examine, _show)
    if found is not None:
        PAGE.write_text(page(found), encoding="utf-8")
        save(draw(found), FIGURE)


def _show(findings: list[Finding]) -> tuple[list[Table], str]:
    return [table(each) for each in findings], _explain(findings)


def _explain(findings: Sequence[Finding]) -> str:
    """Return what claims come to, in sentences."""
    said = list[str]()
    for each in findings:
        reasons = why(each.claim, each.answers) if each.answers else ""
        said.append(f"{each.claim.says}. {summary(each)} {reasons}")
    return "\n".join(fill(text, WIDTH) for text in said) + "\n"


if __name__ == "__main__":
    main()
