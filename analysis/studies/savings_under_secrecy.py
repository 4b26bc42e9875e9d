"""Does secure aggregation undo the savings of compression and censoring?

    python analysis/studies/savings_under_secrecy.py [--out DIR] [--jobs N]

Runs scenarios/studies/savings-under-secrecy.yaml on three radios, with phones that stay, and with
phones of which one in twenty or one in five leaves in a round. FedSGM, whose problem has a
constraint, has that of its paper, scenarios/papers/fedsgm-breast-cancer.yaml. Prints what a target
takes in bits, seconds and joules under each protocol, and the probability that a method under
secrecy costs less than another one over drawn networks. Writes both as savings_under_secrecy.csv
and savings_under_secrecy_worlds.csv, and draws the energy as
analysis/figures/savings-under-secrecy.png.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import pandas as pd
from conducting import WORLDS, chance, chances, conduct, places, progress
from matplotlib.figure import Figure
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
)
from fedsim.results.analysis.style import entitle

SCENARIO, FIGURE, COSTS = places(__file__)
CONSTRAINED = SCENARIO.parents[1] / "papers/fedsgm-breast-cancer.yaml"

RADIOS = {"lte": "LTE", "wifi": "Wi-Fi", "nb-iot": "NB-IoT"}

LEAVING = (0.0, 0.05, 0.2)
"""The shares of phones that leave in the time of a round without secrecy."""

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

SEEDS, SEEDS_LEAVING = 5, 2

ACCURACY = 0.9
"""The test accuracy at which the runs stop."""

OBJECTIVE = 0.1
"""FedSGM stops at a model with this objective that keeps to its constraint."""


KEYS = ["radio", "leaving", "method", "protocol"]
FIGURES = ["round", "transmissions", "beacons", "bits_up", "bits_down", "t", "joules"]


class Case(NamedTuple):
    """Runs to one target.

    Attributes:
        name: of their folders.
        scenario: the file.
        overrides: of it.
        plain: the variant whose rounds are the pace at which phones leave.
        measure: what has the target.
        target: its value.
    """

    name: str
    scenario: Path
    overrides: Sequence[str]
    plain: str
    measure: str
    target: float


def cases() -> Iterator[Case]:
    """Yield the runs to an accuracy, and those of FedSGM."""
    ends = [f"stop.test_accuracy={ACCURACY}"]
    yield Case("digits", SCENARIO, ends, "fedavg", "test_accuracy", ACCURACY)
    secret = {
        "fedsgm": {},
        "fedsgm-secagg": {"secrecy": {"kind": "secagg", "clip": 20}},
        "fedsgm-secaggplus": {"secrecy": {"kind": "secagg+", "neighbours": 6, "clip": 20}},
        "fedsgm-lightsecagg": {"secrecy": {"kind": "lightsecagg", "clip": 20}},
    }
    ends = [f"variants={json.dumps(secret)}", f"stop={{rounds: 60, objective: {OBJECTIVE}}}"]
    ends += ["fleet.0.count=20", "problem.split.clients=20"]
    yield Case("constrained", CONSTRAINED, ends, "fedsgm", "objective", OBJECTIVE)


def summed(
    out: Path,
    overrides: Sequence[str] = (),
    jobs: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the scenarios on every radio, with phones that stay and phones that leave.

    Where phones stay, a radio changes no model: the runs on LTE are priced on the others.

    Returns:
        A row a run: radio, leaving, method, protocol, seed, reached, round, transmissions, beacons,
        bits_up, bits_down, t (s), joules (until all radios sleep); and a row a pair of variants,
        radio and cost: see `conducting.chances`.
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
    first, own, given = next(iter(RADIOS)), f"fleet.0.radio={radio}", [*case.overrides, *overrides]
    calm = folder / f"{radio}-0"
    if radio == first:
        seeds = f"seeds={SEEDS}"
        result = fedsim.run(case.scenario, out=calm, overrides=[seeds, *given], jobs=jobs)
    else:
        result = fedsim.reprice(folder / f"{first}-0", [own], calm)
    tables = [costs(result, case, radio, 0.0)]
    openly = tables[0][(tables[0]["method"] == case.plain) & (tables[0]["protocol"] == "")]
    pace = float((openly["t"] / openly["round"]).mean())
    variants = list(dict.fromkeys(map(str, result.summary["variant"])))
    known = chances(calm, f"{case.measure}={case.target}", pairs(variants), WORLDS)
    for share in filter(None, LEAVING):
        # Away for the time of a round, after a stay in which a share of them leaves.
        stay = f"{{kind: markov, on: {pace / share:.4g} s, off: {pace:.4g} s}}"
        world = [own, f"seeds={SEEDS_LEAVING}", *given, f"fleet.0.availability={stay}"]
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
        return chance(by_pair.loc[(variant, other)]) if (variant, other) in by_pair.index else ""

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


def tables(spent: pd.DataFrame, known: pd.DataFrame) -> list[Table]:
    """Return a table for each radio that was simulated."""
    return [
        listing(f"Twenty phones over {name}", HEADS, list(rows(spent, known, radio)))
        for radio, name in RADIOS.items()
        if radio in set(spent["radio"])
    ]


def savings(spent: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Return what methods save of the energy of their plain method without secrecy, as a share.

    Returns:
        Indexed by method, a column a radio; below zero where they take more.
    """
    joules = means(spent)["joules"].xs(0.0, level="leaving")
    shares = {
        radio: {
            str(method): 1 - own[method, protocol] / own[plain(str(method)), ""]
            for method in own.index.unique("method")
            if (method, protocol) in own.index
        }
        for radio in joules.index.unique("radio")
        for own in [joules.loc[radio]]
    }
    return pd.DataFrame(shares)


SAVING = ("qsgd", "rand-k", "top-k-union", "fediter-ht", "fedgradmp", "chb")
"""Methods that send less than their plain one."""


def finding(spent: pd.DataFrame, known: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    openly, few = savings(spent, ""), savings(spent, "secaggplus")
    joules = known[known["cost"] == "joules"].set_index(["variant", "against", "radio"])
    first, *others = map(str, openly.columns)

    def name(method: str) -> str:
        return METHODS[method].rpartition(", ")[2]

    def saved(radio: str) -> str:
        every = (
            f"{name(method)} {share[method]:.0%} and {left[method]:.0%}"
            for share, left in [(openly[radio], few[radio])]
            for method in SAVING
        )
        return f"over {RADIOS[radio]} {', '.join(every)}"

    def p(radio: str) -> str:
        pairs = ((name(each), f"{each}-secaggplus", plain(each)) for each in SAVING)
        return ", ".join(f"{own} {chance(joules.xs((*pair, radio)))}" for own, *pair in pairs)

    def times(method: str) -> str:
        shares = (savings(spent, protocol) for protocol in PROTOCOLS if protocol)
        taken = (1 - each.loc[method] for each in shares if method in each.index)
        return "; ".join(", ".join(f"{ratio:.2f}" for ratio in each) for each in taken)

    ends = spent[spent["leaving"] == LEAVING[-1]].groupby("protocol")["reached"].mean()
    often = ", ".join(f"{ends[each]:.0%} ({name})" for each, name in PROTOCOLS.items())
    return fill(
        "Of the energy of their plain method without secrecy, methods save without secrecy and "
        f"under SecAgg+ {saved(first)}. "
        f"The same {'; and '.join(map(saved, others))}; below zero is more. That a method under "
        f"SecAgg+ takes less than its plain one without secrecy has over {RADIOS[first]} these P: "
        f"{p(first)}. Over {', '.join(RADIOS[each] for each in (first, *others))} "
        f"FedAvg takes {times('fedavg')} times its energy without secrecy under SecAgg; SecAgg+; "
        f"LightSecAgg, and FedSGM {times('fedsgm')}. CHB, over HB without "
        f"secrecy, takes {times('chb')} where silence is seen, {times('chb-mask')} where it is "
        f"masked, and {times('chb-group')} where that of groups is seen. Where "
        f"{LEAVING[-1]:.0%} of the phones leave in a round, this share of runs gets "
        f"to the target: {often}.",
        88,
    )


def draw(spent: pd.DataFrame, known: pd.DataFrame) -> Figure:  # noqa: ARG001
    """Draw the energy to the target over that of the plain method in the open: a panel a radio."""
    joules = means(spent)["joules"].xs(0.0, level="leaving")
    radios = list(joules.index.unique("radio"))
    figure, every = panels(len(radios), 1, 3.3, width=5.6, sharex=True)
    names = list(METHODS)
    for axis, radio in zip(every, radios, strict=True):
        own = joules.loc[radio]
        for (protocol, title), colour, mark in zip(
            PROTOCOLS.items(), COLOURS, "osD^", strict=False
        ):
            found = own.xs(protocol, level="protocol")
            ratios = [found[method] / own[plain(method), ""] for method in found.index]
            places = [names.index(method) for method in found.index]
            axis.plot(ratios, places, mark, color=colour, ms=6, label=title, mfc="none", mew=1.6)
        axis.axvline(1, color="black", lw=0.8, zorder=0)
        label_axis(axis.xaxis, "", log=True)
        axis.set_xlabel("")
        axis.set_yticks(range(len(names)), list(METHODS.values()))
        axis.set_title(RADIOS[radio], fontsize=10, loc="left")
        axis.invert_yaxis()
    every[-1].set_xlabel("energy to the target, log scale")
    name_variants(figure)
    setting = f"1 is the plain method in the open; 20 phone-mid; means of {SEEDS} seeds"
    entitle(figure, f"What secure aggregation leaves of savings\n{setting}", apart=True)
    return figure


def main() -> None:
    """Run the study, print its tables and its finding, and draw its figure."""
    files = COSTS, COSTS.with_name(f"{COSTS.stem}_worlds.csv")
    conduct(__doc__, summed, (tables, finding, draw), FIGURE, files, 190)


if __name__ == "__main__":
    main()
