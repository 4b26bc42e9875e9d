"""FedGradMP on images (Jeong, Needell, Qin, IEEE Trans. Inf. Theory 2024, Figures 6 and 7).

    python analysis/papers/fedgradmp_images.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts, all of them where none is named; each draws analysis/figures/fedgradmp-<part>.png:

    mnist         softmax regression, 50 pixels a digit: FedGradMP, FedIter-HT and FedAvg
    dictionaries  the same of atoms: pixels, atoms drawn at random, atoms learnt by K-SVD

The paper has federated EMNIST, which no registry has: scenarios/papers/fedgradmp-femnist.yaml
runs with the user's file. Here it is MNIST: FEDSIM_DATA names the folder of its files, or
`fedsim fetch mnist` gets them. What the figures show in detail could not be seen; what is
published here is the paper's claim.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.table import Table

import fedsim
from fedsim.analysis import (
    cost_table,
    cost_to_target,
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

ACCURACY = "test_accuracy"
TARGET = 0.8
MARKS = (1, 2, 5, 10, 20, 50)
"""The rounds at which accuracies are shown."""


@dataclass(frozen=True)
class Part:
    """An experiment; its scenario is fedgradmp-<part>.

    Attributes:
        title: what it is.
        labels: variant -> what it is called.
        claims: variant -> what is published of it.
    """

    title: str
    labels: dict[str, str]
    claims: dict[str, str]


PARTS = {
    "mnist": Part(
        "MNIST, 50 pixels a digit",
        {
            "base": "FedGradMP, K = 3 of 11 gradients",
            "fediter-ht": "FedIter-HT, K = 3",
            "fediter-ht-33": "FedIter-HT, K = 33",
            "fedavg": "FedAvg, K = 3, dense",
            "fedavg-33": "FedAvg, K = 33, dense",
        },
        {"base": "fewest rounds"},
    ),
    "dictionaries": Part(
        "MNIST, 50 atoms a digit",
        {"base": "pixels", "gaussian": "784 random atoms", "k-svd": "196 learnt atoms"},
        {},
    ),
}


def accuracy_table(part: Part, rounds: pd.DataFrame, costs: pd.DataFrame) -> Table:
    """Return a row a variant: mean accuracies by round, and mean rounds to the target."""
    marks = [mark for mark in MARKS if mark <= rounds["round"].max()]
    rows: list[Sequence[str]] = []
    for name, label in part.labels.items():
        means = rounds[rounds["variant"] == name].groupby("round")[ACCURACY].mean()
        own = costs[costs["variant"] == name]
        took = f"{own['round'].mean():.3g}" if own["reached"].all() else "never"
        accuracies = [f"{means[mark]:.3f}" if mark in means else "diverged" for mark in marks]
        rows.append((label, part.claims.get(name, ""), *accuracies, took))
    heads = ("variant", "published", *(f"round {mark}" for mark in marks), f"to {TARGET:g}")
    return listing(f"{part.title}: accuracy on the test images", heads, rows)


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
        The tables of accuracies and of costs, and whether ranks by rounds and by costs agree.
    """
    own, scenario = PARTS[part], SCENARIOS / f"fedgradmp-{part}.yaml"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # steps longer than theory has them
        result = fedsim.run(scenario, out=out / part, overrides=overrides)
    rounds = result.rounds
    if figures:
        title = f"FedGradMP: {own.title}\n{result.setting}"
        labels = typeset_labels(own.labels)
        figure = progress(rounds, labels, ACCURACY, title=title, log=False, target=TARGET)
        save(figure, figures / f"fedgradmp-{part}.png")
    costs = cost_to_target(rounds, TARGET, ACCURACY)
    spent = mean_cost(costs, list(own.labels))
    tables = [
        accuracy_table(own, rounds, costs),
        cost_table(spent, own.labels, f"What an accuracy of {TARGET:g} took"),
    ]
    return tables, ranking(costs, own.labels)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
