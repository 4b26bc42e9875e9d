"""The rule for which of two variants is cheaper, shared by all commands, pages and studies.

Runs of one seed share their random draws (data, network, availability), whatever their variant
is, and costs of different seeds may differ in scale by orders of magnitude. So two variants are
compared seed by seed, by the logarithm of the ratio of their costs, in which the scale of a seed
cancels.

1. A run that did not reach the target costs infinity: it is costlier than one that did. A seed
   in which neither reached it, or of which one of the two runs does not exist, says nothing.
   Two costs of zero are equal; zero is cheaper than anything above it.
2. If all ratios are finite, the typical ratio is their geometric mean. Its interval spans two
   intervals: Student's t interval of the mean of the logarithms, which holds if they are normal,
   and the interval of their median between two order statistics, which inverts the sign test and
   holds for every distribution. The difference counts as decided only where both exclude 1.
3. With so few seeds that no interval between order statistics is sure enough (2 to 5 at 95 %),
   the interval spans all ratios of these seeds and Student's t interval of `STRICTER` times less
   error (99 % in place of 95 %).
4. Where some run did not reach the target, only the sign test applies, and its interval of the
   median. With 2 to 5 seeds it decides nothing at 95 %. The typical ratio is the median.
5. If the ratio is the same in every seed, seeds make no difference, and there is nothing to test.
   One seed is a plain statement about that seed.
6. p-values are corrected for the number of pairs of variants by Holm (1979), one family a cost.
   One variant is cheaper where its corrected p-value is at most 1 - confidence, or by rule 5.
7. A typical ratio that is decided, yet within the practical difference of 1, is "the same", and
   so is one whose whole interval is within it.
8. Where some run missed a target that the other one reached, like is compared with like beside
   that: the typical ratio over the seeds in which both reached it. If these are within the
   practical difference, or ahead the other way than the sign test is, then what is gained in one
   is lost in the other: there is no order, and never "the same".

`python analysis/interval_coverage.py --ratios` simulates how often these intervals hold the typical
ratio, and how often the rule errs; docs/explanation/comparing.md has the table.

The functions are pure and take arrays, seeds last, any axes in front. A caller that has costs in
several worlds, such as `fedsim.addons.robustness`, uses `log_ratios(ours, theirs)` with shape
(..., worlds, seeds), `typical` for the ratio of each world, and `Pairwise.of(costs, confidence)`
with the costs of one world, shape (variants, seeds). `fedsim.results.analysis.compare.verdict`
words the result:

>>> pair = Pairwise.of(np.array([[1.0, 2.0, 3.0], [5.0, 10.4, 15.2]])).pair(0, 1)
>>> pair.order, round(pair.ratio, 3), pair.low < 0.19 < 0.21 < pair.high
(-1, 0.197, True)
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isnan, log2, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from fedsim.core.ports import Array

PRACTICAL = 0.01
"""Practical difference by default: costs whose ratio is within 1 % of 1 are the same.

Two implementations of one method differ by more, and so do the constants of devices and radios.
"""

STRICTER = 5
"""With too few seeds for a sign interval, Student's interval has this many times less error."""

_ROUNDING = 1e-12
"""Logarithms of costs nearer than this are equal: sums in another order differ by less."""

_BLOCK = 1_000_000  # figures that are compared at once

Counts = NDArray[np.intp]
Flags = NDArray[np.bool_]


class Seeds(NamedTuple):
    """What seeds say of one variant's cost over another's; all arrays have the same shape.

    Attributes:
        seeds: in which at least one of the two reached the target.
        cheaper: of these, in which the first one is cheaper.
        costlier: of these, in which it is costlier.
        ratio: the typical ratio; NaN without a seed, or where seeds are evenly 0 and infinite.
        low: where its interval begins; NaN without one.
        high: where it ends.
        p_value: two-sided, that there is no difference, not corrected; NaN of one seed, and where
            all ratios are the same.
        exact: whether the sign test was used alone, since some run did not reach the target.
    """

    seeds: Counts
    cheaper: Counts
    costlier: Counts
    ratio: Array
    low: Array
    high: Array
    p_value: Array
    exact: Flags


def log_ratios(ours: Array, theirs: Array) -> Array:
    """Return log(ours / theirs), of any shape; NaN where a seed says nothing.

    Args:
        ours: costs from 0; infinite where a run did not reach the target, NaN where there is none.
        theirs: the same.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # A difference of logarithms, as the ratio itself may overflow. Infinity less infinity is
        # NaN, as rule 1 asks.
        logs = np.log(ours) - np.log(theirs)
    logs = np.where((ours == 0) & (theirs == 0), 0.0, logs)
    return np.asarray(np.where(np.abs(logs) <= _ROUNDING, 0.0, logs))


def typical(logs: Array) -> Array:
    """Return the typical ratio over the last axis: geometric mean, or median if some is infinite.

    Args:
        logs: as `log_ratios` returns them, shape (..., seeds).

    Returns:
        Shape (...); NaN where no seed says anything, or its median is between 0 and infinity.
    """
    logs = np.asarray(logs, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = ~np.isinf(logs).any(axis=-1)
        return np.asarray(np.exp(np.where(finite, _mean(logs), _median(logs))))


def fewest_seeds(confidence: float) -> int:
    """Return the least number of seeds with an interval between order statistics: 6 at 95 %."""
    # All n seeds agree by chance with probability 2 / 2^n. Rounding must not push a whole number up
    # to the next one.
    return ceil(1 - log2(1 - confidence) - _ROUNDING)


def interval_level(confidence: float, seeds: int) -> float:
    """Return the confidence of the interval of so many seeds, in per cent.

    With too few of them it is Student's interval of `STRICTER` times less error (rule 3).

    Example:
        >>> interval_level(0.95, 6), interval_level(0.95, 5)
        (95.0, 99.0)
    """
    error = (1 - confidence) / (STRICTER if seeds < fewest_seeds(confidence) else 1)
    return round(100 * (1 - error), 9)


def compare_seeds(logs: Array, confidence: float = 0.95) -> Seeds:
    """Return what the seeds of the last axis say, by rules 1 to 5 above.

    Args:
        logs: as `log_ratios` returns them, shape (..., seeds).
        confidence: of the intervals, between 0 and 1.

    Raises:
        ValueError: the confidence is not between 0 and 1.
    """
    _check(confidence)
    logs = np.asarray(logs, dtype=np.float64)
    tested, level = _tests(logs, 1 - confidence), 1 - confidence
    few = tested.seeds < fewest_seeds(confidence)
    degrees = np.maximum(tested.seeds - 1, 1)
    margin = stdtrit(degrees, 1 - np.where(few, level / STRICTER, level) / 2) * tested.error
    least, most = _sign_interval(logs, tested.seeds, level)
    with np.errstate(invalid="ignore", over="ignore"):
        # With too few seeds the range of their ratios stands in for the sign interval.
        first = np.where(few & ~tested.exact, _end(logs, np.fmin), least)
        last = np.where(few & ~tested.exact, _end(logs, np.fmax), most)
        low = np.exp(np.where(tested.exact, first, np.minimum(first, tested.mean - margin)))
        high = np.exp(np.where(tested.exact, last, np.maximum(last, tested.mean + margin)))
    none = np.isnan(tested.p_value)  # one seed, or all alike
    low, high = (np.where(none, np.nan, end) for end in (low, high))
    counts = tested.seeds, tested.cheaper, tested.costlier
    return Seeds(*counts, typical(logs), low, high, tested.p_value, tested.exact)


def holm(p_values: Array) -> Array:
    """Return p-values corrected for their number by Holm's step-down rule, in any shape.

    Holm, Scand. J. Stat. 1979. The chance that any true hypothesis is rejected where the corrected
    value is at most a is at most a, however the tests depend on each other.

    Args:
        p_values: of one family; NaN for what was not tested, and stays NaN.
    """
    flat = np.ravel(p_values)
    # NaNs are sorted to the end, and cut off.
    order = np.argsort(flat)[: np.count_nonzero(~np.isnan(flat))]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full(flat.shape, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(flat[order] * factors), 1.0)
    return corrected.reshape(np.shape(p_values))


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """What the seeds say of one variant (the first) against another.

    Attributes:
        seeds, cheaper, costlier, ratio, low, high, p_value, exact: as `Seeds` has them.
        p_holm: the p-value, corrected for all pairs of variants.
        order: -1 where the first is cheaper, 1 where it is costlier, else 0.
        same: whether both cost the same, up to the practical difference.
        confidence: of the interval.
        practical: the practical difference, as a share of a cost.
        alone: number of seeds in which the first alone reached the target, and the second alone.
        like: the typical ratio over the seeds in which both reached it; NaN without any.
        runs: number of seeds in which both have a run, whether it reached the target or not.
    """

    seeds: int
    cheaper: int
    costlier: int
    ratio: float
    low: float
    high: float
    p_value: float
    exact: bool
    p_holm: float
    order: int
    same: bool
    confidence: float
    practical: float
    alone: tuple[int, int] = (0, 0)
    like: float = nan
    runs: int = 0

    @property
    def alike(self) -> bool:
        """Whether the ratio is the same in all of several seeds."""
        return self.seeds > 1 and isnan(self.p_value)

    @property
    def missed(self) -> bool:
        """Whether in some seed only one of the two reached the target."""
        return any(self.alone)

    @property
    def one_sided(self) -> bool:
        """Whether one of the two reached the target in all of several seeds, the other in none."""
        return self.runs > 1 and self.runs in self.alone

    @property
    def both(self) -> int:
        """The number of seeds in which both reached the target."""
        return self.seeds - sum(self.alone)

    @property
    def near(self) -> bool:
        """Whether both cost the same, typically, where both reached the target."""
        return self.both > 0 and bool(_within(np.asarray(self.like), self.practical))

    @property
    def contested(self) -> bool:
        """Whether there is no order, since misses and costs speak for different ones (rule 8)."""
        enough = self.near and self.seeds >= fewest_seeds(self.confidence)
        return self.missed and not self.order and (enough or self.p_holm <= 1 - self.confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Pairwise:
    """All pairs of variants in one cost: arrays of shape (variants, variants), row over column.

    Attributes:
        costs: shape (variants, seeds), as `of` takes them.
        p_holm: p-values, corrected for all pairs; symmetric.
        order: -1 where the row is cheaper than the column, 1 where it is costlier, else 0.
        same: where both cost the same, up to the practical difference.
        confidence: of the intervals; 1 less that is the level of the tests.
        practical: the practical difference, as a share of a cost.
    """

    costs: Array
    p_holm: Array
    order: NDArray[np.int8]
    same: Flags
    confidence: float
    practical: float

    @classmethod
    def of(cls, costs: Array, confidence: float = 0.95, practical: float = PRACTICAL) -> "Pairwise":
        """Decide all pairs.

        Args:
            costs: shape (variants, seeds): from 0, infinite where a run did not reach the target,
                NaN where there is none.
            confidence: of intervals and tests, between 0 and 1.
            practical: costs whose ratio is nearer to 1 than this are the same.

        Raises:
            ValueError: the confidence is not between 0 and 1.
        """
        _check(confidence)
        costs = np.asarray(costs, dtype=np.float64)
        shape = len(costs), len(costs)
        p_values, order = np.full(shape, np.nan), np.zeros(shape, dtype=np.int8)
        plain, near, within, missed = (np.zeros(shape, dtype=np.bool_) for _ in range(4))
        zone = np.log1p(practical)
        contested = np.zeros(shape, dtype=np.bool_)
        rows = max(_BLOCK // max(costs.size, 1), 1)  # thousands of variants would not fit at once
        for start in range(0, len(costs), rows):
            own = slice(start, start + rows)
            found = compare_seeds(log_ratios(costs[own, None], costs), confidence)
            p_values[own] = found.p_value
            # One seed, or seeds that are all alike, are a plain statement without a test.
            plain[own] = (found.seeds > 0) & np.isnan(found.p_value)
            near[own] = _within(found.ratio, practical)
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.maximum(-np.log(found.low), np.log(found.high))
                within[own] = ends <= zone
            # Where some run has not reached the target, the test counts signs, and so does the
            # order.
            ahead = np.where(found.exact, found.cheaper > found.costlier, found.ratio < 1)
            order[own] = np.where(ahead, -1, 1)
            alone, like = _like_with_like(costs[own, None], costs)
            missed[own] = alone.any(axis=0)
            opposed = np.where(ahead, like > 1, like < 1)
            contested[own] = missed[own] & (_within(like, practical) | opposed)
        upper = np.triu_indices(len(costs), 1)
        # Each pair once: both triangles would double the size of the family.
        p_values[upper] = holm(p_values[upper])
        np.fill_diagonal(p_values, np.nan)
        with np.errstate(invalid="ignore"):
            decided = plain | (p_values <= 1 - confidence)
        same = ((decided & near) | within) & ~missed
        order[~decided | same | contested] = 0
        # The lower triangle is copied, so that rounding cannot decide a pair and its mirror image
        # differently.
        lower = upper[::-1]
        p_values[lower], order[lower], same[lower] = p_values[upper], -order[upper], same[upper]
        return cls(costs, p_values, order, same, confidence, practical)

    def against(self, other: int) -> Seeds:
        """Return what the seeds say of every variant against one of them, shape (variants,)."""
        return compare_seeds(log_ratios(self.costs, self.costs[other]), self.confidence)

    def pair(self, one: int, other: int) -> PairedComparison:
        """Return what the seeds say of one variant against another, by their numbers."""
        logs = log_ratios(self.costs[one], self.costs[other])
        found = compare_seeds(logs, self.confidence)
        figures: dict[str, Any] = {name: each.item() for name, each in found._asdict().items()}
        alone, like = _like_with_like(self.costs[one], self.costs[other])
        return PairedComparison(
            **figures,
            p_holm=float(self.p_holm[one, other]),
            order=int(self.order[one, other]),
            same=bool(self.same[one, other]),
            confidence=self.confidence,
            practical=self.practical,
            alone=(int(alone[0]), int(alone[1])),
            like=float(like),
            runs=int((~np.isnan(self.costs[one]) & ~np.isnan(self.costs[other])).sum()),
        )


def _like_with_like(ours: Array, theirs: Array) -> tuple[Counts, Array]:
    """Return where one alone reached the target, and how two compare where both did; see rule 8.

    Args:
        ours: costs, as `log_ratios` takes them.
        theirs: the same.

    Returns:
        Numbers of seeds in which the first and the second alone reached it, shape (2, ...), and
        the typical ratio over the seeds in which both did, shape (...).
    """
    one = np.isfinite(ours) & np.isinf(theirs)
    other = np.isinf(ours) & np.isfinite(theirs)
    both = np.isfinite(ours) & np.isfinite(theirs)
    logs = np.where(both, log_ratios(ours, theirs), np.nan)
    return np.stack([one.sum(axis=-1), other.sum(axis=-1)]), typical(logs)


def _within(ratio: Array, practical: float) -> Flags:
    """Return which ratios differ from 1 by no more than the practical difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs(np.log(ratio)) <= np.log1p(practical) + _ROUNDING)


class _Tests(NamedTuple):
    """What `Seeds` has, without intervals, and the mean logarithm with its standard error."""

    seeds: Counts
    cheaper: Counts
    costlier: Counts
    mean: Array
    error: Array
    p_value: Array
    exact: Flags


def _tests(logs: Array, level: float) -> _Tests:
    """Return which test applies, and its p-value, by rules 2 to 5."""
    seeds, cheaper, costlier = (
        np.asarray(flags.sum(axis=-1)) for flags in (~np.isnan(logs), logs < 0, logs > 0)
    )
    mean, error = _mean(logs), _standard_error(logs)
    alike, exact = error <= _ROUNDING, np.asarray(np.isinf(logs).any(axis=-1))
    # The seeds that agree with the mean, where there is one: under skew most may contradict it.
    agreeing = np.where(mean < 0, cheaper, costlier)
    agreeing = np.where(exact, np.maximum(cheaper, costlier), agreeing)
    sign = _sign_test(agreeing, seeds)
    few = seeds < fewest_seeds(1 - level)
    with np.errstate(divide="ignore", invalid="ignore"):
        student = 2 * stdtr(np.maximum(seeds - 1, 1), -np.abs(mean / error))
    student = np.minimum(np.where(few, STRICTER * student, student), 1.0)
    passed = np.where(few, agreeing == seeds, sign <= level)  # the interval of rule 2 or 3 as well
    p_value = np.where(exact, sign, np.where(passed, student, np.maximum(student, sign)))
    p_value = np.where(alike | (seeds < 2), np.nan, p_value)
    return _Tests(seeds, cheaper, costlier, mean, error, p_value, exact)


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}; expected a number between 0 and 1")


def _mean(logs: Array) -> Array:
    """Return means over the last axis, NaN left out; NaN where there is nothing."""
    known = ~np.isnan(logs)
    count = known.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        # If -inf and inf meet, the mean is NaN; `typical` takes the median then.
        total = np.where(known, logs, 0.0).sum(axis=-1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _median(logs: Array) -> Array:
    """Return medians over the last axis, NaN left out; NaN where there is nothing."""
    if not logs.shape[-1]:
        return np.full(logs.shape[:-1], np.nan)
    count = (~np.isnan(logs)).sum(axis=-1)
    ordered = np.sort(logs, axis=-1)  # NaN last
    middle = np.stack([np.maximum(count - 1, 0) // 2, count // 2], axis=-1)
    middle = np.minimum(middle, logs.shape[-1] - 1)
    ends = np.take_along_axis(ordered, middle, axis=-1)
    return np.asarray(np.where(count > 0, ends.mean(axis=-1), np.nan))


def _standard_error(logs: Array) -> Array:
    """Return standard errors of the means; NaN below two figures, or where one is infinite."""
    known = ~np.isnan(logs)
    count = known.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(known, logs - _mean(logs)[..., None], 0.0)
        variance = (apart**2).sum(axis=-1) / (count - 1)
        return np.asarray(np.where(count > 1, np.sqrt(variance / np.maximum(count, 1)), np.nan))


def _sign_test(agreeing: Counts, seeds: Counts) -> Array:
    """Return two-sided p-values of the exact sign test; NaN without a seed.

    A seed of equal costs counts against the difference, so that the test rejects where the
    interval between order statistics excludes 1, and nowhere else.
    """
    against = (seeds - agreeing).astype(np.float64)
    p_value = np.minimum(2 * bdtr(against, np.maximum(seeds, 1), 0.5), 1.0)
    return np.asarray(np.where(seeds > 0, p_value, np.nan))


def _end(logs: Array, nearest: Any) -> Array:
    """Return the least or the largest over the last axis, NaN left out."""
    # fmin and fmax return NaN only if there is nothing else, so NaN is a neutral initial value.
    return np.asarray(nearest.reduce(logs, axis=-1, initial=np.nan))


def _sign_interval(logs: Array, count: Counts, level: float) -> tuple[Array, Array]:
    """Return the interval of the median between two order statistics; NaN where none is so sure.

    They are the k-th least and the k-th largest, k as `_ranks` has it.
    """
    width = logs.shape[-1]
    nothing = np.full(logs.shape[:-1], np.nan)
    if not width:
        return nothing, nothing
    rank = _ranks(width, level)[count]
    ordered = np.sort(logs, axis=-1)
    first, last = np.maximum(rank - 1, 0), np.maximum(count - rank, 0)
    low, high = (
        np.take_along_axis(ordered, np.minimum(each, width - 1)[..., None], axis=-1)[..., 0]
        for each in (first, last)
    )
    return np.where(rank > 0, low, nothing), np.where(rank > 0, high, nothing)


@lru_cache(maxsize=64)
def _ranks(most: int, level: float) -> Counts:
    """Return the k of each number of seeds up to `most`; 0 where no interval is so sure.

    The k-th least and the k-th largest of n hold the median but with probability 2 P(B < k),
    B binomial of n and a half; k is the largest for which that is at most the level.
    """
    ranks = np.arange(1, most + 1)
    # bdtr(k - 1, n, p) is P(B <= k - 1) = P(B < k).
    missed = [2 * bdtr(ranks - 1.0, max(n, 1), 0.5) for n in range(most + 1)]
    return np.array([np.count_nonzero(own[:n] <= level) for n, own in enumerate(missed)])
