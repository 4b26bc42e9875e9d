"""Which variant is cheaper: coverage and error rates by simulation, laws, and cases by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.results.analysis.compare.pairwise import (
    Pairwise,
    compare_seeds,
    fewest_seeds,
    holm,
    log_ratios,
    typical,
)
from fedsim.results.analysis.compare.verdict import (
    CONTESTED,
    INDISTINGUISHABLE,
    TOO_FEW,
    UNKNOWN,
    judge,
)
from tests.tiers import every, examples

TRIALS, FAMILIES = 20_000, 4_000
TIMES = np.array([2.3, 29.5, 13.0, 12.0, 20.0, 9.0, 5.0, 14.0, 18.0, 25.0])
"""How many times one method costs what another does, in each of ten seeds."""


def scaled(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return what a seed costs whatever the method is: over six orders of magnitude."""
    return np.exp(rng.normal(0.0, 3.0, shape))


def at_least(rate: float, expected: float, trials: int = TRIALS) -> bool:
    """Whether a rate seen is no more than three standard errors below what it should be."""
    return bool(rate >= expected - 3 * np.sqrt(expected * (1 - expected) / trials))


def normal(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.standard_normal((TRIALS, count))


def lognormal(rng: np.random.Generator, count: int) -> np.ndarray:
    """Skewed: the median is 0, the mean is 2.1."""
    return np.asarray(np.exp(1.5 * normal(rng, count)) - 1)


def outliers(rng: np.random.Generator, count: int) -> np.ndarray:
    """Normal, but for one seed in twenty that is ten times as far away, to either side."""
    return normal(rng, count) * np.where(rng.random((TRIALS, count)) < 0.05, 10.0, 1.0)


@every("count", [2, 3, 5, 10, 30])
@every("draw, confidence", [(normal, 0.8), (lognormal, 0.95), (outliers, 0.95)])
def test_intervals_cover_the_typical_ratio_and_the_rule_errs_no_more_than_it_says(
    draw: Callable[[np.random.Generator, int], np.ndarray], count: int, confidence: float
) -> None:
    rng = np.random.default_rng(count)
    found = compare_seeds(np.log(1.7) + draw(rng, count), confidence)
    assert not found.exact.any()
    assert at_least(float(((found.low <= 1.7) & (found.high >= 1.7)).mean()), confidence)
    null = compare_seeds(draw(rng, count), confidence)
    assert at_least(float((null.p_value > 1 - confidence).mean()), confidence)
    excluded = (null.low > 1) | (null.high < 1)
    assert (excluded == (null.p_value <= 1 - confidence)).all()  # the test's, turned round


@every("count", [2, 3, 5, 6, 8, 10, 20])
def test_with_unreached_seeds_the_rule_errs_no_more_than_it_says(count: int) -> None:
    """Two equal methods, one run in three of which never gets there: that all seeds agree is not
    enough. With three seeds it is wrong in one case of four."""
    rng = np.random.default_rng(count)
    costs = np.where(rng.random((2, TRIALS, count)) < 1 / 3, np.inf, rng.random((2, TRIALS, count)))
    found = compare_seeds(log_ratios(*costs), 0.95)
    some = found.exact & (found.seeds > 1)
    wrong = found.p_value[some] <= 0.05
    assert at_least(1 - float(wrong.mean()), 0.95, wrong.size)
    agree = np.maximum(found.cheaper, found.costlier)[some] == found.seeds[some]
    if count == 3:
        assert agree.mean() > 0.25


@every("count", [6, 10, 17, 20])
def test_intervals_cover_the_typical_ratio_where_some_runs_never_get_there(count: int) -> None:
    logs = np.random.default_rng(count).standard_normal((TRIALS, count))
    logs[logs > 1.0] = np.inf  # of every run one in six; the typical ratio stays 1
    found = compare_seeds(logs, 0.95)
    covered = (found.low < 1) & (found.high > 1)
    assert (found.exact == np.isinf(logs).any(axis=1)).all()
    exact = covered[found.exact]
    assert exact.mean() >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / exact.size)
    # Which of two rules applies depends on the runs, which takes less than a hundredth.
    assert covered.mean() >= 0.94
    agrees = (found.p_value <= 0.05) == ((found.low > 1) | (found.high < 1))
    assert agrees.all()  # the interval is the test's, turned round


def families(rng: np.random.Generator, count: int, gains: np.ndarray) -> np.ndarray:
    """Return p-values of all pairs of variants, shape (FAMILIES, variants, variants)."""
    noise = np.exp(0.5 * rng.standard_normal((FAMILIES, len(gains), count)))
    costs = gains[:, None] * noise * scaled(rng, FAMILIES, 1, count)
    return compare_seeds(log_ratios(costs[:, :, None], costs[:, None]), 0.95).p_value


@pytest.mark.parametrize("gains", [np.ones(5), np.array([0.05, 1.0, 1.0, 1.0, 1.0])])
def test_some_null_is_rejected_no_more_often_than_the_level_after_holm(gains: np.ndarray) -> None:
    p_values = families(np.random.default_rng(7), 10, gains)
    one, other = np.triu_indices(len(gains), 1)
    own, null = p_values[:, one, other], gains[one] == gains[other]
    corrected = np.array([holm(family) for family in own])
    wrong = (corrected[:, null] <= 0.05).any(axis=1).mean()
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / FAMILIES)
    assert (own[:, null] <= 0.05).any(axis=1).mean() > 0.07  # what no correction would give
    assert (corrected[:, ~null] <= 0.05).mean(axis=0).min(initial=1.0) > 0.99


def test_holm_s_rule_by_hand_and_against_its_definition() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, np.nan])).tolist()[:3] == pytest.approx(
        [0.03, 0.06, 0.06]
    )
    rng = np.random.default_rng(1)
    for _ in range(50):
        own = rng.random(6) ** 3
        order = np.argsort(own)
        expected = [
            min(max(own[order[i]] * (6 - i) for i in range(place + 1)), 1.0) for place in range(6)
        ]
        assert holm(own)[order].tolist() == pytest.approx(expected)


def test_ten_seeds_of_ten_are_decided_with_the_typical_ratio() -> None:
    seeds = scaled(np.random.default_rng(2), 10)
    pair = Pairwise.of(np.array([seeds, seeds * TIMES])).pair(1, 0)
    assert pair.ratio == pytest.approx(stats.gmean(TIMES))
    logs = np.log(TIMES)
    student = np.exp(stats.t.interval(0.95, 9, logs.mean(), stats.sem(logs)))
    # Of ten seeds the second least and the second largest hold the median with 97.9 %.
    interval = min(student[0], sorted(TIMES)[1]), max(student[1], sorted(TIMES)[-2])
    assert (pair.low, pair.high) == pytest.approx(interval)
    assert pair.p_value == pytest.approx(stats.ttest_1samp(logs, 0.0).pvalue)
    assert (judge(pair).words, pair.order) == ("costlier", 1)


def test_a_difference_by_chance_is_statistically_indistinguishable() -> None:
    rng = np.random.default_rng(3)
    seeds = scaled(rng, 10)
    chance = np.exp([0.3, -0.28, 0.1, -0.12, 0.25, -0.2, 0.02, -0.05, 0.15, -0.1])
    pair = Pairwise.of(np.array([seeds, seeds * chance])).pair(1, 0)
    assert (judge(pair).words, pair.order) == (INDISTINGUISHABLE, 0)
    assert pair.low < 1 < pair.high


def test_few_seeds_decide_where_they_differ_by_much_more_than_they_scatter() -> None:
    rows = [([1.0, 1.02, 0.99], "cheaper"), ([1.0, 1.9, 0.7], TOO_FEW)]
    for ours, words in rows:
        assert judge(Pairwise.of(np.array([ours, [2.0, 2.0, 2.0]])).pair(0, 1)).words == words


def test_a_difference_below_the_practical_one_is_none() -> None:
    rng = np.random.default_rng(6)
    seeds = scaled(rng, 8)
    slightly = seeds * np.exp(0.004 + 1e-4 * rng.standard_normal(8))
    for practical, words in ((0.01, "the same within 1 %"), (0.002, "costlier")):
        pair = Pairwise.of(np.array([slightly, seeds]), practical=practical).pair(0, 1)
        assert pair.p_value < 1e-6
        assert judge(pair).words == words
    wide = seeds * np.exp(0.004 + 0.3 * rng.standard_normal(8))  # it may be more than 1 %
    assert judge(Pairwise.of(np.array([wide, seeds])).pair(0, 1)).words == INDISTINGUISHABLE


def test_a_run_that_never_got_there_is_costlier_than_one_that_did() -> None:
    seeds = scaled(np.random.default_rng(4), 10)
    censored = seeds * TIMES
    censored[[1, 4, 5]] = np.inf
    pair = Pairwise.of(np.array([seeds, censored])).pair(0, 1)
    assert (pair.seeds, pair.cheaper, pair.order) == (10, 10, -1)
    assert pair.p_value == pytest.approx(stats.binomtest(0, 10).pvalue)
    assert judge(pair).words == "cheaper in 10 of 10 seeds, both reached it in 7"
    said = judge(pair).sentence(("a", "b"), "energy", "a gap")
    assert said == (
        "a reaches a gap with less energy than b (in the 7 seeds in which both reached it, a takes"
        " 90 % less; only a reached it in 3 seeds; a takes less in 10 of 10 seeds if a miss counts"
        " as more; sign test p=0.002)"
    )
    assert pair.ratio == pytest.approx(np.exp(np.median(np.log(seeds) - np.log(censored))))
    # Cheap where it got there, which is in seven seeds of ten: nothing is decided.
    lucky = np.where(np.arange(10) < 7, seeds / TIMES, np.inf)
    assert judge(Pairwise.of(np.array([lucky, seeds])).pair(0, 1)).words == INDISTINGUISHABLE


@every(
    ("ours", "theirs", "verdict"),
    [
        ([1.0], [2.0], "cheaper (one seed)"),
        ([2.0], [2.0], "the same (one seed)"),
        ([1.0, 5.0, 9.0], [2.0, 7.0, 90.0], TOO_FEW),
        ([1.0, 5.0, 90.0], [2.0, 7.0, 9.0], TOO_FEW),
        ([1.0, 5.0, 9.0] * 2, [2.0, 5.0, 90.0] * 2, INDISTINGUISHABLE),
        ([1.0, 1.001] * 3, [1.001, 1.0] * 3, "the same within 1 %"),
        ([1.0], [1.005], "the same within 1 % (one seed)"),
        ([3.0, 5.0], [3.0, 5.0], "the same in all 2 seeds"),
        ([0.0, 0.0], [0.0, 0.0], "the same in all 2 seeds"),
        ([0.0, 0.0], [1.0, 2.0], TOO_FEW),
        ([0.0] * 6, [1.0, 2.0] * 3, "cheaper in 6 of 6 seeds"),
        ([np.inf, 3.0], [1.0, 2.0], TOO_FEW),
        ([np.inf, np.inf], [np.inf, np.inf], UNKNOWN),
        ([np.nan, 1.0], [1.0, np.nan], UNKNOWN),
        ([np.inf, 1.0], [np.inf, 2.0], "cheaper (one seed)"),
        ([3.0] * 5, [2.0] * 5, "costlier, all seeds alike"),
        ([3.0 * 1.1] * 5, [3.0 * (1.1 + 2e-16)] * 5, "the same in all 5 seeds"),
    ],
)
def test_verdicts_by_hand(ours: list[float], theirs: list[float], verdict: str) -> None:
    pair = Pairwise.of(np.array([ours, theirs])).pair(0, 1)
    assert judge(pair).words == verdict
    assert pair.order == (-1 if "cheaper" in verdict else 1 if "costlier" in verdict else 0)
    assert not np.isnan(pair.ratio) or verdict == UNKNOWN


def test_words_say_where_the_number_of_variants_takes_a_difference_away() -> None:
    steps = np.array([0.05, 0.1, 0.6, 0.2, 0.9, 0.1, 0.3, 0.6])
    chance = np.exp(0.4 * np.random.default_rng(3).standard_normal((8, 8)))
    costs = np.vstack([np.ones(8), np.exp(steps), chance])
    alone, among = Pairwise.of(costs[:2]).pair(1, 0), Pairwise.of(costs).pair(1, 0)
    assert 0.001 < alone.p_value < 0.05
    assert judge(alone).words == "costlier"
    assert judge(among).words == INDISTINGUISHABLE
    said = judge(among).sentence(("b", "a"), "energy", "a gap")
    assert said.endswith(f", 8 seeds; p={among.p_holm:.2g} after Holm's correction)")
    assert (alone.ratio, alone.low, alone.high) == (among.ratio, among.low, among.high)


@every("missing, state", [(0, "the same within 1 %"), (1, CONTESTED), (3, CONTESTED)])
def test_costs_that_are_the_same_where_both_reached_it_are_not_the_same(
    missing: int, state: str
) -> None:
    """Means of all that reached it would differ: the seed that one missed is the dearest."""
    ours = np.append(scaled(np.random.default_rng(8), 9), 1e4)
    theirs = ours * np.exp(np.random.default_rng(9).uniform(-0.004, 0.004, 10))
    theirs[10 - missing :] = np.inf
    pair = Pairwise.of(np.array([ours, theirs])).pair(0, 1)
    assert judge(pair).words == state
    said = judge(pair).sentence(("a", "b (reached in some)"), "energy", "a gap")
    if missing:
        seeds = "1 seed" if missing == 1 else f"{missing} seeds"
        assert said == (
            "a and b (reached in some) cannot be compared in energy to a gap: in the"
            f" {10 - missing} seeds in which both reached it, a takes the same within 1 %; only a"
            f" reached it in {seeds}"
        )


def test_a_method_that_is_dearer_wherever_both_reached_it_is_not_cheaper_by_misses() -> None:
    ours, theirs = np.full(10, 3.0), np.full(10, 2.0) + np.arange(10) / 10
    theirs[1:] = np.inf
    pair = Pairwise.of(np.array([ours, theirs])).pair(0, 1)
    assert pair.p_holm < 0.05
    assert (pair.order, judge(pair).words) == (0, CONTESTED)
    assert "a takes 50 % more; only a reached it in 9 seeds" in judge(pair).sentence(
        ("a", "b"), "energy", "a gap"
    )


COST = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([0.0, np.inf, np.nan]))
TABLE = st.integers(1, 9).flatmap(
    lambda seeds: st.lists(st.lists(COST, min_size=seeds, max_size=seeds), min_size=2, max_size=4)
)


@examples(60)
@given(TABLE, st.integers(0, 2**32 - 1))
def test_units_of_a_seed_change_nothing_and_sides_are_opposite(
    rows: list[list[float]], seed: int
) -> None:
    costs = np.array(rows)
    scale = 2.0 ** np.random.default_rng(seed).integers(-20, 20, costs.shape[1])
    every, other = Pairwise.of(costs), Pairwise.of(costs * scale)
    np.testing.assert_array_equal(every.order, other.order)
    np.testing.assert_array_equal(every.same, other.same)
    np.testing.assert_array_equal(every.order, -every.order.T)
    np.testing.assert_array_equal(every.p_holm, every.p_holm.T)
    found, scaled_ = (
        compare_seeds(log_ratios(own[:, None], own)) for own in (costs, costs * scale)
    )
    np.testing.assert_allclose(found.ratio, scaled_.ratio, rtol=1e-9)
    np.testing.assert_array_equal(found.cheaper, found.costlier.T)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found.ratio, 1 / found.ratio.T, rtol=1e-9)
        # The inverse of a number below the least normal one, some 2e-308, is infinite.
        least = np.finfo(np.float64).tiny
        np.testing.assert_allclose(found.low, 1 / found.high.T, rtol=1e-9, atol=least)
    known = ~np.isnan(every.p_holm)
    assert (every.p_holm[known] >= found.p_value[known]).all()
    assert not every.order.diagonal().any()
    for one in range(len(costs)):
        for two in range(len(costs)):
            pair, back = every.pair(one, two), every.pair(two, one)
            assert pair.alone == back.alone[::-1]
            assert not (pair.missed and pair.same)
            assert not (pair.contested and pair.order)
            logs = log_ratios(costs[one], costs[two])
            both = np.isfinite(costs[one]) & np.isfinite(costs[two])
            np.testing.assert_equal(pair.like, float(typical(np.where(both, logs, np.nan))))


def test_worlds_may_stand_in_front_and_each_is_decided_by_itself() -> None:
    rng = np.random.default_rng(5)
    logs = rng.standard_normal((3, 4, 7))
    logs[0, 1, 2], logs[2, 2] = np.inf, np.nan
    every = compare_seeds(logs)
    for place in np.ndindex(3, 4):
        for whole, own in zip(every, compare_seeds(logs[place]), strict=True):
            np.testing.assert_array_equal(whole[place], own)
        np.testing.assert_array_equal(typical(logs)[place], typical(logs[place]))


@every("confidence", [0.0, 1.0, 95.0, float("nan")])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        Pairwise.of(np.ones((2, 6)), confidence)


def test_without_variants_or_seeds_nothing_is_decided() -> None:
    assert Pairwise.of(np.empty((0, 3))).order.shape == (0, 0)
    assert not Pairwise.of(np.empty((2, 0))).order.any()


def test_the_fewest_seeds_with_a_sign_interval_are_those_of_the_binomial_law() -> None:
    for confidence in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999):
        count = fewest_seeds(confidence)
        assert stats.binomtest(0, count).pvalue <= 1 - confidence + 1e-12
        assert stats.binomtest(0, count - 1).pvalue > 1 - confidence


@pytest.mark.parametrize("seeds", [2, 6, 10])
@pytest.mark.parametrize("others", [0, 4])
def test_all_seeds_against_none_is_stated_however_few_they_are(seeds: int, others: int) -> None:
    """Corrected for the pairs of six variants, six seeds would be too few for the sign test."""
    rng = np.random.default_rng(1)
    always, never = rng.uniform(1, 2, (1 + others, seeds)), np.full((1, seeds), np.inf)
    verdicts = Pairwise.of(np.concatenate([never, always]))
    there, back = (judge(verdicts.pair(*pair)) for pair in ((1, 0), (0, 1)))
    assert there.words == f"reached in all of {seeds} seeds, the other in none"
    assert back.words == f"reached in none of {seeds} seeds, the other in all"
    sentence = f"median reached a gap in all {seeds} seeds, mean in none"
    assert there.sentence(("median", "mean (reached in 0 of 6 seeds)"), "t", "a gap") == sentence
    assert back.sentence(("mean", "median"), "t", "a gap") == sentence


def test_some_seeds_against_none_are_not_all() -> None:
    some, never = [1.0, 2.0, np.inf], [np.inf] * 3
    assert judge(Pairwise.of(np.array([some, never])).pair(0, 1)).words == TOO_FEW
