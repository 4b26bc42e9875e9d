"""Does secure aggregation undo the savings of compression and censoring?

    python analysis/studies/savings_under_secrecy.py [--out DIR] [--jobs N]

Runs scenarios/studies/savings-under-secrecy.yaml on three radios; and some methods with phones of
which one in twenty or one in five leaves in a round. FedSGM, whose problem has a constraint, has
that of its paper, scenarios/papers/fedsgm-breast-cancer.yaml. Prints what a target takes in bits,
seconds and joules under each protocol, with and without the tails of radios after the last round,
and the probability that a method under secrecy costs less than another one over drawn networks.
Writes both as savings_under_secrecy.csv and savings_under_secrecy_worlds.csv, and draws the energy
as analysis/figures/savings-under-secrecy.png.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from conducting import (
    SEEDS,
    WORLDS,
    bullets,
    chance,
    chances,
    conduct,
    places,
    progress,
    ratio,
    row_of,
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
CONSTRAINED = SCENARIO.parents[1] / "papers/fedsgm-breast-cancer.yaml"

RADIOS = {"lte": "LTE", "wifi": "Wi-Fi", "nb-iot": "NB-IoT"}

LEAVING = (0.0, 0.05, 0.2)
"""The shares of phones that leave in the time of a round without secrecy."""

LEAVERS = ("fedavg", "chb", "fedsgm")
"""The methods of phones that leave: whether a round gets to its end depends on the protocol."""

METHODS = {
    "fedavg": "FedAvg",
    "qsgd": "FedAvg, QSGD 8 bits",
    "rand-k": "FedAvg, rand-k 25 %",
    "top-k": "FedAvg, top-k 10 %, EF",
    "top-k-union": "FedAvg, top-k 10 %",
    "fed-ht": "Fed-HT",
    "fediter-ht": "FedIter-HT",
    "fedgradmp": "FedGradMP",
    "fast-fedda": "Fast-FedDA",
    "hb": "HB",
    "chb": "CHB",
    "chb-mask": "CHB, silence masked",
    "chb-group": "CHB, silence of groups",
    "fedsgm": "FedSGM",
}

PROTOCOLS = {
    "": "no secrecy",
    "secagg": "SecAgg",
    "secaggplus": "SecAgg+",
    "lightsecagg": "LightSecAgg",
}

REFUSED = {
    ("top-k", ("secagg", "secaggplus", "lightsecagg")): "a client does not learn the error of a"
    " vector that was not counted",
    ("fast-fedda", ("lightsecagg",)): "clients send two vectors, and have masks for one",
}
"""Why there is no run."""

FIRST = 11
"""The first seed: steps, supports and the threshold of censoring were chosen on seeds 1 to 5."""

ACCURACY = 0.9
"""The test accuracy at which the runs stop."""

OBJECTIVE = 0.1
"""FedSGM stops at a model with this objective that keeps to its constraint."""


KEYS = ["radio", "leaving", "method", "protocol"]
FIGURES = [
    "round",
    "transmissions",
    "beacons",
    "bits_up",
    "bits_down",
    "t",
    "joules",
    "joules_after",
]


class Case(NamedTuple):
    """Runs to one target.

    Attributes:
        name: of their folders.
        scenario: the file.
        variants: of it.
        overrides: of it.
        plain: the variant whose rounds are the pace at which phones leave.
        measure: what has the target.
        target: its value.
    """

    name: str
    scenario: Path
    variants: dict[str, Any]
    overrides: Sequence[str]
    plain: str
    measure: str
    target: float


def cases() -> Iterator[Case]:
    """Yield the runs to an accuracy, and those of FedSGM."""
    written = YAML(typ="safe").load(SCENARIO)["variants"]
    ends = [f"stop.test_accuracy={ACCURACY}"]
    yield Case("digits", SCENARIO, written, ends, "fedavg", "test_accuracy", ACCURACY)
    secret = {
        "fedsgm": {},
        "fedsgm-secagg": {"secrecy": {"kind": "secagg", "clip": 20}},
        "fedsgm-secaggplus": {"secrecy": {"kind": "secagg+", "neighbours": 6, "clip": 20}},
        "fedsgm-lightsecagg": {"secrecy": {"kind": "lightsecagg", "clip": 20}},
    }
    ends = [f"stop={{rounds: 60, objective: {OBJECTIVE}}}"]
    ends += ["fleet.0.count=20", "problem.split.clients=20"]
    yield Case("constrained", CONSTRAINED, secret, ends, "fedsgm", "objective", OBJECTIVE)


def summed(
    out: Path,
    overrides: Sequence[str] = (),
    jobs: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the scenarios on every radio, with phones that stay and phones that leave.

    Where phones stay, a radio changes no model: the runs on LTE are priced on the others.

    Returns:
        A row a run: radio, leaving, method, protocol, seed, reached, round, transmissions, beacons,
        bits_up, bits_down, t (s), joules (until all radios sleep), joules_after (the part after the
        last round); and a row a pair of variants, radio and cost: see `conducting.chances`.
    """
    every = [(case, radio) for case in cases() for radio in RADIOS]
    parts = [
        part(case, radio, out / case.name, overrides if case.scenario == SCENARIO else (), jobs)
        for case, radio in progress(every)
    ]
    spent, known = zip(*parts, strict=True)
    return pd.concat(spent, ignore_index=True), pd.concat(known, ignore_index=True)


def part(
    case: Case, radio: str, folder: Path, overrides: Sequence[str], jobs: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what `summed` does, of one problem over one radio."""
    first, own = next(iter(RADIOS)), f"fleet.0.radio={radio}"
    given = [f"seed={FIRST}", f"seeds={SEEDS}", *case.overrides, *overrides]
    some = {name: each for name, each in case.variants.items() if split(name)[0] in LEAVERS}
    calm = folder / f"{radio}-0"
    if radio == first:
        every = f"variants={json.dumps(case.variants)}"
        result = fedsim.run(case.scenario, out=calm, overrides=[every, *given], jobs=jobs)
    else:
        result = fedsim.reprice(folder / f"{first}-0", [own], calm)
    tables = [costs(result, case, radio, 0.0)]
    openly = tables[0][(tables[0]["method"] == case.plain) & (tables[0]["protocol"] == "")]
    pace = float((openly["t"] / openly["round"]).mean())
    known = chances(calm, f"{case.measure}={case.target}", pairs(list(case.variants)), WORLDS)
    for share in filter(None, LEAVING):
        # Away for the time of a round, after a stay in which a share of them leaves.
        stay = f"{{kind: markov, on: {pace / share:.4g} s, off: {pace:.4g} s}}"
        world = [f"variants={json.dumps(some)}", own, *given, f"fleet.0.availability={stay}"]
        result = fedsim.run(case.scenario, out=folder / f"{radio}-{share:g}", overrides=world,
                            jobs=jobs)  # fmt: skip
        tables.append(costs(result, case, radio, share))
    return pd.concat(tables, ignore_index=True), known.assign(radio=radio)


def costs(result: fedsim.Result, case: Case, radio: str, leaving: float) -> pd.DataFrame:
    """Return what a target took: a row a run."""
    spent = cost_to_target(result.rounds, case.target, case.measure)
    names = [split(str(name)) for name in spent["variant"]]
    method, protocol = zip(*names, strict=True)
    spent = spent.assign(radio=radio, leaving=leaving, method=method, protocol=protocol)
    return spent[[*KEYS, "seed", "reached", *FIGURES]]


def split(variant: str) -> tuple[str, str]:
    """Return the method and the protocol of a variant.

    >>> split("rand-k-secagg"), split("chb")
    (('rand-k', 'secagg'), ('chb', ''))
    """
    method, _, protocol = variant.rpartition("-")
    return (method, protocol) if protocol in PROTOCOLS else (variant, "")


def plain(method: str) -> str:
    """Return the method that a method saves something of: HB for CHB, FedAvg for most."""
    return {"chb": "hb", "hb": "hb", "fedsgm": "fedsgm"}.get(in_the_open(method), "fedavg")


def in_the_open(method: str) -> str:
    """Return the method without secrecy: CHB, whatever is seen of its silence under secrecy."""
    return "chb" if method.startswith("chb-") else method


def pairs(variants: Sequence[str]) -> list[tuple[str, str]]:
    """Return each variant with its plain method, and with itself, both without secrecy."""
    found = []
    for variant in variants:
        method, _ = split(variant)
        others = dict.fromkeys((plain(method), in_the_open(method)))
        found += [(variant, other) for other in others if other != variant]
    return found


def means(spent: pd.DataFrame) -> pd.DataFrame:
    """Return means over the seeds by radio, leaving, method and protocol.

    Runs that missed the target have no part in them; `reached` is the share of the others.
    """
    found = spent.groupby(KEYS)[["reached", *FIGURES]].mean()
    levels = spent["radio"].unique(), spent["leaving"].unique(), METHODS, PROTOCOLS
    order = pd.MultiIndex.from_product(levels, names=KEYS)
    return found.reindex(order[order.isin(found.index)])


HEADS = ("method", "protocol", "rounds", "bits up", "bits down", "time", "energy", "5 % leave",
         "20 % leave", "P(less than plain)", "P(less than open)")  # fmt: skip


def rows(spent: pd.DataFrame, known: pd.DataFrame, radio: str) -> Iterator[tuple[str, ...]]:
    """Yield what each method takes under each protocol over a radio, in words; see `HEADS`."""
    figures, seeds = means(spent).loc[radio], spent.groupby(KEYS)["reached"].agg(["sum", "size"])
    here = figures.reset_index().query("leaving == 0").to_dict("records")
    calm = {(own["method"], own["protocol"]): own for own in here}
    joules = known[(known["radio"] == radio) & (known["cost"] == "joules")]
    by_pair = joules.set_index(["variant", "against"])

    def energy(leaving: float, *key: str) -> str:
        if (radio, leaving, *key) not in seeds.index:
            return ""
        reached, every = seeds.xs((radio, leaving, *key))
        text = quantity(figures["joules"][(leaving, *key)], "J") if reached else "-"
        return text if reached == every else f"{text} ({reached} of {every})"

    def less(variant: str, other: str) -> str:
        return chance(row_of(by_pair, variant, other)) if (variant, other) in by_pair.index else ""

    for method, name in METHODS.items():
        for protocol, title in PROTOCOLS.items():
            why = [text for (own, at), text in REFUSED.items() if own == method and protocol in at]
            if why:
                yield name, title, f"refused: {why[0]}", *[""] * (len(HEADS) - 3)
            elif (method, protocol) in calm:
                own = calm[method, protocol]
                variant = f"{method}-{protocol}".rstrip("-")
                yield (
                    *(name, title, f"{own['round']:.1f}"),
                    *(quantity(own[bits], "bit") for bits in ("bits_up", "bits_down")),
                    *(quantity(own["t"], "s"), energy(0.0, method, protocol)),
                    *(energy(share, method, protocol) for share in LEAVING[1:]),
                    less(variant, plain(method)),
                    less(variant, in_the_open(method)),
                )


def relative(spent: pd.DataFrame, cost: str = "joules_of_rounds") -> pd.DataFrame:
    """Return the energy of methods over that of their plain method without secrecy.

    Only seeds count in which both reach the target, and phones that stay.

    Args:
        spent: see `summed`.
        cost: "joules_of_rounds", up to the end of the last round, or "joules", until radios sleep.

    Returns:
        Indexed by radio, method and protocol: ratio, low, high.
    """
    calm = spent[(spent["leaving"] == 0) & spent["reached"]]
    calm = calm.assign(joules_of_rounds=calm["joules"] - calm["joules_after"])
    runs = {
        key: own.set_index("seed")[cost]
        for key, own in calm.groupby(["radio", "method", "protocol"], observed=True)
    }
    found = {}
    for key, own in runs.items():
        radio, method, protocol = map(str, key)
        plainly = runs[radio, plain(method), ""]
        both = pd.DataFrame({"own": own, "plain": plainly}).dropna()
        if len(both):
            found[radio, method, protocol] = ratio(*both.to_numpy().T)
    return pd.DataFrame.from_dict(found, orient="index")


def saved(row: pd.Series) -> str:
    """Return what a method saves, and its interval, in words; below zero where it takes more."""
    return f"{1 - row['ratio']:.0%} ({1 - row['high']:.0%} to {1 - row['low']:.0%})"


def times(row: pd.Series) -> str:
    """Return how many times the energy a method takes, and the interval, in words."""
    return f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


SAVING = ("qsgd", "rand-k", "top-k-union", "fediter-ht", "fedgradmp", "chb")
"""Methods that send less than their plain one."""


def tables(spent: pd.DataFrame, known: pd.DataFrame) -> list[Table]:
    """Return what is saved of the rounds' energy, and a table for each radio."""
    found = relative(spent)
    radios = {radio: name for radio, name in RADIOS.items() if radio in set(spent["radio"])}
    heads = [f"{name}, {of}" for name in radios.values() for of in ("no secrecy", "SecAgg+")]
    rows_of_savings = [
        (METHODS[method], *(saved(row_of(found, radio, method, protocol))
                            for radio in radios for protocol in ("", "secaggplus")))
        for method in SAVING
    ]  # fmt: skip
    title = "Saved of the rounds' energy of the plain method without secrecy"
    return [
        listing(title, ("method", *heads), rows_of_savings),
        *(
            listing(f"Twenty phones over {name}", HEADS, list(rows(spent, known, radio)))
            for radio, name in radios.items()
        ),
    ]


def finding(spent: pd.DataFrame, known: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    found, asleep = relative(spent), relative(spent, "joules")
    radios = [radio for radio in RADIOS if radio in set(spent["radio"])]
    joules = known[known["cost"] == "joules"].set_index(["variant", "against", "radio"])

    def name(method: str) -> str:
        return METHODS[method].rpartition(", ")[2]

    def answer(radio: str) -> str:
        kept = [
            f"{name(each)} {1 - row_of(found, radio, each, '')['ratio']:.0%}, then "
            f"{saved(row_of(found, radio, each, 'secaggplus'))}, P "
            f"{chance(row_of(joules, f'{each}-secaggplus', plain(each), radio))}"
            for each in SAVING
        ]
        return f"{RADIOS[radio]}: {'; '.join(kept)}."

    def left(radio: str) -> str:
        row = {each: row_of(found, radio, each, "secaggplus") for each in SAVING}
        still = [
            f"{name(each)} ({1 - row[each]['ratio']:.0%} of "
            f"{1 - row_of(found, radio, each, '')['ratio']:.0%})"
            for each in SAVING
            if row[each]["high"] < 1
        ]
        return f"over {RADIOS[radio]} {', '.join(still) or 'none'}"

    def taken(method: str, protocol: str) -> str:
        return ", ".join(times(row_of(found, radio, method, protocol)) for radio in radios)

    calm = spent[(spent["leaving"] == 0) & (spent["protocol"] == "") & (spent["radio"] == "lte")]
    open_ = calm[calm["method"] == "fedavg"][["joules", "joules_after"]].mean()
    shrunk = ", ".join(
        f"{name(each)} {1 - row_of(asleep, 'lte', each, '')['ratio']:.0%} and "
        f"{1 - row_of(asleep, 'lte', each, 'secaggplus')['ratio']:.0%}"
        for each in SAVING
    )
    ends = spent[spent["leaving"] > 0].groupby(["leaving", "protocol"])["reached"].mean()
    reached = "; ".join(
        f"{share:.0%} leave: "
        + ", ".join(f"{title} {ends[share, protocol]:.0%}" for protocol, title in PROTOCOLS.items())
        for share in sorted({share for share, _ in ends.index})
    )
    over = ", ".join(RADIOS[radio] for radio in radios)
    points: str = bullets(
        "Methods that surely save under SecAgg+ (interval above zero; what is left of what they "
        f"save without secrecy): {'; '.join(map(left, radios))}.",
        "Share of the rounds' energy that a method saves against its plain method without "
        "secrecy: without secrecy, then under SecAgg+ (below zero it takes more), and the "
        "probability P that it still takes less over drawn networks.",
        *map(answer, radios),
        f"With the tails after the last round, over LTE {quantity(open_['joules_after'], 'J')} of "
        f"FedAvg's {quantity(open_['joules'], 'J')}, the savings without secrecy and under SecAgg+ "
        f"are {shrunk}. Tails are the same for all, so P holds for both.",
        f"What secrecy costs, in times of the rounds' energy without it, over {over}: FedAvg "
        + "; ".join(f"{PROTOCOLS[each]} {taken('fedavg', each)}" for each in PROTOCOLS if each)
        + ".",
        "CHB under SecAgg+, in times of HB's rounds without secrecy: silence seen "
        f"{taken('chb', 'secaggplus')}; masked {taken('chb-mask', 'secaggplus')}; of groups "
        f"{taken('chb-group', 'secaggplus')}.",
        f"Runs that get to the target where phones leave within rounds: {reached}.",
    )
    return points


def draw(spent: pd.DataFrame, known: pd.DataFrame) -> Figure:  # noqa: ARG001
    """Draw the rounds' energy over that of the plain method: one panel per radio."""
    found = relative(spent)
    radios = [radio for radio in RADIOS if radio in set(spent["radio"])]
    figure, every = panels(len(radios), 1, 3.3, width=5.6, sharex=True)
    names = list(METHODS)
    for axis, radio in zip(every, radios, strict=True):
        for (protocol, title), colour, mark in zip(
            PROTOCOLS.items(), COLOURS, "osD^", strict=False
        ):
            own = found.xs((radio, protocol), level=(0, 2))
            places = [names.index(method) for method in own.index]
            around = (own["ratio"] - own["low"], own["high"] - own["ratio"])
            axis.errorbar(own["ratio"], places, xerr=around, fmt=mark, color=colour, ms=6,
                          label=title, mfc="none", mew=1.6, elinewidth=1)  # fmt: skip
        axis.axvline(1, color="black", lw=0.8, zorder=0)
        label_axis(axis.xaxis, "", log=True)
        axis.set_xlabel("")
        axis.set_yticks(range(len(names)), list(METHODS.values()))
        axis.set_title(RADIOS[radio], fontsize=10, loc="left")
        axis.invert_yaxis()
    every[-1].set_xlabel("energy of the rounds to the target, log scale")
    name_variants(figure)
    setting = (
        f"1 is the plain method without secrecy; 20 phones; means of {spent['seed'].nunique()}"
        " seeds, 90 % intervals"
    )
    entitle(figure, f"What secure aggregation leaves of savings\n{setting}", apart=True)
    return figure


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    files = COSTS, COSTS.with_name(f"{COSTS.stem}_worlds.csv")
    conduct(__doc__, summed, (tables, finding, draw), FIGURE, files, 190)


if __name__ == "__main__":
    main()
