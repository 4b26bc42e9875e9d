"""Robustness: the share of worlds, with sampled constants, in which a claim holds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import fedsim
from claim_checks.papers import Claim
from claim_checks.verdicts import short
from fedsim.analysis.compare.caveats import is_undecided
from fedsim.ports import Array
from fedsim.repricing.history import Original
from fedsim.robustness.constants import ConstantKey
from fedsim.robustness.design import Design
from fedsim.robustness.pricing import Costs, hindrance, priced_at
from fedsim.robustness.uncertain_inputs import constants_of
from fedsim.robustness.verdicts import COSTS

WORLDS = 512
"""Independent worlds for each claim: of a share of 100 % the interval begins at 99.4."""


class WorldShare(NamedTuple):
    """The outcome of a claim in many worlds, counted in time or in energy.

    Attributes:
        share: of the worlds in which the worse method needs more: the geometric mean of the
            ratios over seeds is above 1.
        low: below which the ratio is in one world of twenty.
        high: above which it is in one of twenty.
    """

    share: float
    low: float
    high: float

    @property
    def doubtful(self) -> bool:
        """Whether constants decide, and not methods."""
        return is_undecided(self.share)

    def __str__(self) -> str:
        share = f"{100 * self.share:.3g} %"
        return f"{share} ({' to '.join(dict.fromkeys(map(short, (self.low, self.high))))})"


def world_shares(
    claim: Claim, result: fedsim.Result, worlds: int = WORLDS
) -> Mapping[str, WorldShare]:
    """Return in what share of worlds a claim holds in time and in energy.

    Args:
        claim: which one.
        result: its two methods in one world, whose rounds follow from the constants.
        worlds: in how many it is asked.

    Returns:
        t and joules; nothing where a method has not got there, or where rounds do not follow.
    """
    constants = constants_of([each.scenario for each in originals(claim, result).values()], {})
    design = Design.of(constants, worlds, seed=1, runs=worlds)
    found = dict[str, WorldShare]()
    for name, ratios in log_ratios(claim, result, design.world(), design.count).items():
        own = ratios[: design.drawn]
        ends = map(float, np.exp(np.quantile(own, (0.05, 0.95))))
        found[name] = WorldShare(float((own > 0).mean()), *ends)
    return found


def originals(claim: Claim, result: fedsim.Result) -> Mapping[tuple[str, int], Original]:
    """Return what is known of the runs of a claim's two methods, by variant and seed."""
    rows = zip(result.runs, result.summary.to_dict("records"), strict=True)
    return {
        (str(row["variant"]), int(row["seed"])): Original.of(folder, ())
        for folder, row in rows
        if row["variant"] in claim.variants
    }


def log_ratios(
    claim: Claim, result: fedsim.Result, world: Mapping[ConstantKey, Array], worlds: int
) -> Mapping[str, Array]:
    """Return the logarithms of worse over better in each world, means over seeds, shape (W,).

    Args:
        claim: which one.
        result: its two methods in one world.
        world: the constants, each of shape (W,).
        worlds: W.
    """
    spans, costs = _spans(claim, result), dict[tuple[str, int], Costs]()
    for key, own in originals(claim, result).items():
        if hindrance(own):
            return {}
        if own_spans := spans.get(key):
            costs[key] = _over(own_spans, own, world, worlds)
    better, worse = claim.variants
    seeds = [seed for name, seed in costs if name == better and (worse, seed) in costs]
    if not seeds:
        return {}
    pairs = [(costs[worse, seed], costs[better, seed]) for seed in seeds]
    return {
        name: np.mean([np.log(getattr(w, name) / getattr(b, name)) for w, b in pairs], axis=0)
        for name in COSTS
    }


def _spans(claim: Claim, result: fedsim.Result) -> Mapping[tuple[str, int], Sequence[int]]:
    """Return the rounds of each run whose costs are counted: ends of those before, and of those."""
    if claim.single is None:
        table = claim.costs(result)
        rows = table[table["reached"]].to_dict("records")
        return {(str(row["variant"]), int(row["seed"])): [0, int(row["round"])] for row in rows}
    spans = dict[tuple[str, int], list[int]]()
    for row in claim.single(result).to_dict("records"):
        number = int(row["round"])
        spans.setdefault((str(row["variant"]), int(row["seed"])), []).extend((number - 1, number))
    return spans


def _over(
    spans: Sequence[int], original: Original, world: Mapping[ConstantKey, Array], worlds: int
) -> Costs:
    """Return what is spent in spans: begin, end, begin, end and so on, shape (W,)."""
    looks = sorted({number for number in spans if number})
    known = priced_at(looks, original, world, worlds)
    rows = [looks.index(number) + 1 if number else 0 for number in spans]
    until = (np.vstack([np.zeros((1, worlds)), each])[rows] for each in known)
    return Costs(*((each[1::2] - each[::2]).sum(axis=0) for each in until))
