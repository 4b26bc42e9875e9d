"""Robustness of the claims of the front page, of the studies and of the page of papers.

    python analysis/claim_robustness.py [--worlds N] [--jobs N] [--out DIR] [--page FILE]

Runs the scenarios that the claims are about, prices the runs in worlds that are drawn from the
doubt about every constant, and writes a page with the probability of each claim and what decides
it. A claim that holds in fewer than nine of ten worlds is marked: it is one about constants.
"""

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robustness_questions.rows import rows
from robustness_questions.studies import PAPERS, STUDIES, Study
from studies.who_dies_first import in_worlds

import fedsim
from fedsim.core.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/claim_robustness.md"

HEAD = """# Robustness of the claims

Written by `python analysis/claim_robustness.py`. Every constant of a preset is sampled from its
90 % interval (`fedsim list radios`, `fedsim list devices`), {worlds} worlds or more a study, and
all runs are re-priced in each. *Holds in*: the share of worlds in which the claim is true; in bold
between 10 and 90 %, where constants decide rather than methods. A share near 0 means that the
contrary holds. *Ratio*: as written, and in nine of ten worlds; against all others, it is to the
variant that is cheaper in most worlds. *Decides*: the constant that explains most of the ratio's
variance, and its share (Sobol' total index). Runs with deadlines are in the second table only:
each of their worlds needs a training.

Counts of rounds, messages and bits depend on no constant.
[Claims in time and energy](claims.md) has what the papers claim, figure by figure, on seven radios;
this page has what this project says itself about time and energy.

| study | claim | holds in | ratio | nine of ten | decides |
|---|---|---|---|---|---|
"""

MADE = """
## First depleted batteries

Empty batteries decide which clients take part, so that each world is a run of HB and one of CHB
(`python analysis/studies/who_dies_first.py --worlds {worlds}`), whose batteries and sun stay as
written.

| claim | holds in, of {worlds} |
|---|---|
"""


@dataclass(frozen=True)
class Way:
    """Options of the analysis.

    Attributes:
        out: where run folders go; runs that are there are kept.
        worlds: so many at the least.
        jobs: processes.
        rounds: fewer than the scenarios', for a trial; it is priced until its end.
    """

    out: Path
    worlds: int
    jobs: int = 1
    rounds: int | None = None

    def asked(self, study: Study) -> list[str]:
        """Run a study, price it in its worlds, and return the lines of the page about it.

        Raises:
            DataError: a file of its data is not there.
        """
        fewer = [] if self.rounds is None else [f"stop={{rounds: {self.rounds}}}", "seeds=1"]
        changed = [*study.overrides, *fewer]
        own = self.out / hashlib.sha256(repr((study.scenario, changed)).encode()).hexdigest()[:12]
        scenario = ROOT / "scenarios" / study.scenario
        result = fedsim.run(scenario, out=own / "runs", overrides=changed, jobs=self.jobs)
        if study.radio:
            where = [f"fleet.0.radio={study.radio}"]
            result = fedsim.reprice(result.folder, where, own / study.radio)
        known = fedsim.robust(
            result.folder,
            target=study.target if self.rounds is None else None,
            worlds=self.worlds,
            out=own / f"robustness{study.radio}",
            jobs=self.jobs,
        )
        return list(rows(study, known))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, price and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=2000, help="at the least")
    parser.add_argument("--made", type=int, default=30, help="worlds in which runs are made again")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rounds", type=int, help="fewer than the scenarios', for a trial")
    parser.add_argument("--out", type=Path, default=Path("runs/claim_robustness"))
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args(arguments)
    way = Way(asked.out, asked.worlds, asked.jobs, asked.rounds)
    lines, missing = list[str](), list[str]()
    for study in (*STUDIES, *PAPERS):
        try:
            own = way.asked(study)
        except DataError as error:
            if not study.data:
                raise
            missing.append(f"{study.title}: {error}")
            continue
        lines += own
        print("\n".join(own), flush=True)
    for text in missing:
        print(f"not asked: {text}")
    if missing and asked.page == PAGE:
        print(f"{PAGE} is left as it is")
        return
    fewer = [] if asked.rounds is None else [f"stop={{rounds: {asked.rounds}}}"]
    made = [f"| {words} | {so.sum()} |" for words, so in in_worlds(asked.made, fewer).items()]
    head, more = HEAD.format(worlds=f"{asked.worlds:,}"), MADE.format(worlds=asked.made)
    page = "\n".join([head + "\n".join(lines), more + "\n".join(made), ""])
    asked.page.write_text(page, encoding="utf-8")
    print(f"page in {asked.page}")


if __name__ == "__main__":
    main()
