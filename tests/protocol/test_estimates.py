"""Inclusion probabilities and expectations of estimates, by enumeration of all draws."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

from fedsim.core.errors import Failed
from fedsim.core.ports import Array, Reply
from fedsim.protocol.aggregation.base import Aggregator, Mean
from fedsim.protocol.estimates import (
    DrawnCohort,
    Estimate,
    Estimator,
    inclusion_probabilities,
    systematic_sample,
)
from fedsim.protocol.participation import WeightedParticipation
from tests.tiers import every

SIZES: dict[str, list[float]] = {
    "alike": [3, 3, 3, 3],
    "different": [5, 1, 3, 2, 4],
    "one large": [100, 1, 2, 1],
    "two large": [50, 40, 1, 2, 3],
    "three": [10, 10, 20],
}
CASES = [(name, count) for name, sizes in SIZES.items() for count in range(1, len(sizes) + 1)]


class Fixed:
    """A stream with a given permutation and a given uniform number."""

    def __init__(self, order: Sequence[int], offset: float) -> None:
        self.order, self.offset = np.array(order), offset

    def permutation(self, count: int) -> Array:
        assert count == len(self.order)
        return self.order

    def random(self) -> float:
        return self.offset


def cohorts(sizes: Array, count: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each systematic sample: the lengths of intervals of offsets."""
    probabilities = inclusion_probabilities(sizes, count)
    found: dict[tuple[int, ...], float] = defaultdict(float)
    orders = list(permutations(range(len(sizes))))
    for order in orders:
        left = [m for m in order if probabilities[m] < 1 - 1e-12]
        cuts = np.sort(np.concatenate([[0, 1], np.cumsum(probabilities[left]) % 1]))
        for begin, end in pairwise(cuts):
            if end - begin > 1e-9:
                stream: Any = Fixed(order, (begin + end) / 2)
                sample = systematic_sample(probabilities, count, stream)
                found[tuple(sample.tolist())] += (end - begin) / len(orders)
    return found


@every(("name", "count"), CASES)
def test_inclusion_probabilities_are_those_of_the_samples(name: str, count: int) -> None:
    sizes = np.array(SIZES[name])
    due = inclusion_probabilities(sizes, count)
    found, included = cohorts(sizes, count), np.zeros(len(sizes))
    assert sum(found.values()) == pytest.approx(1, abs=1e-7)
    for sample, chance in found.items():
        assert len(set(sample)) == count
        included[list(sample)] += chance
    assert included == pytest.approx(due, abs=1e-7)


@every(("name", "count"), CASES)
def test_inclusion_probabilities_are_by_size_up_to_one(name: str, count: int) -> None:
    sizes = np.array(SIZES[name])
    found = inclusion_probabilities(sizes, count)
    assert found.sum() == pytest.approx(count, rel=1e-12)
    assert found.max() <= 1
    below = found < 1
    ratios = found[below] / sizes[below]
    assert ratios == pytest.approx(np.full(below.sum(), ratios.mean() if below.any() else 0))
    assert np.all(sizes[~below] * (ratios[0] if below.any() else np.inf) >= 1 - 1e-12)


def test_clients_of_a_large_fleet_are_drawn_in_proportion_to_their_samples() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 100, 500).astype(float)
    policy, counts, draws = WeightedParticipation(count=50), np.zeros(500), 4000
    for _ in range(draws):
        counts[policy.draw(sizes, 1.0, rng).clients] += 1
    due = inclusion_probabilities(sizes, 50)
    assert np.abs(counts / draws - due).max() < 5 * np.sqrt(0.25 / draws)


# Expectations over all draws of a law: (cohort with its law, probability).

Law = Iterator[tuple[Sequence[int], DrawnCohort | None, float]]


def uniform(sizes: Array, count: int) -> Law:
    every = list(combinations(range(len(sizes)), count))
    for sample in every:
        yield sample, None, 1 / len(every)


def weighted(sizes: Array, count: int) -> Law:
    q = WeightedParticipation(count=count).expected_shares(sizes)
    for sample, chance in cohorts(sizes, count).items():
        own = list(sample)
        yield own, DrawnCohort(np.array(own), q[own], np.ones(len(own))), chance


def with_replacement(sizes: Array, count: int) -> Law:
    q = sizes / sizes.sum()
    for sample in product(range(len(sizes)), repeat=count):
        own, times = np.unique(sample, return_counts=True)
        draw = DrawnCohort(own, q[own], times.astype(float))
        yield own.tolist(), draw, float(np.prod(q[list(sample)]))


LAWS = {"uniform": uniform, "weighted": weighted, "with replacement": with_replacement}


def expectation(law: str, sizes: Array, p: Array, count: int, estimate: Estimate) -> Array:
    """Return the expected weight of each client in a mean."""
    mean = np.zeros(len(sizes))
    for sample, draw, chance in LAWS[law](sizes, count):
        estimator = Estimator(estimate, len(sizes))
        estimator.record(7, draw)
        replies: Any = [Reply(m, 7, None) for m in sample]
        mean[list(sample)] += chance * estimator.coefficients(replies, p)
    return mean


@every("law", LAWS)
@every("name", SIZES)
@every("weights", ["sizes", "equal"])
def test_an_unbiased_estimate_is_the_mean_of_all_in_expectation(
    law: str, name: str, weights: str
) -> None:
    sizes = np.array(SIZES[name])
    p = sizes / sizes.sum() if weights == "sizes" else np.full(len(sizes), 1 / len(sizes))
    for count in (1, 2, len(sizes)):
        assert expectation(law, sizes, p, count, "unbiased") == pytest.approx(p, abs=1e-7)


def test_two_of_three_clients_by_each_estimate() -> None:
    """With minimisers 0, 0 and 1 the expected weight of the third is where FedAvg goes."""
    sizes = np.array([10.0, 10.0, 20.0])
    p = sizes / 40
    due: dict[tuple[str, Estimate], float] = {
        ("weighted", "unbiased"): 1 / 2,
        ("weighted", "self-normalised"): 2 / 3,
        ("weighted", "plain"): 1 / 2,
        ("uniform", "unbiased"): 1 / 2,
        ("uniform", "self-normalised"): 4 / 9,
        ("uniform", "plain"): 1 / 3,
        ("with replacement", "unbiased"): 1 / 2,
        ("with replacement", "plain"): 1 / 2,
    }
    for (law, estimate), value in due.items():
        found = expectation(law, sizes, p, 2, estimate)
        assert found[2] == pytest.approx(value, abs=1e-12), (law, estimate)


def test_replies_that_are_missing_at_random_leave_the_estimate_unbiased() -> None:
    """One of three drawn replies, each with the same probability."""
    sizes = np.array(SIZES["different"])
    p, mean = sizes / sizes.sum(), np.zeros(5)
    for sample, draw, chance in weighted(sizes, 3):
        estimator = Estimator("unbiased", 5)
        estimator.record(1, draw)
        for m in sample:
            replies: Any = [Reply(m, 1, None)]
            mean[m] += chance / 3 * estimator.coefficients(replies, p)[0]
    assert mean == pytest.approx(p, abs=1e-7)


def test_a_late_reply_counts_by_the_law_of_its_own_round() -> None:
    estimator, p = Estimator("unbiased", 4), np.full(4, 0.25)
    estimator.record(1, DrawnCohort(np.array([0, 2]), np.array([0.1, 0.4]), np.ones(2)))
    estimator.record(2, DrawnCohort(np.array([1, 2]), np.array([0.3, 0.2]), np.array([1.0, 2.0])))
    replies: Any = [Reply(0, 1, None), Reply(1, 2, None), Reply(2, 1, None), Reply(2, 2, None)]
    due = [0.25 / (5 * 0.1), 0.25 / (5 * 0.3), 0.25 / (5 * 0.4), 0.25 * 2 / (5 * 0.2)]
    assert estimator.coefficients(replies, p) == pytest.approx(due)


@every("gone", range(5))
def test_clients_that_cannot_be_asked_are_out_before_the_draw(gone: int) -> None:
    """The estimate is then that of the others, each by its weight among them."""
    sizes = np.array(SIZES["different"])
    p, here = sizes / sizes.sum(), np.delete(np.arange(5), gone)
    mean = np.zeros(5)
    q = inclusion_probabilities(sizes[here], 2) / 2 * p[here].sum()
    for sample, chance in cohorts(sizes[here], 2).items():
        own = list(sample)
        estimator = Estimator("unbiased", 5)
        estimator.record(1, DrawnCohort(here[own], q[own], np.ones(2)))
        replies: Any = [Reply(int(m), 1, None) for m in here[own]]
        mean[here[own]] += chance * estimator.coefficients(replies, p)
    assert mean[here] == pytest.approx(p[here] / p[here].sum(), abs=1e-7)


def test_there_is_no_mean_of_no_replies() -> None:
    """If all clients of a round are silent, an own method is told so, whatever it asks for."""
    estimator, sums = Estimator("plain", 3), Aggregator(Mean(), np.random.default_rng)
    asks: tuple[Callable[[], object], ...] = (
        lambda: estimator.coefficients([], np.ones(3)),
        lambda: estimator.factors([]),
        lambda: sums.sum([], "v"),
    )
    for ask in asks:
        with pytest.raises(Failed, match=r"of no replies: all clients .* silent; .* `if replies`"):
            ask()
