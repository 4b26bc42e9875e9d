"""Values of blocks that are set after they are made: an error that names the ways to set them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import FrozenError
from tests.runs import small
from tests.tiers import every

WAYS: dict[str, Callable[[Any], None]] = {
    "Scenario.seed": lambda scenario: setattr(scenario, "seed", 3),
    "Scenario.nothing": lambda scenario: setattr(scenario, "nothing", 3),
    "Stop.rounds": lambda scenario: setattr(scenario.stop, "rounds", 3),
    "Group.count": lambda scenario: setattr(scenario.fleet[0], "count", 3),
    "Stop.gap": lambda scenario: delattr(scenario.stop, "gap"),
}


@every("key", [*WAYS])
def test_a_loaded_scenario_cannot_be_changed(key: str) -> None:
    scenario = fedsim.load(small(stop={"rounds": 2})).variants[0].scenario
    with pytest.raises(FrozenError) as caught:
        WAYS[key](scenario)
    text = str(caught.value)
    assert text.startswith(f"{key} cannot be changed")
    assert 'fedsim.load(file, overrides=["stop.rounds=3"])' in text
    assert "pydantic" not in text
    assert caught.value.__suppress_context__
    assert isinstance(caught.value, fedsim.FedsimError)
    assert isinstance(caught.value, AttributeError)  # as for frozen dataclasses
    assert scenario.stop.rounds == 2
    assert not hasattr(scenario, "nothing")


PLUGIN = '''from typing import Literal

from fedsim.algorithms import GradientDescent


class Counting(GradientDescent):
    """A method that keeps state where it cannot."""

    kind: Literal["counting"] = "counting"

    async def handle(self, client, message):
        self.count = 1
        return await super().handle(client, message)
'''


def test_a_method_that_sets_its_own_value_is_told_the_line(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(small(algorithm={"kind": "counting", "step_size": "1/L"})))
    words = ["run", str(file), "--plugin", str(tmp_path / "plugin.py"), "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "runs")])
    assert done.exit_code == 1
    assert "plugin.py:12, in handle" in done.stderr
    assert "self.count = 1" in done.stderr
    assert "Counting.count cannot be changed" in " ".join(done.stderr.split())
    assert "pydantic" not in done.stderr
