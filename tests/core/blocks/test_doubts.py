"""Doubts of presets: what can be one, and that every one of ours is."""

from itertools import combinations, product
from typing import Any, get_args

from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.core.blocks.presets import Basis, Citation, Presettable
from fedsim.physics import sources
from fedsim.physics.carbon import COUNTRIES, GridCarbon
from fedsim.physics.devices import DEVICES, Device
from fedsim.physics.infrastructure import ACCESS, Infrastructure
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

TABLES: dict[type[Presettable], Any] = {
    Device: DEVICES,
    Radio: RADIOS,
    LoRaRadio: LORA,
    NarrowbandRadio: NB_IOT,
    StagedRadio: CELLULAR,
    GridCarbon: COUNTRIES,
    Infrastructure: ACCESS,
}
EVERY = [(model, name) for model, table in TABLES.items() for name in table]


@every(("model", "name"), EVERY)
def test_the_doubts_of_a_preset_are_sound(model: type[Presettable], name: str) -> None:
    """Every end of an interval is possible, also beside every end of another one."""
    preset = model.presets[name]
    written = {**preset.values, "kind": name}
    for field, doubt in preset.doubts.items():
        assert doubt.basis in get_args(Basis)
        assert all(map(str.strip, (doubt.source.authors, doubt.source.title, doubt.source.where)))
        assert 1900 < doubt.source.year < 2100
        low, value, high = (
            getattr(model.model_validate({**written, **end}), field)
            for end in ({field: doubt.low}, {}, {field: doubt.high})
        )
        assert low <= value <= high, field
    for one, other in combinations(preset.doubts, 2):
        for first, second in product(preset.doubts[one][:2], preset.doubts[other][:2]):
            model.model_validate({**written, one: first, other: second})


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
