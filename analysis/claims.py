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

from claim_checks.explanations import Finding, examine, why
from claim_checks.figure import draw
from claim_checks.page import WIDTH, page, summary, table
from claim_checks.papers import EXPERIMENTS
from rich.table import Table

from fedsim.analysis import save
from fedsim.analysis.scripts import run_parts
from fedsim.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/claims.md"
FIGURE = ROOT / "analysis/figures/claims.png"


def main() -> None:
    """Ask the claims, print what they come to, and write the page and its figure."""
    found, changed = dict[str, list[Finding]](), False

    def ask(part: str, out: Path, overrides: Sequence[str]) -> tuple[Sequence[Table], str]:
        nonlocal changed
        changed = bool(overrides)
        try:
            found[part] = examine(EXPERIMENTS[part], out / part, overrides)
        except DataError as error:
            return [], f"{part}: not asked. {error}\n"
        return [table(each) for each in found[part]], _explain(found[part])

    run_parts(__doc__ or "", EXPERIMENTS, ask)
    if len(found) == len(EXPERIMENTS) and not changed:
        PAGE.write_text(page({key: found[key] for key in EXPERIMENTS}), encoding="utf-8")
        save(draw(found), FIGURE)


def _explain(findings: Sequence[Finding]) -> str:
    """Return what claims come to, in sentences."""
    said = list[str]()
    for each in findings:
        reasons = why(each.claim, each.answers) if each.answers else ""
        said.append(f"{each.claim.says}. {summary(each)} {reasons}")
    return "\n".join(fill(text, WIDTH) for text in said) + "\n"


if __name__ == "__main__":
    main()
