"""The claims: which method needs less of which count than another, up to which target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

import fedsim
from fedsim.analysis import cost_to_end, cost_to_target

RADIOS = {
    "lte": "LTE 2012",
    "lte-2020": "LTE 2020",
    "5g-low": "5G",
    "wifi": "Wi-Fi",
    "nb-iot": "NB-IoT",
    "lora-sf7": "LoRa",
    "ethernet": "wired",
}
"""Presets on which every client is, and what tables call them."""

COSTS = {
    "round": "rounds",
    "transmissions": "messages",
    "bits": "bits",
    "t": "time",
    "joules": "energy",
}
"""The counts of claims."""

Costs = Callable[[fedsim.Result], pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """That one method needs less than another to get somewhere.

    Attributes:
        title: the claim in a line.
        source: paper, and where in it.
        scenario: under scenarios/papers/, without its ending.
        better: the variant that needs less, and what it is called.
        worse: the other one.
        counted: what the paper counts, a key of `COSTS`.
        costs: what each run of the two has needed: a row a run, with columns variant, seed,
            reached and those of `COSTS`.
        overrides: of the scenario.
        silent: whether either method keeps silent, so that deadlines matter.
        small: whether its messages fit a LoRa radio, which may send 1 % of the time.
        single: the rounds whose costs are counted, a row each with variant, seed and round, where
            those are not all until it got there.
    """

    title: str
    source: str
    scenario: str
    better: tuple[str, str]
    worse: tuple[str, str]
    counted: str
    costs: Costs
    overrides: tuple[str, ...] = ()
    silent: bool = False
    small: bool = False
    single: Costs | None = None

    @property
    def variants(self) -> tuple[str, str]:
        """The names of its two variants."""
        return self.better[0], self.worse[0]

    @property
    def radios(self) -> Sequence[str]:
        """The radios it is asked on."""
        return [radio for radio in RADIOS if self.small or not radio.startswith("lora")]


def to_gap(result: fedsim.Result) -> pd.DataFrame:
    """Return what the gap took at which the runs were to stop."""
    return cost_to_target(result.rounds, float(result.summary["target"].max()))


def to_level(measure: str, level: float) -> Costs:
    """Return what it took until a measure first was at a level."""
    return lambda result: cost_to_target(result.rounds, level, measure)


def to_end_of(variant: str) -> Costs:
    """Return what it took to the objective at which another variant ends, seed by seed."""
    return lambda result: cost_to_end(result.rounds, variant)


def while_broken(result: fedsim.Result) -> pd.DataFrame:
    """Return what was spent in rounds that end with a broken constraint."""
    rounds = result.rounds
    runs = rounds.groupby(["variant", "seed"], sort=False, observed=True)
    each = rounds.assign(t=runs["t"].diff().fillna(rounds["t"]), round=1)
    columns = ["round", "transmissions", "bits_up", "bits_down", "t", "joules"]
    each[columns] = each[columns].mul(rounds["violated"], axis=0)
    table = each.groupby(["variant", "seed"], sort=False, observed=True)[columns].sum()
    return table.reset_index().assign(reached=True)


def broken(result: fedsim.Result) -> pd.DataFrame:
    """Return the rounds that end with a broken constraint: a row each, variant, seed and round."""
    return result.rounds.loc[result.rounds["violated"] > 0, ["variant", "seed", "round"]]


CHB = "Chen, Blum, Sadler"

_TONG = "Tong et al., Simulation I, K = 10"
_BATCHES = (  # rates below the paper's grid, where its Figure 3 is reproduced
    "seeds=3",
    "precision=float64",
    "problem.loss.scale=mean",
    "algorithm={kind: distributed-iht, sparsity: 200, batch: 20, step_size: 3e-4}",
    *(
        f"variants.{kind}-10.algorithm="
        f"{{kind: {kind}, sparsity: 200, batch: 20, step_size: 3e-4, local_steps: 10}}"
        for kind in ("fediter-ht", "fed-ht")
    ),
)

CLAIMS = {
    "chb-hb": Claim(
        "CHB needs fewer transmissions than HB",
        f"{CHB}, Table I, linear regression on ijcnn1",
        "chb-ijcnn1-linear",
        ("base", "CHB"),
        ("hb", "HB"),
        "transmissions",
        to_gap,
        silent=True,
        small=True,
    ),
    "chb-lag": Claim(
        "CHB needs fewer transmissions than LAG",
        f"{CHB}, Table I, linear regression on ijcnn1",
        "chb-ijcnn1-linear",
        ("base", "CHB"),
        ("lag", "LAG"),
        "transmissions",
        to_gap,
        silent=True,
        small=True,
    ),
    "chb-synthetic": Claim(
        "CHB needs fewer transmissions than HB, synthetic data",
        f"{CHB}, Figure 1; step size 1/(L_1 + ... + L_M)",
        "chb-synthetic-linear",
        ("base", "CHB"),
        ("hb", "HB"),
        "transmissions",
        to_gap,
        (
            "algorithm.step_size=0.0061908",
            "variants.hb.algorithm.step_size=0.0061908",
        ),
        silent=True,
        small=True,
    ),
    "fedsgm": Claim(
        "soft switching breaks the constraint in fewer rounds than hard",
        "Upadhyay, Moon, Hashemi; step size 0.3",
        "fedsgm-breast-cancer",
        ("soft-100", "soft"),
        ("base", "hard"),
        "round",
        while_broken,
        small=True,
        single=broken,
    ),
    "fedgradmp": Claim(
        "FedGradMP needs fewer rounds than FedIter-HT",
        "Jeong, Needell, Qin, Figure 4 but for FedIter-HT's rate, 0.03; relative error 0.1",
        "fedgradmp-noisy",
        ("base", "FedGradMP"),
        ("fediter-ht", "FedIter-HT"),
        "round",
        to_level("relative_distance", 0.1),
        (
            "problem.data.alpha=0.5",
            "variants.fediter-ht.algorithm.step_size=0.03",
            "variants.fediter-ht.sweep=null",
            "stop.rounds=200",
        ),
    ),
    "fediter-ht": Claim(
        "FedIter-HT needs fewer rounds than Distributed-IHT",
        f"{_TONG}, batch 20, step size 3e-4 for both (their Figure 3)",
        "fed-ht-regression",
        ("fediter-ht-10", "FedIter-HT"),
        ("base", "Distributed-IHT"),
        "round",
        to_end_of("base"),
        _BATCHES[:5],
    ),
    "fediter-fed-ht": Claim(
        "FedIter-HT needs fewer bits than Fed-HT",
        f"{_TONG}, batch 20, step size 3e-4: sparse messages",
        "fed-ht-regression",
        ("fediter-ht-10", "FedIter-HT"),
        ("fed-ht-10", "Fed-HT"),
        "bits",
        to_end_of("base"),
        _BATCHES,
    ),
    "mc-fedda": Claim(
        "MC-FedDA needs fewer rounds than FedDualAvg",
        "Bao, Crawshaw, Luo, Liu, Figure 1; error 1",
        "fedda-sparse",
        ("mc-fedda", "MC-FedDA"),
        ("fed-dual-avg", "FedDualAvg"),
        "round",
        to_level("distance", 1.0),
        ("stop.rounds=1200",),
    ),
    "fast-fedda": Claim(
        "Fast-FedDA needs fewer rounds than FedDualAvg",
        "Bao, Crawshaw, Luo, Liu, Figure 1; error 1",
        "fedda-sparse",
        ("base", "Fast-FedDA"),
        ("fed-dual-avg", "FedDualAvg"),
        "round",
        to_level("distance", 1.0),
        ("stop.rounds=1200",),
    ),
}
