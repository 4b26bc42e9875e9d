"""The schema for editors: described throughout, as strict as `schema`, tried with a server."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.cli import app
from fedsim.core.blocks.registry import kinds_of
from fedsim.physics.devices import DEVICES
from fedsim.scenario.editor_schema import ADDRESS, FILE, FIRST_LINE, editor_schema
from fedsim.scenario.scenario import Scenario
from tests.conftest import ROOT
from tests.scenario.examples import the_schema
from tests.scenario.language_server import LanguageServer, language_server
from tests.scenario.test_schema import followed, pieces

SCENARIOS = sorted((ROOT / "scenarios").rglob("*.yaml"))
PAGE = ROOT / "docs/howto/editors.md"


@cache
def the_editor_schema() -> dict[str, Any]:
    return editor_schema()


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(the_editor_schema())


def plain(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file)


def keys(part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key of every block, with its schema."""
    for block in pieces(part):
        if isinstance(block.get("properties"), dict) and "kind" in block:
            continue  # a block's keys, one of which is called properties
        yield from (block.get("properties") or {}).items()


@pytest.mark.slow
def test_it_is_a_schema_with_a_name() -> None:
    jsonschema.Draft202012Validator.check_schema(the_editor_schema())
    assert list(the_editor_schema())[:3] == ["$schema", "$id", "title"]
    assert the_editor_schema()["$id"] == ADDRESS


def test_every_key_is_described_by_more_than_its_name() -> None:
    found = list(keys(the_editor_schema()))
    assert len(found) > 2000
    assert not [name for name, key in found if not key.get("description")]

    def words(text: str) -> str:
        return text.lower().replace("_", " ").strip(" .")

    assert not [name for name, key in found if words(key["description"]) == words(name)]
    assert not [name for name, key in found if key["description"].endswith(":")]


def test_methods_and_presets_are_described_where_they_are_named() -> None:
    document = the_editor_schema()
    named = (followed(each, document) for each in document["properties"]["algorithm"]["anyOf"])
    methods = {
        block["properties"]["kind"]["const"]: block for block in named if "properties" in block
    }
    assert set(methods) >= {kind for model in ALGORITHMS for kind in kinds_of(model)} - {"flower"}
    for kind, block in methods.items():
        assert block["title"] == kind
        assert block["properties"]["kind"]["description"] in " ".join(block["description"].split())
    lists = [each for each in pieces(document) if "enumDescriptions" in each]
    assert all(len(each["enum"]) == len(each["enumDescriptions"]) for each in lists)
    assert any(set(DEVICES) <= set(each["enum"]) for each in lists)


def test_it_is_small_enough_to_lie_beside_a_scenario() -> None:
    assert len(json.dumps(the_editor_schema())) < len(json.dumps(the_schema())) / 2


@pytest.mark.slow
def test_every_scenario_is_valid() -> None:
    for file in SCENARIOS:
        faults = [error.message for error in validator().iter_errors(plain(file))]
        assert not faults, file


@pytest.mark.parametrize(
    "fault",
    [
        {"algorithm": {"kind": "fedavgg", "step_size": 0.1}},
        {"algorithm": {"kind": "fedavg", "step_siz": 0.1}},
        {"fleet": [{"count": 20, "device": "phone-mdi", "radio": "lte"}]},
        {"stop": {"rounds": "many"}},
        {"variants": {"seed-1": {}}},
    ],
)
def test_it_refuses_what_the_other_one_refuses(fault: dict[str, Any]) -> None:
    scenario = plain(ROOT / "scenarios/quickstart.yaml")
    assert not list(validator().iter_errors(scenario))
    wrong = scenario | fault
    assert list(validator().iter_errors(wrong))
    assert list(jsonschema.Draft202012Validator(the_schema()).iter_errors(wrong))


def init(folder: Path, *words: str) -> Path:
    """Write a first scenario, and return its file."""
    done = CliRunner().invoke(app, ["init", str(folder), *words])
    assert done.exit_code == 0, done.output
    (file,) = folder.glob("*.yaml")
    return file


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "patients.csv"
    rows = [(number % 7, number % 5, "abc"[number % 3], number % 2) for number in range(60)]
    pd.DataFrame(rows, columns=["age", "dose", "hospital", "outcome"]).to_csv(file, index=False)
    return file


@pytest.mark.parametrize("source", ["quickstart", "table"])
def test_init_writes_the_schema_beside_the_scenario(
    source: str, table: Path, tmp_path: Path
) -> None:
    words = () if source == "quickstart" else ("--from", str(table))
    file = init(tmp_path / "study", *words)
    first, second = file.read_text(encoding="utf-8").splitlines()[:2]
    assert first + "\n" == FIRST_LINE
    assert json.loads((file.parent / FILE).read_text(encoding="utf-8")) == the_editor_schema()
    assert not list(validator().iter_errors(plain(file)))
    # The question is the first line after it, as without it.
    assert fedsim.load(file).variants[0].question == second.removeprefix("# ")


def test_the_entry_for_schemastore_is_one() -> None:
    (text,) = re.findall(r"^    \{\n.+?^    \}$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    entry = json.loads(text)
    assert set(entry) == {"name", "description", "fileMatch", "url"}
    assert entry["url"].rpartition("/")[2] == ADDRESS.rpartition("/")[2]
    assert any(fnmatch("study.fedsim.yaml", pattern) for pattern in entry["fileMatch"])


@pytest.fixture(scope="module")
def server() -> Iterator[LanguageServer]:
    with language_server() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the schema, as `fedsim init` writes it."""
    folder = tmp_path_factory.mktemp("edited")
    (folder / FILE).write_text(json.dumps(the_editor_schema()), encoding="utf-8")
    return folder


def edited(server: LanguageServer, file: Path, text: str) -> tuple[dict[str, str], list[str]]:
    """Return what completes a text at its mark, and what is wrong in it."""
    before, _, after = f"{FIRST_LINE}{text}".partition("|")
    faults = server.open(file, before + after)
    line = before.count("\n")
    return server.complete(file, line, len(before.rpartition("\n")[2])), faults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "offered", "most"),
    [
        ("algorithm:\n  kind: |\n", {"fedavg", "chb", "scaffold"}, 80),
        ("variants:\n  a:\n    algorithm:\n      kind: |\n", {"fedavg", "chb"}, 80),
        ("algorithm:\n  kind: chb\n  |\n", {"step_size", "momentum", "censor"}, 10),
        ("problem:\n  loss:\n    kind: |\n", {"mlp", "logistic"}, 12),
        ("problem:\n  |\n", {"loss", "data", "split"}, 20),
        ("fleet:\n  - count: 3\n    device: |\n", {"phone-mid", "pi-4"}, 20),
        ("wire:\n  up:\n    compressor:\n      kind: |\n", {"top-k", "qsgd"}, 15),
        ("stop:\n  |\n", {"rounds", "energy", "test_accuracy"}, 45),
        # Beside the keys it offers one example of a whole scenario.
        (
            "|\n",
            {"problem", "algorithm", "fleet", "variants"},
            len(Scenario.model_fields) + 1,
        ),
    ],
)
def test_an_editor_offers_what_can_stand_there(
    text: str, offered: set[str], most: int, server: LanguageServer, folder: Path
) -> None:
    found, _ = edited(server, folder / f"{abs(hash(text))}.yaml", text)
    assert offered <= set(found)
    assert len(found) <= most
    assert all(found[name] for name in offered)


@pytest.mark.slow
def test_an_editor_marks_a_wrong_key_and_shows_what_a_right_one_is(
    server: LanguageServer, folder: Path
) -> None:
    text = (ROOT / "scenarios/quickstart.yaml").read_text(encoding="utf-8")
    wrong = text.replace("local_steps: 5", "local_step: 5")
    assert wrong != text
    (fault,) = server.open(folder / "wrong.yaml", FIRST_LINE + wrong)
    lines = (FIRST_LINE + wrong).splitlines()
    line = next(number for number, each in enumerate(lines, 1) if "local_step:" in each)
    assert fault == f"{line}: Property local_step is not allowed."
    file = folder / "shown.yaml"
    server.open(file, f"{FIRST_LINE}algorithm:\n  kind: fedavg\n  step_size: 0.1\n")
    assert "Federated averaging" in server.hover(file, 2, 4)
    assert "the clients' step size" in server.hover(file, 3, 4)


@pytest.mark.slow
def test_an_editor_finds_nothing_wrong_in_a_right_scenario(
    server: LanguageServer, folder: Path, table: Path, tmp_path: Path
) -> None:
    for number, file in enumerate(SCENARIOS):
        text = FIRST_LINE + file.read_text(encoding="utf-8")
        assert server.open(folder / f"{number}.yaml", text) == [], file
    for name, words in (("one", ()), ("two", ("--from", str(table)))):
        file = init(tmp_path / name, *words)
        assert server.open(file, file.read_text(encoding="utf-8")) == []
