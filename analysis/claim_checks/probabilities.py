"""Robustness: the share of worlds, with sampled constants, in which a claim holds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import fedsim
from claim_checks.costs import spans
from claim_checks.papers import Claim
from claim_checks.settings import Setting
from claim_checks.verdicts import short
from fedsim.addons.repricing.history import Original
from fedsim.addons.robustness.constants import ConstantKey
from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.pricing import Costs, hindrance, priced_at
from fedsim.addons.robustness.uncertain_inputs import constants_of
from fedsim.addons.robustness.verdicts import COSTS
from fedsim.core.ports import Array
from fedsim.results.analysis.compare.caveats import is_undecided

WORLDS = 512
"""Independent worlds for each claim: of a share of 100 % the interval begins at 99.4."""


class WorldShare(NamedTuple):
    """The outcome of a claim in many worlds, counted in time or in energy.

    Attributes:
        share: of the worlds in which the other methods need more: the geometric mean of the
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
    claim: Claim, setting: Setting, result: fedsim.Result, worlds: int = WORLDS
) -> Mapping[str, WorldShare]:
    """Return in what share of worlds a claim holds in time and in energy.

    Args:
        claim: which one.
        setting: of its runs.
        result: its methods in one world, whose rounds follow from the constants.
        worlds: in how many it is asked.

    Returns:
        t and joules; nothing where a method has not got there, or where rounds do not follow.
    """
    known = originals(claim, setting, result)
    constants = constants_of([each.scenario for each in known.values()], {})
    design = Design.of(constants, worlds, seed=1, runs=worlds)
    found = dict[str, WorldShare]()
    ratios = log_ratios(claim, setting, result, design.world(), design.count)
    for name, each in ratios.items():
        own = each[: design.drawn]
        ends = map(float, np.exp(np.quantile(own, (0.05, 0.95))))
        found[name] = WorldShare(float((own > 0).mean()), *ends)
    return found


def originals(
    claim: Claim, setting: Setting, result: fedsim.Result
) -> Mapping[tuple[str, int], Original]:
    """Return what is known of the runs of a claim's methods, by label and seed."""
    rows = zip(result.runs, result.summary.to_dict("records"), strict=True)
    named = ((setting.labels.get(str(row["variant"])), folder, row) for folder, row in rows)
    return {
        (label, int(row["seed"])): Original.of(folder, ())
        for label, folder, row in named
        if label in claim.labels
    }


def log_ratios(
    claim: Claim,
    setting: Setting,
    result: fedsim.Result,
    world: Mapping[ConstantKey, Array],
    worlds: int,
) -> Mapping[str, Array]:
    """Return the logarithms of worse over better in each world, means over seeds, shape (W,).

    Args:
        claim: which one.
        setting: of its runs.
        result: its methods in one world.
        world: the constants, each of shape (W,).
        worlds: W.
    """
    known, found = spans(claim, setting, result), dict[tuple[str, int], Costs]()
    for key, own in originals(claim, setting, result).items():
        if hindrance(own):
            return {}
        if key in known:
            found[key] = _over(known[key], own, world, worlds)
    rivals = {
        seed: [found[name, seed] for name in claim.worse if (name, seed) in found]
        for label, seed in found
        if label == claim.better
    }
    pairs = [(own, found[claim.better, seed]) for seed, own in rivals.items() if own]
    if not pairs:
        return {}
    return {
        name: np.mean(
            [np.log(_cheapest(others, name) / getattr(better, name)) for others, better in pairs],
            axis=0,
        )
        for name in COSTS
    }


def _cheapest(costs: Sequence[Costs], name: str) -> Array:
    """Return the least of several methods' costs in each world, shape (W,)."""
    least: Array = np.min([getattr(each, name) for each in costs], axis=0)
    return least


def _over(
    ends: Sequence[int], original: Original, world: Mapping[ConstantKey, Array], worlds: int
) -> Costs:
    """Return what is spent in spans: begin, end, begin, end and so on, shape (W,)."""
    looks = sorted({number for number in ends if number})
    known = priced_at(looks, original, world, worlds)
    rows = [looks.index(number) + 1 if number else 0 for number in ends]
    until = (np.vstack([np.zeros((1, worlds)), each])[rows] for each in known)
    return Costs(*((each[1::2] - each[::2]).sum(axis=0) for each in until))
