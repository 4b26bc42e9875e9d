"""Every example of the documentation is a file that a scenario on the command line can use."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from fedsim import extend
from fedsim.scenario.registries import REGISTRIES, blocks_in
from tests.conftest import ROOT

from .test_commands import invoke, summary

PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```\w+ title="(\S+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE))
EXAMPLES = [name.removesuffix(".py") for name in FILES if name.endswith(".py")]


def merged(whole: Any, said: Any) -> Any:
    """Return a block with the keys of another laid on it; another kind begins anew."""
    if not isinstance(whole, dict) or not isinstance(said, dict):
        return said
    if "kind" in said or "topology" in said:
        return {**said}
    return {**whole, **{key: merged(whole.get(key), value) for key, value in said.items()}}


@pytest.mark.needs("torch")
def test_there_is_one_of_every_kind_of_block(tmp_path: Path) -> None:
    for name in EXAMPLES:
        (tmp_path / f"{name}.py").write_text(FILES[f"{name}.py"])
    blocks = blocks_in(tmp_path / f"{name}.py" for name in EXAMPLES)
    shown = {each.name for each in REGISTRIES for block in blocks if each.admits(block)}
    assert shown == {each.name for each in REGISTRIES if each.base}
    long = {name: sum(map(bool, FILES[f"{name}.py"].split("\n"))) for name in EXAMPLES}
    assert {name: lines for name, lines in long.items() if lines > 35} == {}


def test_an_author_imports_from_one_place() -> None:
    text = "".join(FILES[f"{name}.py"] for name in EXAMPLES)
    used = set(re.findall(r"^(?:from|import) (fedsim[\w.]*)", text, re.MULTILINE))
    assert used == {"fedsim.extend", "fedsim.torch"}


def test_every_name_of_it_is_public_and_of_a_class_of_its_own() -> None:
    """No two names for one thing, and nothing is exported that the module does not have."""
    found = [getattr(extend, name) for name in extend.__all__]
    assert len({id(each) for each in found}) == len(found)


def test_every_group_of_entry_points_is_named() -> None:
    groups = {registry.group for registry in REGISTRIES if registry.base}
    assert set(re.findall(r"`(fedsim\.\w+)`", PAGE.partition("## An algorithm")[0])) >= groups


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    yaml = YAML(typ="safe", pure=True)
    scenario = merged(yaml.load(FILES["scenario.yaml"]), yaml.load(FILES[f"{name}.yaml"]))
    yaml.dump(scenario, tmp_path / "scenario.yaml")
    mine = tmp_path / f"{name}.py"
    mine.write_text(FILES[mine.name])
    out = tmp_path / "out"
    result = invoke("run", tmp_path / "scenario.yaml", "--out", out, "--plugin", mine)
    assert result.exit_code == 0, result.output
    assert summary(out)["status"] == "done"
    assert summary(out)["rounds"] == 10
