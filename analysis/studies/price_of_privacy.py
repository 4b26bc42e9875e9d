"""What does an epsilon cost in joules, and which device pays more of it?

    python analysis/studies/price_of_privacy.py [--out DIR] [--jobs N]

Runs scenarios/studies/price-of-privacy.yaml: two hundred phones, half of them slow, under rounds
with Poisson sampling and under an asynchronous server, with noise of four strengths. Prints what an
accuracy takes in joules and in epsilon, and the epsilon of fast and slow phones, and the
probability of their order over drawn networks. Writes both as price_of_privacy.csv and
price_of_privacy_worlds.csv, and draws the former as analysis/figures/price-of-privacy.png.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from conducting import WORLDS, chance, chances, conduct, interval, places
from matplotlib.figure import Figure
from rich.table import Table
from ruamel.yaml import YAML

import fedsim
from fedsim.addons.robustness import draw_worlds
from fedsim.results.analysis import (
    COLOURS,
    cost_to_target,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
)
from fedsim.results.analysis.style import entitle

SCENARIO, FIGURE, COSTS = places(__file__)

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

NETWORKS = 10
"""So many in which runs are made, each with a seed of its own: those of an asynchronous server
follow from the order of arrival."""

ACCURACY = 0.85
"""The test accuracy at which the runs stop."""

FAST, SLOW = "fast phones", "slow phones"


def noised(
    out: Path, overrides: Sequence[str] = (), jobs: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the scenario, and its rounds and the asynchronous server in drawn networks.

    Returns:
        A row a run, see `costs`; and a row a pair of variants: see `conducting.chances`.
    """
    variants = YAML(typ="safe").load(SCENARIO)["variants"]

    def run(place: Path, kept: Callable[[str], bool], *more: str) -> fedsim.Result:
        some = {name: block for name, block in variants.items() if kept(name)}
        given = [f"variants={json.dumps(some)}", *more, *overrides]
        return fedsim.run(SCENARIO, out=place, overrides=given, jobs=jobs)

    seeds = f"seeds={SEEDS}"
    rounds = run(out / "rounds", lambda name: not split(name)[1], seeds)
    free = run(out / "asynchronous", lambda name: bool(split(name)[1]), seeds)
    pairs = [("open", "clip"), *(("clip", name) for name in NOISE if name.startswith("z-"))]
    known = [chances(out / "rounds", f"test_accuracy={ACCURACY}", pairs, WORLDS)]
    tables = []
    for seed, network in enumerate(draw_worlds(SCENARIO, NETWORKS, overrides=overrides), 1):
        place, some = out / f"network-{seed}", {"open", "z-1", "open-async", "z-1-async"}
        made = run(place, some.__contains__, f"seed={seed}", *network)
        tables.append(costs(made).assign(seed=seed))
    drawn = pd.concat(tables, ignore_index=True)
    by = {
        pair: own.set_index("seed")
        for pair in (("open", ""), ("z-1", ""), ("z-1", "async"))
        for own in [drawn[(drawn["noise"] == pair[0]) & (drawn["server"] == pair[1])]]
    }
    ours, rounds_too = ("z-1", "async"), ("z-1", "")
    for other, cost in ((rounds_too, "joules"), (("open", ""), "joules"), (rounds_too, "epsilon")):
        known.append(compared(by[ours], by[other], ours, other, cost))
    slow, fast = (by[ours].assign(epsilon=by[ours][phones]) for phones in (SLOW, FAST))
    known.append(compared(slow, fast, (SLOW, ""), (FAST, ""), "epsilon"))
    spent = pd.concat([costs(rounds), costs(free)], ignore_index=True)
    return spent, pd.concat(known, ignore_index=True)


def compared(
    one: pd.DataFrame,
    other: pd.DataFrame,
    ours: tuple[str, str],
    theirs: tuple[str, str],
    cost: str,
) -> pd.DataFrame:
    """Return how often one costs less than the other over the drawn networks, as `chances` does.

    A run that misses the accuracy costs more than one that does not.
    """
    left, right = one[cost].fillna(np.inf), other[cost].fillna(np.inf)
    wins, tries = int((left < right).sum()), int((np.isfinite(left) | np.isfinite(right)).sum())
    low, high = interval(wins, tries)
    return pd.DataFrame({
        "variant": ["-".join(filter(None, ours))],
        "against": ["-".join(filter(None, theirs))],
        "cost": [cost],
        "ratio": [float((left / right).median())],
        "probability": [wins / tries],
        "probability_low": [low],
        "probability_high": [high],
    })  # fmt: skip


def costs(result: fedsim.Result) -> pd.DataFrame:
    """Return what the accuracy took: a row a run.

    Returns:
        server, noise, seed, reached, round, t (s), joules, epsilon of the run, and the mean epsilon
        of a fast and a slow phone.
    """
    key = ["variant", "seed"]
    costs = cost_to_target(result.rounds, ACCURACY, "test_accuracy")
    # A run without noise has no account, or an infinite epsilon.
    spent = result.rounds.groupby(key, observed=True)["epsilon"].max().reset_index()
    clients = result.clients.assign(group=result.clients["group"].map({0: FAST, 1: SLOW}))
    lost = clients.pivot_table("epsilon", key, "group", observed=True).reset_index()
    costs = costs.merge(spent, "left", key).merge(lost, "left", key)
    names = [split(str(name)) for name in costs["variant"]]
    noise, server = zip(*names, strict=True)
    columns = ["server", "noise", "seed", "reached", "round", "t", "joules", "epsilon", FAST, SLOW]
    return costs.assign(noise=noise, server=server)[columns]


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


def tables(costs: pd.DataFrame, known: pd.DataFrame) -> list[Table]:
    """Return the means, and the probabilities, as tables for reading."""
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
    ordered = [
        (row["variant"], row["against"], row["cost"], f"{row['ratio']:.2f}", chance(row))
        for row in known.to_dict("records")
    ]
    names = ("variant", "against", "cost", "ratio", "P(less)")
    return [
        listing("Two hundred phones until 85 % accuracy", heads, rows),
        listing("In drawn networks", names, ordered),
    ]


def finding(costs: pd.DataFrame, known: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    figures = means(costs)
    rounds, free = figures.loc[""], figures.loc["async"]
    joules, spent = rounds["joules"] / rounds["joules"]["open"], rounds["epsilon"]
    quick = free["joules"] / rounds["joules"]
    less = known.set_index(["variant", "against", "cost"])

    def p(*pair: str, cost: str = "joules") -> str:
        return f"P {chance(less.xs((*pair, cost)))}"

    return fill(
        f"An epsilon of {spent['z-1']:.3g} costs {joules['z-1']:.2f} times the energy of open "
        f"rounds, {spent['z-2']:.3g} {joules['z-2']:.2f} times, and {spent['z-4']:.3g} "
        f"{joules['z-4']:.2f} times. In rounds all phones lose the same; under an asynchronous "
        f"server with z = 1 a fast phone loses {free[FAST]['z-1']:.3g} on average and a slow one "
        f"{free[SLOW]['z-1']:.3g}, as it replies less often ({p(SLOW, FAST, cost='epsilon')} over "
        f"drawn networks). Clipping alone takes {joules['clip']:.2f} times the energy of open "
        f"rounds, and more than these with {p('open', 'clip')}. With noise it takes still more "
        f"with {p('clip', 'z-1')} for z = 1, {p('clip', 'z-2')} for 2, and {p('clip', 'z-4')} for "
        f"4. An asynchronous server takes {quick['open']:.2f} of the energy of open rounds, and "
        f"with z = 1 {quick['z-1']:.2f} of those with it, less with "
        f"{p('z-1-async', 'z-1')}. But no sampling amplifies its privacy: its epsilon is "
        f"{free['epsilon']['z-1']:.3g}, less than in rounds with "
        f"{p('z-1-async', 'z-1', cost='epsilon')}.",
        88,
    )


def draw(costs: pd.DataFrame, known: pd.DataFrame) -> Figure:  # noqa: ARG001
    """Draw energy against epsilon by server, and the epsilon of fast and slow phones by noise."""
    figures = means(costs)
    figure, (price, devices) = panels(2, 1, 2.6, width=5.6)
    sides = ((1, "left", "bottom"), (-1, "right", "top"))  # curves fall: these are free
    for (server, name), colour, mark, (side, ha, va) in zip(
        SERVERS.items(), COLOURS, "os", sides, strict=False
    ):
        own = figures.loc[server]
        own = own[own.index.str.startswith("z-")]
        price.plot(own["epsilon"], own["joules"], f"{mark}-", color=colour, ms=6, label=name)
        for noise, row in own.iterrows():
            text, at = f"z = {NOISE[str(noise)]}", (row["epsilon"], row["joules"])
            price.annotate(
                text, at, xytext=(5 * side, 3 * side), textcoords="offset points", fontsize=8,
                ha=ha, va=va,
            )  # fmt: skip
    price.margins(x=0.14, y=0.14)
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
    """Run the study, print its tables and its finding, and draw its figure."""
    files = COSTS, COSTS.with_name(f"{COSTS.stem}_worlds.csv")
    conduct(__doc__, noised, (tables, finding, draw), FIGURE, files)


if __name__ == "__main__":
    main()
