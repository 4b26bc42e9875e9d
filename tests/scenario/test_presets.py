"""Devices and radios: the figures, presets and what differs from them."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from fedsim.scenario import DEVICES, RADIOS, Device, Radio
from fedsim.scenario.presets import Presettable

EVERY = [(Device, name) for name in DEVICES] + [(Radio, name) for name in RADIOS]

every = pytest.mark.parametrize(("model", "name"), EVERY, ids=[name for _, name in EVERY])


@every
def test_a_preset_gives_every_value_and_its_basis(model: type[Presettable], name: str) -> None:
    preset = model.presets[name]
    assert set(preset.values) == set(model.model_fields) - {"kind"}
    assert name == "ideal" or preset.basis.startswith(("[lit] ", "[meas] ", "[est] "))


@every
def test_a_name_is_a_block_of_that_kind(model: type[Presettable], name: str) -> None:
    made = model.model_validate(name)
    assert made == model.model_validate({"kind": name})
    assert made.kind == name
    assert made == model.model_validate(made)


@every
def test_a_block_replaces_single_values_of_its_preset(model: type[Presettable], name: str) -> None:
    preset = model.model_validate(name).model_dump()
    for field, text in {"speed": "7 Mflop/s", "idle": "7 MW", "up": "7 Mbit/s"}.items():
        if field in preset:
            changed = model.model_validate({"kind": name, field: text}).model_dump()
            assert changed == preset | {field: 7e6}


@every
def test_what_is_written_is_the_same_block(model: type[Presettable], name: str) -> None:
    made = model.model_validate(name)
    assert model.model_validate(made.model_dump(mode="json")) == made


def test_the_ideal_ones_cost_nothing() -> None:
    device, radio = Device.model_validate("ideal"), Radio.model_validate("ideal")
    assert (device.speed, device.active, device.idle) == (math.inf, 0, 0)
    assert (radio.up, radio.down, radio.latency) == (math.inf, math.inf, 0)
    assert (radio.energy_up, radio.energy_down, radio.base) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "gigaflops", "watts"),
    [
        ("pi-4", 11.9, (7.2, 2.3)),
        ("pi-5", 30, (11, 3)),
        ("phone-low", 4, (3.6, 0.3)),
        ("phone-mid", 10, (4.5, 0.35)),
        ("phone-high", 20, (5.5, 0.4)),
    ],
)
def test_the_energy_of_a_task(name: str, gigaflops: float, watts: tuple[float, float]) -> None:
    device = Device.model_validate(name)
    assert 1e12 / device.speed == pytest.approx(1000 / gigaflops)
    assert (device.active, device.idle) == watts


@pytest.mark.parametrize(
    ("name", "up", "down", "round_trip", "sending", "receiving"),
    [  # Mbit/s, Mbit/s, ms; mW while sending and while receiving at those rates
        ("lte", 6, 13, 60, 438.39 * 6 + 1288.04, 51.97 * 13 + 1288.04),
        ("wifi", 20, 30, 10, 283.17 * 20 + 132.86, 137.01 * 30 + 132.86),
        ("ethernet", 940, 940, 1, 500, 500),
    ],
)
def test_the_power_of_a_transfer(
    name: str, up: float, down: float, round_trip: float, sending: float, receiving: float
) -> None:
    radio = Radio.model_validate(name)
    assert (radio.up, radio.down) == (up * 1e6, down * 1e6)
    assert 2 * radio.latency == pytest.approx(round_trip * 1e-3)
    assert radio.energy_up * radio.up + radio.base == pytest.approx(sending * 1e-3)
    assert radio.energy_down * radio.down + radio.base == pytest.approx(receiving * 1e-3)


def test_a_custom_one_gives_every_value() -> None:
    values = {"speed": "1 Gflop/s", "active": "2 W", "idle": "1 W"}
    device = Device.model_validate({"kind": "custom", **values})
    assert (device.speed, device.active, device.idle) == (1e9, 2.0, 1.0)
    with pytest.raises(ValidationError) as caught:
        Device.model_validate({"kind": "custom", "speed": "1 Gflop/s"})
    assert {error["loc"] for error in caught.value.errors()} == {("active",), ("idle",)}


@pytest.mark.parametrize(
    ("block", "place", "words"),
    [
        ("wify", (), "did you mean 'wifi'?"),
        ("custom", ("up",), "required"),
        ({"kind": "wify"}, ("kind",), "did you mean 'wifi'?"),
        ({"kind": None}, ("kind",), "seen nothing"),
        ({"up": "5 Mbit/s"}, ("kind",), "missing"),
        ({"kind": "wifi", "up": 5}, ("up",), "a bare number"),
        ({"kind": "wifi", "upp": "5 Mbit/s"}, ("upp",), "not permitted"),
        (None, (), "seen nothing"),
        (5, (), "seen 5"),
        (["wifi"], (), "seen a list"),
    ],
)
def test_what_is_wrong_with_a_radio(block: Any, place: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Radio.model_validate(block)
    error = caught.value.errors()[0]
    assert error["loc"] == place
    assert words in error["msg"]
