"""Channels: ergodic capacity in closed form, and draws that do not depend on who asks."""

from dataclasses import replace
from math import exp, log, log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import exp1

from fedsim.core.streams import stream
from fedsim.physics.radios import FirstOrderRadio, Shannon
from tests.tiers import every

CELL = Shannon(bandwidth=10e6, power=0.2, distance=1000.0)
UNCAPPED = replace(CELL, shadowing_db=0.0, efficiency_cap=1e9)


def mean_of(link: Shannon, rounds: int = 40_000) -> tuple[float, float]:
    """Return the mean efficiency of a link over many rounds, bit/s/Hz, and its standard error."""
    fading = link.draw_channel(np.random.default_rng(7))
    rates = np.array([fading.rate(r) for r in range(rounds)]) / link.bandwidth
    return float(rates.mean()), float(rates.std() / np.sqrt(rounds))


def test_the_link_budget_of_a_cell() -> None:
    # 23.01 dBm - 128.1 dB - (-174 + 70) dBm
    assert 10 * np.log10(CELL.mean_snr()) == pytest.approx(23.0103 - 128.1 + 104, abs=1e-3)
    assert CELL.path_loss_db == pytest.approx(128.1)
    assert replace(CELL, distance=100.0).path_loss_db == pytest.approx(128.1 - 37.6)
    assert CELL.gain() / CELL.gain(10.0) == pytest.approx(10)
    assert CELL.rate(0.0) == 0
    assert CELL.rate(1.0) == pytest.approx(10e6 * log2(1 + CELL.mean_snr()))


@pytest.mark.parametrize("distance", [1e7, 1e9, 1e24])
def test_a_signal_below_the_resolution_of_one_has_a_rate(distance: float) -> None:
    link = replace(UNCAPPED, distance=distance)
    assert 0 < link.mean_snr() < 1e-7  # where log2(1 + snr) = snr/ln 2
    assert link.rate(1.0) == pytest.approx(link.bandwidth * link.mean_snr() / log(2), rel=1e-7)


@pytest.mark.parametrize("distance", [200.0, 1000.0, 3000.0])
def test_the_mean_rate_is_the_ergodic_capacity(distance: float) -> None:
    link = replace(UNCAPPED, distance=distance)
    snr = link.mean_snr()
    capacity = exp(1 / snr) * exp1(1 / snr) / log(2)
    mean, error = mean_of(link)
    assert mean == pytest.approx(capacity, abs=4 * error)


def test_the_mean_rate_under_a_cap_and_an_attenuation() -> None:
    link = replace(UNCAPPED, distance=400.0, attenuation=0.6, efficiency_cap=4.4)
    snr = link.mean_snr()
    # E[min(alpha log2(1 + snr h), c)] is the integral of P(alpha log2(1 + snr h) > x) up to c.
    expected, _ = quad(lambda x: exp(-(2 ** (x / 0.6) - 1) / snr), 0, 4.4)
    mean, error = mean_of(link)
    assert mean == pytest.approx(expected, abs=4 * error)


@given(st.floats(0, 1e6), st.floats(-40, 40), st.floats(1, 1e5))
def test_no_rate_is_above_the_peak(h: float, shadow: float, distance: float) -> None:
    link = replace(CELL, distance=distance)
    assert 0 <= link.rate(h, shadow) <= link.peak == 44e6


def test_the_cap_of_lte_is_its_attenuated_shannon_limit() -> None:
    # The best signals of the report, 22 dB down and 15 dB up, reach the caps that it gives.
    assert 0.6 * log2(1 + 10**2.2) == pytest.approx(4.4, abs=0.02)
    assert 0.4 * log2(1 + 10**1.5) == pytest.approx(2.0, abs=0.02)


def test_shadows_differ_from_client_to_client_and_stay() -> None:
    shadows = [CELL.draw_channel(stream(1, "channel", client)).shadow_db for client in range(4000)]
    assert np.mean(shadows) == pytest.approx(0, abs=4 * 8 / np.sqrt(4000))
    assert np.std(shadows) == pytest.approx(8, rel=4 / np.sqrt(2 * 4000))
    faded = CELL.draw_channel(stream(1, "channel", 0))
    before = faded.shadow_db
    faded.rate(10)
    assert faded.shadow_db == before


@given(st.sets(st.integers(0, 300), min_size=1), st.integers(0, 5))
def test_a_round_has_its_rate_whichever_others_were_asked_for(rounds: set[int], seed: int) -> None:
    everything, some = (UNCAPPED.draw_channel(np.random.default_rng(seed)) for _ in range(2))
    rates = [everything.rate(r) for r in range(301)]
    for r in sorted(rounds):
        assert some.rate(r) == rates[r]
        assert some.rate(r) == rates[r]


def test_what_has_passed_is_not_kept() -> None:
    fading = CELL.draw_channel(np.random.default_rng(0))
    fading.rate(5)
    with pytest.raises(ValueError, match="round 4 after round 5"):
        fading.rate(4)
    with pytest.raises(ValueError, match="round -1"):
        CELL.draw_channel(np.random.default_rng(0)).rate(-1)


def test_a_message_of_a_round_that_has_passed_meets_the_channel_as_it_is() -> None:
    # Of two neighbours one may be a round ahead, and be heard first.
    fading = CELL.draw_channel(np.random.default_rng(0))
    ahead, behind = fading.terms(8, 8, 3), fading.terms(8, 8, 2)
    assert behind == ahead
    assert fading.rate(4) != ahead.cap


def test_both_directions_of_one_stream_fade_together() -> None:
    up = UNCAPPED.draw_channel(stream(3, "channel", 0))
    down = replace(UNCAPPED, power=20.0).draw_channel(stream(3, "channel", 0))
    snr_up, snr_down = (
        np.array([2 ** (fading.rate(r) / UNCAPPED.bandwidth) - 1 for r in range(50)])
        for fading in (up, down)
    )
    assert snr_down / snr_up == pytest.approx(100)


def test_first_order_energies() -> None:
    def energies(**figures: float) -> tuple[float, float]:
        draw = FirstOrderRadio.in_si(up=1.0, down=1.0, **figures).draw
        return draw.energy_up, draw.energy_down

    up, down = energies(distance=100.0)
    assert up == pytest.approx(1.05e-6)
    assert down == 50e-9
    assert energies(distance=1e-20) == (50e-9, 50e-9)
    assert energies(distance=10.0, electronics=0.0, amplifier=2.0) == (200.0, 0.0)


@every("name", ["bandwidth", "power", "distance", "efficiency_cap", "attenuation", "shadowing_db"])
def test_what_is_no_link_is_refused(name: str) -> None:
    changed: dict[str, Any] = {name: -1.0}
    with pytest.raises(ValueError, match=rf"{name} .*got -1\.0"):
        replace(CELL, **changed)
