"""Does secure aggregation eat what compression and censoring save?

    python analysis/studies/savings_under_secrecy.py [--out DIR]

Runs scenarios/studies/savings-under-secrecy.yaml on three radios, with phones that stay, and with
phones of which one in twenty or one in five leaves in a round. Prints what an accuracy takes in
bits, seconds and joules under each protocol, and draws it as
analysis/figures/savings-under-secrecy.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.results.analysis import (
    COLOURS,
    cost_to_target,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
    save,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/savings-under-secrecy.yaml"
FIGURE = ROOT / "analysis/figures/savings-under-secrecy.png"

RADIOS = {"lte": "LTE", "wifi": "Wi-Fi", "nb-iot": "NB-IoT"}

LEAVING = (0.0, 0.05, 0.2)
"""The shares of phones that leave in the time of a round of `fedavg`."""

METHODS = {
    "fedavg": "FedAvg",
    "bits": "FedAvg, 8 bits",
    "rand-k": "FedAvg, rand-k 25 %",
    "top-k": "FedAvg, top-k 10 %",
    "chb": "CHB",
    "chb-mask": "CHB, silence masked",
}

PROTOCOLS = {
    "": "no secrecy",
    "secagg": "SecAgg",
    "secaggplus": "SecAgg+",
    "lightsecagg": "LightSecAgg",
}

SEEDS = 5

ACCURACY = 0.9
"""The test accuracy at which the runs stop."""


def summed(
    out: Path | None = None,
    overrides: Sequence[str] = (),
    radios: Sequence[str] = tuple(RADIOS),
    leaving: Sequence[float] = LEAVING,
    accuracy: float = ACCURACY,
) -> pd.DataFrame:
    """Run the scenario on every radio, with phones that stay and phones that leave.

    Returns:
        A row a run: radio, leaving, method, protocol, and what it took to the accuracy as
        `cost_to_target` has it.
    """
    tables = []
    for radio in track(radios, console=Console(stderr=True)):
        pace = 0.0
        for share in leaving:
            world = [f"fleet.0.radio={radio}", f"seeds={SEEDS}", *overrides]
            world.append(f"stop.test_accuracy={accuracy}")
            if share:
                # Away for the time of a round, after a stay in which a share of them leaves.
                stay = f"{{kind: markov, on: {pace / share:.4g} s, off: {pace:.4g} s}}"
                world.append(f"fleet.0.availability={stay}")
            folder = out and out / f"{radio}-{share:g}"
            result = fedsim.run(SCENARIO, out=folder, overrides=world)
            costs = cost_to_target(result.rounds, accuracy, "test_accuracy")
            if not share:
                plain = costs[costs["variant"] == "fedavg"]
                pace = float((plain["t"] / plain["round"]).mean())
            tables.append(costs.assign(radio=radio, leaving=share))
    costs = pd.concat(tables, ignore_index=True)
    named = [split(str(name)) for name in costs["variant"]]
    return costs.assign(
        method=[method for method, _ in named], protocol=[protocol for _, protocol in named]
    )


def split(variant: str) -> tuple[str, str]:
    """Return the method and the protocol of a variant.

    >>> split("rand-k-secagg"), split("chb")
    (('rand-k', 'secagg'), ('chb', ''))
    """
    method, _, protocol = variant.rpartition("-")
    return (method, protocol) if protocol in PROTOCOLS else (variant, "")


def means(costs: pd.DataFrame) -> pd.DataFrame:
    """Return means over the seeds by radio, leaving, method and protocol.

    Runs that missed the accuracy have no part in them; `reached` is the share of the others.
    """
    keys = ["radio", "leaving", "method", "protocol"]
    figures = [
        "reached",
        "round",
        "transmissions",
        "beacons",
        "bits_up",
        "bits_down",
        "t",
        "joules",
    ]
    order = pd.MultiIndex.from_product(
        [costs["radio"].unique(), costs["leaving"].unique(), METHODS, PROTOCOLS], names=keys
    )
    found = costs.groupby(keys)[figures].mean()
    return found.reindex(order[order.isin(found.index)])


def table(costs: pd.DataFrame) -> Table:
    """Return the means as a table for reading."""
    rows = [
        (
            *(RADIOS[row["radio"]], f"{row['leaving']:.0%}"),
            *(METHODS[row["method"]], PROTOCOLS[row["protocol"]]),
            *(f"{row['reached']:.0%}", quantity(round(row["round"], 1))),
            *(quantity(row[bits], "bit") for bits in ("bits_up", "bits_down")),
            *(quantity(row["t"], "s"), quantity(row["joules"], "J")),
        )
        for row in means(costs).reset_index().to_dict("records")
    ]
    heads = ("radio", "leave", "method", "protocol", "reached", "rounds", "bits up", "bits down")
    return listing("Forty phones until 90 % accuracy", (*heads, "time", "energy"), rows)


def saved(costs: pd.DataFrame, radio: str, protocol: str, cost: str) -> "pd.Series[float]":
    """Return what each method saves of FedAvg's cost under the same protocol, as a share."""
    own = means(costs)[cost].xs((radio, 0.0, protocol), level=("radio", "leaving", "protocol"))
    shares: pd.Series[float] = 1 - own / own["fedavg"]
    return shares


def finding(costs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    figures = means(costs)
    ratio = {
        (radio, protocol): figures["joules"][radio, 0.0, "fedavg", protocol]
        / figures["joules"][radio, 0.0, "fedavg", ""]
        for radio in RADIOS
        for protocol in PROTOCOLS
    }
    plain = {radio: saved(costs, radio, "", "joules") for radio in RADIOS}
    secret = {radio: saved(costs, radio, "secagg", "joules") for radio in RADIOS}

    def shares(method: str) -> str:
        return "; ".join(
            f"{plain[radio][method]:.0%} and {secret[radio][method]:.0%} over {name}"
            for radio, name in RADIOS.items()
        )

    top = {radio: plain[radio]["top-k"] for radio in RADIOS}
    masked = {
        radio: figures["joules"][radio, 0.0, "chb-mask", "secagg"]
        / figures["joules"][radio, 0.0, "chb", "secagg"]
        for radio in RADIOS
    }
    fedavg = figures["joules"].xs(("lte", "fedavg"), level=("radio", "method"))
    often, calm = (fedavg.xs(share, level="leaving") for share in (LEAVING[-1], 0.0))
    return fill(
        "To the same accuracy FedAvg takes "
        + ", ".join(
            f"{ratio[radio, 'secagg']:.2f}, {ratio[radio, 'secaggplus']:.2f} and "
            f"{ratio[radio, 'lightsecagg']:.2f} times the energy over {name}"
            for radio, name in RADIOS.items()
        )
        + " under SecAgg, SecAgg+ and LightSecAgg. What a method saves of FedAvg's energy, without "
        f"secrecy and under SecAgg: 8 bits {shares('bits')}; rand-k {shares('rand-k')}; CHB "
        f"{shares('chb')}. Top-k, which saves "
        + ", ".join(f"{top[radio]:.0%} over {name}" for radio, name in RADIOS.items())
        + " without secrecy, cannot be used. To hide who was silent, CHB takes "
        + ", ".join(
            f"{masked[radio]:.2f} times the energy over {name}" for radio, name in RADIOS.items()
        )
        + f". Where one phone in five leaves in a round, FedAvg takes {often[''] / calm['']:.2f} "
        "times the energy over LTE, and under SecAgg "
        f"{often['secagg'] / calm['secagg']:.2f} times.",
        88,
    )


def draw(costs: pd.DataFrame) -> Figure:
    """Draw time and energy to the accuracy: a column a radio, a row a method, a mark a protocol."""
    figures = means(costs).xs(0.0, level="leaving")
    radios = [radio for radio in RADIOS if radio in costs["radio"].unique()]
    figure, every = panels(2 * len(radios), len(radios), 2.6, sharey=True)
    for place, (column, label, unit) in enumerate(
        (("t", "time to 90 % accuracy", "s"), ("joules", "energy to 90 % accuracy", "J"))
    ):
        for number, radio in enumerate(radios):
            axis = every[place * len(radios) + number]
            for (protocol, name), colour, mark in zip(
                PROTOCOLS.items(), COLOURS, "osD^", strict=False
            ):
                own = figures.loc[radio].xs(protocol, level="protocol")[column]
                texts = [METHODS[str(method)] for method in own.index]
                axis.plot(own.to_numpy(), texts, mark, color=colour, ms=6, label=name)
            label_axis(axis.xaxis, label, unit, log=True)
            axis.set_title(RADIOS[radio], fontsize=10)
    every[0].invert_yaxis()
    name_variants(figure)
    setting = f"digits; 40 phone-mid; means over {costs['seed'].nunique()} seeds"
    entitle(figure, f"What secure aggregation leaves of savings\n{setting}", apart=True)
    return figure


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    costs = summed(parser.parse_args().out)
    Console(width=None if sys.stdout.isatty() else 150).print(table(costs))
    print(finding(costs))
    save(draw(costs), FIGURE)


if __name__ == "__main__":
    main()
