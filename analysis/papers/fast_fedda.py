"""The experiments of Bao, Crawshaw, Luo, Liu (Fast-FedDA, ICML 2022).

    python analysis/papers/fast_fedda.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are sparse, low-rank, average, emnist-10 and emnist-62, all where none is named; each runs
its scenario under scenarios/papers/ and draws analysis/figures/fast-fedda-<part>.png. The third is
sparse regression of 36 clients, once more with the mean of the models, which the theorems speak of;
the last two take a femnist.npz of yours, of which the first keeps the digits. The paper plots
its results; the figures printed beside the measured ones are those of an independent run, with
one seed, of the settings in the authors' code. The settings leave open the radius of C-FedDA,
here 1e4, and those of MC-FedDA for matrices. FedMiD is also run with the clients' prox alone,
which is what fits those figures.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich.table import Table

import fedsim
from fedsim.analysis import (
    Decisions,
    cost_to_target,
    listing,
    mean_cost,
    progress,
    quantity,
    run_parts,
    save,
)
from fedsim.analysis.compare.cost_tables import with_bits

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

LABELS = {
    "fedmid": "FedMiD",
    "fedmid-clients": "FedMiD, clients' prox alone",
    "fed-dual-avg": "FedDualAvg",
    "base": "Fast-FedDA",
    "c-fedda": "C-FedDA",
    "mc-fedda": "MC-FedDA",
    "combined": "Fast-FedDA, one vector up",
    "average": "Fast-FedDA, mean of models",
    "mc-fedda-average": "MC-FedDA, mean of models",
}

KNOWN_AS = {"fedmid-clients": "fedmid", "combined": "base"}
"""Variants that are compared with what is known of another."""

MARKS = (250, 500, 1000, 2000)
"""The rounds at which errors of the sparse setting are known; the last one is its last."""

ERRORS = {
    "fedmid": (9.23, 3.72, 0.81, 0.45),
    "fed-dual-avg": (9.40, 3.89, 0.83, 0.42),
    "base": (5.63, 1.80, 0.51, 0.40),
    "c-fedda": (6.10, 2.03, 0.56, 0.42),
    "mc-fedda": (5.05, 1.52, 0.46, 0.42),
}
"""l2 errors of the sparse setting at `MARKS`, independent run."""

RANKS = {name: ("0.5", "31-32" if name == "fedmid" else "16") for name in ERRORS}
"""Frobenius error and rank at the end of the low-rank setting, independent run."""

TARGET = 1.0
"""The error that costs are compared at; every method gets below it."""

GOAL = f"an error of {TARGET:g}"
"""What is awaited, in words."""

ACCURACY = "accuracy on the test rows"

ACCURATE_AT = (50, 100, 200, 500)
"""The rounds at which accuracies are shown."""

COSTS = {"round": "rounds", "bits": "bits", "t": "seconds", "joules": "joules"}


def scenario(part: str) -> Path:
    """Return the scenario of a part."""
    return SCENARIOS / f"fedda-{part}.yaml"


def labels(rounds: pd.DataFrame) -> dict[str, str]:
    """Return the names of the variants that have run, in the order of `LABELS`."""
    seen = set(rounds["variant"])
    return {name: label for name, label in LABELS.items() if name in seen}


def measured(rounds: pd.DataFrame, column: str, variant: str, number: int, form: str) -> str:
    """Return the mean of a column in one round of a variant, with least and largest by seed."""
    rows = rounds[(rounds["variant"] == variant) & (rounds["round"] == number)]
    values = rows[column]
    if values.empty:
        return "-"
    if len(values) == 1:
        return format(values.iloc[0], form)
    return f"{values.mean():{form}} ({values.min():{form}}-{values.max():{form}})"


def sparse_table(rounds: pd.DataFrame) -> Table:
    """Return a row a method and round: l2 error known and measured, and F1 of the support."""
    rows: list[Sequence[str]] = []
    for name, label in labels(rounds).items():
        known = ERRORS[KNOWN_AS.get(name, name)]
        for number, wanted in zip(MARKS, known, strict=True):
            error, score = (
                measured(rounds, column, name, number, ".2f")
                for column in ("distance", "support_f1")
            )
            title = label if number == MARKS[0] else ""
            rows.append((title, str(number), f"{wanted:.2f}", error, score))
    heads = ("method", "round", "l2 error, known", "measured", "F1 of the support")
    return listing("Sparse regression, support threshold 0.01", heads, rows)


def rank_table(rounds: pd.DataFrame) -> Table:
    """Return a row a method: error in two norms and rank after the last round."""
    last, rows = rounds["round"].max(), list[Sequence[str]]()
    for name, label in labels(rounds).items():
        figures = [
            measured(rounds, column, name, last, form)
            for column, form in (("distance", ".2f"), ("operator_distance", ".2f"), ("rank", ".0f"))
        ]
        rows.append((label, *RANKS[KNOWN_AS.get(name, name)], *figures))
    heads = ("method", "error, known about", "rank, known", "Frobenius", "operator norm", "rank")
    return listing(f"Low-rank regression after {last} rounds", heads, rows)


def average_table(rounds: pd.DataFrame) -> Table:
    """Return a row a method: its l2 error at `MARKS`, of the last model or of their mean."""
    rows = [
        (label, *(measured(rounds, "distance", name, number, ".2f") for number in MARKS))
        for name, label in labels(rounds).items()
    ]
    heads = ("method", *(f"round {number}" for number in MARKS))
    return listing("Sparse regression, 36 clients: l2 error", heads, rows)


def accuracy_table(rounds: pd.DataFrame) -> Table:
    """Return a row a method: accuracy on the test rows by rounds, and the last model's nonzeros."""
    marks = [mark for mark in ACCURATE_AT if mark <= rounds["round"].max()]
    last, rows = rounds["round"].max(), list[Sequence[str]]()
    for name, label in labels(rounds).items():
        accuracies = (measured(rounds, "test_accuracy", name, mark, ".1%") for mark in marks)
        rows.append((label, *accuracies, measured(rounds, "nonzeros", name, last, ".0f")))
    heads = ("method", *(f"round {mark}" for mark in marks), "nonzeros at the end")
    return listing("Federated EMNIST: accuracy on the test rows", heads, rows)


class Part(NamedTuple):
    """What a part shows.

    Attributes:
        title: of its figure.
        table: of its results.
        measure: the column that is drawn.
        called: what its axis says.
        target: of that column, at which costs are compared.
    """

    title: str
    table: Callable[[pd.DataFrame], Table]
    measure: str = "distance"
    called: str = "distance to the truth"
    target: float = TARGET


PARTS = {
    "sparse": Part("sparse regression", sparse_table),
    "low-rank": Part("low-rank regression", rank_table),
    "average": Part("mean of the models", average_table),
    "emnist-10": Part("EMNIST-10", accuracy_table, "test_accuracy", ACCURACY, 0.8),
    "emnist-62": Part("EMNIST-62", accuracy_table, "test_accuracy", ACCURACY, 0.5),
}


def spent(rounds: pd.DataFrame, target: float = TARGET, measure: str = "distance") -> pd.DataFrame:
    """Return what each run has spent when it has reached a target, with bits of both ways."""
    return with_bits(cost_to_target(rounds, target, measure))


def costs(rounds: pd.DataFrame, target: float = TARGET, measure: str = "distance") -> pd.DataFrame:
    """Return what the methods have spent, on the mean, when they have reached a target.

    Returns:
        A row a variant that gets there under all seeds: round, bits (both ways), t (s), joules.
    """
    table = spent(rounds, target, measure)
    means = mean_cost(table, list(LABELS)).set_index("variant")
    means["bits"] = means["bits_up"] + means["bits_down"]
    return means.loc[means["reached"] == means["runs"], list(COSTS)].dropna()


def cost_table(table: pd.DataFrame, goal: str = GOAL) -> Table:
    """Return the costs as a table for reading."""
    units = {"round": "", "bits": "bit", "t": "s", "joules": "J"}
    rows = [
        (LABELS[str(name)], *(quantity(row[cost], unit) for cost, unit in units.items()))
        for name, row in table.iterrows()
    ]
    return listing(f"To {goal}", ("method", *COSTS.values()), rows)


def finding(runs: pd.DataFrame, goal: str = GOAL) -> str:
    """Return whether the paper's methods rank by bits, seconds and joules as they do by rounds.

    Args:
        runs: as `spent` has them; the rule of `fedsim compare` decides which is cheaper, among
            the methods that get there under all seeds.
        goal: where, in words.
    """
    decided, reached = Decisions.of(runs, list(COSTS)), runs.groupby("variant")["reached"].all()
    there = {name: LABELS[name] for name in ERRORS if reached.get(name, default=False)}
    orders = {cost: decided.chain(cost, there) for cost in COSTS}
    same = [COSTS[cost] for cost, order in orders.items() if order == orders["round"]]
    text = f"To {goal} the order by {_listed(same)} is {orders['round']}"
    for cost, order in orders.items():
        if order != orders["round"]:
            text += f"; by {COSTS[cost]} it is {order}"
    if {"base", "combined"} <= set(reached[reached].index):
        saved = 1 - decided.pair("combined", "base", "bits").ratio
        text += f". Fast-FedDA with one vector up takes {saved:.0%} fewer bits"
    return f"{text}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
        The tables of results and of costs, and the finding.
    """
    result = fedsim.run(scenario(part), out=out / part, overrides=overrides)
    rounds = result.rounds
    name, table, measure, called, target = PARTS[part]
    if figures:
        title = f"Fast-FedDA: {name}\n{result.setting}"
        figure = progress(rounds, labels(rounds), measure, ylabel=called, title=title)
        save(figure, figures / f"fast-fedda-{part}.png")
    means = costs(rounds, target, measure)
    goal = f"an error of {target:g}" if measure == "distance" else f"an accuracy of {target:.0%}"
    return [table(rounds), cost_table(means, goal)], finding(spent(rounds, target, measure), goal)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
