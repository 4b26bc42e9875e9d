"""Bianchi's law of contention: his published figures, asymptotics, and dice."""

from collections.abc import Sequence
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.physics.contention import (
    Attempt,
    Backoff,
    BlockRequest,
    Contender,
    fixed_point,
    transmits,
    waiting,
)
from tests.tiers import every

# Bianchi's table II: FHSS at 1 Mbit/s, in microseconds, which are bits.
PAYLOAD, HEADERS, ACK, RTS, CTS = 8184, 272 + 128, 112 + 128, 160 + 128, 112 + 128
SIFS, DIFS, DELAY, SLOT = 28, 128, 1, 50
SUCCESS = HEADERS + PAYLOAD + SIFS + DELAY + ACK + DIFS + DELAY
COLLISION = HEADERS + PAYLOAD + DIFS + DELAY
RTS_SUCCESS = RTS + SIFS + DELAY + CTS + SIFS + DELAY + SUCCESS
RTS_COLLISION = RTS + DIFS + DELAY


def throughput(stations: float, backoff: Backoff, success: float, collision: float) -> float:
    """Return the share of the time in which payload is sent."""
    cost = waiting([Contender(stations, collision)], SLOT, backoff)
    return PAYLOAD / (success + cost.seconds)


@pytest.mark.parametrize(
    ("success", "collision", "root", "published"),
    [(SUCCESS, COLLISION, 9.334, 0.8237), (RTS_SUCCESS, RTS_COLLISION, 2.042, 0.8367)],
)
def test_the_largest_throughput_is_the_published_one(
    success: float, collision: float, root: float, published: float
) -> None:
    """Bianchi's equation 28: whatever the number of stations, with the best window for it."""
    k = sqrt(collision / SLOT / 2)
    assert k == pytest.approx(root, abs=1e-3)
    closed = PAYLOAD / (success + SLOT * k + collision * (k * (exp(1 / k) - 1) - 1))
    for stations in (20, 50):
        best = max(
            throughput(stations, Backoff(window, 0), success, collision)
            for window in range(8, 2000, 4)
        )
        assert best == pytest.approx(closed, rel=4e-3)
        assert best == pytest.approx(published, abs=3e-3)


def test_a_station_alone_waits_for_half_a_window() -> None:
    for window in (2, 16, 32):
        assert fixed_point(1.0, Backoff(window, 5)) == Attempt(2 / (window + 1), 0.0)
        cost = waiting([Contender(1, 1e-3)], 9e-6, Backoff(window, 5))
        assert cost.seconds == pytest.approx((window - 1) / 2 * 9e-6)
        assert cost.attempts == 1.0


def test_a_constant_window_does_not_depend_on_the_others() -> None:
    """Bianchi's equation 8."""
    for stations in (1, 5, 50):
        assert fixed_point(stations, Backoff(32, 0)).transmits == pytest.approx(2 / 33)


def test_many_stations_send_as_from_the_largest_window() -> None:
    backoff = Backoff(16, 6)
    tau, collides = fixed_point(1e6, backoff)
    assert collides == pytest.approx(1.0)
    assert tau == pytest.approx(2 / (16 * 2**6 + 1))


def test_equation_seven_as_it_was_written() -> None:
    """Away from p = 1/2, where it is 0/0."""
    for p in (0.1, 0.3, 0.6, 0.9):
        for window, stages in ((32, 3), (32, 5), (128, 3)):
            both = (1 - 2 * p) * (window + 1) + p * window * (1 - (2 * p) ** stages)
            expected = 2 * (1 - 2 * p) / both
            assert transmits(p, Backoff(window, stages)) == pytest.approx(expected)


@given(st.floats(1, 500), st.sampled_from([8, 16, 32, 128]), st.integers(0, 7))
def test_the_two_probabilities_agree(stations: float, window: int, stages: int) -> None:
    backoff = Backoff(window, stages)
    tau, collides = fixed_point(stations, backoff)
    assert collides == pytest.approx(1 - (1 - tau) ** (stations - 1), abs=1e-9)
    assert tau == pytest.approx(transmits(collides, backoff), abs=1e-12)


@given(st.integers(1, 40), st.integers(2, 5))
def test_groups_of_equal_stations_are_one_group(stations: int, parts: int) -> None:
    backoff, ask = Backoff(16, 6), BlockRequest(1e-4, 5e-5)
    for request in (None, ask):
        whole = waiting([Contender(stations, 2e-3)], 9e-6, backoff, request)
        pieces = [Contender(stations / parts, 2e-3)] * parts
        split = waiting(pieces, 9e-6, backoff, request)
        assert split.seconds == pytest.approx(whole.seconds)


def dice(
    collisions: Sequence[float],
    success: Sequence[float],
    slot: float,
    backoff: Backoff,
    request: BlockRequest | None,
    turns: int,
) -> np.ndarray:
    """Return when each of some turns is over, and whose it was, by throwing dice slot by slot."""
    rng, n = np.random.default_rng(4), len(collisions)
    stage, asking = np.zeros(n, int), np.zeros(n, bool)
    counters, now = rng.integers(0, backoff.window, n), 0.0
    found = list[tuple[float, int]]()
    while len(found) < turns:
        idle = counters.min()
        now += idle * slot
        counters -= idle
        senders = np.flatnonzero(counters == 0)
        counters -= 1  # Bianchi's chain counts a busy slot, too
        if len(senders) == 1:
            one = int(senders[0])
            now += request.success if request and asking[one] else success[one]
            if not asking[one]:
                found.append((now, one))
            stage[one], asking[one] = 0, False
        else:
            now += max(
                request.collision if request and asking[each] else collisions[each]
                for each in senders.tolist()
            )
            stage[senders] = np.minimum(stage[senders] + 1, backoff.stages)
            asking[senders] = request is not None
        counters[senders] = rng.integers(0, backoff.window << stage[senders])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("window", "stages"), [(32, 3), (32, 5), (128, 3)])
@pytest.mark.parametrize("stations", [5, 10, 20, 50])
def test_the_throughput_of_bianchis_figures_is_that_of_dice(
    window: int, stages: int, stations: int
) -> None:
    """The cases of his figure 6; he states that model and simulation are within 1 %."""
    backoff = Backoff(window, stages)
    found = dice([COLLISION] * stations, [SUCCESS] * stations, SLOT, backoff, None, 6000)
    measured = PAYLOAD * len(found) / found[-1, 0]
    assert throughput(stations, backoff, SUCCESS, COLLISION) == pytest.approx(measured, rel=0.015)


@pytest.mark.slow
@pytest.mark.parametrize(("ask", "error"), [(None, 0.03), (BlockRequest(150e-6, 80e-6), 0.06)])
@pytest.mark.parametrize("stations", [3, 8, 24])
def test_stations_of_two_rates_wait_as_dice_say(
    stations: int, ask: BlockRequest | None, error: float
) -> None:
    """A third of them sends ten times as long; all have the same share of turns.

    With requests the law takes what stations send to be independent, which it is not quite: those
    that collide have a request to send at the same time.
    """
    backoff, slow = Backoff(16, 6), stations // 3
    collisions = [5e-3] * slow + [0.5e-3] * (stations - slow)
    success = [each + 1e-4 for each in collisions]
    found = dice(collisions, success, 9e-6, backoff, ask, 8000)
    groups = [Contender(slow, 5e-3), Contender(stations - slow, 0.5e-3)]
    cost = waiting(groups, 9e-6, backoff, ask)
    expected = cost.seconds + np.mean(success)
    assert expected == pytest.approx(found[-1, 0] / len(found), rel=error)
    turns = np.bincount(found[:, 1].astype(int), minlength=stations)
    assert turns[:slow].mean() == pytest.approx(turns[slow:].mean(), rel=0.2)


@every("stations", [1.0, 2.0, 7.5, 40.0])
@every("asks", [False, True])
def test_every_slot_is_empty_a_success_a_request_or_a_collision(
    stations: float, *, asks: bool
) -> None:
    """Where each of these takes one second, a success comes every 1 / P of a second."""
    backoff = Backoff(16, 6)
    request = BlockRequest(1.0, 1.0) if asks else None
    tau, collides = fixed_point(stations, backoff)
    sent = tau * (1.0 - collides) if asks else tau
    chance = stations * sent * (1.0 - tau) ** (stations - 1.0)
    cost = waiting([Contender(stations, 1.0)], 1.0, backoff, request)
    assert cost.seconds == pytest.approx(1.0 / chance - 1.0)
    assert cost.attempts == pytest.approx(1.0 / (1.0 - collides))


def test_fewer_than_one_station_on_average_is_one_alone_that_never_collides() -> None:
    cost = waiting([Contender(0.2, 1e-3), Contender(0.3, 2e-3)], 9e-6, Backoff(16, 6))
    assert cost.attempts == 1.0
