"""What seeds say about costs: means with their intervals, and differences seed by seed.

Runs of one seed share all their randomness (data, network, availability), whatever their
variant is: between two variants it is the difference under the same seed that tells, and its
interval is narrower than those of the two means.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from fedsim.analysis.carbon import with_grams
from fedsim.ports import Array

COMPARED = (
    "round",
    "transmissions",
    "beacons",
    "bits_up",
    "bits_down",
    "bits",
    "t",
    "joules",
)
"""Costs that are compared; `bits` are those of both directions, and grams may come beside."""

_ENOUGH = 4
"""From so many runs on there is an interval; of fewer the least and the largest are told."""

_ROUNDING = 8 * np.finfo(np.float64).eps
"""Figures that differ by no more than this, relatively, are sums in another order."""


def with_bits(costs: pd.DataFrame) -> pd.DataFrame:
    """Return a table of costs with the column `bits`, those of both directions."""
    return costs.assign(bits=costs["bits_up"] + costs["bits_down"])


def summarised(costs: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean of each cost over the seeds of a variant, and how sure it is.

    Args:
        costs: a row a run, as `cost_to_target` and `final_cost` give it.
        confidence: of the interval, between 0 and 1.

    Returns:
        A row a variant, in the order of `costs`: variant, runs, reached, and for each cost c
        of `COMPARED` the mean over the runs that reached the target as c, and its interval as
        c_low and c_high: Student's for the logarithm of the mean, by the delta method, so that
        it never reaches 0; of two or three runs, which say too little for that, the least and
        the largest. The mean is NaN where no run got there, the interval where fewer than two
        did.

    Raises:
        ValueError: the confidence is not between 0 and 1.
    """
    own = with_bits(costs).astype({"variant": object})
    groups = own.groupby("variant", sort=False)
    table = pd.DataFrame({"runs": groups.size(), "reached": groups["reached"].sum()})
    compared = with_grams(COMPARED, own)
    arrived = own[own["reached"]].groupby("variant", sort=False)[compared]
    figures = (arrived.mean(), arrived.std(), arrived.min(), arrived.max())
    means, spreads, least, largest = (each.reindex(table.index) for each in figures)
    means = means.clip(least, largest)  # equal figures have a mean that rounds to another one
    count = table["reached"].to_numpy()
    few = (count > 1) & (count < _ENOUGH)
    for cost in compared:
        mean = means[cost].to_numpy()
        margin = _margin(spreads[cost].to_numpy(), count, confidence)
        factor = np.exp(np.divide(margin, mean, out=np.zeros_like(margin), where=mean > 0))
        factor = np.where(count > 1, factor, np.nan)
        low = np.where(few, least[cost], mean / factor)
        high = np.where(few, largest[cost], mean * factor)
        table = table.assign(**{cost: mean, f"{cost}_low": low, f"{cost}_high": high})
    return table.rename_axis("variant").reset_index()


def paired(costs: pd.DataFrame, against: str, confidence: float = 0.95) -> pd.DataFrame:
    """Return what the other variants cost more than one of them, under common random numbers.

    Args:
        costs: a row a run, as `cost_to_target` and `final_cost` give it.
        against: the variant to compare with.
        confidence: of the interval, between 0 and 1.

    Returns:
        A row a variant and cost of `COMPARED`: variant, cost, pairs (the seeds under which
        both reached the target; all that follows is of these alone), difference (mean of the
        variant's cost less that of `against`), low and high (its interval by Student's t),
        ratio (of the two means) and p_value (of the paired two-sided t test that the mean
        difference is 0; not corrected for the number of tests). The interval is NaN with
        fewer than two pairs; so is the p-value, and also where all pairs differ by the same,
        since then the seeds have varied nothing that a test could weigh.

    Raises:
        ValueError: there is no variant of that name, or the confidence is not between 0 and 1.
    """
    own = with_bits(costs).astype({"variant": object})
    names = [str(name) for name in own["variant"].unique()]
    if against not in names:
        raise ValueError(f"there is no variant {against!r}; there are {', '.join(names)}")
    arrived = own[own["reached"]].set_index("seed")
    compared = with_grams(COMPARED, own)
    other = arrived.loc[arrived["variant"] == against, compared]
    tables = []
    for name in names:
        if name != against:
            this = arrived.loc[arrived["variant"] == name, compared]
            tables.append(_pairs(this, other, confidence).assign(variant=name))
    columns = ["variant", "cost", "pairs", "difference", "low", "high", "ratio", "p_value"]
    if not tables:
        return pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True)[columns]


def _pairs(this: pd.DataFrame, other: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return a row a cost: how one variant differs from another under the seeds of both."""
    seeds = this.index.intersection(other.index, sort=False)
    ours, theirs = this.loc[seeds].to_numpy(np.float64), other.loc[seeds].to_numpy(np.float64)
    gaps, count = ours - theirs, len(seeds)
    nothing = np.full(len(this.columns), np.nan)
    mean = gaps.mean(axis=0) if count else nothing
    spread = gaps.std(axis=0, ddof=1) if count > 1 else nothing
    if count:  # no difference between sums in another order
        largest = np.maximum(np.abs(ours), np.abs(theirs)).max(axis=0)
        spread = np.where(spread <= _ROUNDING * largest, 0.0, spread)
    margin = _margin(spread, np.full(len(this.columns), count), confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ours.mean(axis=0) / theirs.mean(axis=0) if count else nothing
        statistic = np.where(spread > 0, mean * np.sqrt(count) / spread, np.nan)
    return pd.DataFrame(
        {
            "cost": list(this.columns),
            "pairs": count,
            "difference": mean,
            "low": mean - margin,
            "high": mean + margin,
            "ratio": ratio,
            "p_value": 2 * stdtr(max(count - 1, 1), -np.abs(statistic)),
        }
    )


def _margin(spread: Array, count: Array, confidence: float) -> Array:
    """Return half the width of Student's interval for a mean; NaN below two observations."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: seen {confidence:g}; give a number between 0 and 1")
    enough = np.where(count > 1, count, 2)
    margin = stdtrit(enough - 1, (1 + confidence) / 2) * spread / np.sqrt(enough)
    return np.asarray(np.where(count > 1, margin, np.nan))
