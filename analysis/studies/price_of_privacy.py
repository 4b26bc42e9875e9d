"""What does an epsilon cost in joules, and which device pays more of it?

    python analysis/studies/price_of_privacy.py [--out DIR]

Runs scenarios/studies/price-of-privacy.yaml: two hundred phones, half of them slow, under rounds
with Poisson sampling and under an asynchronous server, with noise of four strengths. Prints what an
accuracy takes in joules and in epsilon, and the epsilon of fast and slow phones, and draws both as
analysis/figures/price-of-privacy.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
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
SCENARIO = ROOT / "scenarios/studies/price-of-privacy.yaml"
FIGURE = ROOT / "analysis/figures/price-of-privacy.png"

SERVERS = {"": "rounds, Poisson sample", "async": "asynchronous"}

NOISE = {
    "open": "none, no clip",
    "clip": "none",
    "z-0.5": "0.5",
    "z-1": "1",
    "z-2": "2",
    "z-4": "4",
}
"""The noise multiplier z by variant."""

SEEDS = 5

ACCURACY = 0.85
"""The test accuracy at which the runs stop."""

FAST, SLOW = "fast phones", "slow phones"


def noised(out: Path | None = None, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Run the scenario.

    Returns:
        A row a run: server, noise, what it took to the accuracy as `cost_to_target` has it, but for
        joules, which are all that the run has spent until then, open tails included; epsilon of the
        run, and the mean epsilon of a fast and of a slow phone.
    """
    result = fedsim.run(SCENARIO, out=out, overrides=[f"seeds={SEEDS}", *overrides])
    key = ["variant", "seed"]
    costs = cost_to_target(result.rounds, ACCURACY, "test_accuracy")
    # A run without noise has no account, or an infinite epsilon.
    spent = result.rounds.groupby(key, observed=True)["epsilon"].max().reset_index()
    clients = result.clients.assign(group=result.clients["group"].map({0: FAST, 1: SLOW}))
    lost = clients.pivot_table("epsilon", key, "group", observed=True).reset_index()
    # A run ends as it reaches the accuracy. Phones that are not asked again have open tails then,
    # which are in no round.
    joules = result.summary[[*key, "joules"]]
    costs = costs.drop(columns="joules").merge(joules, "left", key)
    costs.loc[~costs["reached"], "joules"] = np.nan
    costs = costs.merge(spent, "left", key).merge(lost, "left", key)
    names = [split(str(name)) for name in costs["variant"]]
    return costs.assign(noise=[noise for noise, _ in names], server=[server for _, server in names])


def split(variant: str) -> tuple[str, str]:
    """Return the noise and the server of a variant.

    >>> split("z-0.5-async"), split("open")
    (('z-0.5', 'async'), ('open', ''))
    """
    noise, _, server = variant.rpartition("-")
    return (noise, server) if server in SERVERS else (variant, "")


def means(costs: pd.DataFrame) -> pd.DataFrame:
    """Return means over the seeds by server and noise, in the order of `SERVERS` and `NOISE`."""
    figures = ["reached", "round", "t", "joules", "epsilon", FAST, SLOW]
    found = costs.groupby(["server", "noise"])[figures].mean()
    order = pd.MultiIndex.from_product([SERVERS, NOISE], names=found.index.names)
    return found.reindex(order[order.isin(found.index)])


def table(costs: pd.DataFrame) -> Table:
    """Return the means as a table for reading."""
    rows = [
        (
            *(SERVERS[row["server"]], NOISE[row["noise"]], f"{row['reached']:.0%}"),
            *(quantity(round(row["round"], 1)), quantity(row["t"], "s")),
            quantity(row["joules"], "J"),
            *(quantity(row[epsilon]) for epsilon in ("epsilon", FAST, SLOW)),
        )
        for row in means(costs).reset_index().to_dict("records")
    ]
    heads = ("server", "noise z", "reached", "rounds", "time", "energy", "epsilon", FAST, SLOW)
    return listing("Two hundred phones until 85 % accuracy", heads, rows)


def finding(costs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    figures = means(costs)
    rounds, free = figures.loc[""], figures.loc["async"]
    joules, spent = rounds["joules"] / rounds["joules"]["open"], rounds["epsilon"]
    quick = free["joules"] / rounds["joules"]
    return fill(
        f"Clipping alone takes {joules['clip']:.2f} times the energy of open rounds. Noise of "
        f"z = 1 takes {joules['z-1']:.2f} times, for an epsilon of {spent['z-1']:.3g}; z = 2 "
        f"{joules['z-2']:.2f} times, for {spent['z-2']:.3g}; and z = 4 {joules['z-4']:.2f} times, "
        f"for {spent['z-4']:.3g}. An asynchronous server takes {quick['open']:.2f} of the energy "
        f"of open rounds, and with z = 1 {quick['z-1']:.2f} of theirs. But no sampling amplifies "
        f"its privacy: the epsilon is {free['epsilon']['z-1']:.3g}. There a fast phone loses "
        f"{free[FAST]['z-1']:.3g} on average, and a slow one {free[SLOW]['z-1']:.3g}, as it "
        "replies less often; in rounds all lose the same.",
        88,
    )


def draw(costs: pd.DataFrame) -> Figure:
    """Draw energy against epsilon by server, and the epsilon of fast and slow phones by noise."""
    figures = means(costs)
    figure, (price, devices) = panels(2, 2, 3.2)
    for (server, name), colour, mark in zip(SERVERS.items(), COLOURS, "os", strict=False):
        own = figures.loc[server]
        own = own[own.index.str.startswith("z-")]
        price.plot(own["epsilon"], own["joules"], f"{mark}-", color=colour, ms=6, label=name)
        for noise, row in own.iterrows():
            text, at = f"z = {NOISE[str(noise)]}", (row["epsilon"], row["joules"])
            beside = (-34, -9) if server else (6, 4)
            price.annotate(text, at, xytext=beside, textcoords="offset points", fontsize=8)
    label_axis(price.xaxis, "epsilon", "", log=True)
    label_axis(price.yaxis, "energy to 85 % accuracy", "J", log=True)
    name_variants(figure)
    own = figures.loc["async"]
    own = own[own.index.str.startswith("z-")]
    places = range(len(own))
    for shift, (group, colour) in zip(
        (-0.2, 0.2), zip((FAST, SLOW), COLOURS[2:], strict=False), strict=True
    ):
        devices.bar(
            [place + shift for place in places], own[group], 0.38, color=colour, label=group
        )
    devices.set_xticks(list(places), [NOISE[str(noise)] for noise in own.index])
    devices.set_xlabel("noise z, asynchronous server")
    devices.set_ylabel("mean epsilon of a phone")
    devices.legend(fontsize=9)
    devices.grid(visible=False, axis="x")
    setting = (
        f"digits; 200 phone-mid, half of them slow; means over {costs['seed'].nunique()} seeds"
    )
    entitle(figure, f"What an epsilon costs, and who pays it\n{setting}", apart=True)
    return figure


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    costs = noised(parser.parse_args().out)
    Console(width=None if sys.stdout.isatty() else 150).print(table(costs))
    print(finding(costs))
    save(draw(costs), FIGURE)


if __name__ == "__main__":
    main()
