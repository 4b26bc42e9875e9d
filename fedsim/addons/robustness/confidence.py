"""Confidence intervals of a probability that is estimated from a table of seeds x worlds.

The table is crossed: every seed is priced in the same sampled worlds. A seed is a draw of all
random numbers of training, a world is a draw of the constants; another study would draw others of
both. So the entries are not independent, and the precision follows from neither number alone: with
3 seeds and 2,000 worlds there are 6,000 entries, but if seeds decide, three independent draws.

If seeds differ, half of the allowed error is assigned to each of the two levels (Bonferroni), so
that both together have no more than that. `python analysis/interval_coverage.py` counts on real
runs how often the intervals hold the truth.
"""

from math import isfinite

import numpy as np
from scipy.special import stdtrit
from scipy.stats import beta, chi2

from fedsim.core.ports import Array

CONFIDENCE = 0.9


def interval(share: float, count: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a probability, given an observed share (Clopper and Pearson 1934).

    Args:
        share: in [0, 1].
        count: number of independent draws; need not be whole.
        confidence: least probability that the interval contains the true value.
    """
    seen, tail = share * count, (1.0 - confidence) / 2.0
    # Clopper and Pearson: exact binomial tails by quantiles of the beta distribution.
    low = beta.ppf(tail, seen, count - seen + 1.0) if seen > 0 else 0.0
    high = beta.ppf(1.0 - tail, seen + 1.0, count - seen) if seen < count else 1.0
    return float(low), float(high)


def of_a_run(logs: Array, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return the probability that one run is cheaper, its seed and its world both drawn.

    The estimate is the share of entries in which it is cheaper. The interval is Clopper and
    Pearson's for the effective number of independent draws, 1 / (r / S + (1 - r) / W) for S seeds
    and W worlds, where r is the share of the log ratio's variance that is due to seeds (Kish's
    design effect for both levels; it is conservative, since the signs of entries are less
    correlated than the entries). Few seeds give a poor estimate of their variance: its upper
    confidence limit is used instead, at the cost of half of the error. With one seed, or identical
    seeds, only worlds are sampled; if seeds alone decide, only seeds. The remaining level then has
    the whole error.

    Args:
        logs: log ratios, shape (S, W); NaN if unknown, infinite if one variant never reached the
            target.
        confidence: the confidence of the interval.

    Returns:
        The share, and the ends of its interval.
    """
    known = logs[~np.isnan(logs)]
    if not len(known):
        return (np.nan,) * 3
    share, level = float((known < 0).mean()), _of_a_level(confidence)
    # Half of the error for each level if both vary (Bonferroni).
    count, both = _worth(logs, (1.0 - level) / 2.0)
    return share, *interval(share, count, level if both else confidence)


def _of_a_level(confidence: float) -> float:
    """Return the confidence of each of two levels that are to have this one together."""
    return (1.0 + confidence) / 2.0


def _worth(logs: Array, tail: float) -> tuple[float, bool]:
    """Return the effective number of independent draws, and whether both levels vary."""
    seeds, worlds = logs.shape[0], int((~np.isnan(logs)).any(axis=0).sum())
    if seeds == 1:
        return float(worlds), False
    # Upper confidence limit of a variance: (S - 1) s^2 / chi2 quantile. A large variance of seeds
    # is the conservative assumption.
    factor = (seeds - 1) / float(chi2.ppf(tail, seeds - 1))
    share = seeds_share(logs, factor)
    return float(1.0 / (share / seeds + (1.0 - share) / worlds)), 0.0 < share < 1.0


def seeds_share(logs: Array, factor: float = 1.0) -> float:
    """Return the share of the variance of log ratios that is due to seeds, not to worlds.

    Args:
        logs: shape (S, W), of two seeds or more.
        factor: multiplies the variance of the seeds.

    Returns:
        In [0, 1]: the variance over seeds within worlds, divided by its sum with the variance of
        the worlds' means; 1 if some ratios are infinite, unless the seeds agree in that.
    """
    # Only worlds in which all seeds are known: the table has to be complete.
    logs = logs[:, ~np.isnan(logs).any(axis=0)]
    if np.isinf(logs).any():
        less = logs < 0
        return 0.0 if (less == less[0]).all() and np.isinf(logs).all() else 1.0
    if min(logs.shape) < 2:
        return 1.0
    training = float(logs.var(axis=0, ddof=1).mean()) * factor
    # Variance components of a crossed design: within worlds, and between the means of worlds.
    whole = training + float(logs.mean(axis=0).var(ddof=1))
    return float(training / whole) if whole > 0 and isfinite(whole) else 0.0


def of_the_typical(
    logs: Array, typical: Array, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the probability that a variant is typically cheaper in a sampled world.

    It is the share of worlds in which the typical ratio, over all possible seeds, is below 1. The
    same few seeds are used in all worlds, so their error does not average out over worlds.
    Therefore the lower end counts the worlds in which even the upper end of the ratio's interval
    over seeds (Student's, of the mean logarithm) is below 1, the upper end those in which the lower
    end is; Clopper and Pearson then add the sampling error of worlds to both. With one seed, or
    identical seeds, there is only the latter.

    Args:
        logs: log ratios, shape (S, W), as `of_a_run` takes them.
        typical: log of the typical ratio in each world, shape (W,); NaN if unknown.
        confidence: the confidence of the interval.

    Returns:
        The share, and the ends of its interval.
    """
    known = ~np.isnan(typical)
    if not known.any():
        return (np.nan,) * 3
    count, level = int(known.sum()), _of_a_level(confidence)
    margin = _margin(logs[:, known], (1.0 + level) / 2.0)
    confidence = level if margin.any() else confidence
    middle = typical[known]
    with np.errstate(invalid="ignore"):  # an infinite ratio with an infinite margin
        # The same seeds count in all worlds, so their error shifts all worlds together, and is not
        # averaged out.
        least, most = ((middle + margin) < 0).mean(), ((middle - margin) < 0).mean()
    low, _ = interval(float(least), count, confidence)
    _, high = interval(float(most), count, confidence)
    return float((middle < 0).mean()), low, high


def _margin(logs: Array, level: float) -> Array:
    """Return the one-sided error of the mean logarithm over seeds in each world, shape (W,)."""
    seeds = (~np.isnan(logs)).sum(axis=0)
    if len(logs) < 2:
        return np.zeros(logs.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = logs - np.nansum(logs, axis=0) / seeds
        error = np.sqrt(np.nansum(apart**2, axis=0) / (seeds - 1) / seeds)
    # If all seeds agree that one variant never reaches the target, there is no error over seeds.
    less = logs < 0
    agree = np.isinf(logs).all(axis=0) & (less == less[0]).all(axis=0)
    error = np.where(np.isinf(logs).any(axis=0), np.where(agree, 0.0, np.inf), error)
    return np.asarray(stdtrit(np.maximum(seeds - 1, 1), level) * np.where(seeds > 1, error, np.inf))
