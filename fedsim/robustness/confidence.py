"""Levels: intervals of a probability that is estimated from a table of seeds x worlds.

The table is crossed: every seed is priced in the same sampled worlds. A seed is a draw of all that
training draws, a world one of the constants, and another study would draw others of both. So
neither of the two numbers alone says how much is known.

Where seeds differ, each level is given half of the error that an interval may make (Bonferroni), so
that both together make no more than that. `python analysis/interval_coverage.py` counts on real
runs how often the intervals hold the truth.
"""

from math import isfinite

import numpy as np
from scipy.special import stdtrit
from scipy.stats import beta, chi2

from fedsim.ports import Array

CONFIDENCE = 0.9


def interval(share: float, count: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a probability of which a share was seen (Clopper and Pearson 1934).

    Args:
        share: in [0, 1].
        count: of independent draws; need not be whole.
        confidence: that the interval holds the probability, at the least.
    """
    seen, tail = share * count, (1.0 - confidence) / 2.0
    low = beta.ppf(tail, seen, count - seen + 1.0) if seen > 0 else 0.0
    high = beta.ppf(1.0 - tail, seen + 1.0, count - seen) if seen < count else 1.0
    return float(low), float(high)


def of_a_run(logs: Array, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return the probability that one run is cheaper, its seed and its world both drawn.

    The share of the table's entries in which it is, and Clopper and Pearson's interval of as many
    independent draws as the table is worth: 1 / (r / S + (1 - r) / W) of S seeds and W worlds,
    where r is the share of the log ratio's variance that the seeds make (Kish's design effect of
    both levels; on which side of zero entries lie correlates less than they do). As few seeds say
    little of their variance, its upper limit stands in for it, for half of the error. With one
    seed, or seeds that are all alike, only the worlds are drawn; where seeds alone decide, only
    they are. Either level has the whole error then.

    Args:
        logs: log ratios, shape (S, W), NaN where nothing is known, infinite where one of both
            never reached the target.
        confidence: of the interval.

    Returns:
        The share, and the ends of its interval.
    """
    known = logs[~np.isnan(logs)]
    if not len(known):
        return (np.nan,) * 3
    share, each = float((known < 0).mean()), _of_a_level(confidence)
    count, both = _worth(logs, (1.0 - each) / 2.0)
    return share, *interval(share, count, each if both else confidence)


def _of_a_level(confidence: float) -> float:
    """Return the confidence of each of two levels, of which both together have this one."""
    return (1.0 + confidence) / 2.0


def _worth(logs: Array, tail: float) -> tuple[float, bool]:
    """Return how many independent draws a table is worth, and whether both levels make it vary."""
    seeds, worlds = logs.shape[0], int((~np.isnan(logs)).any(axis=0).sum())
    if seeds == 1:
        return float(worlds), False
    factor = (seeds - 1) / float(chi2.ppf(tail, seeds - 1))
    share = seeds_share(logs, factor)
    return float(1.0 / (share / seeds + (1.0 - share) / worlds)), 0.0 < share < 1.0


def seeds_share(logs: Array, factor: float = 1.0) -> float:
    """Return the share of the variance of log ratios that the seeds make, and not the worlds.

    Args:
        logs: shape (S, W), of two seeds or more.
        factor: on the variance of the seeds.

    Returns:
        In [0, 1]: the variance over seeds within worlds, against that of the means of worlds; 1
        where some ratios are infinite, unless the seeds agree on it.
    """
    logs = logs[:, ~np.isnan(logs).any(axis=0)]
    if np.isinf(logs).any():
        less = logs < 0
        return 0.0 if (less == less[0]).all() and np.isinf(logs).all() else 1.0
    if min(logs.shape) < 2:
        return 1.0
    training = float(logs.var(axis=0, ddof=1).mean()) * factor
    whole = training + float(logs.mean(axis=0).var(ddof=1))
    return float(training / whole) if whole > 0 and isfinite(whole) else 0.0


def of_the_typical(
    logs: Array, typical: Array, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the probability that a variant is cheaper in a drawn world, typically over its seeds.

    The share of worlds in which the typical ratio, over all seeds that could be drawn, is below 1.
    What the few seeds there are leave open is the same in all worlds: so the lower end counts the
    worlds in which the typical ratio is below 1 even at the upper end of its own interval over
    seeds (Student's, of the mean of the logarithms), and the upper end those in which it is so at
    the lower one; to both, Clopper and Pearson add that worlds are drawn. With one seed, or seeds
    that are all alike, only that.

    Args:
        logs: log ratios, shape (S, W), as `of_a_run` takes them.
        typical: log of the typical ratio in each world, shape (W,); NaN where it is not known.
        confidence: of the interval.

    Returns:
        The share, and the ends of its interval.
    """
    known = ~np.isnan(typical)
    if not known.any():
        return (np.nan,) * 3
    count, each = int(known.sum()), _of_a_level(confidence)
    margin = _margin(logs[:, known], (1.0 + each) / 2.0)
    confidence = each if margin.any() else confidence
    middle = typical[known]
    with np.errstate(invalid="ignore"):
        least, most = ((middle + margin) < 0).mean(), ((middle - margin) < 0).mean()
    low, _ = interval(float(least), count, confidence)
    _, high = interval(float(most), count, confidence)
    return float((middle < 0).mean()), low, high


def _margin(logs: Array, level: float) -> Array:
    """Return how far the mean of the logarithms may be from that of all seeds, one-sided, (W,)."""
    seeds = (~np.isnan(logs)).sum(axis=0)
    if len(logs) < 2:
        return np.zeros(logs.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = logs - np.nansum(logs, axis=0) / seeds
        error = np.sqrt(np.nansum(apart**2, axis=0) / (seeds - 1) / seeds)
    less = logs < 0
    agree = np.isinf(logs).all(axis=0) & (less == less[0]).all(axis=0)
    error = np.where(np.isinf(logs).any(axis=0), np.where(agree, 0.0, np.inf), error)
    return np.asarray(stdtrit(np.maximum(seeds - 1, 1), level) * np.where(seeds > 1, error, np.inf))
