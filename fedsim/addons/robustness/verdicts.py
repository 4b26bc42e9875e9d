"""Verdicts: how often one variant costs less than another, over worlds and over seeds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.addons.robustness.confidence import of_a_run, of_the_typical, seeds_share
from fedsim.addons.robustness.design import Design
from fedsim.core.ports import Array
from fedsim.results.analysis.compare.pairwise import (
    PRACTICAL,
    PairedComparison,
    Pairwise,
    log_ratios,
    typical,
)
from fedsim.results.analysis.compare.verdict import Worlds, judge

COSTS = ("t", "joules")
"""Costs that depend on constants in every study: seconds and joules. Grams of CO2 are a further one
if some clients have a carbon intensity."""

_SPREAD = (0.05, 0.5, 0.95)


class CostTable(NamedTuple):
    """Costs of variants by seed and world.

    Attributes:
        variants, seeds: their names.
        costs: cost -> shape (V, S, W); infinite if a run never reached the target, NaN if there is
            no run, or it cannot be priced in that world.
        bits: shape (V, S).
    """

    variants: Sequence[str]
    seeds: Sequence[int]
    costs: dict[str, Array]
    bits: Array


def seed_ratios(table: CostTable, cost: str, one: int, other: int) -> Array:
    """Return log(cost of one / cost of the other) under each seed, shape (S, W).

    NaN as in `log_ratios`.
    """
    values = table.costs[cost]
    return log_ratios(values[one], values[other])


def log_typical(table: CostTable, cost: str, one: int, other: int) -> Array:
    """Return the log of the typical ratio in each world, shape (W,): see `pairwise.typical`."""
    # The log of a free variant is -inf, which is meant.
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(typical(seed_ratios(table, cost, one, other).T)))


def verdicts(
    table: CostTable, drawn: slice, written: int, practical: float = PRACTICAL
) -> pd.DataFrame:
    """Return one row per pair of variants and cost.

    Args:
        table: the costs.
        drawn: the sampled worlds.
        written: the number of the world as written in the scenario.
        practical: costs whose ratio is nearer to 1 than this are the same.

    Returns:
        variant, against, cost; verdict (of seeds and worlds together, in the words of
        `fedsim.results.analysis.compare.verdict`); by_seed (the verdict of the seeds alone, in the
        world as written); ratio (typical over seeds, in the world as written), ratio_low,
        ratio_mid, ratio_high (its 5, 50 and 95 % quantiles over worlds); probability (that one run
        is cheaper, with a sampled seed and world; see `confidence.of_a_run`) with its 90 % interval
        probability_low and probability_high; typical (the share of worlds in which the typical
        ratio is below 1; see `confidence.of_the_typical`), likewise with typical_low and
        typical_high; noise (the share of the variance of the log ratio that is due to the seeds,
        not to the worlds; NaN with one seed); seeds (the number of informative ones) and worlds
        (the number in which both costs are known).
    """
    rows = []
    for cost, values in table.costs.items():
        # By seed, in the world as written: what `compare` finds without uncertain constants.
        decided = Pairwise.of(values[:, :, written], practical=practical)
        for one in range(len(table.variants)):
            for other in range(len(table.variants)):
                if one != other and is_priced(table, cost, one, other):
                    seeds = decided.pair(one, other)
                    rows.append(_verdict(table, cost, (one, other), drawn, written, seeds))
    frame = pd.DataFrame(rows)
    order = {name: number for number, name in enumerate(table.variants)}
    places = [frame[name].map(order) for name in ("variant", "against")]
    keys = frame.assign(one=places[0], other=places[1])
    ordered = keys.sort_values(["one", "other"], kind="stable", ignore_index=True)
    return ordered.drop(columns=["one", "other"])


def is_priced(table: CostTable, cost: str, *variants: int) -> bool:
    """Return whether all these variants have a cost: grams may be known for some only."""
    return cost in COSTS or all(~np.isnan(table.costs[cost][one]).all() for one in variants)


def _verdict(
    table: CostTable,
    cost: str,
    pair: tuple[int, int],
    drawn: slice,
    written: int,
    seeds: PairedComparison,
) -> dict[str, object]:
    middle = log_typical(table, cost, *pair)
    known = middle[drawn][~np.isnan(middle[drawn])]
    ratios = seed_ratios(table, cost, *pair)[:, drawn]
    # A seed without a run of one of the variants has no ratio in any world, and is no draw.
    ratios = ratios[~np.isnan(ratios).all(axis=1)]
    spread = _quantiles(np.exp(known)) if len(known) else [np.nan] * len(_SPREAD)
    shares = {
        "probability": of_a_run(ratios),
        "typical": of_the_typical(ratios, middle[drawn]),
    }
    row = {
        "ratio": float(np.exp(middle[written])),
        **dict(zip(("ratio_low", "ratio_mid", "ratio_high"), map(float, spread), strict=True)),
        **{
            f"{name}{end}": value
            for name, values in shares.items()
            for end, value in zip(("", "_low", "_high"), values, strict=True)
        },
        "noise": seeds_share(ratios) if len(ratios) > 1 else np.nan,
        "seeds": len(ratios),
        "worlds": len(known),
    }
    return {
        "variant": table.variants[pair[0]],
        "against": table.variants[pair[1]],
        "cost": cost,
        "verdict": judge(seeds, Worlds.of(row)).words,
        "by_seed": judge(seeds).words,
        **row,
    }


def _quantiles(ratios: Array) -> Array:
    """Return the quantiles of ratios in [0, inf]; one next to an infinite ratio is infinite."""
    with np.errstate(invalid="ignore"):  # inf - inf, or inf times a weight of 0, is NaN
        between = np.quantile(ratios, _SPREAD)
    # Interpolation with an infinite neighbour gives NaN: take the upper neighbour, which is
    # infinite.
    above = np.quantile(ratios, _SPREAD, method="higher")
    return np.asarray(np.where(np.isnan(between), above, between))


def fronts(table: CostTable, drawn: slice) -> pd.DataFrame:
    """Return the share of worlds in which each variant is Pareto-optimal in bits, time and energy.

    Returns:
        One row per variant: variant, optimal (a share; 0 if it never reached the target), and the
        shares in which it is cheapest in each cost alone (t, joules; NaN without that cost).
    """
    # Means over seeds first: a front is one of variants, not of runs.
    means = {cost: _means(values[:, :, drawn]) for cost, values in table.costs.items()}
    bits = np.broadcast_to(_means(table.bits[:, :, None]), means["t"].shape)
    figures = np.array([bits, *(means[cost] for cost in COSTS)])  # costs x V x W
    known = ~np.isnan(figures).any(axis=0)
    # Dominated: another variant is nowhere worse and somewhere better.
    as_low = (figures[:, :, None] <= figures[:, None]).all(axis=0)
    # Comparisons with NaN are false, so that a variant without a cost dominates none.
    lower = (figures[:, :, None] < figures[:, None]).any(axis=0)
    optimal = known & ~(as_low & lower).any(axis=0)
    worlds = known.any(axis=0)
    shares = {"optimal": optimal[:, worlds].mean(axis=1)}
    for cost, values in means.items():
        is_known = known & ~np.isnan(values)
        costs = np.where(is_known, values, np.inf)[:, is_known.any(axis=0)]
        cheapest = (costs == costs.min(axis=0)).mean(axis=1)
        shares[cost] = np.where(is_known.any(axis=1), cheapest, 0.0 if cost in COSTS else np.nan)
    return pd.DataFrame({"variant": list(table.variants), **shares})


def _means(values: Array) -> Array:
    """Return geometric means over seeds, shape (V, W); NaN if no seed reached the target."""
    # Seeds are chosen once for all worlds. A cost that is unknown in one world then makes the mean
    # unknown there: with other seeds in each world, means would differ for that reason.
    reached = ~np.isnan(values).all(axis=2, keepdims=True) & ~np.isinf(values).all(
        axis=2, keepdims=True
    )
    count = np.broadcast_to(reached, values.shape).sum(axis=1)
    with np.errstate(divide="ignore"):
        # Geometric, since costs are compared by ratios.
        total = np.log(np.where(reached, values, 1.0)).sum(axis=1)
    means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return np.asarray(np.exp(means))


# Sensitivity: the constants that a ratio of costs depends on most.

_COLUMNS = ("first", "first_error", "total", "total_error")


def deciding(table: CostTable, design: Design, against: int) -> pd.DataFrame:
    """Return the influence of each constant on each ratio of costs.

    Args:
        table: the costs in the worlds of the design.
        design: see `Design`.
        against: the variant that the others are compared with.

    Returns:
        One row per variant, cost and constant: variant, cost, constant; first and total (Sobol'
        indices of the log of the typical ratio, see `Saltelli`), first_error and total_error (half
        of their 90 % intervals, by bootstrap), NaN with too few worlds; at_low and at_high (the
        ratio with this constant at the ends of its interval, all others as written). A design
        without lines has no rows.
    """
    rows = []
    for variant, cost, ratios in pairs(table, against) if design.lines else ():
        unknown = np.full(len(design.constants), np.nan)
        indices = design.indices(ratios) or dict.fromkeys(_COLUMNS, unknown)
        for number, constant in enumerate(design.constants):
            line = np.exp(ratios[design.line(number)])
            rows.append(
                {
                    "variant": variant,
                    "cost": cost,
                    "constant": str(constant.key),
                    **{name: float(values[number]) for name, values in indices.items()},
                    "at_low": float(line[0]),
                    "at_high": float(line[-1]),
                }
            )
    columns = ["variant", "cost", "constant", *_COLUMNS, "at_low", "at_high"]
    return pd.DataFrame(rows, columns=columns)


def reach_of(rows: pd.DataFrame) -> Array:
    """Return the change of each ratio along its interval, as a difference of logarithms.

    It is NaN if one of the two variants is free, or never reached the target.
    """
    low, high = (rows[end].to_numpy(float) for end in ("at_low", "at_high"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs(np.log(high) - np.log(low)))


def by_weight(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `deciding`, the most influential constant first.

    By total indices or, if these are unknown, by the change of the ratio along the interval.
    """
    known = rows.assign(reach=reach_of(rows))
    ordered = known.sort_values(["total", "reach"], ascending=False, kind="stable")
    return ordered.drop(columns="reach")


def pairs(table: CostTable, against: int) -> Iterator[tuple[str, str, Array]]:
    """Yield variant, cost and the log of the typical ratio to one variant in each world, (W,)."""
    for number, variant in enumerate(table.variants):
        if number != against:
            for cost in table.costs:
                if is_priced(table, cost, number, against):
                    yield variant, cost, log_typical(table, cost, number, against)
