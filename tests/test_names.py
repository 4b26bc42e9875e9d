"""One variant has one name, in the order of its file: on disk, in tables, figures and options."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.addons.repricing import reprice
from fedsim.cli import app
from fedsim.results.analysis import Comparison
from fedsim.results.record.read import run_folders
from tests.runs import small

SLOW = {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}
FAST = {"algorithm": {"kind": "gd", "step_size": "1/L"}}


def scenario(**variants: object) -> dict[str, object]:
    return small(stop={"rounds": 2}, variants=variants)


def names(source: dict[str, object]) -> list[str]:
    return [variant.name for variant in fedsim.load(source).variants]


def test_what_differs_in_nothing_names_the_scenario_as_written() -> None:
    assert names(scenario(slow=SLOW, fast=FAST)) == ["base", "slow", "fast"]
    assert names(scenario(slow=SLOW, censored={}, fast=FAST)) == ["slow", "censored", "fast"]
    plain, named = fedsim.load(scenario()), fedsim.load(scenario(censored={}))
    assert named.variants[0].fingerprint == plain.variants[0].fingerprint


def test_a_second_one_without_a_difference_is_a_variant_that_is_run_twice() -> None:
    with_two = fedsim.run(scenario(one={}, two={}))
    assert with_two.summary["variant"].tolist() == ["one", "two"]
    assert "identical to one, " in str(with_two.notes[0])


def test_what_is_wrong_with_the_scenario_as_written_is_said_without_a_variant() -> None:
    wrong = scenario(slow=SLOW, censored={}) | {"seed": -1}
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.load(wrong)
    assert [str(fault) for fault in caught.value.faults] == [
        "seed: got -1; give a value of 0 or more"
    ]


def test_a_sweep_keeps_the_name() -> None:
    swept = scenario(censored={}) | {"sweep": {"algorithm.censor": [0.1, 0.2]}}
    assert names(swept) == ["censored_censor-0.1", "censored_censor-0.2"]


@pytest.mark.parametrize("named", [True, False])
def test_names_and_their_order_are_everywhere_the_same(named: bool, tmp_path: Path) -> None:
    variants = {"slow": SLOW, **({"censored": {}} if named else {}), "fast": FAST}
    wanted = ["slow", "censored", "fast"] if named else ["base", "slow", "fast"]
    result = fedsim.run(scenario(**variants), out=tmp_path)
    own = wanted[1 if named else 0]
    assert result.summary["variant"].tolist() == wanted
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set(wanted)
    assert [path.parent.name for path in run_folders(tmp_path)] == wanted
    comparison = Comparison.of([tmp_path], against=own)
    assert comparison.against == own
    assert list(comparison.runs.labels) == wanted
    assert all(label.split(" (")[0] == name for name, label in comparison.runs.labels.items())
    priced = reprice(tmp_path, [], tmp_path / "again")
    assert priced.summary["variant"].tolist() == wanted
    assert [path.parent.name for path in run_folders(tmp_path / "again")] == wanted


@pytest.mark.slow
def test_tables_of_commands_name_the_folders(tmp_path: Path) -> None:
    priced = ["reprice", "--set", "fleet.0.radio=nb-iot"]
    for arguments in (["run", "censoring", "--set", "stop.rounds=2"], ["compare"], priced):
        places = ["--out", str(tmp_path)] if arguments[0] == "run" else [str(tmp_path)]
        result = CliRunner().invoke(app, [*arguments, *places])
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        (rule, *_) = [number for number, line in enumerate(lines) if "───" in line]
        assert [line.split()[0] for line in lines[rule + 1 : rule + 4]] == ["chb", "hb", "gd"]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} >= {"chb", "hb", "gd"}


def test_the_first_variant_s_model_is_the_one_that_is_meant(tmp_path: Path) -> None:
    result = fedsim.run(scenario(slow=SLOW, censored={}), out=tmp_path)
    assert (result.model() == result.model("slow")).all()
    assert (result.model() != result.model("censored")).any()
