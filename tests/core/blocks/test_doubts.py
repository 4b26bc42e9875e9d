"""Doubts of presets: what can be one, and that every one of ours is."""

from typing import Any

from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.core.blocks.presets import Citation, Doubt, Preset, Presettable, faults_of_doubts
from fedsim.physics import sources
from fedsim.physics.carbon import COUNTRIES, GridCarbon
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
from tests.tiers import every

SOURCE = Citation("A. Author", "A title", 2020, "doi 10.1000/1")
TABLES: dict[type[Presettable], Any] = {
    Device: DEVICES,
    Radio: RADIOS,
    LoRaRadio: LORA,
    NarrowbandRadio: NB_IOT,
    StagedRadio: CELLULAR,
    GridCarbon: COUNTRIES,
}
EVERY = [(model, name) for model, table in TABLES.items() for name in table]


@every(("model", "name"), EVERY)
def test_the_doubts_of_a_preset_are_sound(model: type[Presettable], name: str) -> None:
    assert not list(faults_of_doubts(model, name))


CHOICES = {
    "packet",  # of the largest unit of the link
    "spreading",  # of the modem's setting
    "paging_cycle",  # of what the device asks for
    "paged",
    "tau",
}
NOTHING = ("0 W", "0 J/bit", "0 s", "unlimited", "mains")


@every(("model", "name"), EVERY)
def test_a_figure_that_is_no_definition_is_in_doubt(model: type[Presettable], name: str) -> None:
    preset = model.presets[name]
    figures = {key for key, value in preset.values.items() if value not in NOTHING} - CHOICES
    assert figures <= set(preset.doubts)


@every(("model", "name"), EVERY)
def test_a_value_is_well_within_its_interval_or_says_why_not(
    model: type[Presettable], name: str
) -> None:
    """Within: a tenth of the probability is beyond it on either side at the least."""
    block = model.model_validate({"kind": name})
    for field, doubt in model.presets[name].doubts.items():
        written = block.model_dump(mode="json")
        low, value, high = (
            float(getattr(model.model_validate({**written, field: figure}), field))
            for figure in (doubt.low, written[field], doubt.high)
        )
        key = ConstantKey((model.__name__, name, field))
        constant = UncertainConstant(key, value, low, high, "", doubt.basis, "")
        near = not 0.1 <= constant.share(value) <= 0.9
        assert near is bool(doubt.aside), (name, field, constant.share(value), doubt.aside)


def test_nine_figures_of_ten_are_measured_or_of_the_literature() -> None:
    bases = [doubt.basis for model, name in EVERY for doubt in model.presets[name].doubts.values()]
    assert len(bases) > 100
    assert bases.count("est") <= 0.1 * len(bases)


def test_every_source_is_in_the_list_and_has_figures() -> None:
    every = {doubt.source for model, name in EVERY for doubt in model.presets[name].doubts.values()}
    listed = {each for each in vars(sources).values() if isinstance(each, Citation)}
    assert every == listed
    assert len({source.short for source in every}) == len(every)


def faults(**doubts: Doubt) -> list[str]:
    values = {"speed": "1 Gflop/s", "active": "5 W", "idle": "1 W", "battery": "mains"}
    return list(faults_of_doubts(Device, "custom", Preset("[est] made", values, doubts)))


def test_a_sound_doubt_has_no_faults() -> None:
    assert not faults(active=Doubt("4 W", "7000 mW", "est", SOURCE))
    assert not faults(active=Doubt("5 W", "5 W", "lit", SOURCE))  # an interval of one point
    assert not faults(battery=Doubt("10 Wh", "mains", "est", SOURCE))


@every(
    ("field", "low", "high", "words"),
    [
        ("active", "6 W", "7 W", "does not contain the value, 5 W; give low <= value <= high"),
        ("active", "7 W", "4 W", "does not contain the value"),
        ("active", "4 W", "4.9 W", "does not contain the value"),
        ("active", "4", "7 W", "a number without a unit"),
        ("active", 4, "7 W", "a bare number"),
        ("active", "4 Wh", "7 W", "give a power"),
        ("active", "0.5 W", "7 W", "less than idle"),
        ("speed", "0 flop/s", "2 Gflop/s", "above 0"),
        ("speeds", "1 Gflop/s", "2 Gflop/s", "no field of the block"),
        ("slowdown", "none", "none", "no figure"),
    ],
)
def test_what_is_wrong_with_an_interval(
    field: str, low: str | float, high: str | float, words: str
) -> None:
    found = faults(**{field: Doubt(low, high, "est", SOURCE)})
    assert len(found) == 1
    assert found[0].startswith(f"custom: {field}: ")
    assert words in found[0]


def test_two_intervals_that_exclude_each_other() -> None:
    doubts = {
        "active": Doubt("2 W", "7 W", "est", SOURCE),
        "idle": Doubt("0.5 W", "3 W", "est", SOURCE),
    }
    (found,) = faults(**doubts)
    assert "active 2 W and idle 3 W cannot be combined" in found
    assert not faults(active=doubts["active"], idle=Doubt("0.5 W", "2 W", "est", SOURCE))


@every(
    ("source", "words"),
    [
        (SOURCE._replace(authors=" "), "no authors"),
        (SOURCE._replace(title=""), "no title"),
        (SOURCE._replace(where=""), "no where"),
        (SOURCE._replace(year=20), "the year 20"),
    ],
)
def test_a_source_that_cannot_be_found(source: Citation, words: str) -> None:
    (found,) = faults(active=Doubt("4 W", "7 W", "lit", source))
    assert words in found


def test_a_basis_that_is_none() -> None:
    basis: Any = "guess"
    (found,) = faults(active=Doubt("4 W", "7 W", basis, SOURCE))
    assert "give one of meas, lit, est" in found
