"""One claim each of five further methods: published beside measured.

    python analysis/papers/further.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are scaffnew, ef21-p, marina-p, pp-marina and fedexprox, all where none is named. Each
runs scenarios/papers/further-PART.yaml with what its claim varies, every method at the best of a
few step sizes (those that the table names), until f - f* is below the scenario's gap; it prints
rounds, bits, seconds and joules, and what of the claim they show, and draws
analysis/figures/further-PART.png. The papers' settings are not those of the scenarios, which are
small and convex: the claims are of what costs grow with, and that is what is measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.analysis import (
    cost_to_target,
    entitle,
    label_axis,
    listing,
    look,
    name_variants,
    panels,
    quantity,
    run_parts,
    save,
)

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

TARGET = 1e-6
"""The gap f - f* that costs are compared at."""

COSTS = {"round": "", "bits_up": "bit", "bits_down": "bit", "t": "s", "joules": "J"}
"""What it costs to get below the gap, and the units."""


@dataclass(frozen=True)
class Case:
    """A method at one value of what the claim varies.

    Attributes:
        method: what tables call it.
        x: that value.
        overrides: of the scenario.
        tuned: what is tuned: overrides, of which the one with the fewest rounds counts.
    """

    method: str
    x: float
    overrides: tuple[str, ...]
    tuned: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A part: a claim, and what it takes to ask it.

    Attributes:
        published: what the paper says, and where.
        varied: what the claim varies, for heads of tables and axes.
        cases: the runs.
        cost, shown: the column of costs that it is about, and what the figure calls it.
        finding: says what of it was measured, of the table of `table`.
    """

    published: str
    varied: str
    cases: tuple[Case, ...]
    cost: str
    shown: str
    finding: Callable[[pd.DataFrame], str]


def steps(factors: Sequence[float], constant: str = "L_max") -> tuple[str, ...]:
    """Return overrides that set step sizes, as multiples of an inverse smoothness constant."""
    return tuple(f"algorithm.step_size={factor:g}/{constant}" for factor in factors)


def block(kind: str, **keys: object) -> tuple[str, ...]:
    """Return overrides that put a method in the place of the scenario's."""
    return f"algorithm.kind={kind}", *(f"algorithm.{key}={value}" for key, value in keys.items())


# -- the cases -------------------------------------------------------------------------

L2 = {64: 0.1, 630: 0.01, 6289: 0.001}
"""The l2 weight, which is mu, by the condition number L_max/mu that it gives."""


def scaffnew() -> Iterator[Case]:
    """Yield gradient descent, SCAFFOLD and Scaffnew by condition number."""
    for kappa, l2 in L2.items():
        weight, p = f"problem.loss.l2={l2:g}", 1 / sqrt(kappa)
        yield Case("gradient descent", kappa, (weight,), steps([1]))
        local = block("scaffold", local_steps=round(1 / p))
        yield Case("SCAFFOLD", kappa, (weight, *local), steps([1, 0.3, 0.1]))
        own = block("scaffnew", probability=round(p, 4))
        yield Case("Scaffnew", kappa, (weight, *own), steps([1]))


def bidirectional() -> Iterator[Case]:
    """Yield DIANA with neither, one, and both directions compressed, by what is kept of 30."""
    for kept in (1, 3):
        ways = {"neither": (30, 30), "up": (kept, 30), "down": (30, kept), "both": (kept, kept)}
        for name, counts in ways.items():
            wire = (
                f"wire.{way}.compressor.count={count}"
                for way, count in zip(("up", "down"), counts, strict=True)
            )
            yield Case(name, kept, tuple(wire), steps([2, 1, 0.5]))


def downlinks() -> Iterator[Case]:
    """Yield MARINA-P and EF21-P with d/n coordinates down, by the number of clients n."""
    for n, kept in ((1, 30), (4, 8), (16, 2)):
        fleet = (
            f"problem.split.clients={n}",
            f"fleet.0.count={n}",
            f"wire.down.compressor.count={kept}",
        )
        yield Case("MARINA-P", n, fleet, steps([1, 0.5], "L"))
        own = ("algorithm.kind=fedavg", "wire.down.error_feedback=ef21")
        yield Case("EF21-P", n, (*fleet, *own), steps([1, 0.5], "L"))


def samples() -> Iterator[Case]:
    """Yield PP-MARINA by how many of 16 clients are asked in a round."""
    for r in (1, 2, 4, 8, 16):
        yield Case("PP-MARINA", r, (f"participation.count={r}",), steps([1, 0.5, 0.2, 0.1], "L"))


def extrapolated() -> Iterator[Case]:
    """Yield FedProx and FedExProx by mu = 1/gamma."""
    for mu in (5, 20):
        weight = (f"algorithm.mu={mu}", f"algorithm.step_size={round(1 / (45 + mu), 4)}")
        alphas = tuple(f"algorithm.extrapolation={alpha}" for alpha in (2, 4, 6, 8))
        kind = "algorithm.kind=fedexprox"
        yield Case("FedProx", mu, weight, ())
        yield Case("FedExProx, best constant", mu, (*weight, kind), alphas)
        yield Case("FedExProx-GraDS", mu, (*weight, kind), ())


# -- what is said of them --------------------------------------------------------------


def by_method(table: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return a cost with a row a value of what varies, and a column a method."""
    return table.pivot_table(index="x", columns="method", values=cost, sort=False)


def growth(values: pd.Series) -> float:
    """Return the exponent e of a cost that goes as x^e, by least squares of the logarithms."""
    known = values.dropna()
    if len(known) < 2:
        return float("nan")
    return float(np.polyfit(np.log(known.index.to_numpy(float)), np.log(known), 1)[0])


def exponents(cost: str, called: str, variable: str) -> Callable[[pd.DataFrame], str]:
    """Return a finding: the exponent with which each method's cost grows."""

    def finding(table: pd.DataFrame) -> str:
        columns = by_method(table, cost)
        said = ", ".join(f"{growth(columns[name]):.2f} for {name}" for name in columns)
        return f"Measured: {called} go as a power of {variable} of {said}."

    return finding


def additive(table: pd.DataFrame) -> str:
    """Return whether the rounds that two compressions cost add up or multiply."""
    said = []
    for kept, row in by_method(table, "round").iterrows():
        none, up, down, both = (float(row[name]) for name in ("neither", "up", "down", "both"))
        said.append(
            f"with {kept:g} of 30 coordinates {both:.0f} rounds, where a sum gives"
            f" {up + down - none:.0f} and a product {up * down / none:.0f}"
        )
    return f"Measured, both ways: {'; '.join(said)}."


def saved(table: pd.DataFrame) -> str:
    """Return how many times fewer rounds extrapolation takes."""
    columns = by_method(table, "round")
    times = [
        f"{columns['FedProx'][mu] / columns[name][mu]:.1f} times for {name} at mu = {mu:g}"
        for mu in columns.index
        for name in columns
        if name != "FedProx"
    ]
    return f"Measured: fewer rounds than FedProx, {', '.join(times)}."


CLAIMS: Mapping[str, Claim] = {
    "scaffnew": Claim(
        "Mishchenko, Malinovsky, Stich, Richtarik, ProxSkip, ICML 2022: rounds grow as sqrt(kappa)"
        " however the clients differ; as kappa for gradient descent and, at best, for SCAFFOLD",
        "condition number",
        tuple(scaffnew()),
        "round",
        "rounds",
        exponents("round", "rounds", "kappa"),
    ),
    "ef21-p": Claim(
        "Gruntkowska, Tyurin, Richtarik, EF21-P and Friends, ICML 2023: with EF21-P + DIANA what"
        " compression costs in rounds adds up over the two directions, and does not multiply",
        "kept of 30 coordinates",
        tuple(bidirectional()),
        "round",
        "rounds",
        additive,
    ),
    "marina-p": Claim(
        "Gruntkowska, Tyurin, Richtarik, Improving the Worst-Case Bidirectional Communication"
        " Complexity, NeurIPS 2024: where the clients' losses are alike, what the server sends to"
        " each falls with the number of clients",
        "clients",
        tuple(downlinks()),
        "down_each",
        "bits down to each client",
        exponents("down_each", "bits down to each client", "their number"),
    ),
    "pp-marina": Claim(
        "Gorbunov, Burlachenko, Li, Richtarik, MARINA, ICML 2021, theorem 4.1: with r clients a"
        " round, r small, rounds grow as 1/r, so that what is sent up in all does not depend on r",
        "clients a round",
        tuple(samples()),
        "bits_up",
        "bits up in all",
        exponents("bits_up", "bits up", "r"),
    ),
    "fedexprox": Claim(
        "Li, Acharya, Richtarik, The Power of Extrapolation in Federated Learning, NeurIPS 2024:"
        " where one model fits all clients, extrapolation takes fewer rounds than FedProx, with a"
        " constant as with one that adapts",
        "mu",
        tuple(extrapolated()),
        "round",
        "rounds",
        saved,
    ),
}

PARTS = tuple(CLAIMS)


# -- running them ----------------------------------------------------------------------


def folder(case: Case, tuned: str) -> str:
    """Return the name of the folder of a case's runs."""
    words = f"{case.method} {case.x:g} {tuned.rpartition('=')[2]}"
    return "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in words)


def spent(case: Case, part: str, out: Path, overrides: Sequence[str]) -> dict[str, object]:
    """Return what a case costs at the best of what is tuned; NaN where none gets there."""
    path = SCENARIOS / f"further-{part}.yaml"
    tables = list[dict[str, Any]]()
    for tuned in case.tuned or ("",):
        chosen = [*case.overrides, *([tuned] if tuned else []), f"stop.gap={TARGET:g}"]
        where = out / part / folder(case, tuned)
        rounds = fedsim.run(path, out=where, overrides=[*chosen, *overrides]).rounds
        costs = cost_to_target(rounds, TARGET, "gap")
        means = costs[list(COSTS)].mean(skipna=False)
        tables.append(
            {str(cost): value for cost, value in means.items()}
            | {"tuned": tuned.rpartition("=")[2] or "-"}
        )
    best = min(tables, key=lambda each: np.nan_to_num(each["round"], nan=np.inf))
    return {
        "method": case.method,
        "x": case.x,
        "down_each": best["bits_down"] / clients(case),
        **best,
    }


def clients(case: Case) -> int:
    """Return over how many clients a case's downlink is counted: n where that is what varies."""
    return int(case.x) if case in CLAIMS["marina-p"].cases else 1


def shown(table: pd.DataFrame, part: str) -> Table:
    """Return the costs as a table for reading."""
    rows: list[Sequence[str]] = [
        (
            *(f"{row['x']:g}", row["method"], row["tuned"]),
            *(
                "-" if np.isnan(row[cost]) else quantity(row[cost], unit)
                for cost, unit in COSTS.items()
            ),
        )
        for row in table.to_dict("records")
    ]
    heads = (CLAIMS[part].varied, "method", "best", "rounds", "up", "down", "time", "energy")
    return listing(f"{part}: until f - f* < {TARGET:g}", heads, rows)


def draw(table: pd.DataFrame, part: str, setting: str = "") -> Figure:
    """Draw the cost that the claim is about, and joules, against what varies."""
    figure, every = panels(2, height=3.0)
    claim = CLAIMS[part]
    for axis, (cost, label) in zip(
        every, ((claim.cost, claim.shown), ("joules", "energy in J")), strict=True
    ):
        for number, (method, values) in enumerate(by_method(table, cost).items()):
            axis.plot(values.index, values, marker="o", ms=4, label=str(method), **look(number))
        label_axis(axis.xaxis, claim.varied, log=True)
        label_axis(axis.yaxis, label, log=True)
        ticks = sorted(set(table["x"]))
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.minorticks_off()
    name_variants(figure)
    entitle(figure, f"Until f - f* < {TARGET:g}: {part}\n{setting}")
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
        The table of costs, and what is published and measured.
    """
    claim = CLAIMS[part]
    table = pd.DataFrame([spent(case, part, out, overrides) for case in claim.cases])
    if figures:
        save(draw(table, part), figures / f"further-{part}.png")
    said = f"Published: {claim.published}.", claim.finding(table)
    return [shown(table, part)], "\n".join(fill(text, 88) for text in said)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
