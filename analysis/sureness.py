"""In how many worlds do the claims of the front page and of the studies hold?

    python analysis/sureness.py [--worlds N] [--jobs N] [--out DIR] [--page FILE]

Runs the scenarios that the claims are about, prices the runs in worlds that are drawn from the
doubt about every constant, and writes a page with the probability of each claim and what decides
it. A claim that holds in fewer than nine of ten worlds is marked: it is one about constants.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import fedsim
from fedsim.analysis.comparing.doubts import SURE
from fedsim.robustness import Robustness

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "analysis/sureness.md"
_WORDS = {"t": "less time", "joules": "fewer joules"}

_CENSORING = (
    "variants={chb: {algorithm: {kind: chb, step_size: 1/L, momentum: 0.4, censor: 0.1}},"
    " gd: {algorithm: {kind: gd, step_size: 1/L}},"
    " lag: {algorithm: {kind: lag, step_size: 1/L, censor: 0.1}}}"
)


class Study(NamedTuple):
    """A scenario, and claims about it.

    Attributes:
        title: what the page calls it.
        scenario: its file, below scenarios.
        overrides: what is asked of it, where it is not asked as it stands.
        claims: variant, against whom, and the cost that it takes less of.
    """

    title: str
    scenario: str
    overrides: tuple[str, ...]
    claims: tuple[tuple[str, str, str], ...]


def _on(radio: str, pace: str, *settings: str) -> Study:
    radios = tuple(f"fleet.{group}.radio={radio}" for group in range(2))
    claims = tuple(("chb", other, cost) for other in ("base", "gd", "lag") for cost in _WORDS)
    title = f"censoring and tails, {radio}, {pace}"
    scenario = "studies/censoring-and-tails.yaml"
    return Study(title, scenario, (_CENSORING, *radios, *settings), claims)


_FULL = tuple(f"fleet.{group}.device=cortex-m7" for group in range(2))
STUDIES = (
    Study(
        "front page",
        "quickstart.yaml",
        (),
        tuple(("chb", other, cost) for other in ("hb", "gd") for cost in _WORDS),
    ),
    *(_on(radio, "slow gradients") for radio in ("lte", "wifi", "nb-iot")),
    *(_on(radio, "fast gradients", *_FULL) for radio in ("lte", "wifi", "nb-iot")),
    Study(
        "compression and a shared uplink",
        "studies/compression-and-shared-uplink.yaml",
        (),
        (
            ("hb-float16", "base", "t"),
            ("chb-float64", "base", "t"),
            ("chb-float16", "chb-float64", "t"),
            ("chb-float16", "hb-float16", "t"),
            ("chb-float16", "hb-float16", "joules"),
        ),
    ),
    Study(
        "honest bits",
        "studies/honest-bits.yaml",
        (),
        (
            ("base", "top-k", "t"),
            ("base", "rand-k", "t"),
            ("base", "qsgd", "t"),
            ("qsgd-fine", "base", "t"),
            ("qsgd-fine", "base", "joules"),
            ("chb-qsgd-fine", "chb", "t"),
            ("chb-qsgd-fine", "chb", "joules"),
        ),
    ),
)


def rows(study: Study, known: Robustness) -> list[str]:
    """Return the lines of the page about one study."""
    keys = known.verdicts[["variant", "against", "cost"]].itertuples(index=False, name=None)
    table = dict(zip(keys, known.verdicts.to_dict("records"), strict=True))
    lines = []
    for variant, against, cost in study.claims:
        row = table[variant, against, cost]
        names = known.labels[variant], known.labels[against]
        claim = f"{names[0]} takes {_WORDS[cost]} than {names[1]}"
        if row["probability"] != row["probability"]:  # NaN
            lines.append(f"| {study.title} | {claim} | never both | | | |")
            continue
        sure = f"{100 * row['probability']:.3g} %"
        mark = sure if not 1 - SURE < row["probability"] < SURE else f"**{sure}**"
        spread = f"{row['ratio_low']:.3g} to {row['ratio_high']:.3g}"
        lines.append(
            f"| {study.title} | {claim} | {mark} | {row['ratio']:.3g} | {spread} |"
            f" {_decides(known, variant, against, cost)} |"
        )
    return lines


def _decides(known: Robustness, variant: str, against: str, cost: str) -> str:
    """Return the constant that makes most of a ratio's variance, and its share of it."""
    turned = Robustness(
        known.target, known.labels, against, known.table, known.design, known.remarks
    ).deciding
    own = turned[(turned["variant"] == variant) & (turned["cost"] == cost)]
    first = own.sort_values("total", ascending=False, kind="stable").iloc[0]
    return f"{first['constant']} ({min(first['total'], 1.0):.2f})"


HEAD = """# In how many worlds do our claims hold?

Written by `python analysis/sureness.py`. Every constant of a preset is drawn from its 90 %
interval (`fedsim list radios`, `fedsim list devices`), {worlds} worlds or more a study, and all
runs are priced in each. *Holds in*: the share of worlds in which the claim is true; in bold
between 10 and 90 %, where constants decide and not methods. A share near 0 says that the contrary
holds. *Ratio*: as written, and in nine of ten worlds. *Decides*: the constant that most of the
ratio's variance goes with, and how much of it (Sobol' total index). Runs with deadlines are not
asked: each of their worlds takes a training.

| study | claim | holds in | ratio | nine of ten | decides |
|---|---|---|---|---|---|
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, price and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=1000, help="at the least")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rounds", type=int, help="fewer than the scenarios', for a trial")
    parser.add_argument("--out", type=Path, default=Path("runs/sureness"))
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args(arguments)
    lines = []
    for number, study in enumerate(STUDIES):
        fewer = () if asked.rounds is None else (f"stop={{rounds: {asked.rounds}}}", "seeds=1")
        overrides, out = [*study.overrides, *fewer], asked.out / str(number)
        scenario = ROOT / "scenarios" / study.scenario
        result = fedsim.run(scenario, out=out, overrides=overrides, jobs=asked.jobs)
        known = fedsim.robust(
            result.folder, worlds=asked.worlds, out=out / "robustness", jobs=asked.jobs
        )
        lines += rows(study, known)
        print("\n".join(rows(study, known)), flush=True)
    asked.page.write_text(
        HEAD.format(worlds=f"{asked.worlds:,}") + "\n".join(lines) + "\n", encoding="utf-8"
    )
    print(f"page in {asked.page}")


if __name__ == "__main__":
    main()
