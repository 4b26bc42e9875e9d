"""The synthetic experiments of Jeong, Needell, Qin (FedGradMP, IEEE Trans. Inf. Theory 2024).

    python analysis/papers/fedgradmp.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts, all of them where none is named:

    noiseless   30 clients, and FedIter-HT over its rates; fedgradmp-noiseless.png
    cohort      50 clients: heterogeneity, local steps, cohorts; fedgradmp-cohort.png
    noisy       five methods on noisy labels, clients' means of variance 0.2; fedgradmp-noisy.png
    noisier     the same with clients' means of variance 0.5; fedgradmp-noisier.png
    less-sparse the same of a model with 400 entries; fedgradmp-less-sparse.png
    divergence  FedIter-HT at rates from 0.004 to 0.02; fedgradmp-divergence.png
    work        local steps and cohorts in the paper's settings; fedgradmp-work.png
    noisy-work  the same with noisy labels; fedgradmp-noisy-work.png

fedgradmp_rates.py has noisy, noisier and less-sparse at every rate of the paper's grid.
The paper plots its results; what is published here is what it says of them.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.analysis import (
    AXES,
    cost_table,
    cost_to_target,
    label_axis,
    listing,
    mean_cost,
    progress,
    ranking,
    run_parts,
    save,
    typeset_labels,
)

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

ERROR = "relative_distance"

FIVE = {
    "base": "FedGradMP",
    "fediter-ht": "FedIter-HT",
    "fedavg": "FedAvg",
    "fedmid": "FedMiD",
    "fed-dual-avg": "FedDualAvg",
}


@dataclass(frozen=True)
class Part:
    """An experiment.

    Attributes:
        scenario: its file.
        title: what it is.
        labels: variant -> what it is called.
        claims: variant -> what is published of it.
        marks: the rounds at which errors are shown.
        target: the relative error that costs are compared at.
        overrides: of the scenario.
        ranked: the variants whose costs are ranked; all where none is named.
        drawn: the variants in the figure; all where none is named.
    """

    scenario: str
    title: str
    labels: dict[str, str]
    claims: dict[str, str]
    marks: tuple[int, ...]
    target: float
    overrides: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


NOISY = {"base": "fewest rounds, lowest error"}

WORK = {
    "base": "K = 3, cohort of 30",
    "steps-5": "K = 5, cohort of 30",
    "steps-10": "K = 10, cohort of 30",
    "steps-15": "K = 15, cohort of 30",
    "cohort-20": "K = 3, cohort of 20",
    "cohort-10": "K = 3, cohort of 10",
}

WORK_CLAIMS = {"steps-15": "faster", "cohort-10": "slower"}

PARTS = {
    "noiseless": Part(
        "fedgradmp-noiseless",
        "30 clients, noiseless",
        {"fedgradmp": "FedGradMP", "base": "FedIter-HT, 1e-4"}
        | {
            f"iht-{rate}": f"FedIter-HT, {rate}"
            for rate in ["5e-4", "1e-3", "5e-3", "1e-2", "2e-2"]
        },
        {"fedgradmp": "machine precision in 4"} | {"base": "stalls or diverges, as below"},
        (1, 2, 3, 4, 10, 50),
        1e-10,
    ),
    "cohort": Part(
        "fedgradmp-cohort",
        "50 clients, noiseless",
        {"base": "alpha = 1, K = 3, all 50"}
        | {f"alpha-{alpha}": f"alpha = {alpha}" for alpha in ("0", "0.1", "10", "100")}
        | {f"steps-{steps}": f"K = {steps}" for steps in (5, 7, 10, 15)}
        | {f"cohort-{count}": f"cohort of {count}" for count in (25, 10, 5, 1)},
        {"alpha-0": "faster", "alpha-100": "slower", "steps-15": "faster", "cohort-1": "slower"},
        (1, 2, 3, 4, 8),
        1e-10,
        ranked=("base", "cohort-25", "cohort-10", "cohort-5", "cohort-1"),
        drawn=("base", "alpha-0", "alpha-100", "steps-15", "cohort-10", "cohort-1"),
    ),
    "noisy": Part(
        "fedgradmp-noisy",
        "50 clients, means of variance 0.2",
        FIVE,
        NOISY,
        (2, 5, 10, 50, 100),
        0.1,
    ),
    "noisier": Part(
        "fedgradmp-noisy",
        "50 clients, means of variance 0.5",
        FIVE,
        NOISY,
        (2, 5, 10, 50, 100),
        0.1,
        (
            "problem.data.alpha=0.5",
            "variants.fediter-ht.algorithm.step_size=0.03",
            *(f"variants.{name}.algorithm.step_size=0.001" for name in list(FIVE)[2:]),
        ),
    ),
    "less-sparse": Part(
        "fedgradmp-400-sparse",
        "50 clients, 400-sparse",
        FIVE,
        NOISY,
        (2, 5, 10, 50, 100),
        0.3,
    ),
    "divergence": Part(
        "fedgradmp-divergence",
        "30 clients, alpha = 2.5, noiseless",
        {"fedgradmp": "FedGradMP", "base": "FedIter-HT, 0.004"}
        | {f"iht-{rate}": f"FedIter-HT, {rate}" for rate in ["0.008", "0.012", "0.016", "0.02"]},
        {"fedgradmp": "converges", "base": "does not diverge", "iht-0.02": "diverges"},
        (1, 2, 3, 4, 10, 20),
        1e-10,
    ),
    "work": Part(
        "fedgradmp-local-work",
        "50 clients, alpha = 2.5, noiseless",
        WORK,
        WORK_CLAIMS,
        (1, 2, 3, 4, 5),
        1e-10,
    ),
    "noisy-work": Part(
        "fedgradmp-local-work",
        "50 clients, alpha = 2.5, noisy",
        WORK,
        WORK_CLAIMS,
        (1, 2, 3, 5, 10),
        0.2,
        ("problem.data.noise=0.005",),
    ),
}


def error_table(part: Part, rounds: pd.DataFrame, costs: pd.DataFrame) -> Table:
    """Return a row a variant: errors by round, as means, and rounds to the target.

    Variants with a run that diverged come last.
    """
    marks = [mark for mark in part.marks if mark <= rounds["round"].max()]
    there = [name for name in part.labels if name in set(rounds["variant"])]
    cells = {name: [error_at(rounds, name, mark) for mark in marks] for name in there}
    rows: list[Sequence[str]] = [
        (part.labels[name], part.claims.get(name, ""), *cells[name], reached(costs, name))
        for name in sorted(there, key=lambda name: "diverged" in cells[name][-1])
    ]
    heads = ("variant", "published", *(f"round {mark}" for mark in marks), f"to {part.target:g}")
    return listing(f"{part.title}: relative error", heads, rows)


def error_at(rounds: pd.DataFrame, variant: str, mark: int) -> str:
    """Return the mean error of a variant after a round; how many of its runs diverged, if any.

    A run that diverges ends there, so that it has no error in the rounds after.
    """
    own = rounds[rounds["variant"] == variant]
    errors = own.loc[own["round"] == mark, ERROR].replace(np.inf, np.nan).dropna()
    lost = own["seed"].nunique() - len(errors)
    if not lost:
        return f"{errors.mean():.2g}"
    return "diverged" if errors.empty else f"{lost} diverged"


def reached(costs: pd.DataFrame, variant: str) -> str:
    """Return the rounds of a variant to the target: their mean, least and largest over seeds."""
    own = costs[costs["variant"] == variant]
    if not own["reached"].all():
        return f"{own['reached'].sum()} of {len(own)} runs"
    low, high = own["round"].min(), own["round"].max()
    return f"{low:.0f}" if low == high else f"{own['round'].mean():.1f} ({low:.0f}-{high:.0f})"


def draw(part: Part, result: fedsim.Result) -> Figure:
    """Draw errors against rounds, bits, seconds and joules."""
    labels = typeset_labels({name: part.labels[name] for name in part.drawn or part.labels})
    title = f"FedGradMP: {part.title}\n{result.setting}"
    figure = progress(result.rounds, labels, ERROR, ylabel="relative error", title=title)
    # What methods send differs by a factor of a hundred.
    bits = figure.axes[1]
    bits.autoscale(axis="x")
    label_axis(bits.xaxis, *AXES["bits"], log=True)
    return figure


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = FIGURES
) -> tuple[list[Table], str]:
    """Run a part.

    Args:
        part: of `PARTS`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes; None to draw none.

    Returns:
        The tables of errors and of costs, and whether ranks by rounds and by costs agree.
    """
    own = PARTS[part]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that FedIter-HT's batch is constant
        result = fedsim.run(
            SCENARIOS / f"{own.scenario}.yaml",
            out=out / part,
            overrides=[*own.overrides, *overrides],
        )
    rounds = result.rounds
    if figures:
        save(draw(own, result), figures / f"fedgradmp-{part}.png")
    costs = cost_to_target(rounds, own.target, ERROR)
    ranked = {name: own.labels[name] for name in own.ranked or own.labels}
    spent = mean_cost(costs, list(own.labels))
    title = f"What a relative error of {own.target:g} took"
    tables = [error_table(own, rounds, costs), cost_table(spent, own.labels, title)]
    return tables, ranking(costs, ranked)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
