"""The experiments of Tong et al. (Fed-HT and FedIter-HT, Algorithms 2022).

    python analysis/papers/fed_ht.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are regression (Simulation I), classification (Simulation II), mnist, classification-100
(Simulation II with the paper's 100 clients), e2006 and rcv1, all of them where none is named; each
runs its scenario under scenarios/papers/ and draws analysis/figures/fed-ht-<part>.png. The
last two and mnist need files: FEDSIM_DATA names their folder, or `fedsim fetch` gets them.

The published claims are those of the paper's figures: FedIter-HT gets to where Distributed-IHT
is after 100 rounds (I) or 200 (II) in about 20, or 50. It says neither which K this is of, nor
the batch; fed_ht_rates.py has the step sizes and readings of the data for which it holds.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.table import Table

import fedsim
from fedsim.analysis import (
    cost_table,
    cost_to_end,
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

LABELS = {
    "base": "Distributed-IHT",
    "fed-ht-5": "Fed-HT, K = 5",
    "fed-ht-10": "Fed-HT, K = 10",
    "fediter-ht-3": "FedIter-HT, K = 3",
    "fediter-ht-5": "FedIter-HT, K = 5",
    "fediter-ht-8": "FedIter-HT, K = 8",
    "fediter-ht-10": "FedIter-HT, K = 10",
}

TITLES = {
    "regression": "Simulation I, 100 clients",
    "classification": "Simulation II, 20 clients",
    "mnist": "MNIST, two clusters a client",
    "classification-100": "Simulation II, 100 clients",
    "e2006": "E2006-tfidf, two clusters a client",
    "rcv1": "RCV1, two clusters a client",
}
"""What a part is; all fleets are of phones over LTE."""

COLUMNS = {"mnist": "test_accuracy"}
"""What is compared, where it is not the objective."""

CLAIMS = {
    "regression": "about 20",
    "classification": "about 50",
    "classification-100": "about 50",
}
"""Rounds of FedIter-HT to where Distributed-IHT ends, as published."""

MARKS = (10, 20, 50, 100, 200)
"""The rounds at which values are shown."""


def scenario(part: str) -> Path:
    """Return the scenario of a part."""
    return SCENARIOS / f"fed-ht-{part}.yaml"


def column(part: str) -> str:
    """Return the column of the round table that a part compares."""
    return COLUMNS.get(part, "objective")


def spans(costs: pd.DataFrame, variant: str) -> str:
    """Return the rounds of a variant: the mean, and least and largest over seeds."""
    own = costs[costs["variant"] == variant]
    if not own["reached"].all():
        return f"reached in {own['reached'].sum()} of {len(own)} runs"
    low, high = own["round"].min(), own["round"].max()
    return f"{low:.0f}" if low == high else f"{own['round'].mean():.0f} ({low:.0f}-{high:.0f})"


def value_table(part: str, rounds: pd.DataFrame, costs: pd.DataFrame) -> Table:
    """Return a row a method: its values by round, and its rounds to where the base ends."""
    marks = [mark for mark in MARKS if mark <= rounds["round"].max()]
    means = rounds.groupby(["variant", "round"], observed=True)[column(part)].mean()
    rows: list[Sequence[str]] = []
    for name in _names(rounds):
        values = [f"{means.get((name, mark), float('nan')):.4g}" for mark in marks]
        claim = CLAIMS.get(part, "") if name.startswith("fediter") else ""
        rows.append((LABELS[name], *values, claim, spans(costs, name)))
    heads = ("method", *(f"round {mark}" for mark in marks), "published", "rounds to the first's")
    return listing(f"{TITLES[part]}: {column(part).replace('_', ' ')}", heads, rows)


def _names(rounds: pd.DataFrame) -> list[str]:
    return [name for name in LABELS if name in set(rounds["variant"])]


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = FIGURES
) -> tuple[list[Table], str]:
    """Run a part.

    Args:
        part: of `TITLES`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes; None to draw none.

    Returns:
        The tables of results and of costs, and whether ranks by rounds and by costs agree.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that the batch does not grow
        result = fedsim.run(scenario(part), out=out / part, overrides=overrides)
    rounds = result.rounds
    if figures:
        log = column(part) == "objective"
        title = f"FedIter-HT: {TITLES[part]}\n{result.setting}"
        labels = typeset_labels({name: LABELS[name] for name in _names(rounds)})
        figure = progress(rounds, labels, column(part), title=title, log=log)
        save(figure, figures / f"fed-ht-{part}.png")
    costs = cost_to_end(rounds, "base", column(part))
    spent = mean_cost(costs, _names(rounds))
    tables = [
        value_table(part, rounds, costs),
        cost_table(spent, LABELS, "What it took to where Distributed-IHT ends"),
    ]
    return tables, ranking(costs, LABELS)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", TITLES, run)


if __name__ == "__main__":
    main()
