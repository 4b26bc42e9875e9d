"""On which rates FedGradMP ends nearest: Figures 3 to 5 of the paper, judged on two grids.

    python analysis/papers/fedgradmp_rates.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts, all of them where none is named; each draws fedgradmp-rates-<part>.png:

    noisy        clients' means of variance 0.2 (Figure 3)
    noisier      clients' means of variance 0.5 (Figure 4)
    less-sparse  400 of 1000 entries (Figure 5)

Every method but FedGradMP, which takes no rate, runs under one seed with every rate. The paper's
rates go from 0.01 down to 5e-6; that they are 1 and 5 of every decade is our reading. The wider
grid has rates between those and above them, too.
"""

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table
from ruamel.yaml import YAML

import fedsim
from fedsim.analysis import cost_to_target, listing, progress, run_parts, save, typeset_labels

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

ERROR = "relative_distance"
TARGET = 0.1

PUBLISHED = ("0.01", "0.005", "0.001", "5e-4", "1e-4", "5e-5", "1e-5", "5e-6")
"""The paper's rates."""

WIDER = ("0.3", "0.1", "0.03", "0.003")
"""Rates that the wider grid has beside those."""

METHODS = {
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
        overrides: of the scenario.
    """

    scenario: str
    title: str
    overrides: tuple[str, ...] = ()


PARTS = {
    "noisy": Part("fedgradmp-noisy", "means of variance 0.2"),
    "noisier": Part("fedgradmp-noisy", "means of variance 0.5", ("problem.data.alpha=0.5",)),
    "less-sparse": Part("fedgradmp-400-sparse", "400-sparse"),
}


def swept(scenario: Path) -> dict[str, Any]:
    """Return the variants of a scenario, each with every rate: NAME-at-RATE."""
    written = YAML(typ="safe").load(scenario)["variants"]
    return {
        f"{name}-at-{rate}": block | {"algorithm": block["algorithm"] | {"step_size": float(rate)}}
        for name, block in written.items()
        for rate in (*PUBLISHED, *WIDER)
    }


def ends(rounds: pd.DataFrame) -> dict[str, float]:
    """Return the error of each variant in the last round; none of what diverged before."""
    last = rounds[rounds["round"] == rounds["round"].max()]
    errors = last.groupby("variant", observed=True)[ERROR].mean().dropna()
    return {str(name): float(error) for name, error in errors.items()}


def best(found: dict[str, float], method: str, rates: Iterable[str]) -> str | None:
    """Return the variant of a method that ends nearest with some rates; None where none ends."""
    if method == "base":
        return method if method in found else None
    names = [f"{method}-at-{rate}" for rate in rates if f"{method}-at-{rate}" in found]
    return min(names, key=lambda name: found[name], default=None)


def best_table(part: Part, rounds: pd.DataFrame) -> Table:
    """Return a row a method: its best rate on either grid, rounds to the target, where it ends."""
    found = ends(rounds)
    costs = cost_to_target(rounds, TARGET, ERROR).groupby("variant", observed=True)
    rows: list[Sequence[str]] = []
    for method, label in METHODS.items():
        cells = [label]
        for rates in (PUBLISHED, (*PUBLISHED, *WIDER)):
            name = best(found, method, rates)
            if name is None:
                cells += ["-", "-", "diverges"]
                continue
            own = costs.get_group(name)
            there = f"{own['round'].mean():.0f}" if own["reached"].all() else "never"
            cells += [name.partition("-at-")[2] or "none", there, f"{found[name]:.3g}"]
        rows.append(cells)
    grid = [f"to {TARGET:g}", "ends at"]
    heads = ("method", "paper's grid: rate", *grid, "wider grid: rate", *grid)
    return listing(f"{part.title}: each method at its best rate", heads, rows)


def rate_table(part: Part, rounds: pd.DataFrame) -> Table:
    """Return a row a rate: where every method ends with it."""
    found = ends(rounds)
    methods = [method for method in METHODS if method != "base"]
    rows = []
    for rate in sorted((*PUBLISHED, *WIDER), key=float, reverse=True):
        errors = [found.get(f"{method}-at-{rate}") for method in methods]
        cells = ["diverges" if error is None else f"{error:.3g}" for error in errors]
        rows.append((rate, "paper's" if rate in PUBLISHED else "wider", *cells))
    heads = ("rate", "grid", *(METHODS[method] for method in methods))
    return listing(f"{part.title}: relative error at the end", heads, rows)


def verdict(rounds: pd.DataFrame) -> str:
    """Return on which grid FedGradMP ends nearest."""
    found, said = ends(rounds), []
    for grid, rates in (("the paper's grid", PUBLISHED), ("the wider grid", (*PUBLISHED, *WIDER))):
        names = {method: best(found, method, rates) for method in METHODS}
        errors = {method: found[name] for method, name in names.items() if name}
        said.append(f"on {grid} {METHODS[min(errors, key=lambda each: errors[each])]}")
    return f"Nearest at the end: {', '.join(said)}."


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
        The tables by method and by rate, and on which grid FedGradMP ends nearest.
    """
    own = PARTS[part]
    scenario = SCENARIOS / f"{own.scenario}.yaml"
    variants = f"variants={json.dumps(swept(scenario))}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that FedIter-HT's batch is constant
        result = fedsim.run(
            scenario,
            out=out / part,
            overrides=["seeds=1", variants, *own.overrides, *overrides],
        )
    rounds = result.rounds
    if figures:
        found = ends(rounds)
        chosen = {method: best(found, method, PUBLISHED) for method in METHODS}
        labels = typeset_labels({name: METHODS[each] for each, name in chosen.items() if name})
        title = f"FedGradMP: {own.title}, best rates of the paper's grid\n{result.setting}"
        figure = progress(rounds, labels, ERROR, ylabel="relative error", title=title)
        save(figure, figures / f"fedgradmp-rates-{part}.png")
    return [best_table(own, rounds), rate_table(own, rounds)], verdict(rounds)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
