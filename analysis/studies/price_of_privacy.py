"""What does an epsilon cost in joules, and which device pays more of it?

    python analysis/studies/price_of_privacy.py [--out DIR] [--jobs N] [--tune]

Runs scenarios/studies/price-of-privacy.yaml: two hundred phones, half of them slow, under rounds
with Poisson sampling and under an asynchronous server, with noise of four strengths. Prints what an
accuracy takes in joules and in epsilon, and the epsilon of fast and slow phones, and the
probability of their order over drawn networks. Writes both as price_of_privacy.csv and
price_of_privacy_worlds.csv, and draws the former as analysis/figures/price-of-privacy.png.
With --tune it prints the rounds that other clips and steps take, on seeds that it does not judge.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from conducting import (
    SEEDS,
    WORLDS,
    bullets,
    chance,
    chances,
    conduct,
    in_networks,
    interval,
    places,
    ratio,
    row_of,
    tried,
)
from matplotlib.figure import Figure
from rich.table import Table
from ruamel.yaml import YAML

import fedsim
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

NETWORKS = 10
"""How many networks in which an asynchronous server's runs are made, each with a seed of its own:
they follow from the order of arrival, and cannot be priced again."""

ACCURACY = 0.9
"""The test accuracy at which the runs stop."""

STEPS, CLIPS = (0.3, 1), (0.5, 1, 2)
"""The steps and clips that were tried for each noise."""

FAST, SLOW = "fast phones", "slow phones"


def noised(
    out: Path, overrides: Sequence[str] = (), jobs: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the scenario, and its rounds and the asynchronous server in drawn networks.

    Returns:
        A row a run, see `costs`; and a row a pair of variants: see `conducting.chances`.
    """
    ends = [f"stop.test_accuracy={ACCURACY}", *overrides]
    seeds = [f"seeds={SEEDS}", *ends]
    places = {server: out / (server or "rounds") for server in SERVERS}
    spent = [
        costs(fedsim.run(SCENARIO, out=place, overrides=[chosen(server), *seeds], jobs=jobs))
        for server, place in places.items()
    ]
    pairs = [("open", "clip"), *(("clip", name) for name in NOISE if name.startswith("z-"))]
    known = [chances(places[""], f"test_accuracy={ACCURACY}", pairs, WORLDS)]
    some = [chosen(None, "open", "z-1", "open-async", "z-1-async"), *ends]
    drawn = pd.concat([
        costs(result).assign(seed=seed)
        for seed, result in in_networks(SCENARIO, out / "networks", NETWORKS, some, jobs)
    ])  # fmt: skip
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
    return pd.concat(spent, ignore_index=True), pd.concat(known, ignore_index=True)


def chosen(server: str | None, *names: str) -> str:
    """Return an override that keeps the variants of a server, or those with these names."""
    every = YAML(typ="safe").load(SCENARIO)["variants"]
    kept = {name: each for name, each in every.items() if split(name)[1] == server or name in names}
    return f"variants={json.dumps(kept)}"


def tuned(jobs: int = 1) -> pd.DataFrame:
    """Return the rounds that each step and clip take for each noise: see `conducting.tried`."""
    algorithm = {"kind": "fedavg", "local_steps": 5}
    candidates = {
        f"z-{noise}-clip-{clip}-step-{step}": {
            "algorithm": {**algorithm, "step_size": step},
            "privacy": {"clip": clip, "noise": noise},
        }
        for noise in (0, 0.5, 1, 2, 4)
        for clip in CLIPS
        for step in STEPS
    }
    found: pd.DataFrame = tried(SCENARIO, candidates, ACCURACY, jobs=jobs)
    return found


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
        server, noise, seed, reached, round, t (s), joules (until all radios sleep), joules_after
        (the part after the last round), epsilon of the run, and the mean epsilon of a fast and a
        slow phone.
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
    columns = ["server", "noise", "seed", "reached", "round", "t", "joules", "joules_after"]
    columns += ["epsilon", FAST, SLOW]
    return costs.assign(noise=noise, server=server)[columns]


def split(variant: str) -> tuple[str, str]:
    """Return the noise and the server of a variant.

    >>> split("z-0.5-async"), split("open")
    (('z-0.5', 'async'), ('open', ''))
    """
    noise, _, server = variant.rpartition("-")
    return (noise, server) if server in SERVERS else (variant, "")


def means(costs: pd.DataFrame) -> pd.DataFrame:
    """Return means over the seeds by server and noise, in the order of `SERVERS` and `NOISE`.

    Runs that missed the accuracy have no part in them; `reached` is the share of the others.
    """
    reached = costs.groupby(["server", "noise"])["reached"].mean()
    figures = ["round", "t", "joules", "joules_after", "epsilon", FAST, SLOW]
    found = costs[costs["reached"]].groupby(["server", "noise"])[figures].mean().join(reached)
    order = pd.MultiIndex.from_product([SERVERS, NOISE], names=found.index.names)
    return found.reindex(order[order.isin(found.index)])


def relative(costs: pd.DataFrame) -> pd.DataFrame:
    """Return the energy over that of open rounds, of seeds in which both reach the accuracy.

    Returns:
        Indexed by cost, server and noise: ratio, low, high. The cost is "joules", until radios
        sleep, or "rounds", without what follows the last round.
    """
    reached = costs[costs["reached"]]
    both = reached.assign(rounds=reached["joules"] - reached["joules_after"])
    runs = {key: own.set_index("seed") for key, own in both.groupby(["server", "noise"])}
    found = {
        (cost, *key): ratio(*pd.concat([own[cost], runs["", "open"][cost]], axis=1, join="inner")
                            .to_numpy().T)
        for cost in ("joules", "rounds")
        for key, own in runs.items()
    }  # fmt: skip
    return pd.DataFrame.from_dict(found, orient="index")


def times(row: pd.Series) -> str:
    """Return a ratio and its interval, in words."""
    return f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def tables(costs: pd.DataFrame, known: pd.DataFrame) -> list[Table]:
    """Return the means, and the probabilities, as tables for reading."""
    of_open = relative(costs)
    rows = [
        (
            *(SERVERS[row["server"]], NOISE[row["noise"]], f"{row['reached']:.0%}"),
            *(f"{row['round']:.1f}", quantity(row["t"], "s")),
            *(quantity(row[each], "J") for each in ("joules", "joules_after")),
            *(times(row_of(of_open, cost, row["server"], row["noise"]))
              for cost in ("joules", "rounds")),
            *(quantity(row[epsilon]) for epsilon in ("epsilon", FAST, SLOW)),
        )
        for row in means(costs).reset_index().to_dict("records")
    ]  # fmt: skip
    heads = ("server", "noise z", "reached", "rounds", "time", "energy", "after the last round",
             "times that of open rounds", "rounds alone", "epsilon", FAST, SLOW)  # fmt: skip
    ordered = [
        (row["variant"], row["against"], row["cost"], f"{row['ratio']:.2f}", chance(row))
        for row in known.to_dict("records")
    ]
    names = ("variant", "against", "cost", "ratio", "P(less)")
    return [
        listing(f"Two hundred phones until {ACCURACY:.0%} accuracy", heads, rows),
        listing("In drawn networks", names, ordered),
    ]


def finding(costs: pd.DataFrame, known: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    figures, of_open = means(costs), relative(costs)
    rounds, free = figures.loc[""], figures.loc["async"]
    less = known.set_index(["variant", "against", "cost"])
    noisy = [name for name in NOISE if name.startswith("z-") and name in rounds.index]

    def p(*pair: str, cost: str = "joules") -> str:
        return f"P {chance(less.xs((*pair, cost)))}"

    def priced(server: str, noise: str) -> str:
        alone, whole = (row_of(of_open, cost, server, noise) for cost in ("rounds", "joules"))
        return f"{times(alone)}, with tails {whole['ratio']:.2f}"

    prices = "; ".join(f"epsilon {rounds['epsilon'][z]:.3g}: {priced('', z)}" for z in noisy)
    shares = "; ".join(
        f"z = {NOISE[z]}: {free[FAST][z]:.3g} and {free[SLOW][z]:.3g}"
        for z in noisy
        if z in free.index
    )
    missed = [
        f"z = {NOISE[z]} {reached:.0%}{' (asynchronous)' if server else ''}"
        for server, z, reached in figures["reached"].reset_index().itertuples(index=False)
        if reached < 1
    ]
    points: str = bullets(
        f"Energy to {ACCURACY:.0%} accuracy, in times of open rounds, rounds alone: {prices}. The "
        f"clip alone takes {priced('', 'clip')}. After the last round radios take "
        f"{quantity(rounds['joules_after']['open'], 'J')} of the "
        f"{quantity(rounds['joules']['open'], 'J')} of open rounds.",
        f"That noise takes more energy than the clip alone has {p('clip', 'z-1')} for z = 1, "
        f"{p('clip', 'z-2')} for 2, {p('clip', 'z-4')} for 4, over drawn seeds and networks; that "
        f"the clip takes more than open rounds {p('open', 'clip')}.",
        "In rounds all phones lose the same epsilon. Under an asynchronous server a fast phone "
        f"loses more than a slow one, as it replies more often. Means of fast and slow phones at "
        f"{ACCURACY:.0%}: {shares} ({p(SLOW, FAST, cost='epsilon')} that slow ones lose less).",
        f"An asynchronous server takes {priced('async', 'open')} of the energy of open rounds "
        f"without privacy, and {priced('async', 'z-1')} with z = 1, less than rounds with z = 1 "
        f"with {p('z-1-async', 'z-1')}. But no sampling amplifies its privacy: its epsilon is "
        f"{free['epsilon']['z-1']:.3g} in place of {rounds['epsilon']['z-1']:.3g} "
        f"({p('z-1-async', 'z-1', cost='epsilon')} that it is less).",
        *([f"Share of runs that get to the accuracy, where it is not 100%: {', '.join(missed)}."]
          if missed else []),
    )  # fmt: skip
    return points


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
    label_axis(price.yaxis, f"energy to {100 * ACCURACY:.0f} % accuracy", "J", log=True)
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
    conduct(__doc__, noised, (tables, finding, draw), FIGURE, files, 190, tuned)


if __name__ == "__main__":
    main()
