"""Differential privacy: accounts, clipping, noise, and the clip that follows a quantile."""

import json
from math import inf, log, sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import logsumexp

from fedsim.core.ports import Array
from fedsim.protocol.privacy import AdaptiveClip, Privacy
from fedsim.protocol.privacy.accounting import (
    Account,
    Bound,
    divergences,
    epsilon_of,
    planned_epsilon,
    renyi_orders,
)
from fedsim.protocol.privacy.clipping import clipped, next_clip
from fedsim.protocol.privacy.noise import Tree, discrete_gaussian, gaussian, skellam, tau
from fedsim.protocol.privacy.wrapper import PrivateMethod, Terms
from tests.protocol.vectors_of_opacus import DELTA, ORDERS

ALL, ONE = Bound(sample=10, clients=10), np.ones(1)


def poisson(sample: float, clients: int) -> Bound:
    return Bound(sampling="poisson", sample=sample, clients=clients)


TUTORIAL = [(1.12, 60, 2.92, 2.52), (0.6, 30, 9.74, 8.82), (1.2, 10, 1.20, 0.93)]
"""Noise, epochs, and epsilon by both conversions, of tensorflow/privacy's public tutorial."""


@pytest.mark.needs("privacy")
@pytest.mark.parametrize(("noise", "epochs", "classic", "newer"), TUTORIAL)
def test_the_tutorial(noise: float, epochs: int, classic: float, newer: float) -> None:
    """Batches of 256 of 60,000 at delta 1e-5; the tutorial has fewer orders and prints two digits.

    The classic conversion is proposition 3 of Mironov 2017; ours, the newer one.
    """
    divergence = epochs * 60_000 // 256 * divergences(noise**-2, poisson(256, 60_000))
    assert epsilon_of(divergence, 1e-5) == pytest.approx(newer, abs=0.05)
    by_mironov = float(np.min(divergence - log(1e-5) / (renyi_orders() - 1)))
    assert by_mironov == pytest.approx(classic, abs=0.02)


OPACUS = json.loads(Path(__file__).with_name("opacus.json").read_text())


@pytest.mark.needs("privacy")
@pytest.mark.parametrize("run", OPACUS, ids=str)
def test_opacus_has_the_same_divergences_and_epsilon(run: list[float]) -> None:
    rate, noise, steps, epsilon, *shown = run
    # Of so many clients no draw is empty, as Opacus has it.
    bound = poisson(rate * 1e6, 10**6) if rate < 1 else ALL
    divergence = steps * divergences(noise**-2, bound)
    ours = dict(zip(renyi_orders(), divergence, strict=True))
    assert [ours[ORDERS[place]] for place in (0, 1, 8, 30, 61)] == pytest.approx(shown, rel=1e-9)
    same_orders = np.where(np.isin(renyi_orders(), ORDERS), divergence, inf)
    assert epsilon_of(same_orders, DELTA) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.needs("privacy")
def test_one_gaussian_release_is_near_the_analytic_bound() -> None:
    """Balle, Wang 2018: delta of the Gaussian mechanism as a function of epsilon, exactly."""
    for noise in (0.5, 1.0, 3.0, 10.0):
        epsilon = planned_epsilon(1, noise**-2, ALL, 1e-5)
        half, rest = 1 / (2 * noise), epsilon * noise
        first, second = stats.norm.cdf(half - rest), stats.norm.cdf(-half - rest)
        exact = first - np.exp(epsilon) * second
        assert exact <= 1e-5
        shorter = stats.norm.cdf(half - rest / 1.3)
        assert shorter - np.exp(epsilon / 1.3) * stats.norm.cdf(-half - rest / 1.3) > 1e-5


@pytest.mark.needs("privacy")
def test_sampling_amplifies_and_rounds_add_up() -> None:
    whole = planned_epsilon(50, 1.0, Bound(sample=1000, clients=1000), 1e-5)
    fixed = Bound(sampling="fixed", sample=30, clients=1000)
    drawn, replaced = (planned_epsilon(50, 1.0, each, 1e-5) for each in (poisson(30, 1000), fixed))
    # A replaced client changes a sum twice as far as one that is left out.
    assert drawn < replaced < whole
    bound = poisson(30, 1000)
    account = Account(bound, 1e-5)
    for _ in range(50):
        assert account.charge(np.arange(30), np.ones(30), 1.0)
        account.close()
    assert account.epsilon == pytest.approx(drawn, rel=1e-12)
    assert (account.epsilons == account.epsilon).all()


@pytest.mark.needs("privacy")
@pytest.mark.parametrize(("clients", "sample"), [(1, 0.5), (2, 0.3), (3, 1.5), (5, 2.0)])
def test_a_round_whose_empty_draws_are_repeated_costs_at_most_its_bound(
    clients: int, sample: float
) -> None:
    """The divergence of the whole law of a round, integrated, with and without a client's reply.

    Replies are at the ends of the clip, so that the others' sum is binomial.
    """
    rate, noise, values = sample / clients, 0.8, np.linspace(-30, 40, 140_001)
    some = np.arange(clients)  # the others that are drawn
    draws = stats.binom(clients - 1, rate).pmf(some)
    weights = np.concatenate([draws * (1 - rate), draws * rate])
    weights[0] = 0.0  # the empty draw is repeated
    weights /= weights.sum()
    with_it, without = (
        logsumexp(
            stats.norm.logpdf(values[:, None], np.concatenate([some, some + reply]), noise),
            b=weights,
            axis=1,
        )
        for reply in (1, 0)
    )
    ours = dict(zip(renyi_orders(), divergences(noise**-2, poisson(sample, clients)), strict=True))
    for order in (2.0, 4.0, 16.0):
        for one, other in ((with_it, without), (without, with_it)):
            moment = logsumexp(order * one + (1 - order) * other) + np.log(values[1] - values[0])
            assert float(moment) / (order - 1) <= ours[order] * (1 + 1e-9)


@pytest.mark.needs("privacy")
def test_epsilon_is_continuous_in_the_sample() -> None:
    """It rises to that of all clients; one client by itself is always drawn."""
    samples = [5.0, 20.0, 20.01, 22.0, 39.99, 40.0]
    spent = [planned_epsilon(60, 1.0, poisson(each, 40), 1e-5) for each in samples]
    assert (np.diff(spent) > 0).all()
    assert spent[2] == pytest.approx(spent[1], rel=1e-3)
    assert spent[5] == pytest.approx(spent[4], rel=1e-3)
    whole = planned_epsilon(60, 1.0, ALL, 1e-5)
    assert spent[5] == pytest.approx(whole)
    assert planned_epsilon(60, 1.0, poisson(0.01, 1), 1e-5) == pytest.approx(whole)


@pytest.mark.needs("privacy")
def test_each_client_pays_for_its_own_replies() -> None:
    account = Account(Bound(sample=2, clients=4), 1e-5)
    account.charge(np.array([0, 1]), np.array([0.5, 0.25]), 0.5)
    account.charge(np.array([0, 0, 2]), np.array([0.5, 0.5, 0.5]), 0.5)
    account.close()
    squares = [0.25 + 1.0, 0.0625, 0.25, 0.0]  # two replies in one sum add up before the square
    expected = [planned_epsilon(1, each, ALL, 1e-5) for each in squares]
    assert account.epsilons.tolist() == pytest.approx(expected)
    assert account.epsilon == pytest.approx(expected[0])
    assert account.epsilons[3] == 0


@pytest.mark.needs("privacy")
def test_who_replies_is_no_privacy_where_data_decide_it() -> None:
    account = Account(Bound(sample=2, clients=3, everyone=True), 1e-5)
    account.charge(np.array([1]), np.array([0.3]), 0.5)
    assert account.epsilons == pytest.approx([planned_epsilon(1, 0.25, ALL, 1e-5)] * 3)


@pytest.mark.needs("privacy")
def test_a_budget_is_kept() -> None:
    account, spent = Account(ALL, 1e-5), list[float]()
    everyone, ratios = np.arange(10), np.full(10, 0.5)
    while account.charge(everyone, ratios, 0.5, budget=8):
        account.close()
        spent.append(account.epsilon)
    assert spent[-1] == account.epsilon <= 8 < account.next_epsilon
    assert planned_epsilon(len(spent), 0.25, ALL, 1e-5) == pytest.approx(spent[-1])


@pytest.mark.needs("privacy")
def test_without_noise_epsilon_is_infinite() -> None:
    account = Account(ALL, 1e-5)
    assert account.epsilon == 0
    account.charge(np.array([1]), np.array([inf]), inf)
    assert account.epsilon == inf


VECTORS = arrays(np.float64, st.integers(1, 8), elements=st.floats(-1e6, 1e6))


@given(VECTORS, st.floats(1e-3, 1e3))
def test_clipping_to_the_bit(vector: Array, bound: float) -> None:
    norm = float(np.linalg.norm(vector))
    expected = vector * min(1.0, bound / norm) if norm else vector
    assert (clipped(vector, bound) == expected).all()
    assert np.linalg.norm(clipped(vector, bound)) <= bound * (1 + 1e-15)
    if norm <= bound:
        assert clipped(vector, bound) is vector
    number = vector[0]
    assert clipped(np.array(number), bound) == pytest.approx(np.clip(number, -bound, bound))


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 70)),
        elements=st.floats(-1e3, 1e3),
    ),
    st.floats(1e-3, 1e3),
)
def test_rows_are_clipped_as_single_vectors(rows: Array, bound: float) -> None:
    one_by_one = np.array([clipped(row, bound) for row in rows])
    assert clipped(rows, bound).tobytes() == one_by_one.tobytes()


@pytest.mark.parametrize("dimension", [1, 999, 20_011])
def test_long_rows_are_clipped_as_single_vectors(dimension: int) -> None:
    """Norms are those of `numpy.linalg.norm`, to the bit."""
    rows = np.random.default_rng(3).standard_normal((40, dimension)) * np.arange(40)[:, None]
    for bound in (1e-3, 20 * sqrt(dimension), inf):
        expected = [
            row * (bound / norm) if (norm := float(np.linalg.norm(row))) > bound else row
            for row in rows
        ]
        assert clipped(rows, bound).tobytes() == np.array(expected).tobytes()


def test_gaussian_noise_is_normal() -> None:
    drawn = gaussian(np.random.default_rng(1), (100_000,), 0.7)
    assert drawn.mean() == pytest.approx(0, abs=4 * 0.7 / sqrt(1e5))
    assert drawn.var() == pytest.approx(0.49, rel=4 * sqrt(2 / 1e5))
    assert stats.kstest(drawn / 0.7, "norm").pvalue > 0.01


def test_skellam_noise_is_skellam_and_adds_up() -> None:
    """Integers with the law of the Skellam distribution; five parts have the law of the whole."""
    rng = np.random.default_rng(1)
    whole = skellam(rng, (100_000,), 3.0)
    parts = sum(skellam(rng, (100_000,), 3.0 / sqrt(5)) for _ in range(5))
    for drawn in (whole, np.asarray(parts)):
        assert drawn.dtype == np.int64
        assert drawn.mean() == pytest.approx(0, abs=4 * 3 / sqrt(1e5))
        assert drawn.var() == pytest.approx(9, rel=4 * sqrt(2 / 1e5))
        law = stats.skellam(4.5, 4.5)
        counts = [int((drawn == value).sum()) for value in range(-9, 10)]
        expected = [1e5 * law.pmf(value) for value in range(-9, 10)]
        rest = [1e5 - sum(counts)], [1e5 - sum(expected)]
        assert stats.chisquare([*counts, *rest[0]], [*expected, *rest[1]]).pvalue > 0.01


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_an_adaptive_clip_comes_to_the_quantile(quantile: float) -> None:
    """Norms of a lognormal law, 200 replies a round, noise of the count a twentieth of them."""
    rng, spec, clip = np.random.default_rng(1), AdaptiveClip(quantile=quantile), 0.01
    clips = []
    for _ in range(600):
        within = (rng.lognormal(1.0, 0.5, 200) <= clip).sum()
        clip = next_clip(spec, clip, (within + 10 * rng.standard_normal()) / 200)
        clips.append(clip)
    assert np.median(clips[300:]) == pytest.approx(
        stats.lognorm(0.5, scale=np.e).ppf(quantile), rel=0.03
    )


def test_bits_and_vectors_share_the_noise() -> None:
    """Andrew et al. 2021, theorem 1: 1/z^2 = 1/z_v^2 + 1/(2 s)^2."""
    spec = Privacy(clip=AdaptiveClip(), noise=1.1)
    vectors, count = spec.vector_noise(100), spec.count_deviation(100)
    assert count == 5
    assert vectors**-2 + (2 * count) ** -2 == pytest.approx(1.1**-2)
    with pytest.raises(ValueError, match="at most half"):
        Privacy(clip=AdaptiveClip(), noise=1.1).vector_noise(8)


@pytest.mark.parametrize("deviation", [2.0, 5.0, 30.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_skellam_noise_costs_at_most_what_its_terms_state(deviation: float, shift: int) -> None:
    """The Renyi divergence of shifted Skellam integers, summed up over their law."""
    values = np.arange(-int(60 * deviation), int(60 * deviation))
    law = stats.skellam(deviation**2 / 2, deviation**2 / 2)
    one, other = law.logpmf(values), law.logpmf(values - shift)
    known = np.isfinite(one) & np.isfinite(other)
    for order in (2.0, 4.0, 16.0):
        terms = order * one[known] + (1 - order) * other[known]
        exact = float(logsumexp(terms)) / (order - 1)
        ratio = shift / deviation
        assert exact <= order / 2 * ratio**2 * (1 + 3.5 / deviation**2)


# Trees of noise (DP-FTRL).


@pytest.mark.parametrize("most", [7, 8, 100])
def test_a_running_sum_has_the_noise_of_one_node_per_binary_digit(most: int) -> None:
    """Its variance after t terms is the number of digits 1 of t; new trees add to older ones."""
    terms = Terms(
        Privacy(clip=1, noise=1, tree=most), Bound(sample=1, clients=1, tree=most), ONE, 1
    )
    method, draws = PrivateMethod(cast("Any", None), terms), 20_000
    noise, variance = np.zeros(draws), 0
    for term in range(16):
        noise = noise + method.server_noise("field", (draws,), 0.5)
        whole, count = divmod(term + 1, most)
        variance = whole * most.bit_count() + count.bit_count()
        assert noise.var() == pytest.approx(0.25 * variance, rel=5 * sqrt(2 / draws))
        assert stats.kstest(noise / sqrt(0.25 * variance), "norm").pvalue > 1e-4


@pytest.mark.needs("privacy")
@pytest.mark.parametrize("most", [2, 7, 8, 60])
def test_a_client_pays_for_the_nodes_that_it_is_in(most: int) -> None:
    """Of a tree over all terms, a node is used if it is a left child; then all its leaves pay."""
    rng, terms, clients = np.random.default_rng(most), 60, 5
    sent = rng.random((terms, clients)) * (rng.random((terms, clients)) < 0.4)
    account, tree = Account(Bound(sample=2, clients=clients, tree=most), 1e-5), Tree(most)
    for row in sent:
        account.charge(np.flatnonzero(row), row[row > 0], 1.0, tree=tree)
        account.close()
    squares = np.zeros(clients)
    for begun in range(0, terms, most):
        block = sent[begun : begun + most]
        for size in (2**level for level in range(7)):
            nodes = range(0, len(block) - size + 1, 2 * size)
            squares += sum(block[first : first + size].sum(axis=0) ** 2 for first in nodes)
    expected = [planned_epsilon(1, each, ALL, 1e-5) for each in squares]
    assert account.epsilons.tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.needs("privacy")
@pytest.mark.parametrize("most", [1, 5, 16, 63, 64])
def test_a_reply_in_each_tree_costs_what_dp_accounting_says(most: int) -> None:
    """Its event is of one tree, in which a record is at most once; restarts are composed."""
    import dp_accounting as dp

    noise, rounds = 2.0, 64
    account, tree = Account(Bound(sample=1, clients=2, tree=most), 1e-5), Tree(most)
    for number in range(rounds):
        first = np.arange(1 if number % most == 0 else 0)  # the worst place in a tree
        account.charge(first, np.full(len(first), 1 / noise), 1 / noise, tree=tree)
        account.close()
    trees = [min(most, rounds - begun) for begun in range(0, rounds, most)]
    events = [dp.SingleEpochTreeAggregationDpEvent(noise, count) for count in trees]
    theirs = dp.rdp.RdpAccountant(renyi_orders(), dp.NeighboringRelation.REPLACE_SPECIAL)
    theirs.compose(dp.ComposedDpEvent(events))
    assert account.epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-12)
    assert account.epsilons[1] == 0
    once = Tree.squares(rounds, most, every=False)
    assert planned_epsilon(once, noise**-2, ALL, 1e-5) == pytest.approx(account.epsilon)


@pytest.mark.needs("privacy")
def test_a_tree_costs_less_than_draws_for_the_same_noise() -> None:
    """256 rounds: the running sum of independent noise has the deviation 16 z, of a tree at most
    sqrt(8) z; a client that replies once pays 9 times, one that always replies much more."""
    assert Tree.squares(256, 256, every=False) == 9
    assert Tree.squares(3, 4, every=True) == 1 + 4 + 1
    always = Tree.squares(256, 256, every=True)
    assert always == sum(
        count * size**2 for count, size in ((128, 1), (64, 2), (32, 4), (16, 8))
    ) + sum(count * size**2 for count, size in ((8, 16), (4, 32), (2, 64), (1, 128), (1, 256)))


# The discrete Gaussian.


@pytest.mark.parametrize("deviation", [0.3, 1.0, 2.7, 40.0])
def test_discrete_gaussian_noise_has_its_law(deviation: float) -> None:
    drawn = discrete_gaussian(np.random.default_rng(2), (100, 1000), deviation).ravel()
    assert drawn.dtype == np.int64
    law = law_of(deviation)
    values = np.arange(len(law)) - len(law) // 2
    variance = float(values**2 @ law)
    assert variance <= deviation**2 * (1 + 1e-12)  # corollary 9 of Canonne, Kamath, Steinke 2020
    assert drawn.mean() == pytest.approx(0, abs=4 * sqrt(variance / 1e5))
    kurtosis = float(values**4 @ law) / variance**2
    assert drawn.var() == pytest.approx(variance, rel=4 * sqrt(kurtosis / 1e5))
    counts = np.bincount(drawn + len(law) // 2, minlength=len(law))
    common = law > 1e-4  # at least ten are expected of each
    seen = np.array([*counts[common], counts[~common].sum()])
    expected = np.array([*law[common], law[~common].sum()]) * 1e5
    assert stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 0.001


def test_no_discrete_gaussian_noise_is_zero() -> None:
    assert not discrete_gaussian(np.random.default_rng(1), (3, 2), 0.0).any()


def law_of(deviation: float, reach: int = 0) -> Array:
    """Return the probabilities of a discrete Gaussian, of -reach to reach."""
    reach = reach or max(8, int(12 * deviation))
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * deviation**2))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("deviation", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("count", [2, 5])
def test_a_sum_of_discrete_gaussians_is_near_one_by_tau(deviation: float, count: int) -> None:
    """Log ratios of the summed law to the discrete Gaussian of the whole variance."""
    one = law_of(deviation, 40)
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    reach = len(law) // 2
    whole = law_of(deviation * sqrt(count), reach)
    near = np.abs(np.arange(-reach, reach + 1)) < 5 * deviation * sqrt(count)
    farthest = float(np.abs(np.log(law[near] / whole[near])).max())
    assert farthest <= tau(count, deviation)
    assert tau(count, 100.0) == 0


@pytest.mark.parametrize(("deviation", "count"), [(0.5, 4), (0.8, 3), (2.0, 10)])
@pytest.mark.parametrize("shift", [1, 2])
def test_parts_of_a_discrete_gaussian_cost_at_most_what_their_terms_state(
    deviation: float, count: int, shift: int
) -> None:
    """The Renyi divergence of the shifted sum, added up over its law; one coordinate, C = shift."""
    noise = deviation * sqrt(count) / shift
    spec = Privacy(clip=1.0, noise=noise, where="distributed", law="discrete-gaussian")
    bound = Bound(sample=count, clients=count)
    # Rounding adds up to sqrt(d) = 1 to the clip of `shift` integers.
    terms = Terms(spec, bound, np.ones(count), count, integers=shift, coordinates=1)
    one = law_of(deviation, 60)
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    moved = shift + 1
    here, there = law[moved:], law[:-moved]
    known = (here > 1e-250) & (there > 1e-250)
    for order in (2.0, 4.0, 16.0):
        parts = order * np.log(here[known]) + (1 - order) * np.log(there[known])
        assert float(logsumexp(parts)) / (order - 1) <= order / 2 * terms.squares * (1 + 1e-9)


class Recording:
    """A client that keeps the noise that it is to add to its integers."""

    id = 3

    def __init__(self) -> None:
        self.noise: Any = None

    def pack(self, vector: Array, structure: Any, field: str, noise: Any = None) -> Array:
        self.noise = noise
        return vector


@pytest.mark.parametrize("law", ["skellam", "discrete-gaussian"])
def test_parts_of_the_noise_add_up_to_it(law: Any) -> None:
    """Twenty clients add integers, whose sum has the deviation z C of units."""
    spec = Privacy(clip=0.5, noise=1.5, where="distributed", law=law)
    bound, scale = Bound(sample=20, clients=20), 1000.0
    terms = Terms(spec, bound, np.ones(20), 20.0, integers=scale, coordinates=9)
    method = PrivateMethod(cast("Any", None), terms)
    client = Recording()
    packed = method.client(cast("Any", client)).pack(np.full(9, 1.0))
    assert np.linalg.norm(cast("Array", packed)) == pytest.approx(0.5)
    rng = np.random.default_rng(1)
    total = sum(client.noise(rng, (20_000,), scale) for _ in range(20))
    assert np.std(total) == pytest.approx(1.5 * 0.5 * scale, rel=0.02)
    assert np.asarray(total).dtype == np.int64
    # With half of the clients there is half of the variance; rounding adds up to sqrt(d) integers.
    assert terms.squares_of(10) == pytest.approx(2 * terms.squares, rel=1e-4)
    assert terms.squares == pytest.approx((1 + 3 / 500) ** 2 / 1.5**2, rel=1e-5)
    gaussian_one = law == "discrete-gaussian"  # of that many integers, tau is zero
    assert (terms.squares == (1 + 3 / 500) ** 2 / 1.5**2) is gaussian_one
    own = 1.5 / sqrt(20)
    assert 2.0 ** (method.headroom - 1) < 1 + 10 * own <= 2.0**method.headroom
