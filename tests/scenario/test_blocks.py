"""Blocks of every kind: read, written again, described by the schema; and refused."""

from typing import Any

import jsonschema
import pytest

from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.spec import Spec
from fedsim.physics.availability import AVAILABILITY
from fedsim.physics.batteries import CHARGING
from fedsim.physics.carbon import CARBON
from fedsim.physics.devices import Device
from fedsim.physics.networks import NETWORKS
from fedsim.physics.packet_loss import PACKET_LOSSES
from fedsim.physics.radios import LORA, RADIO_KINDS
from fedsim.physics.radios.traces import TRACES
from fedsim.physics.slowdowns import SLOWDOWNS
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.silence import SILENCES
from fedsim.scenario import (
    dump,
    load,
)
from fedsim.scenario.located import Origin
from fedsim.scenario.yaml import read_text
from fedsim.wire import COMPRESSORS
from tests.scenario.blocks import CYCLES, GOOD, TOP, battery, group, wire
from tests.scenario.examples import faults, least, made, the_schema
from tests.scenario.wrong_blocks import CONFLICTS, WRONG_BLOCKS
from tests.tiers import every


def said(part: Any, key: str) -> set[str]:
    """Return all texts that stand at a key anywhere in a piece of data."""
    if isinstance(part, dict):
        here = {part[key]} if isinstance(part.get(key), str) else set()
        return here.union(*(said(inner, key) for inner in part.values()))
    return set().union(*(said(inner, key) for inner in part)) if isinstance(part, list) else set()


def plain(text: str) -> Any:
    return read_text(text, lambda line: Origin("f", line))[0].plain()


def test_the_examples_name_every_kind() -> None:
    written = [made(**blocks).model_dump(mode="json") for blocks in GOOD.values()]
    models: tuple[type[Spec], ...]
    models = (*AVAILABILITY, *CARBON, *CHARGING, *COMPRESSORS, *PACKET_LOSSES, *PARTICIPATION,
              *RADIO_KINDS, *SILENCES, *SLOWDOWNS, *TRACES)  # fmt: skip
    assert {kind for model in models for kind in kinds_of(model)} <= said(written, "kind")
    topologies = {kind for model in NETWORKS for kind in kinds_of(model, "topology")}
    assert topologies == said(written, "topology")


@pytest.mark.slow
@every("name", GOOD)
def test_what_is_right_is_written_with_every_default_and_reads_back(name: str) -> None:
    scenario = made(**GOOD[name])
    again = load(plain(dump(scenario))).variants[0].scenario
    assert again == scenario
    assert dump(again) == dump(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD)
def test_the_schema_takes_what_is_right(name: str) -> None:
    validator = jsonschema.Draft202012Validator(the_schema())
    assert validator.is_valid(least(**GOOD[name]))
    assert validator.is_valid(plain(dump(made(**GOOD[name]))))
    as_variant = least() | {"variants": {"v": GOOD[name]}}
    assert validator.is_valid(as_variant)


@every(("blocks", "key", "words"), [*WRONG_BLOCKS, *CONFLICTS])
def test_what_is_wrong_is_said(blocks: dict[str, Any], key: str, words: list[str]) -> None:
    found = faults(least(**blocks))
    fault = next((each for each in found if each.key == key), None)
    assert fault is not None, found
    assert [word for word in words if word not in fault.message] == []


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "key", "words"), WRONG_BLOCKS)
def test_the_schema_refuses_what_is_of_another_shape(
    blocks: dict[str, Any], key: str, words: list[str]
) -> None:
    validator = jsonschema.Draft202012Validator(the_schema())
    shapes = ("Accepted here", "did you mean '", "One of", "give a block", "a bare number")
    messages = [fault.message for fault in faults(least(**blocks)) if fault.key == key]
    if any(shape in message for message in messages for shape in shapes):
        assert not validator.is_valid(least(**blocks))


def test_all_conflicts_come_at_once() -> None:
    participation = {"kind": "full", "deadline": "3 s", "late": "drop", "quorum": "50 %"}
    silence = {"kind": "deadline", "after": "2 s"}
    found = faults(least(silence=silence, participation=participation, stop={"batteries": 1}))
    assert {fault.key for fault in found} == {
        "participation.deadline",
        "participation.late",
        "participation.quorum",
        "stop.batteries",
    }


@every("kind", ["gd", "fedavg"])
@every("weights", ["rows", "equal", "sum"])
def test_every_method_takes_any_weights(kind: str, weights: str) -> None:
    weighted = least()["problem"] | {"weights": weights}
    problem = made(problem=weighted, algorithm={"kind": kind, "step_size": 0.1}).problem
    assert problem.weighting == weights


@every(
    ("scale", "weights"),
    [("mean", "rows"), ("mean-square", "rows"), ("sum", "sum"), ("share", "sum")],
)
def test_weights_left_out_are_those_of_all_rows_pooled(scale: str, weights: str) -> None:
    problem = least()["problem"] | {"loss": {"kind": "squared", "scale": scale}}
    assert made(problem=problem).problem.weighting == weights


def test_all_that_is_wrong_with_a_group_comes_at_once() -> None:
    found = faults(least(**group(device={"kind": "custom", "idle": "0 W", "speed": "1 kflop/s"})))
    assert [fault.key for fault in found] == ["fleet.0.device.active"]
    found = faults(least(**battery(charge="3 %", threshold="1 %")))
    assert [fault.key for fault in found] == ["fleet.0.battery.threshold"]
    found = faults(least(**group(device="orin-nano", battery={"charge": "3 %"})))
    assert [fault.key for fault in found] == ["fleet.0.battery.capacity"]


@pytest.mark.parametrize("kind", [*RADIO_KINDS.built_in[:2]])
def test_a_radio_of_any_class_is_named_alone(kind: Any) -> None:
    for name in kind.presets:
        (made_group,) = made(fleet=[{"radio": name}]).fleet
        assert type(made_group.radio) is kind
        assert made_group.radio.kind == name


def test_a_variant_of_another_radio_or_topology_starts_anew() -> None:
    base = least(**group(radio={"kind": "wifi", "up": "1 Mbit/s"}))
    base |= {"network": {"server": {"downlink": "5 Mbit/s"}}}
    variants = {
        "tree": {"network": {"topology": "tree", "gateways": 2}},
        "slow": {"network": {"server": {"uplink": "1 Mbit/s"}}},
        "star": {"network": {"topology": "star", "server": {"uplink": "1 Mbit/s"}}},
    }
    plan = load(base | {"variants": variants})
    networks = {each.name: each.scenario.network.model_dump() for each in plan.variants}
    assert networks["tree"]["server"]["downlink"] == float("inf")
    for name in ("slow", "star"):
        assert (networks[name]["server"]["downlink"], networks[name]["server"]["uplink"]) == (
            5e6,
            1e6,
        )


def test_a_variant_of_another_compressor_starts_anew_and_of_the_same_goes_on() -> None:
    base = least(**wire("down", TOP, "ef21"))
    variants = {
        "sign": wire("down", {"kind": "scaled-sign"}, "none"),
        "more": {"wire": {"down": {"compressor": {"fraction": 0.5}}}},
        "count": wire("down", TOP | {"fraction": None, "count": 3}, "none"),
    }
    plan = load(base | {"variants": variants})
    keys = {"compressor", "error_feedback"}
    down = {each.name: each.scenario.wire.down.model_dump(include=keys) for each in plan.variants}
    top = {"kind": "top-k", "fraction": 0.1, "count": None}
    assert down == {
        "base": {"compressor": top, "error_feedback": "ef21"},
        "sign": {"compressor": {"kind": "scaled-sign"}, "error_feedback": "none"},
        "more": {"compressor": top | {"fraction": 0.5}, "error_feedback": "ef21"},
        "count": {
            "compressor": top | {"fraction": None, "count": 3},
            "error_feedback": "none",
        },
    }


def test_a_restart_and_a_capacity_follow_where_they_are_not_given() -> None:
    (phones,) = made(**battery(threshold="25 %")).fleet
    assert phones.battery is not None
    assert phones.battery.restarts_at == 0.25
    assert phones.capacity == 15 * 3600
    (phones,) = made(**battery(capacity="1 kJ", restart="50 %")).fleet
    assert phones.battery is not None
    assert (phones.battery.restarts_at, phones.capacity) == (0.5, 1000)
    (phones,) = made(**group()).fleet
    assert phones.capacity == float("inf")


def test_a_device_of_cycles_starts_from_custom_or_a_preset() -> None:
    custom, preset = (
        made(fleet=[{"device": device}]).fleet[0].device
        for device in (
            {"kind": "custom", "idle": "1 W"} | CYCLES,
            {"kind": "tran-2019", "frequency": "1 GHz"},
        )
    )
    assert isinstance(custom, Device)
    assert isinstance(preset, Device)
    assert (custom.cycles_per_sample, custom.frequency, custom.idle) == (1e4, 1e9, 1.0)
    assert (preset.cycles_per_sample, preset.frequency, preset.kappa) == (2e4, 1e9, 1e-28)


def test_presets_of_lora_differ_in_their_spreading_only() -> None:
    blocks = [made(fleet=[{"radio": name}]).fleet[0].radio.model_dump() for name in LORA]
    own = [{block.pop("kind"), block.pop("spreading")} for block in blocks]
    assert all(block == blocks[0] for block in blocks)
    assert len({frozenset(each) for each in own}) == 6
