"""`fedsim diff` shows what differs, and nothing else; its exit code is that of `diff`."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.results.analysis.differences import Side, differences
from fedsim.results.record.folder import SUMMARY
from tests.runs import small

VARIANTS = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}


def scenario(**changes: Any) -> dict[str, Any]:
    return small(**{"stop": {"rounds": 3}, "variants": VARIANTS, **changes})


def diff(*words: object) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, words)])


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two studies: of 3 and of 4 rounds, the second one under two seeds."""
    home = tmp_path_factory.mktemp("studies")
    one = fedsim.run(scenario(), out=home / "one").folder
    return one, fedsim.run(scenario(stop={"rounds": 4}, seeds=2), out=home / "other").folder


def test_a_study_does_not_differ_from_its_copy(studies: tuple[Path, Path], tmp_path: Path) -> None:
    copy = copytree(studies[1], tmp_path / "copy")
    for place in (copy, copy / "gd/seed-2"):
        done = diff(studies[1] / place.relative_to(copy), place)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "nothing differs" in done.stdout
    assert json.loads(diff(studies[1], copy, "--json").stdout) == []


def test_what_differs_is_what_was_changed_and_what_follows(studies: tuple[Path, Path]) -> None:
    found = differences(*map(Side.of_folder, studies))
    assert [each[:5] for each in found if each.part == "scenario"] == [
        ("scenario", "all variants", "stop.rounds", 3, 4)
    ]
    assert [each[:5] for each in found if each.part == "seeds"] == [
        ("seeds", "all variants", "seeds", "1", "1, 2")
    ]
    assert {each.part for each in found} == {"scenario", "seeds", "results"}
    # The ratios, from the summaries of the seed that both have.
    one, other = (
        fedsim.open(place).summary.query("seed == 1").set_index("variant") for place in studies
    )
    seen = {(each.variant, each.key): each for each in found if each.part == "results"}
    for variant in ("base", "gd"):
        asleep = ["joules", "joules_after"]  # energy until radios sleep
        for key, columns in {
            "seconds": ["t"],
            "joules": asleep,
            "objective": ["objective"],
        }.items():
            values = tuple(each.loc[variant, columns].sum() for each in (one, other))
            assert seen[variant, key][3:5] == pytest.approx(values)
            assert seen[variant, key].ratio == pytest.approx(values[1] / values[0])
        bits = [each["bits_up"][variant] + each["bits_down"][variant] for each in (one, other)]
        assert seen[variant, "bits"].ratio == pytest.approx(bits[1] / bits[0])


def test_runs_with_equal_logs_differ_if_their_models_do(
    studies: tuple[Path, Path], tmp_path: Path
) -> None:
    # The log has times, bits and energy: a step size changes none of them.
    gd = {"kind": "gd", "step_size": "0.5/L"}
    other = fedsim.run(scenario(variants={"gd": {"algorithm": gd}}), out=tmp_path / "other").folder
    runs = [studies[0] / "gd/seed-1", other / "gd/seed-1"]
    found = [each for each in differences(*map(Side.of_folder, runs)) if each.part == "results"]
    assert [each.key for each in found] == ["digest of the rounds", "objective", "gap"]
    gaps = [fedsim.open(run).summary.gap.item() for run in runs]
    assert found[-1].ratio == pytest.approx(gaps[1] / gaps[0])


def test_measures_of_the_last_round_are_compared(tmp_path: Path) -> None:
    runs = [
        fedsim.run(
            scenario(variants={}, measures=["gradient_norm"], algorithm={"kind": "gd", **step}),
            out=tmp_path / str(number),
        )
        for number, step in enumerate(({"step_size": "1/L"}, {"step_size": "0.5/L"}))
    ]
    sides = [Side.of_folder(run.folder) for run in runs]
    found = {each.key: each for each in differences(*sides)}["gradient_norm"]
    last = [run.rounds.gradient_norm.iloc[-1] for run in runs]
    assert found[3:] == pytest.approx((*last, last[1] / last[0]))


def test_single_variants_are_paired_whatever_they_are_called(studies: tuple[Path, Path]) -> None:
    runs = [studies[0] / name / "seed-1" for name in ("base", "gd")]
    found = {each.key: each for each in differences(*map(Side.of_folder, runs))}
    assert found["algorithm.kind"][1:5] == ("base and gd", "algorithm.kind", "chb", "gd")
    assert "rounds" not in found, "both had three"


def test_versions_and_data_are_compared(studies: tuple[Path, Path], tmp_path: Path) -> None:
    other = fedsim.run(
        scenario(problem={**small()["problem"], "split": {"kind": "shards"}}), out=tmp_path / "out"
    ).folder
    found = differences(Side.of_folder(studies[0]), Side.of_folder(other))
    assert ("data", "digest of data and loss, seed 1") in {(each.part, each.key) for each in found}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedsim.running.run.code_hash", lambda _: "0" * 64)
        later = fedsim.run(scenario(), out=tmp_path / "later").folder
    (code,) = differences(Side.of_folder(studies[0]), Side.of_folder(later))
    assert (code.part, code.key, code.other) == ("versions", "code", "0" * 12)


def test_a_scenario_is_compared_with_another_and_with_runs(
    studies: tuple[Path, Path], tmp_path: Path
) -> None:
    file, added = tmp_path / "one.yaml", tmp_path / "added.yaml"
    file.write_text(json.dumps(scenario()))
    assert diff(file, file).exit_code == 0
    assert diff(file, studies[0]).exit_code == 0
    more = {**VARIANTS, "hb": {"algorithm": {"kind": "hb"}}}
    added.write_text(json.dumps(scenario(variants=more)))
    done = diff(file, added)
    assert done.exit_code == 1
    assert ["hb", "variants", "-", "hb"] in [line.split() for line in done.stdout.splitlines()]
    assert "results are not compared" in done.stdout


def test_runs_that_have_not_ended_are_compared_by_their_scenario(
    studies: tuple[Path, Path], tmp_path: Path
) -> None:
    cut = copytree(studies[1], tmp_path / "cut")
    for summary in cut.rglob(SUMMARY):
        (summary.parent / "manifest.json").unlink()
        summary.unlink()
    done = diff(studies[1], cut)
    assert done.exit_code == 0
    assert "no run of" in done.stdout


def test_the_table_and_json_have_the_same_differences(studies: tuple[Path, Path]) -> None:
    listed = json.loads(diff(*studies, "--json").stdout)
    shown = diff(*studies)
    assert shown.exit_code == 1
    for each in listed:
        assert each["key"] in shown.stdout
    assert [each["ratio"] is None for each in listed] == [
        each["part"] != "results" or "digest" in each["key"] for each in listed
    ]


def test_what_cannot_be_compared_is_refused(studies: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    damaged = copytree(studies[0], tmp_path / "damaged")
    (damaged / "gd/seed-1/scenario.yaml").write_text("damaged")
    for place in (tmp_path / "empty", tmp_path / "missing", damaged):
        done = diff(studies[0], place)
        assert done.exit_code == 2
        assert done.stderr.strip()


def test_studies_of_other_methods_are_compared_by_what_their_variants_share(
    tmp_path: Path,
) -> None:
    half = {"algorithm": {"step_size": "0.5/L"}}
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(json.dumps(scenario(variants={"a": {}, "b": half})))
    other.write_text(json.dumps(scenario(variants={"c": {}, "d": half}, stop={"rounds": 9})))
    found = json.loads(diff(one, other, "--json").stdout)
    assert {each["key"] for each in found} == {"variants", "stop.rounds"}
    assert found[-1]["variant"] == "all variants"
