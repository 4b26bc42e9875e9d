"""A network learns from a hundred unlike phones: what does each accuracy cost, by method?

    python analysis/studies/networks_on_mnist.py [--out DIR]

Runs scenarios/studies/networks-on-mnist.yaml: federated averaging, SCAFFOLD and FedAdam in
float32, and averaging whose updates are cut to their largest entries, or written in 8 bits.
Prints what accuracies took in rounds, bits, seconds and joules, writes that as
networks_on_mnist.csv, and draws it as analysis/figures/networks-on-mnist.png.
mnist_in_20_lines.py is the same network for beginners.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Console
from rich.table import Table

import fedsim
from fedsim.results.analysis import cost_to_target, listing, progress, quantity, save

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/networks-on-mnist.yaml"
FIGURE = ROOT / "analysis/figures/networks-on-mnist.png"
COSTS = Path(__file__).with_suffix(".csv")

METHODS = {
    "base": "FedAvg",
    "scaffold": "SCAFFOLD",
    "fedadam": "FedAdam",
    "top-k": "FedAvg, top 5 % and feedback",
    "8-bit": "FedAvg, 8 bits",
}
ACCURACIES = (0.9, 0.95, 0.97)
MEASURE = "test_accuracy"


def learned(out: Path | None = None, overrides: Sequence[str] = ()) -> fedsim.Result:
    """Run the scenario."""
    return fedsim.run(SCENARIO, out=out, overrides=overrides)


def costs(rounds: pd.DataFrame, accuracies: Sequence[float] = ACCURACIES) -> pd.DataFrame:
    """Return what each accuracy took, as far as rounds that were looked at tell.

    Returns:
        A row an accuracy and variant: accuracy, variant, round, bits_up, bits_down, t (s),
        joules; NaN where it was not reached.
    """
    seen = ["variant", "round", "bits_up", "bits_down", "t", "joules"]
    tables = [
        cost_to_target(rounds, accuracy, MEASURE)[seen].assign(accuracy=accuracy)
        for accuracy in accuracies
    ]
    return pd.concat(tables, ignore_index=True)[["accuracy", *seen]]


def table(spent: pd.DataFrame) -> Table:
    """Return what accuracies took as a table for reading."""
    rows = [
        (
            *(f"{row['accuracy']:.0%}", METHODS[row["variant"]], quantity(row["round"])),
            *(quantity(row[bits], "bit") for bits in ("bits_up", "bits_down")),
            *(quantity(row["t"], "s"), quantity(row["joules"], "J")),
        )
        for row in spent.to_dict("records")
    ]
    heads = ("accuracy", "method", "round", "bits up", "bits down", "time", "energy")
    return listing("Ten of a hundred phones a round, until an accuracy is reached", heads, rows)


def finding(spent: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    reached = spent.dropna(subset="round")
    if "base" not in set(reached["variant"]):
        return "Federated averaging reaches none of these accuracies."
    most = reached.loc[reached["variant"] == "base", "accuracy"].max()
    last = spent[spent["accuracy"] == most].set_index("variant").reindex(METHODS)
    last["bits"] = last["bits_up"] + last["bits_down"]
    first = last.loc["base"]
    parts = [
        f"{METHODS[str(name)]} takes {_times(row['bits'], first['bits'])} of the bits, "
        f"{_times(row['t'], first['t'])} of the time and "
        f"{_times(row['joules'], first['joules'])} of the energy"
        for name, row in last.drop(index="base").iterrows()
        if row["round"] > 0
    ]
    late = [METHODS[str(name)] for name in last.index[last["round"].isna()]]
    parts += [f"{name} does not get there in these rounds" for name in late]
    return fill(
        f"An accuracy of {most:.0%} takes federated averaging {quantity(first['bits'], 'bit')}, "
        f"{quantity(first['t'], 's')} and {quantity(first['joules'], 'J')} of a hundred phones. "
        f"{'; '.join(parts)}.",
        88,
    )


def _times(own: float, other: float) -> str:
    return f"{own / other:.2f}"


def draw(result: fedsim.Result) -> Figure:
    """Draw the test accuracy against rounds, bits, seconds and joules."""
    figure = progress(
        result.rounds,
        METHODS,
        MEASURE,
        ylabel="test accuracy",
        title=f"A network on MNIST\n{result.setting}",
        log=False,
        target=ACCURACIES[-1],
    )
    for axis in figure.axes:
        axis.set_ylim(0.8, 1)
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    result = learned(parser.parse_args().out)
    spent = costs(result.rounds)
    Console(width=None if sys.stdout.isatty() else 150).print(table(spent))
    print(finding(spent))
    spent.to_csv(COSTS, index=False, float_format="%.6g")
    save(draw(result), FIGURE)


if __name__ == "__main__":
    main()
