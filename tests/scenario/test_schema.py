"""The JSON Schema: its references, its agreement with what loads, and what it refuses."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks import catalogue
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.errors import BlockError
from fedsim.physics.availability import AVAILABILITY
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.problems import LOSSES, SOURCES, SPLITS
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.silence import SILENCES
from fedsim.scenario import (
    Scenario,
    dump,
    load,
    schema,
)
from fedsim.scenario.located import Origin
from fedsim.scenario.merging import OF_THE_WHOLE
from fedsim.scenario.yaml import read_text
from fedsim.wire import COMPRESSORS
from tests.scenario.examples import LINES, the_schema, written
from tests.scenario.test_methods import Nesterov
from tests.scenario.wrong import WRONG


def pieces(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every block of a schema."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, dict | list):
            yield from pieces(inner)


def followed(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference."""
    name = part.get("$ref", "").rpartition("/")[2]
    return document["$defs"][name] if name else part


def kinds(part: dict[str, Any], document: dict[str, Any]) -> set[str]:
    """Return the kinds that the schema of a block names."""
    parts = [followed(each, document) for each in part["anyOf"]]
    alone = {kind for each in parts for kind in each.get("enum", ())}
    found = {each["properties"]["kind"]["const"] for each in parts if "properties" in each}
    assert alone <= found
    return found


def plain(text: str) -> Any:
    return read_text(text, lambda line: Origin("f", line))[0].plain()


def test_it_is_json() -> None:
    assert json.loads(json.dumps(the_schema())) == the_schema()
    assert the_schema()["$schema"].endswith("2020-12/schema")


def test_every_reference_leads_somewhere_and_every_definition_is_used() -> None:
    names = {each["$ref"] for each in pieces(the_schema()) if "$ref" in each}
    assert names == {f"#/$defs/{name}" for name in the_schema()["$defs"]}


def test_every_block_is_closed() -> None:
    blocks = [each for each in pieces(the_schema()) if "properties" in each and "type" in each]
    assert len(blocks) > 20
    assert all(block["additionalProperties"] is False for block in blocks)


def test_every_key_of_a_scenario_is_in_it_with_its_meaning() -> None:
    assert list(the_schema()["properties"]) == list(Scenario.model_fields)
    assert set(the_schema()["required"]) == {"problem", "algorithm"}
    assert all(each["description"] for each in the_schema()["properties"].values())


def test_every_kind_can_be_named() -> None:
    problem = followed(the_schema()["properties"]["problem"], the_schema())["properties"]
    wire = followed(the_schema()["properties"]["wire"], the_schema())["properties"]
    link = followed(wire["up"], the_schema())["properties"]
    for part, models in (
        (the_schema()["properties"]["algorithm"], ALGORITHMS),
        (problem["loss"], LOSSES),
        (problem["data"], SOURCES),
        (problem["split"], SPLITS),
        (link["compressor"], COMPRESSORS),
    ):
        own = {kind for model in models for kind in kinds_of(model)}
        assert kinds(part, the_schema()) - {"flower"} == own  # an extra, once it is in use


def test_a_kind_is_required_where_there_is_one() -> None:
    for name, definition in the_schema()["$defs"].items():
        if name.startswith("Partial") or name == "Variant":
            continue
        for block in pieces(definition):
            if "kind" in block.get("properties", {}):
                assert "kind" in block["required"]


def test_presets_can_be_named_alone_or_in_a_block() -> None:
    group = the_schema()["$defs"]["Group"]["properties"]
    devices, radios = group["device"]["anyOf"], group["radio"]["anyOf"]
    for described, presets, customs in (
        (devices[0], DEVICES, ["custom"]),
        (radios[0], RADIOS, ["custom"]),
        (radios[1], LORA, []),
        (radios[2], NB_IOT, []),
        (radios[3], CELLULAR, []),
    ):
        alone, block = described["anyOf"]
        assert alone["enum"] == list(presets)
        assert block["properties"]["kind"]["enum"] == [*presets, *customs]
        assert block["required"] == ["kind"]


@pytest.mark.slow
def test_a_share_of_a_figure_of_a_preset_is_accepted() -> None:
    device = {"kind": "yang-2021", "frequency": "10 %", "cycles_per_sample": "50 %"}
    group = {"count": 1, "device": device, "radio": {"kind": "lte", "up": "10 %", "down": "10 %"}}
    document = the_schema()
    part = {"$ref": "#/$defs/Group", "$defs": document["$defs"]}
    jsonschema.validate(group, part)


def test_kinds_of_the_world_can_be_named() -> None:
    group = the_schema()["$defs"]["Group"]["properties"]
    for part, models in (
        (the_schema()["properties"]["participation"], PARTICIPATION),
        (the_schema()["properties"]["silence"], SILENCES),
        (group["availability"], AVAILABILITY),
    ):
        own = {kind for model in models for kind in kinds_of(model)}
        assert kinds(part, the_schema()) - {"flower"} == own  # an extra, once it is in use


def test_a_network_without_a_topology_is_a_star() -> None:
    star, *others, names = the_schema()["properties"]["network"]["anyOf"]
    assert set(names["enum"]) <= {
        "star",
        *(each["properties"]["topology"]["const"] for each in others),
    }
    assert star["properties"]["topology"]["const"] == "star"
    assert "topology" not in star.get("required", [])
    assert all("topology" in each["required"] for each in others)


def test_patterns_take_their_examples_and_no_bare_number() -> None:
    quantities = [each for each in pieces(the_schema()) if "pattern" in each and "examples" in each]
    assert len(quantities) > 10
    for each in quantities:
        assert each["type"] == "string"
        assert all(re.search(each["pattern"], example) for example in each["examples"])
        assert not re.search(each["pattern"], "5")


def test_patterns_are_those_of_every_dialect() -> None:
    assert not [each for each in pieces(the_schema()) if "(?P" in str(each.get("pattern"))]


def test_a_variant_may_leave_out_anything_and_has_none_of_its_own() -> None:
    variants = the_schema()["properties"]["variants"]
    variant = followed(variants["additionalProperties"], the_schema())
    assert set(variant["properties"]) == set(Scenario.model_fields) - {*OF_THE_WHOLE}
    partial = [
        variant,
        *(v for name, v in the_schema()["$defs"].items() if name.startswith("Partial")),
    ]
    assert not [each for each in pieces(partial) if isinstance(each.get("required"), list)]
    names = variants["propertyNames"]
    assert re.search(names["pattern"], "c-0.5")
    assert not re.search(names["pattern"], "a/b")
    taken, run = names["not"]["anyOf"]
    assert {"base", "comparison", "study.json"} < {*taken["enum"]}
    assert re.search(run["pattern"], "seed-1")


@pytest.mark.slow
def test_a_users_algorithm_is_in_its_schema_only() -> None:
    plain = schema()  # not `the_schema`: another test may have imported a block of an extra since
    extended = schema([Nesterov])
    assert kinds(extended["properties"]["algorithm"], extended) == kinds(
        plain["properties"]["algorithm"], plain
    ) | {"nesterov"}
    assert schema() == plain


def test_an_installed_algorithm_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("nesterov", "tests.scenario.test_methods:Nesterov", ALGORITHMS.group)]
    monkeypatch.setattr(catalogue, "entry_points", lambda: EntryPoints(points))
    assert schema() == schema([Nesterov])
    points[:] = [EntryPoint("broken", "no.such.module:Mine", ALGORITHMS.group)]
    with pytest.raises(BlockError, match=r"no\.such\.module"):
        schema()


@pytest.mark.slow
def test_a_validator_agrees(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(the_schema())
    validator.check_schema(the_schema())
    good = "\n".join(LINES)
    assert validator.is_valid(plain(good))
    for variant in load(written(tmp_path)).variants:
        assert validator.is_valid(plain(dump(variant.scenario)))
    # What a schema cannot see: other units, other scenarios, integers written as floats, what
    # counts in variants, where everything may be missing.
    units = ("5 s", "-1 s", "5 W", "5 J", "5 kW", "0 s", "0 bit/s")
    beyond = (*units, "clients: 6", "1e3", ".nan", ".inf", "count: 4", "kind: signsgd}")
    for line, text, _key, words in WRONG:
        if words and not any(each in text for each in beyond):
            lines = [text if n == line else each for n, each in enumerate(LINES, start=1)]
            assert not validator.is_valid(plain("\n".join(lines))), text
