"""`fedsim calibrate`, and what `fedsim robust` makes of the intervals that it writes."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

import fedsim
from fedsim.addons.robustness import draw_worlds
from fedsim.cli import app
from fedsim.core.errors import ScenarioError
from fedsim.scenario import dump, load
from tests.tiers import every

from .test_calibrate import FLEET, GUESS, scenario


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


@pytest.fixture(scope="module", name="study")
def _study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    fedsim.run(scenario(stop={"rounds": 3}), out=folder / "runs")
    with (folder / "guess.yaml").open("w", encoding="utf-8") as file:
        file.write("# Which?\n")
        YAML().dump(scenario(GUESS), file)
    return folder


def test_the_command_writes_a_scenario_beside_its_own(study: Path) -> None:
    result = invoke(study / "runs", study / "guess.yaml")
    assert result.exit_code == 0, result.output
    assert "fleet.0.radio.up" in result.output
    assert "3 Mbit/s" in result.output
    assert "sigma: download 1e-06, upload 1e-06" in " ".join(result.output.split())
    written = study / "guess-calibrated.yaml"
    assert written.read_text(encoding="utf-8").startswith("# Which?\n")
    assert len(load(written).variants) == 2
    again = invoke(study / "runs", study / "guess.yaml")
    assert again.exit_code == 2
    assert "exists; expected the name of a new file" in again.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rounds", "3"), "--rounds: got '3'; expected FIRST..LAST, such as 1..50"),
        (("--with", "client-1=nowhere.txt"), "cannot read nowhere.txt"),
        (("--keep", "radio.speed"), "--keep: got 'radio.speed'"),
    ],
)
def test_wrong_options_leave_no_file(study: Path, options: Any, words: str) -> None:
    place = study / "other.yaml"
    result = invoke(study / "runs", study / "guess.yaml", "--out", place, *options)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert not place.exists()


def test_robust_samples_the_intervals_of_a_group(study: Path, tmp_path: Path) -> None:
    own = {"radio.up": "2 Mbit/s..4 Mbit/s", "device.speed": "2 Mflop/s..4 Mflop/s"}
    fleet = [{**FLEET[0], "intervals": own}, FLEET[1]]
    fleet = [{**each, "device": {"kind": "pi-4", "speed": "3 Mflop/s"}} for each in fleet]
    made = fedsim.run(scenario(fleet, stop={"rounds": 2}), out=tmp_path / "runs")
    known = fedsim.robust(made.folder, worlds=2048)
    constants = {row["constant"]: row for row in known.constants.to_dict("records")}
    assert [constants["fleet.0.radio.up"][end] for end in ("low", "high")] == [2e6, 4e6]
    assert constants["fleet.0.device.speed"]["source"] == "the scenario's intervals"
    assert "wifi.up" not in constants
    ups = known.worlds["fleet.0.radio.up"]
    assert 2e6 <= ups.min() < 2.1e6
    assert 3.9e6 < ups.max() <= 4e6
    again = fedsim.robust(
        made.folder, worlds=2048, intervals={"fleet.0.radio.up": "1 Mbit/s..9 Mbit/s"}
    )
    assert again.worlds["fleet.0.radio.up"].max() > 8e6


def test_worlds_of_a_calibrated_fleet_set_the_group(tmp_path: Path) -> None:
    own = {"radio.up": "2 Mbit/s..4 Mbit/s"}
    fleet = [{**FLEET[0], "intervals": own}, FLEET[1]]
    for world in draw_worlds(scenario(fleet, sparse=False), 3):
        ups = [text for text in world if ".radio.up=" in text]
        assert len(ups) == 1
        assert ups[0].startswith("fleet.0.radio.up=")


@every(
    ("intervals", "words"),
    [
        ({"radio.speed": "1 s..2 s"}, "is no figure of these clients"),
        ({"device.speed": "4 Gflop/s"}, "got 4 Gflop/s; expected LOW..HIGH"),
        ({"radio.up": "4 Mbit/s..1 Mbit/s"}, "expected the lower value first"),
        ({"radio.up": "4 s..5 s"}, "give a rate, such as"),
    ],
)
def test_intervals_that_are_none_are_refused(intervals: Any, words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        load(scenario([{**FLEET[0], "intervals": intervals}, FLEET[1]]))
    assert words in str(refused.value)
    assert "fleet.0.intervals" in str(refused.value)


def test_a_scenario_without_intervals_is_dumped_as_before() -> None:
    assert "intervals" not in dump(load(scenario()).variants[0].scenario)
