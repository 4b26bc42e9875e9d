"""The first line of a file is the question that its runs go on asking."""

from dataclasses import replace
from pathlib import Path

import pytest

import fedsim
from fedsim.scenario import dump
from tests.conftest import ROOT
from tests.runs import small
from tests.tiers import every

CENSORING = ROOT / "scenarios/censoring.yaml"


def test_every_variant_carries_the_question_of_its_file() -> None:
    asked = {variant.question for variant in fedsim.load(CENSORING).variants}
    assert asked == {CENSORING.read_text().splitlines()[0].removeprefix("# ")}


def test_what_is_made_in_python_asks_nothing() -> None:
    assert fedsim.load(small()).variants[0].question == ""


@pytest.mark.parametrize("first", ["", "#", "name: no comment", "#\x01", "--- # late"])
def test_another_first_line_is_no_question(tmp_path: Path, first: str) -> None:
    text = dump(fedsim.load(small()).variants[0].scenario)
    (tmp_path / "scenario.yaml").write_text(f"{first}\n{text}" if ":" not in first else text)
    try:
        plan = fedsim.load(tmp_path / "scenario.yaml")
    except fedsim.ScenarioError:
        return  # no YAML at all
    assert plan.variants[0].question == ""


@every("name", ["plain", "two\nlines", "\nseed: 0\n", "seed: 0", "\u2028seed: 0\n"])
def test_what_a_scenario_is_called_is_not_taken_for_its_seed(name: str) -> None:
    (variant,) = fedsim.load(small(name=name, seeds=3)).variants
    own = variant.scenario.model_copy(update={"seed": 17, "seeds": 1})
    assert variant.text(17) == dump(own)
    assert replace(variant, question="seed: 0").text(17) == dump(own, "seed: 0")


def test_a_run_folder_asks_it_again(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        "# Who is quicker?\n" + dump(fedsim.load(small(stop={"rounds": 2})).variants[0].scenario)
    )
    (run,) = fedsim.run(tmp_path / "scenario.yaml", out=tmp_path / "out").runs
    assert (run / "scenario.yaml").read_text().startswith("# Who is quicker?\n")
    assert fedsim.load(run / "scenario.yaml").variants[0].question == "Who is quicker?"
