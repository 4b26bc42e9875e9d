"""Loss: shares, bursts and repeats agree with their closed forms."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedsim.physics.packet_loss import (
    GilbertElliottLoss,
    IndependentLoss,
    PacketLoss,
    PacketOutcome,
    repeat,
)
from tests.physics.losses import GilbertElliott, Independent
from tests.tiers import every

BURSTS = GilbertElliott(p=0.01, r=0.1)
FADES = GilbertElliott(p=0.02, r=0.2, h=0.4, k=0.95)
MODELS = [Independent(0.0), Independent(0.1), BURSTS, FADES, GilbertElliott(p=0.5, r=0.5)]

PROBABILITIES = st.floats(0.01, 1)
CHAINS = st.builds(GilbertElliott, PROBABILITIES, PROBABILITIES, PROBABILITIES, PROBABILITIES)
LAWS = st.one_of(st.builds(Independent, st.floats(0, 0.99)), CHAINS)


def one_by_one(model: PacketLoss, packets: int, seed: int) -> np.ndarray:
    """Return which packets are lost, asked for one at a time."""
    process = model.process(np.random.default_rng(seed))
    return np.array([process.losses(1) for _ in range(packets)])


def variance_of_mean(model: PacketLoss, packets: int) -> float:
    """Return the variance of the share lost among many packets, correlations included."""
    bernoulli = model.mean * (1 - model.mean)
    if not isinstance(model, GilbertElliottLoss):
        return bernoulli / packets
    # Covariance at lag n: (difference of loss in the two states)^2 pi (1-pi) (1-p-r)^n.
    pi, memory = model.bad_share, 1 - model.p - model.r
    states = (model.k - model.h) ** 2 * pi * (1 - pi)
    return (bernoulli + 2 * states * memory / (1 - memory)) / packets


@every("model", MODELS)
@every("at_once", [10**6, 997])
def test_the_share_lost_is_the_mean(model: PacketLoss, at_once: int) -> None:
    process = model.process(np.random.default_rng(11))
    calls = 10**6 // at_once
    lost = sum(process.losses(at_once) for _ in range(calls))
    spread = sqrt(variance_of_mean(model, calls * at_once))
    assert lost / (calls * at_once) == pytest.approx(model.mean, abs=4 * spread)


def test_the_stationary_share_and_the_mean_loss() -> None:
    assert BURSTS.bad_share == pytest.approx(1 / 11)
    assert BURSTS.mean == pytest.approx(1 / 11)
    assert FADES.mean == pytest.approx((1 * 0.6 + 10 * 0.05) / 11)


def test_links_start_in_the_stationary_state() -> None:
    first = [FADES.process(np.random.default_rng(seed)).losses(1) for seed in range(20_000)]
    spread = sqrt(FADES.mean * (1 - FADES.mean) / len(first))
    assert np.mean(first) == pytest.approx(FADES.mean, abs=4 * spread)


def test_bursts_are_geometric() -> None:
    lost = one_by_one(BURSTS, 200_000, seed=5)
    edges = np.flatnonzero(np.diff(lost))
    bursts = np.diff(edges)[0 if lost[edges[0] + 1] else 1 :: 2]
    assert bursts.mean() == pytest.approx(10, abs=4 * sqrt(90 / bursts.size))
    # P(length = n) = r (1 - r)^(n - 1), in classes of at least 20 expected bursts each.
    classes = np.append(np.arange(1, 30), inf)
    tails = 0.9 ** (np.arange(1, 30) - 1)
    expected = bursts.size * -np.diff(np.append(tails, 0.0))
    seen, _ = np.histogram(bursts, np.append(np.arange(1, 30), bursts.max() + 1))
    assert classes.size == expected.size + 1
    assert chisquare(seen, expected).pvalue > 0.01


def test_one_by_one_or_at_once_losses_come_alike_bunched() -> None:
    """The count among n packets has the variance that the chain's correlations give."""
    n, groups = 50, 4000
    process = BURSTS.process(np.random.default_rng(8))
    at_once = np.array([process.losses(n) for _ in range(groups)])
    alone = one_by_one(BURSTS, n * groups, seed=9).reshape(groups, n).sum(axis=1)
    pi, memory = BURSTS.bad_share, 1 - BURSTS.p - BURSTS.r
    lags = np.arange(1, n)
    variance = pi * (1 - pi) * (n + 2 * ((n - lags) * memory**lags).sum())
    for counts in (at_once, alone):
        assert counts.var() == pytest.approx(variance, rel=0.1)


@given(LAWS, st.integers(0, 10**6), st.integers(0, 2**32))
def test_no_more_are_lost_than_are_sent(model: PacketLoss, packets: int, seed: int) -> None:
    process = model.process(np.random.default_rng(seed))
    for _ in range(3):
        assert 0 <= process.losses(packets) <= packets


@given(CHAINS, st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 2**32))
def test_where_the_states_are_certain_the_chain_shows(
    chain: GilbertElliottLoss, sizes: list[int], seed: int
) -> None:
    """With h = 1 and k = 1 nothing is lost, with h = 0 and k = 0 everything."""
    for passing, share in ((1.0, 0), (0.0, 1)):
        sure = GilbertElliott(chain.p, chain.r, passing, passing)
        process = sure.process(np.random.default_rng(seed))
        assert [process.losses(size) for size in sizes] == [share * size for size in sizes]


def test_states_that_are_never_left() -> None:
    good = GilbertElliott(p=0.0, r=0.5).process(np.random.default_rng(0))
    bad = GilbertElliott(p=0.5, r=0.0).process(np.random.default_rng(0))
    assert [good.losses(10**6) for _ in range(3)] == [0] * 3
    assert [bad.losses(10**6) for _ in range(3)] == [10**6] * 3


def test_states_that_alternate() -> None:
    process = GilbertElliott(p=1.0, r=1.0).process(np.random.default_rng(0))
    assert process.losses(1000) == 500
    assert sum(process.losses(1) for _ in range(10)) == 5


@every("tries", [1, 2, 5, None])
@every("p", [0.0, 0.05, 0.5, 0.9])
def test_repeats_are_as_many_as_the_closed_form_says(p: float, tries: int | None) -> None:
    model, packets = Independent(p), 200_000
    outcome = repeat(model.process(np.random.default_rng(4)), packets, tries)
    m = inf if tries is None else tries
    transmissions, lost = (1 - p**m) / (1 - p), p**m
    assert model.expected_transmissions(tries) == pytest.approx(transmissions)
    assert model.residual(tries) == pytest.approx(lost)
    # No count of transmissions varies more than one without a limit: p / (1 - p)^2.
    spread = sqrt(p / packets) / (1 - p)
    assert 1 + outcome.repeated / packets == pytest.approx(transmissions, abs=4 * spread)
    assert outcome.lost / packets == pytest.approx(lost, abs=4 * sqrt(lost * (1 - lost) / packets))


@given(LAWS, st.integers(0, 500), st.integers(1, 6), st.integers(0, 2**32))
def test_no_packet_is_sent_more_often_than_allowed(
    model: PacketLoss, packets: int, tries: int, seed: int
) -> None:
    outcome = repeat(model.process(np.random.default_rng(seed)), packets, tries)
    assert 0 <= outcome.lost <= packets
    assert outcome.lost * (tries - 1) <= outcome.repeated <= packets * (tries - 1)


@given(st.integers(0, 1000), st.integers(0, 2**32))
def test_with_no_limit_all_pass(packets: int, seed: int) -> None:
    for model in MODELS:
        assert repeat(model.process(np.random.default_rng(seed)), packets, None).lost == 0


def test_a_dead_link_loses_everything_after_all_its_tries() -> None:
    dead = Independent(1.0)
    process = dead.process(np.random.default_rng(0))
    assert repeat(process, 7, 3) == PacketOutcome(repeated=14, lost=7)
    assert (dead.expected_transmissions(3), dead.residual(3)) == (3, 1)
    assert (dead.expected_transmissions(None), dead.residual(None)) == (inf, 1)
    with pytest.raises(ValueError, match="never ends"):
        repeat(process, 7, None)
    with pytest.raises(ValueError, match="got 0 tries"):
        repeat(process, 7, 0)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=f"got {value}"):
        IndependentLoss.in_si(rate=value)
    for name in "prhk":
        with pytest.raises(ValueError, match=f"got {value}"):
            GilbertElliottLoss.in_si(**(dict.fromkeys("prhk", 0.5) | {name: value}))


def test_a_chain_that_never_moves_has_no_stationary_state() -> None:
    with pytest.raises(ValueError, match="above 0"):
        GilbertElliottLoss.in_si(p=0.0, r=0.0)
