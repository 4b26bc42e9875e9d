"""Tables of costs over seeds: means with their intervals, and ratios of two variants by seed."""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from fedsim.analysis.carbon import with_grams
from fedsim.analysis.comparing.dominance import Decisions
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


PAIR_COLUMNS = (
    "variant",
    "cost",
    "seeds",
    "cheaper",
    "costlier",
    "pairs",
    "difference",
    "ratio",
    "low",
    "high",
    "p_value",
    "p_holm",
    "verdict",
)
"""The columns of `paired`."""


def paired(
    costs: pd.DataFrame,
    against: str,
    confidence: float = 0.95,
    decisions: Decisions | None = None,
) -> pd.DataFrame:
    """Return what the other variants cost beside one of them, seed by seed.

    Args:
        costs: a row a run, as `cost_to_target` and `final_cost` give it.
        against: the variant to compare with.
        confidence: of the intervals and tests, between 0 and 1.
        decisions: of these costs with that confidence, if they are known.

    Returns:
        A row a variant and cost of `COMPARED`: variant, cost, seeds (in which either reached the
        target), cheaper and costlier (in so many of them it is), pairs (in which both did),
        difference (the paired difference: the mean over these of its cost less that of
        `against`), ratio (the typical one over all seeds, and the interval from low to high),
        p_value (not corrected), p_holm (corrected for all pairs of variants) and verdict.
        The rule is that of `fedsim.analysis.comparing.pairwise`.

    Raises:
        ValueError: there is no variant of that name, or the confidence is not between 0 and 1.
    """
    own = with_bits(costs).astype({"variant": object})
    compared = with_grams(COMPARED, own)
    decided = decisions or Decisions.of(own, compared, confidence)
    rows = []
    for name, cost, pair in decided.against(against):
        figures = {key: getattr(pair, key) for key in PAIR_COLUMNS if hasattr(pair, key)}
        every = decided.by_cost[cost].costs
        ours, theirs = (every[decided.variants.index(own)] for own in (name, against))
        known = np.isfinite(ours) & np.isfinite(theirs)
        both = ours[known] - theirs[known]
        difference = float(both.mean()) if len(both) else np.nan
        own_figures = {"variant": name, "cost": cost, "pairs": len(both), "difference": difference}
        rows.append({**figures, **own_figures})
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))


def _margin(spread: Array, count: Array, confidence: float) -> Array:
    """Return half the width of Student's interval for a mean; NaN below two observations."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}; give a number between 0 and 1")
    enough = np.where(count > 1, count, 2)
    margin = stdtrit(enough - 1, (1 + confidence) / 2) * spread / np.sqrt(enough)
    return np.asarray(np.where(count > 1, margin, np.nan))
