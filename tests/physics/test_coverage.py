"""Coverage levels of NB-IoT: repetitions, power, and the energy of a message by hand."""

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.physics.radios import NarrowbandRadio
from fedsim.physics.radios.coverage import Coverage, open_loop, supply_watts
from tests.tiers import every


def radio(**coverage: str) -> NarrowbandRadio:
    return NarrowbandRadio.model_validate({"kind": "nb-iot-drx", "coverage": coverage})


@every(
    ("loss", "repetitions", "power"),
    [
        (100, 1, -5.0),  # P0 + PL = -105 + 100
        (120, 1, 15.0),
        (128, 1, 23.0),
        (144, 1, 23.0),
        (147, 2, 23.0),  # a doubling is 3.01 dB
        (148, 4, 23.0),
        (154, 16, 23.0),
        (157, 32, 23.0),
        (164, 128, 23.0),
    ],
)
def test_each_3_db_beyond_144_db_double_the_repetitions(
    loss: float, repetitions: int, power: float
) -> None:
    place = Coverage.model_validate({"coupling_loss": f"{loss} dB"})
    assert (place.repetitions, place.power) == (repetitions, power)


@given(st.floats(0, 164))
def test_repetitions_make_up_for_the_loss_and_no_more_than_that(loss: float) -> None:
    place = Coverage.model_validate({"coupling_loss": f"{loss:.12f} dB"})
    beyond = max(place.loss - 144, 0)
    assert place.repetitions * 1.0000001 >= min(10 ** (beyond / 10), 128)
    assert place.repetitions in {2**n for n in range(8)}
    if place.repetitions > 1:
        assert place.repetitions / 2 < 10 ** (beyond / 10)


def test_a_level_is_its_edge() -> None:
    edges = [Coverage(level=level) for level in ("ce0", "ce1", "ce2")]
    assert [edge.loss for edge in edges] == [144, 154, 164]
    assert [edge.repetitions for edge in edges] == [1, 16, 128]
    assert [ceil(log2(edge.repetitions)) for edge in edges] == [0, 4, 7]


def test_power_control_is_that_of_36_213() -> None:
    assert open_loop(-105, 0.8, 100) == -25
    assert open_loop(-105, 1.0, 100, blocks=10) == pytest.approx(5)
    assert open_loop(-105, 1.0, 150, blocks=10) == 23


def test_less_power_saves_the_amplifiers_share() -> None:
    """0.2 W radiated take 0.443 W of 0.792 W; at 13 dBm it is a tenth of them."""
    assert supply_watts(0.792, 13.0, 0.45) == pytest.approx(0.792 - 0.9 * 0.19953 / 0.45, abs=1e-5)
    assert supply_watts(0.3, -40.0, 0.45) == 0.0


@pytest.mark.parametrize(("level", "times"), [("ce0", 1), ("ce1", 16), ("ce2", 128)])
def test_a_message_costs_its_repetitions(level: str, times: int) -> None:
    """By hand: 1000 bits and a header of 40 bytes at 30 kbit/s, at 792 mW, all of it repeated."""
    law = radio(level=level)
    up = law.rates({}).up.constant
    assert up == 30_000 / times
    bits = 1000 + law.packaging.bits(1000)
    assert bits == 1320
    sent = (law.draw.send + law.resting) * bits / up
    assert sent == pytest.approx(0.792 * 0.044 * times)
    assert law.states.stages[-1].wake_time == pytest.approx(0.35 * times)


def test_near_the_cell_a_message_costs_less() -> None:
    near, far = radio(coupling_loss="100 dB"), radio(coupling_loss="144 dB")
    saved = (0.19953 - 10**-0.5 * 1e-3) / 0.45
    assert far.draw.send - near.draw.send == pytest.approx(saved, rel=1e-4)
    assert near.rates({}) == far.rates({})


def test_a_module_without_a_place_is_written_as_before() -> None:
    plain = NarrowbandRadio.model_validate({"kind": "nb-iot-drx"})
    assert "coverage" not in plain.model_dump(mode="json")
    assert plain.draw.send == radio(level="ce0").draw.send
