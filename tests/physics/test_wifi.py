"""Frames of Wi-Fi, and what messages take of a cell's air."""

from fractions import Fraction
from math import ceil, e, inf
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsim.physics.airtime import TURNS, active, air, plan
from fedsim.physics.contention import Contender, waiting
from fedsim.physics.radios.channel import framing
from fedsim.physics.wifi import (
    AIFS,
    BACKOFF,
    BASIC,
    BLOCK,
    HEADERS,
    HIGHEST,
    LONGEST,
    MODULATIONS,
    PREAMBLES,
    SIFS,
    SLOT,
    SUBCARRIERS,
    FrameTiming,
    Standard,
    Wifi,
    modulation_rate,
    subframe,
)
from tests.tiers import every

MEGA = 1e6


@every(
    ("standard", "mcs", "width", "streams", "rate"),
    [
        ("n", 0, 20, 1, 6.5),
        ("n", 7, 20, 1, 65.0),
        ("n", 7, 40, 1, 135.0),
        ("n", 3, 40, 4, 216.0),
        ("ac", 8, 20, 1, 78.0),
        ("ac", 9, 80, 1, 390.0),
        ("ac", 9, 160, 8, 6240.0),
        ("ax", 0, 20, 1, 8.6),
        ("ax", 11, 20, 1, 143.4),
        ("ax", 11, 80, 2, 1201.0),
        ("ax", 11, 160, 8, 9607.8),
    ],
)
def test_rates_are_those_of_the_standards_tables(
    standard: Standard, mcs: int, width: float, streams: int, rate: float
) -> None:
    found = modulation_rate(standard, mcs, width * MEGA, streams) / MEGA
    assert found == pytest.approx(rate, abs=0.05)
    assert found * MEGA <= Wifi(standard=standard, width=f"{width} MHz", streams=streams).fastest


@every(
    ("standard", "mcs", "width", "streams", "frames", "packet", "microseconds"),
    [
        ("n", 7, 20, 1, 28, 1500, 5360.0),
        ("n", 7, 20, 1, 1, 1500, 228.0),
        ("n", 2, 20, 1, 8, 1500, 5108.0),
        ("n", 7, 40, 2, 42, 1500, 1964.0),
        ("ac", 7, 80, 2, 27, 1500, 612.0),
        ("ax", 3, 20, 1, 15, 1500, 5429.6),
        ("ax", 7, 40, 1, 42, 1500, 3063.2),
        ("ax", 7, 40, 1, 1, 60, 57.6),
    ],
)
def test_frames_take_as_long_as_in_ns3(
    standard: Standard,
    mcs: int,
    width: float,
    streams: int,
    frames: int,
    packet: int,
    microseconds: float,
) -> None:
    """Durations that ns-3 3.37 gives the same aggregates; its last frame has no padding."""
    law = Wifi(standard=standard, width=f"{width} MHz", streams=streams)
    timing = law.timing(modulation_rate(standard, mcs, width * MEGA, streams))
    assert timing.duration(frames, packet) * 1e6 == pytest.approx(microseconds, abs=4.1)


def test_answers_go_at_the_highest_basic_rate_that_is_not_faster() -> None:
    law = Wifi(standard="n")
    for mcs, size, microseconds in ((0, 32, 68.0), (2, 32, 44.0), (7, 32, 32.0), (7, 14, 28.0)):
        timing = law.timing(modulation_rate("n", mcs))
        assert timing.control(size) * 1e6 == pytest.approx(microseconds)


@given(
    st.sampled_from(["n", "ac", "ax"]),
    st.floats(1e6, 6e7),
    st.integers(40, 2000),
    st.integers(100, 200_000),
)
def test_an_aggregate_keeps_all_limits(
    standard: Standard, rate: float, packet: int, aggregate: int
) -> None:
    law = Wifi(standard=standard, aggregate=f"{aggregate} B")
    timing = law.timing(rate)
    most = law.most_frames(timing, packet)
    by_size = min(BLOCK, aggregate // subframe(packet))
    assert most == 1 or (most <= by_size and timing.duration(most, packet) <= LONGEST)
    assert most + 1 > by_size or timing.duration(most + 1, packet) > LONGEST


def test_a_width_that_the_standard_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"802\.11n has 20, 40 MHz"):
        Wifi(standard="n", width="80 MHz")
    with pytest.raises(ValidationError, match=r"802\.11ax has 20, 40, 80, 160 MHz"):
        Wifi(width="30 MHz")


def test_nothing_waits_for_the_first_backoff_nor_for_the_last_acknowledgement() -> None:
    law = Wifi(standard="n", transport="udp")
    timing = law.timing(65e6)
    one = plan(law, 8 * 1500, 1500, timing, timing, up=True)
    assert air({one: 1}).terms[one].airtime * one.bits == pytest.approx(228e-6)
    two = plan(law, 2 * 28 * 8 * 1500, 1500, timing, timing, up=True)
    between = SIFS + 32e-6 + AIFS + 7.5 * SLOT  # of two aggregates of 28
    assert air({two: 1}).terms[two].airtime * two.bits == pytest.approx(2 * 5360e-6 + between)


def test_a_message_among_many_takes_its_exchange_and_its_share_of_contention() -> None:
    law = Wifi(standard="n", transport="udp")
    timing = law.timing(65e6)
    one = plan(law, 8 * 1500, 1500, timing, timing, up=True)
    contenders = [Contender(50, 228e-6 + AIFS)]
    cost = waiting(contenders, SLOT, BACKOFF, timing.request).seconds
    taken = 228e-6 + SIFS + 28e-6 + AIFS + cost
    last = SIFS + 28e-6 + AIFS + cost
    assert air({one: 50}).terms[one].airtime * one.bits == pytest.approx(taken - last / 50)


def test_windows_grow_by_a_twentieth_until_they_fill_an_aggregate() -> None:
    """Windows of 10 and 20, then 21, 22, 23, 24, 25, 26 and 28 segments, and then 56."""
    law = Wifi(standard="n")
    timing = law.timing(65e6)  # 28 frames of 1500 bytes in one transmission
    cases = ((1, 1), (10, 1), (11, 2), (30, 2), (31, 3), (51, 3), (52, 4), (171, 8), (199, 9))
    for segments, windows in cases:
        made = plan(law, 8 * 1500 * segments, 1500, timing, timing, up=True)
        assert (made.windows, made.exchanges) == (windows, windows)
    made = plan(law, 8 * 1500 * 255, 1500, timing, timing, up=True)
    assert (made.windows, made.exchanges) == (10, 11)


def test_windows_double_where_aggregates_are_short() -> None:
    law = Wifi(standard="n")
    timing = law.timing(6.5e6)
    most = law.most_frames(timing, 1500)
    assert most < 10
    made = plan(law, 8 * 1500 * 70, 1500, timing, timing, up=True)
    assert (made.windows, made.exchanges) == (3, sum(-(-each // most) for each in (10, 20, 40)))


def test_a_new_connection_has_a_handshake() -> None:
    law = Wifi(standard="n")
    timing = law.timing(65e6)
    kept = plan(Wifi(standard="n", connections="kept"), 8 * 15000, 1500, timing, timing, up=True)
    new = plan(law, 8 * 15000, 1500, timing, timing, up=True)
    assert (kept.handshake, new.handshake) == (0, 2)
    assert new.seconds - kept.seconds == pytest.approx(2 * timing.exchange(1, 60))


@every("stations", [1, 2, 5, 30])
@every("window", [1.0, 2.5, 12.0])
def test_active_stations_are_those_of_the_chain(stations: int, window: float) -> None:
    """Its stationary distribution, as the eigenvector of the whole matrix of its steps."""
    steps = np.zeros((stations + 1, stations + 1))
    for k in range(stations + 1):
        point = k < stations
        if point:
            steps[k, k + 1] = 1.0 / (k + 1)
        if k:
            steps[k, k - 1] = k / (k + point) / window
        steps[k, k] = 1.0 - steps[k].sum()
    values, vectors = np.linalg.eig(steps.T)
    shares = np.real(vectors[:, np.argmin(abs(values - 1.0))])
    shares /= shares.sum()
    sending, answering = active(stations, window)
    assert sending == pytest.approx(shares @ np.arange(stations + 1))
    assert answering == pytest.approx(1.0 - shares[-1])


def test_stations_of_tcp_that_contend_do_not_grow_with_their_number() -> None:
    """As Bruno, Conti and Gregori found: the access point has the answers of all."""
    assert active(1000, 1.0)[0] == pytest.approx(active(20, 1.0)[0])
    assert active(1000, 1.0)[0] == pytest.approx(1.5, abs=0.01)


def test_uniform_backoffs_that_fit_into_another_one() -> None:
    """TURNS is 1 and their mean number."""
    rng = np.random.default_rng(1)
    sums, other = np.cumsum(rng.random((40_000, 12)), axis=1), rng.random((40_000, 1))
    assert 1.0 + (sums < other).sum(axis=1).mean() == pytest.approx(TURNS, abs=0.01)
    assert pytest.approx(e - 1.0) == TURNS


@given(st.integers(1, 5_000_000), st.booleans(), st.sampled_from(["tcp", "udp"]))
def test_a_message_is_on_the_air_for_longer_than_its_bits_take(
    size: int, up: bool, transport: Literal["tcp", "udp"]
) -> None:
    law = Wifi(standard="n", transport=transport)
    timing = law.timing(65e6)
    made = plan(law, 8 * size, 1500, timing, timing, up=up)
    assert made.sent > 8 * size / 65e6
    assert made.exchanges >= ceil(size / 1500 / 28)
    assert air({made: 1}).terms[made].airtime * 8 * size > 0.999 * made.sent
    assert air({made: 9}).terms[made].airtime * 8 * size > made.seconds > made.sent


@pytest.mark.parametrize("standard", ["n", "ac", "ax"])
def test_training_fields_are_one_or_the_even_number_above_the_streams(standard: Standard) -> None:
    whole, each, _ = PREAMBLES[standard]
    for streams in range(1, 9):
        preamble = Wifi(standard=standard, streams=streams).timing(1e6).preamble
        fields = 1 if streams == 1 else 2 * -(-streams // 2)
        assert preamble == pytest.approx(whole + fields * each)


@pytest.mark.parametrize(
    ("standard", "width", "fastest"), [("n", 20, 72.2), ("ac", 80, 433.3), ("ax", 20, 143.4)]
)
def test_only_n_and_ac_have_the_short_guard_interval(
    standard: Standard, width: int, fastest: float
) -> None:
    law = Wifi(standard=standard, width=f"{width} MHz")
    assert law.fastest / MEGA == pytest.approx(fastest, abs=0.05)


@every(
    ("rate", "streams", "basic"), [(12, 1, 12), (11.9, 1, 6), (24, 1, 24), (26, 2, 12), (48, 2, 24)]
)
def test_a_response_goes_at_most_at_the_rate_of_one_stream_of_20_mhz(
    rate: float, streams: int, basic: float
) -> None:
    assert Wifi(standard="n", streams=streams).timing(rate * MEGA).basic == basic * MEGA


@pytest.mark.parametrize("standard", ["n", "ac", "ax"])
def test_the_rate_of_a_response_is_found_from_that_of_any_width_and_number_of_streams(
    standard: Standard,
) -> None:
    """A rate that is a basic one a stream of 20 MHz is not taken for less by rounding."""
    for width, carriers in SUBCARRIERS[standard].items():
        for streams in range(1, 9):
            law = Wifi(standard=standard, width=f"{width / MEGA} MHz", streams=streams)
            for basic in BASIC:
                rate = basic / SUBCARRIERS[standard][20e6] * carriers * streams
                assert law.timing(rate).basic == basic
                assert law.timing(rate * (1.0 - 1e-6)).basic == max(basic / 2, BASIC[0])


def test_a_missing_acknowledgement_is_asked_for_in_the_times_of_the_standard() -> None:
    request = Wifi(standard="n").timing(65 * MEGA).request  # at 24 Mbit/s, 96 bits a symbol
    asked = answer = 20 + 4 * 3
    assert request.success * MEGA == pytest.approx(asked + 16 + answer + 43)
    assert request.collision * MEGA == pytest.approx(asked + 43)


@pytest.mark.parametrize("standard", ["n", "ac", "ax"])
def test_symbols_are_counted_as_in_exact_arithmetic(standard: Standard) -> None:
    law, width = Wifi(standard=standard), 20e6
    for mcs in range(HIGHEST[standard] + 1):
        bits, code = MODULATIONS[mcs]
        exact = SUBCARRIERS[standard][width] * bits * Fraction(code).limit_denominator(6)
        timing = law.timing(modulation_rate(standard, mcs))
        for packet in range(1, 1500):
            symbols = -(-(22 + 8 * (packet + HEADERS)) // exact)
            expected = timing.preamble + timing.symbol * int(symbols)
            assert timing.duration(1, packet) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("standard", "symbol"), [("n", 40), ("ax", 136)])
def test_symbols_of_rates_as_they_are_written_are_counted_as_in_whole_numbers(
    standard: Standard, symbol: int
) -> None:
    """Rates in tenths of 1 Mbit/s, symbols in tenths of a microsecond: a hundredth of a bit."""
    for tenths in range(10, 150):
        timing = Wifi(standard=standard).timing(tenths * 1e5)
        for packet in range(1, 150):
            symbols = -(-100 * (22 + 8 * (packet + HEADERS)) // (tenths * symbol))
            expected = timing.preamble + timing.symbol * symbols
            assert abs(timing.duration(1, packet) - expected) < 1e-12


def test_a_transmission_may_be_as_long_as_the_longest() -> None:
    timing = FrameTiming(preamble=LONGEST, symbol=4e-6, rate=inf, basic=6e6)
    assert timing.duration(BLOCK, 100) == LONGEST
    assert Wifi().most_frames(timing, 100) == BLOCK


def test_headers_are_those_of_the_transport_where_a_radio_states_none() -> None:
    for transport, headers in (("tcp", 52), ("udp", 28)):
        law = Wifi.model_validate({"transport": transport})
        assert law.packaging(framing(0, 1000)) == framing(headers, 1000)
        assert law.packaging(framing(7, 1000)) == framing(7, 1000)
