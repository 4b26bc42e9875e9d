"""Which clients should a server ask: what does an accuracy cost, by policy and fleet?

    python analysis/studies/selection.py [--out DIR] [--jobs N]

Runs scenarios/studies/selection.yaml on three fleets: devices near and far, batteries that differ,
and continents with clean and dirty electricity. Prints what the accuracy took in rounds, bits,
seconds, joules and grams, writes that as selection.csv, and draws it as
analysis/figures/selection.png. P is the share of seeds in which a policy is cheaper than a uniform
sample, with an interval of 90 % (Jeffreys).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from conducting import chance, conduct, interval
from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.results.analysis import (
    COLOURS,
    cost_to_target,
    label_axis,
    listing,
    panels,
    quantity,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/selection.yaml"
FIGURE = ROOT / "analysis/figures/selection.png"
COSTS = Path(__file__).with_suffix(".csv")

POLICIES = {
    "base": "uniform",
    "weighted": "by samples",
    "age": "oldest updates",
    "importance": "importance",
    "pow-d": "power-of-choice, asked",
    "rpow-d": "power-of-choice, last loss",
    "oort": "Oort",
    "eafl": "energy-aware (EAFL)",
    "harvest": "energy-aware, by harvest",
    "carbon": "carbon-aware",
    "pow-d-oracle": "power-of-choice, oracle",
    "oort-oracle": "Oort, oracle",
}

PHONE = {"device": "phone-mid", "radio": "lte", "carbon": "DE"}
FULL = {"capacity": "0.008 Wh", "charge": "100 %"}
LOW = {"capacity": "0.008 Wh", "charge": "40 %"}
PANEL = {"charging": {"kind": "constant", "power": "0.5 W"}}
PI = {"device": "pi-4", "radio": "wifi"}

FLEETS: dict[str, tuple[str, list[dict[str, Any]] | None]] = {
    "near-far": ("near and far", None),
    "batteries": (
        "on batteries",
        [
            {"count": 10, **PHONE, "battery": FULL},
            {"count": 10, **PHONE, "battery": {**FULL, **PANEL}},
            {"count": 10, **PHONE, "battery": LOW},
            {"count": 10, **PHONE, "battery": {**LOW, **PANEL}},
        ],
    ),
    "continents": (
        "on continents",
        [
            {"count": 10, **PI, "carbon": "SE"},
            {"count": 10, **PI, "carbon": "DE"},
            {"count": 20, **PI, "carbon": "IN"},
        ],
    ),
}
"""Each fleet's name, and its groups; None for that of the scenario."""

TARGET, MEASURE = 0.92, "train_accuracy"
FIGURES = ("round", "bits", "t", "joules", "grams")


def asked(out: Path | None = None, overrides: Sequence[str] = (), jobs: int = 1) -> pd.DataFrame:
    """Run the scenario on every fleet.

    Returns:
        A row a run: fleet, variant, seed, reached, round, bits (both ways), t (s), joules, grams;
        NaN where the accuracy was not reached.
    """
    tables = []
    for fleet, (_, groups) in FLEETS.items():
        own = [] if groups is None else [f"fleet={json.dumps(groups)}"]
        result = fedsim.run(
            SCENARIO, out=out and out / fleet, overrides=[*own, *overrides], jobs=jobs
        )
        tables.append(costs(result.rounds, TARGET).assign(fleet=fleet))
    return pd.concat(tables, ignore_index=True)


def costs(rounds: pd.DataFrame, target: float) -> pd.DataFrame:
    """Return what the accuracy took: a row a run."""
    spent = cost_to_target(rounds, target, MEASURE)
    return spent.assign(bits=spent["bits_up"] + spent["bits_down"])[
        ["variant", "seed", "reached", *FIGURES]
    ]


def against(spent: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Return how a policy compares with a uniform sample, seed by seed.

    A run that does not reach the accuracy costs more than one that does; two of these say nothing.

    Returns:
        A row a fleet and policy: fleet, variant, median (NaN where half of the runs do not get
        there), ratio (the median of the ratios of seeds in which both do), probability,
        probability_low, probability_high (of being cheaper), reached (the share of runs).
    """
    rows = []
    for fleet, own in spent.groupby("fleet", sort=False):
        table = own.pivot_table(figure, "seed", "variant", observed=True, dropna=False)
        table = table.reindex(columns=list(POLICIES)).fillna(np.inf)
        base = table["base"]
        for variant in POLICIES:
            mine = table[variant]
            counted = np.isfinite(mine) | np.isfinite(base)
            wins, tries = int((mine < base)[counted].sum()), int(counted.sum())
            ties = int((mine == base)[counted].sum())
            share = wins + ties / 2
            low, high = interval(share, tries)
            both = np.isfinite(mine) & np.isfinite(base)
            rows.append({
                "fleet": fleet,
                "variant": variant,
                "median": mine.median() if np.isfinite(mine.median()) else np.nan,
                "ratio": (mine[both] / base[both]).median() if both.any() else np.nan,
                "probability": share / tries if tries else np.nan,
                "probability_low": low,
                "probability_high": high,
                "reached": float(np.isfinite(mine).mean()),
            })  # fmt: skip
    return pd.DataFrame(rows)


def tables(spent: pd.DataFrame) -> list[Table]:
    """Return a table for each fleet."""
    units = {"round": "", "bits": "bit", "t": "s", "joules": "J", "grams": "g"}
    every = {figure: against(spent, figure).set_index(["fleet", "variant"]) for figure in FIGURES}
    made = []
    for fleet, (name, _) in FLEETS.items():
        rows = []
        for variant, policy in POLICIES.items():
            t, joules = (_row(every[figure], fleet, variant) for figure in ("t", "joules"))
            rows.append((
                policy,
                f"{t['reached']:.0%}",
                *(quantity(every[each]["median"][fleet, variant], units[each]) for each in FIGURES),
                *("" if variant == "base" else chance(each) for each in (t, joules)),
            ))  # fmt: skip
        heads = ("policy", "reached", "round", "bits", "time", "energy", "CO2")
        title = f"{name}: medians until {TARGET:.0%} of the training data are right"
        made.append(listing(title, (*heads, "P(faster)", "P(less energy)"), rows))
    return made


def _row(table: pd.DataFrame, fleet: str, variant: str) -> Any:
    return table.loc[(fleet, variant), :]


def finding(spent: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    t, joules = (against(spent, each).set_index(["fleet", "variant"]) for each in ("t", "joules"))
    real = [each for each in POLICIES if not each.endswith("oracle")]
    parts = []
    for fleet, (name, _) in FLEETS.items():
        own = joules.loc[fleet].reindex(real)
        ratios = own["ratio"][own["reached"] == 1].drop("base", errors="ignore").dropna()
        text = f"On the fleet {name} no policy always gets there"
        if not ratios.empty:
            best, worst = str(ratios.idxmin()), str(ratios.idxmax())
            text = (
                f"On the fleet {name} {POLICIES[best]} takes {ratios[best]:.2f} of the energy"
                f" of a uniform sample and {t['ratio'][fleet, best]:.2f} of the time (in the median"
                f" seed; P of less energy {chance(_row(joules, fleet, best))}, and of less time"
                f" {chance(_row(t, fleet, best))}), and"
                f" {POLICIES[worst]} {ratios[worst]:.2f} of the energy and"
                f" {t['ratio'][fleet, worst]:.2f} of the time"
            )
        late = own[own["reached"] < 1]
        parts.append("; ".join([text, *(
            f"{POLICIES[str(each)]} gets there in {share:.0%} of the runs"
            for each, share in late["reached"].items()
        )]) + ".")  # fmt: skip
    return fill(" ".join(parts), 88)


def draw(spent: pd.DataFrame) -> Figure:
    """Draw time and energy to the accuracy: a row a policy, one mark per seed; a panel a fleet."""
    figure, every = panels(6, 3, 3.0, sharey=True)
    names = list(POLICIES.values())
    seeds = spent["seed"].nunique()
    for place, (fleet, (name, _)) in enumerate(FLEETS.items()):
        own = spent[spent["fleet"] == fleet]
        for axis, (column, label, unit) in zip(
            (every[place], every[place + 3]),
            (("t", "time", "s"), ("joules", "energy", "J")),
            strict=True,
        ):
            for row, variant in enumerate(POLICIES):
                values = own.loc[own["variant"] == variant, column].dropna()
                colour = COLOURS[1] if variant.endswith("oracle") else COLOURS[0]
                axis.plot(values, [row] * len(values), "o", color=colour, ms=3, alpha=0.4)
                if len(values) == seeds:
                    axis.plot(values.median(), row, "|", color=colour, ms=12, mew=2)
                elif len(values):
                    axis.annotate(
                        f"{len(values)} of {seeds}", (values.max(), row),
                        (5, -2), textcoords="offset points", fontsize=6,
                    )  # fmt: skip
            label_axis(axis.xaxis, f"{label}, {name}", unit, log=True)
            axis.set_yticks(range(len(names)), names)
            axis.set_ylim(len(names) - 0.5, -0.5)
    entitle(
        figure,
        f"Client selection: {TARGET:.0%} of digits right, 5 of 40 clients a round\n"
        f"one mark per seed ({seeds}), bars the medians; oracles in the other colour",
    )
    return figure


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    conduct(__doc__, asked, (tables, finding, draw), FIGURE, [COSTS])


if __name__ == "__main__":
    main()
