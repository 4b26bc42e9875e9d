"""The rule for which of two variants is cheaper, shared by all commands, pages and studies.

Runs of one seed share their random draws (data, network, availability), whatever their variant
is, and costs of different seeds may differ in scale by orders of magnitude. So two variants are
compared seed by seed, by the logarithm of the ratio of their costs, in which the scale of a seed
cancels.

1. A run that did not reach the target costs infinity: it is costlier than one that did. A seed
   in which neither reached it, or of which one of the two runs does not exist, says nothing.
   Two costs of zero are equal; zero is cheaper than anything above it.
2. From `FEWEST` seeds on, if all their ratios are finite, the typical ratio is the geometric
   mean, with the two-sided t test and t interval of the mean of the logarithms. If the ratio is
   the same in every seed, seeds make no difference, and there is nothing to test: that is a plain
   statement ("cheaper, all seeds alike").
3. With fewer seeds, or where some run did not reach the target, it is the exact two-sided sign
   test, and the interval of the median ratio that inverts it (none where no interval is that
   sure: below six seeds at 95 %). The typical ratio is the geometric mean where all ratios are
   finite, the median otherwise.
4. p-values are corrected for the number of pairs of variants by Holm (1979), one family a cost.
5. One variant is cheaper where its corrected p-value is at most 1 - confidence. Where the sign
   test applies, it also counts as cheaper if it is so in all seeds: no test of so few seeds could
   say more, and the words then give the count ("cheaper in 3 of 3 seeds"). One seed is a plain
   statement ("cheaper (one seed)"). All else is statistically indistinguishable.

The functions are pure and take arrays, seeds last, any axes in front. A caller that has costs in
several worlds, such as `fedsim.robustness`, uses `log_ratios(ours, theirs)` with shape
(..., worlds, seeds), `typical` for the ratio of each world, and `Pairwise.of(costs, confidence)`
with the costs of one world, shape (variants, seeds), for its decisions and their words:

>>> costs = np.array([[1.0, 20.0, 3.0], [5.0, 70.0, np.inf]])
>>> pair = Pairwise.of(costs, 0.95).pair(0, 1)
>>> pair.verdict, pair.evidence
('cheaper in 3 of 3 seeds', 'cheaper in 3 of 3 seeds; sign test p=0.25')
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from fedsim.ports import Array
from fedsim.text import format_number

FEWEST = 5
"""So many seeds have an interval of the geometric mean; fewer have the exact sign test."""

CHEAPER, COSTLIER = "cheaper", "costlier"
SAME, ALIKE = "the same", "all seeds alike"
INDISTINGUISHABLE = "statistically indistinguishable"
UNKNOWN = "no common seed in which either reached it"
"""Verdicts; the first two may be followed by how many seeds say so."""

_ROUNDING = 1e-12
"""Logarithms of costs nearer than this are equal: sums in another order differ by less."""

_BLOCK = 1_000_000  # figures that are compared at once
_LEAST = 1e-4  # smaller p-values are printed as below this

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
        exact: whether the sign test was used, and not the t test.
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


def compare_seeds(logs: Array, confidence: float = 0.95) -> Seeds:
    """Return what the seeds of the last axis say, by rules 1 to 3 above.

    Args:
        logs: as `log_ratios` returns them, shape (..., seeds).
        confidence: of the intervals, between 0 and 1.

    Raises:
        ValueError: the confidence is not between 0 and 1.
    """
    _check(confidence)
    logs = np.asarray(logs, dtype=np.float64)
    tested, level = _tests(logs), 1 - confidence
    degrees = np.maximum(tested.seeds - 1, 1)
    margin = stdtrit(degrees, 1 - level / 2) * tested.error
    first, last = _sign_interval(logs, tested.seeds, level)
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.exp(np.where(tested.exact, first, tested.mean - margin))
        high = np.exp(np.where(tested.exact, last, tested.mean + margin))
    alike = (tested.seeds > 1) & np.isnan(tested.p_value)
    low, high = (np.where(alike, np.nan, end) for end in (low, high))
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
        confidence: of the interval.
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
    confidence: float

    @property
    def alike(self) -> bool:
        """Whether the ratio is the same in all of several seeds, and not 1."""
        return self.seeds > 1 and isnan(self.p_value) and bool(self.cheaper or self.costlier)

    @property
    def verdict(self) -> str:
        """The conclusion in a few words, as tables and sentences print it."""
        if not self.seeds:
            return UNKNOWN
        one = self.seeds == 1
        if not self.cheaper and not self.costlier:
            return f"{SAME} (one seed)" if one else f"{SAME} in all {self.seeds} seeds"
        if not self.order:
            return INDISTINGUISHABLE
        word = CHEAPER if self.order < 0 else COSTLIER
        if one:
            return f"{word} (one seed)"
        if self.alike:
            return f"{word}, {ALIKE}"
        return f"{word} in {self._agreeing} of {self.seeds} seeds" if self.exact else word

    @property
    def evidence(self) -> str:
        """What the conclusion rests on: the interval, the sign test, or one seed."""
        if self.alike:
            return f"the same in all {self.seeds} seeds"
        if self.seeds < 2 or not (self.cheaper or self.costlier):
            return self.verdict
        if self.exact:
            word = CHEAPER if self.cheaper >= self.costlier else COSTLIER
            count = f"{word} in {self._agreeing} of {self.seeds} seeds"
            return f"{count}; sign test p{_equals(self.p_value)}"
        ends = f"{format_number(self.low, '.3g')} to {format_number(self.high, '.3g')}"
        interval = f"{100 * self.confidence:g} % interval {ends}, {self.seeds} seeds"
        if self.order or self.p_value > 1 - self.confidence:
            return interval
        return f"{interval}; p{_equals(self.p_holm)} after Holm's correction"

    @property
    def _agreeing(self) -> int:
        return max(self.cheaper, self.costlier)


@dataclass(frozen=True, slots=True, eq=False)
class Pairwise:
    """All pairs of variants in one cost: arrays of shape (variants, variants), row over column.

    Attributes:
        costs: shape (variants, seeds), as `of` takes them.
        p_holm: p-values, corrected for all pairs; symmetric.
        order: -1 where the row is cheaper than the column, 1 where it is costlier, else 0.
        same: where both cost the same in every seed that says anything.
        confidence: of the intervals; 1 less that is the level of the tests.
    """

    costs: Array
    p_holm: Array
    order: NDArray[np.int8]
    same: Flags
    confidence: float

    @classmethod
    def of(cls, costs: Array, confidence: float = 0.95) -> "Pairwise":
        """Decide all pairs.

        Args:
            costs: shape (variants, seeds): from 0, infinite where a run did not reach the target,
                NaN where there is none.
            confidence: of intervals and tests, between 0 and 1.

        Raises:
            ValueError: the confidence is not between 0 and 1.
        """
        _check(confidence)
        costs = np.asarray(costs, dtype=np.float64)
        shape = len(costs), len(costs)
        p_values, order = np.full(shape, np.nan), np.zeros(shape, dtype=np.int8)
        unanimous, same = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        rows = max(_BLOCK // max(costs.size, 1), 1)  # thousands of variants would not fit at once
        for start in range(0, len(costs), rows):
            own = slice(start, start + rows)
            found = _tests(log_ratios(costs[own, None], costs))
            agreeing = np.maximum(found.cheaper, found.costlier)
            ahead = np.where(found.exact, found.cheaper > found.costlier, found.mean < 0)
            order[own] = np.where(ahead, -1, 1)
            unanimous[own] = found.exact & (agreeing == found.seeds) & (agreeing > 0)
            same[own] = (found.seeds > 0) & (agreeing == 0)
            p_values[own] = found.p_value
        upper = np.triu_indices(len(costs), 1)
        p_values[upper] = holm(p_values[upper])
        np.fill_diagonal(p_values, np.nan)
        with np.errstate(invalid="ignore"):
            order[~(unanimous | (p_values <= 1 - confidence))] = 0
        lower = upper[::-1]
        p_values[lower], order[lower], same[lower] = p_values[upper], -order[upper], same[upper]
        return cls(costs, p_values, order, same, confidence)

    def against(self, other: int) -> Seeds:
        """Return what the seeds say of every variant against one of them, shape (variants,)."""
        return compare_seeds(log_ratios(self.costs, self.costs[other]), self.confidence)

    def pair(self, one: int, other: int) -> PairedComparison:
        """Return what the seeds say of one variant against another, by their numbers."""
        logs = log_ratios(self.costs[one], self.costs[other])
        found = compare_seeds(logs, self.confidence)
        figures: dict[str, Any] = {name: each.item() for name, each in found._asdict().items()}
        corrected, order = float(self.p_holm[one, other]), int(self.order[one, other])
        return PairedComparison(
            **figures, p_holm=corrected, order=order, confidence=self.confidence
        )


class _Tests(NamedTuple):
    """What `Seeds` has, without intervals, and the mean logarithm with its standard error."""

    seeds: Counts
    cheaper: Counts
    costlier: Counts
    mean: Array
    error: Array
    p_value: Array
    exact: Flags


def _tests(logs: Array) -> _Tests:
    """Return which test applies, and its p-value, by rules 2 and 3."""
    seeds, cheaper, costlier = (
        np.asarray(flags.sum(axis=-1)) for flags in (~np.isnan(logs), logs < 0, logs > 0)
    )
    mean, error = _mean(logs), _standard_error(logs)
    alike = error <= _ROUNDING
    exact = (seeds < FEWEST) | alike | np.isnan(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        student = 2 * stdtr(np.maximum(seeds - 1, 1), -np.abs(mean / error))
    p_value = np.where(exact, _sign_test(cheaper, costlier), student)
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


def _sign_test(cheaper: Counts, costlier: Counts) -> Array:
    """Return two-sided p-values of the exact sign test; NaN where no seed differs."""
    count, fewer = cheaper + costlier, np.minimum(cheaper, costlier)
    p_value = np.minimum(2 * bdtr(fewer.astype(np.float64), np.maximum(count, 1), 0.5), 1.0)
    return np.asarray(np.where(count > 0, p_value, np.nan))


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
    missed = [2 * bdtr(ranks - 1.0, max(n, 1), 0.5) for n in range(most + 1)]
    return np.array([np.count_nonzero(own[:n] <= level) for n, own in enumerate(missed)])


def _equals(p_value: float) -> str:
    return f"<{_LEAST:g}" if p_value < _LEAST else f"={format_number(p_value, '.2g')}"
