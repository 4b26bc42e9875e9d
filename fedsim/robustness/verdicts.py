"""Verdicts: how often one variant costs less than another, over worlds and over seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

from fedsim.ports import Array

COSTS = ("t", "joules")
"""What depends on the constants: seconds and joules."""

_ROUNDING = 1e-12  # relative; sums in another order differ by less
_SPREAD = (0.05, 0.5, 0.95)


class Table(NamedTuple):
    """What variants cost under seeds in worlds.

    Attributes:
        variants, seeds: their names.
        costs: cost -> shape (V, S, W); NaN where there is no run, or it never got there.
        bits: shape (V, S).
        independent: how many of the worlds are independent draws.
    """

    variants: Sequence[str]
    seeds: Sequence[int]
    costs: dict[str, Array]
    bits: Array
    independent: int


def interval(share: float, count: int, confidence: float = 0.9) -> tuple[float, float]:
    """Return the interval of a probability of which a share was seen (Clopper and Pearson 1934).

    Args:
        share: of the worlds, in [0, 1].
        count: how many independent worlds there were.
        confidence: that the interval holds the probability, at the least.
    """
    seen, tail = share * count, (1.0 - confidence) / 2.0
    low = beta.ppf(tail, seen, count - seen + 1.0) if seen > 0 else 0.0
    high = beta.ppf(1.0 - tail, seen + 1.0, count - seen) if seen < count else 1.0
    return float(low), float(high)


def log_ratio(table: Table, cost: str, one: int, other: int) -> Array:
    """Return log(mean over the seeds of both, of one / of the other), shape (W,).

    The seeds are those under which both reached the target.
    """
    ours, theirs = table.costs[cost][one], table.costs[cost][other]
    both = ~(np.isnan(ours).all(axis=1) | np.isnan(theirs).all(axis=1))
    if not both.any():
        return np.full(ours.shape[1], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(ours[both].mean(axis=0)) - np.log(theirs[both].mean(axis=0)))


def verdicts(table: Table, drawn: slice, written: int) -> pd.DataFrame:
    """Return a row a pair of variants and cost.

    Args:
        table: of costs.
        drawn: which worlds are drawn from the doubt.
        written: which world is as the scenario says.

    Returns:
        variant, against, cost; ratio (of the means over seeds, as written), ratio_low, ratio_mid,
        ratio_high (its 5, 50 and 95 % quantiles over worlds); probability (that the variant's mean
        over seeds is less), its interval (90 %) probability_low and probability_high; single (that
        it is less in one run, of a seed drawn like the world); noise (the share of the variance of
        the log ratio which the seeds make, and not the worlds; NaN of one seed); seeds (of both)
        and worlds (in which both are known).
    """
    rows = []
    for one in range(len(table.variants)):
        for other in range(len(table.variants)):
            if one != other:
                rows += [_verdict(table, cost, (one, other), drawn, written) for cost in COSTS]
    return pd.DataFrame(rows)


def _verdict(
    table: Table, cost: str, pair: tuple[int, int], drawn: slice, written: int
) -> dict[str, object]:
    means = log_ratio(table, cost, *pair)
    known = means[drawn][~np.isnan(means[drawn])]
    ratios = table.costs[cost][pair[0]][:, drawn], table.costs[cost][pair[1]][:, drawn]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(ratios[0]) - np.log(ratios[1])
    each = each[~np.isnan(each).all(axis=1)]
    share = float((known < -_ROUNDING).mean()) if len(known) else np.nan
    count = max(round(table.independent * len(known) / max(len(means[drawn]), 1)), 1)
    low, high = interval(share, count) if len(known) else (np.nan, np.nan)
    spread = np.exp(np.quantile(known, _SPREAD)) if len(known) else [np.nan] * len(_SPREAD)
    return {
        "variant": table.variants[pair[0]],
        "against": table.variants[pair[1]],
        "cost": cost,
        "ratio": float(np.exp(means[written])),
        **dict(zip(("ratio_low", "ratio_mid", "ratio_high"), map(float, spread), strict=True)),
        "probability": share,
        "probability_low": low,
        "probability_high": high,
        "single": float((each[~np.isnan(each)] < -_ROUNDING).mean()) if each.size else np.nan,
        "noise": _noise(each),
        "seeds": len(each),
        "worlds": len(known),
    }


def _noise(each: Array) -> float:
    """Return the share of the variance of log ratios, shape (S, W), that the seeds make.

    The mean square within worlds over seeds, against that between the means of worlds: a world
    is common to all seeds, and a seed to all worlds, so the two are effects of their own.
    """
    each = each[:, ~np.isnan(each).any(axis=0)]
    if min(each.shape) < 2:
        return float("nan")
    training = each.mean(axis=1).var(ddof=1)
    doubt = each.mean(axis=0).var(ddof=1)
    whole = training + doubt
    return float(training / whole) if whole > 0 else float("nan")


def fronts(table: Table, drawn: slice) -> pd.DataFrame:
    """Return in what share of the worlds each variant is Pareto-optimal in bits, time and energy.

    Returns:
        A row a variant: variant, optimal (a share; 0 where it never reached the target), cheapest
        in t and joules alone (t, joules; shares).
    """
    means = {cost: _means(values[:, :, drawn]) for cost, values in table.costs.items()}
    bits = np.broadcast_to(_means(table.bits[:, :, None]), means["t"].shape)
    figures = np.array([bits, *(means[cost] for cost in COSTS)])  # costs x V x W
    known = ~np.isnan(figures).any(axis=0)
    as_low = (figures[:, :, None] <= figures[:, None]).all(axis=0)
    lower = (figures[:, :, None] < figures[:, None]).any(axis=0)
    optimal = known & ~(as_low & lower).any(axis=0)
    worlds = known.any(axis=0)
    shares = {"optimal": optimal[:, worlds].mean(axis=1)}
    for number, cost in enumerate(COSTS, 1):
        own = np.where(known, figures[number], np.inf)[:, worlds]
        shares[cost] = (own == own.min(axis=0)).mean(axis=1)
    return pd.DataFrame({"variant": list(table.variants), **shares})


def _means(values: Array) -> Array:
    """Return means over seeds, shape (V, W); NaN where no seed, or one that is known, got there."""
    there = ~np.isnan(values).all(axis=2, keepdims=True)
    count = np.broadcast_to(there, values.shape).sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
