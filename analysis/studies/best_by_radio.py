"""Does the best method change with the radio? Trained once, priced on eleven radios.

    python analysis/studies/best_by_radio.py [--out DIR]

Runs scenarios/studies/honest-bits.yaml once, with more seeds, prices its logs again under every
other radio, and prints what each method takes to the gap in time and energy, in shares of the best
one on that radio. Draws it as analysis/figures/best-by-radio.png.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.results.analysis import Decisions, cost_to_target, listing, panels, save, typeset
from fedsim.results.analysis.compare.verdict import INDISTINGUISHABLE
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/honest-bits.yaml"
FIGURE = ROOT / "analysis/figures/best-by-radio.png"

RADIOS = {
    "ethernet": "Ethernet",
    "5g-low": "5G",
    "wifi": "Wi-Fi",
    "lte-2020": "LTE 2020",
    "lte": "LTE",
    "umts": "UMTS",
    "ble": "BLE",
    "zigbee": "Zigbee",
    "nb-iot": "NB-IoT",
    "lora-sf7": "LoRa SF7",
    "lora-sf9": "LoRa SF9",
}
"""From the fastest to the slowest."""

METHODS = {
    "base": "nothing compressed",
    "top-k": "top-k",
    "rand-k": "rand-k, seed",
    "qsgd": "QSGD, sqrt(d) levels",
    "qsgd-fine": "QSGD, 128 levels",
    "sign": "sign",
    "chb": "CHB",
    "chb-qsgd": "CHB, QSGD, sqrt(d) levels",
    "chb-qsgd-fine": "CHB, QSGD, 128 levels",
}

COSTS = {"t": "time", "joules": "energy"}

SEEDS = 12
"""Nine methods make 36 pairs, and p-values are corrected for them: with the three seeds of the
scenario a method that takes twenty times as much would not be told from the best."""


def priced(out: Path, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Train once and price that under every radio.

    Args:
        out: where the run folders go, those of the training in `trained`.
        overrides: of the scenario.

    Returns:
        A row a run and radio: what it took to the gap, as `cost_to_target` has it.
    """
    more = [f"seeds={SEEDS}", *overrides]
    trained = fedsim.run(SCENARIO, out=out / "trained", overrides=more)
    target = trained.summary["target"].max()
    tables = []
    for radio in track(RADIOS, console=Console(stderr=True)):
        result = fedsim.reprice(trained.folder, [f"fleet.0.radio={radio}"], out / radio)
        tables.append(cost_to_target(result.rounds, target).assign(radio=radio))
    return pd.concat(tables, ignore_index=True)


def decided(costs: pd.DataFrame, column: str) -> dict[str, Decisions]:
    """Return, of each radio, which method is cheaper than which in a cost."""
    return {radio: Decisions.of(costs[costs["radio"] == radio], [column]) for radio in RADIOS}


def shares(costs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return typical ratios to the best method: a row a method, a column a radio.

    They are geometric means over the seeds.

    Raises:
        KeyError: there is no such column.
    """
    first = best(costs, column)
    ratios = {
        radio: {
            name: own.pair(name, first[radio], column).ratio
            for name in METHODS
            if name in own.variants
        }
        for radio, own in decided(costs, column).items()
    }
    return pd.DataFrame(ratios).reindex(index=list(METHODS), columns=list(RADIOS))


def table(costs: pd.DataFrame, column: str) -> Table:
    """Return the shares as a table for reading."""
    ratios = shares(costs, column)
    rows = [
        (METHODS[str(name)], *(f"{each:.2f}" for each in row))
        for name, row in zip(ratios.index, ratios.to_numpy(), strict=True)
    ]
    title = f"{COSTS[column].capitalize()} to the gap, over that of the best method on the radio"
    return listing(title, ("method", *RADIOS.values()), rows)


def best(costs: pd.DataFrame, column: str) -> dict[str, str]:
    """Return the best method on each radio."""
    return {radio: own.rank(column)[0] for radio, own in decided(costs, column).items()}


def ties(costs: pd.DataFrame, column: str) -> dict[str, list[str]]:
    """Return, of each radio, the methods that are statistically indistinguishable from the best."""
    return {
        radio: own.not_costlier(own.rank(column)[0], column)
        for radio, own in decided(costs, column).items()
    }


def finding(costs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    first = "; ".join(
        f"in {word}, {_winners(best(costs, name))}{_tied(ties(costs, name))}"
        for name, word in COSTS.items()
    )
    worst = {word: shares(costs, name).max(axis=1) for name, word in COSTS.items()}
    steady = " and ".join(
        f"{METHODS[str(most.idxmin())]} takes at most {most.min():.2f} times the {word} of the best"
        for word, most in worst.items()
    )
    base = shares(costs, "joules").T["base"]
    low, high = (RADIOS[str(radio)] for radio in (base.idxmin(), base.idxmax()))
    return fill(
        f"The best method depends on the radio: {first}. "
        f"If the radio is unknown, one choice loses least: {steady}, on any of them. "
        f"The cost of compressing nothing depends on it most of all: {base.min():.2f} times "
        f"the energy of the best method on {low}, and {base.max():.2f} times on {high}.",
        88,
    )


def _winners(winners: dict[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for radio, name in winners.items():
        groups.setdefault(name, []).append(RADIOS[radio])
    return " and ".join(f"{METHODS[name]} on {', '.join(on)}" for name, on in groups.items())


def _tied(tied: dict[str, list[str]]) -> str:
    """Return where others are statistically indistinguishable from the best, in words."""
    parts = [
        f"{' and '.join(METHODS[name] for name in names)} on {RADIOS[radio]}"
        for radio, names in tied.items()
        if names
    ]
    return f" ({INDISTINGUISHABLE} from {', '.join(parts)})" if parts else ""


def draw(costs: pd.DataFrame) -> Figure:
    """Draw the shares: a row a method, a column a radio.

    The best one is in bold, and those that are statistically indistinguishable from it.
    """
    figure, every = panels(len(COSTS), 1, 3.6, width=6.8, sharex=True)
    for axis, column in zip(every, COSTS, strict=True):
        _fill_in(axis, shares(costs, column), best(costs, column), ties(costs, column))
        axis.set_title(f"{COSTS[column]} to the gap, over that of the best method", fontsize=10)
    every[1].set_xticks(range(len(RADIOS)), list(RADIOS.values()), rotation=45, ha="right")
    setting = f"smoothness; 10 cortex-m7; geometric means over {costs['seed'].nunique()} seeds"
    title = f"What is best on which radio; in bold the best, and what is {INDISTINGUISHABLE}"
    entitle(figure, f"{title}\n{setting}", apart=True)
    return figure


def _fill_in(
    axis: Axes, ratios: pd.DataFrame, first: dict[str, str], tied: dict[str, list[str]]
) -> None:
    values = ratios.to_numpy()
    norm = LogNorm(1.0, max(float(np.nanmax(values)), 1.1))
    axis.imshow(values, cmap="cividis_r", norm=norm, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        dark, radio, name = norm(value) > 0.5, str(ratios.columns[column]), str(ratios.index[row])
        axis.text(
            column,
            row,
            f"{value:.2f}" if value < 10 else f"{value:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
            fontweight="bold" if name in {first[radio], *tied[radio]} else "normal",
        )
    axis.set_yticks(range(len(METHODS)), [typeset(name) for name in METHODS.values()])
    axis.grid(visible=False)


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        costs = priced(out or Path(folder))
    console = Console(width=None if sys.stdout.isatty() else 150)
    for column in COSTS:
        console.print(table(costs, column))
    print(finding(costs))
    save(draw(costs), FIGURE)


if __name__ == "__main__":
    main()
