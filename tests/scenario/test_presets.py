"""Devices and radios: the figures, presets and what differs from them."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from fedsim.core.blocks.presets import Presettable
from fedsim.physics.devices import DEVICES, Device
from fedsim.physics.radios import (
    CELLULAR,
    LORA,
    NB_IOT,
    RADIOS,
    LoRaRadio,
    NarrowbandRadio,
    Radio,
    StagedRadio,
)

TABLES: dict[type[Presettable], Any] = {
    Device: DEVICES,
    Radio: RADIOS,
    LoRaRadio: LORA,
    NarrowbandRadio: NB_IOT,
    StagedRadio: CELLULAR,
}
EVERY = [(model, name) for model, table in TABLES.items() for name in table]

every = pytest.mark.parametrize(("model", "name"), EVERY, ids=[name for _, name in EVERY])


@every
def test_a_preset_gives_every_value_that_has_no_default(
    model: type[Presettable], name: str
) -> None:
    preset = model.presets[name]
    fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
    needed = {name for name, field in fields.items() if field.is_required()}
    assert needed <= set(preset.values) <= set(fields)
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
    for field, text in {"speed": "7 Mflop/s", "active": "7 MW", "up": "7 Mbit/s"}.items():
        if preset.get(field) is not None:
            changed = model.model_validate({"kind": name, field: text}).model_dump()
            assert changed == preset | {field: 7e6}


@every
def test_a_text_in_per_cent_is_a_share_of_the_preset(model: type[Presettable], name: str) -> None:
    preset = model.model_validate(name).model_dump()
    for field, written in model.presets[name].values.items():
        if isinstance(written, int) or not math.isfinite(preset[field]):
            continue  # "unlimited" has no share, and a spreading factor no fraction
        share = {"kind": name, field: "150 %"}
        if str(written).endswith("%"):  # a share itself
            with pytest.raises(ValidationError, match=r"150 %"):
                model.model_validate(share)
            continue
        try:
            scaled = model.model_validate(share).model_dump()
        except ValidationError as error:  # a rule of the block, with the figure worked out
            assert "150 %" not in str(error)  # noqa: PT017
            continue
        assert scaled == preset | {field: pytest.approx(1.5 * preset[field], rel=1e-15)}


def test_a_share_of_no_figure_is_refused() -> None:
    for kind in ("ideal", "custom"):  # an unlimited speed, and none
        with pytest.raises(ValidationError, match='got "10 %", a share; give a computing speed'):
            Device.model_validate({"kind": kind, "speed": "10 %"})


@every
def test_what_is_written_is_the_same_block(model: type[Presettable], name: str) -> None:
    made = model.model_validate(name)
    assert model.model_validate(made.model_dump(mode="json")) == made


def test_the_ideal_ones_cost_nothing() -> None:
    device, radio = Device.model_validate("ideal"), Radio.model_validate("ideal")
    assert (device.speed, device.active, device.idle) == (math.inf, 0, 0)
    assert (radio.up, radio.down, radio.latency) == (math.inf, math.inf, 0)
    assert (radio.energy_up, radio.energy_down, radio.base) == (0, 0, 0)


def test_a_custom_one_gives_every_value() -> None:
    values = {"speed": "1 Gflop/s", "active": "2 W", "idle": "1 W"}
    device = Device.model_validate({"kind": "custom", **values})
    assert (device.speed, device.active, device.idle) == (1e9, 2.0, 1.0)
    with pytest.raises(ValidationError) as caught:
        Device.model_validate({"kind": "custom", "speed": "1 Gflop/s"})
    assert {error["loc"] for error in caught.value.errors()} == {("idle",)}
    with pytest.raises(ValidationError) as caught:
        Device.model_validate({"kind": "custom", "speed": "1 Gflop/s", "idle": "1 W"})
    assert {error["loc"] for error in caught.value.errors()} == {("active",)}


@pytest.mark.parametrize(
    ("block", "place", "words"),
    [
        ("wify", (), "did you mean 'wifi'?"),
        ("custom", ("up",), "required"),
        ({"kind": "wify"}, ("kind",), "did you mean 'wifi'?"),
        ({"kind": None}, ("kind",), "got nothing"),
        ({"up": "5 Mbit/s"}, ("kind",), "missing"),
        ({"kind": "wifi", "up": 5}, ("up",), "a bare number"),
        ({"kind": "wifi", "upp": "5 Mbit/s"}, ("upp",), "not permitted"),
        (None, (), "got nothing"),
        (5, (), "got 5"),
        (["wifi"], (), "got a list"),
    ],
)
def test_what_is_wrong_with_a_radio(block: Any, place: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Radio.model_validate(block)
    error = caught.value.errors()[0]
    assert error["loc"] == place
    assert words in error["msg"]
