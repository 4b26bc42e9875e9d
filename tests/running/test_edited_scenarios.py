"""Runs of several scenarios, or of several states of one, in one folder: nothing is mixed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.results.analysis import Comparison, gather
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.scenarios import RUNS, Note
from tests.runs import files, small

VARIANTS = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
WIFI = "fleet.0.radio=wifi"


def source(**changes: Any) -> dict[str, Any]:
    return small(**{"variants": VARIANTS, "seeds": 2, "stop": {"rounds": 3}} | changes)


def written(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(source(**changes)), encoding="utf-8")  # which is YAML
    return path


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def ages(folder: Path) -> dict[str, int]:
    every = folder.glob(f"*/*/{SUMMARY}")  # without earlier runs
    return {str(path.relative_to(folder).parent): path.stat().st_mtime_ns for path in every}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return fedsim.run(written(folder / "one.yaml"), out=folder / "out").folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_another_scenario_is_refused_before_it_starts_and_writes_nothing(
    out: Path, made: Path
) -> None:
    other = written(out.parent / "two.yaml", stop={"rounds": 4})
    said = command("run", other, "--out", out)
    assert said.exit_code == 2
    for words in (str(out), "one.yaml", "two.yaml", "nothing was written", "--out", "--fresh"):
        assert words in said.stderr
    assert files(out) == files(made)
    for wrong in (other, source(name="another", stop={"rounds": 4})):
        with pytest.raises(DataError, match="nothing was written"):
            fedsim.run(wrong, out=out)
    assert files(out) == files(made)


@pytest.mark.slow
def test_fresh_takes_a_folder_over(out: Path) -> None:
    other = written(out.parent / "two.yaml", stop={"rounds": 4}, variants={})
    assert command("run", other, "--out", out, "--fresh").exit_code == 0
    runs = gather([out])
    assert runs.summary["rounds"].tolist() == [4, 4]
    (note,) = runs.left_out
    assert "gd" in note


def test_a_folder_that_lost_its_own_file_is_known_by_its_runs(out: Path) -> None:
    (out / "study.json").unlink()
    with pytest.raises(DataError, match="nothing was written"):
        fedsim.run(source(stop={"rounds": 4}), out=out)
    before = ages(out)
    fedsim.run(source(), out=out)
    assert ages(out) == before


def test_the_same_scenario_from_a_file_of_another_name_is_no_other_one(out: Path) -> None:
    before = ages(out)
    copy = written(out.parent / "copy.yaml", variants={**VARIANTS, "l2": {"wire": {}}})
    fedsim.run(copy, out=out)
    assert {run: age for run, age in ages(out).items() if run in before} == before


@pytest.mark.slow
def test_an_edited_value_makes_again_what_it_touches_and_says_so(out: Path, made: Path) -> None:
    scenario = made.parent / "one.yaml"
    before = ages(out)
    override = "variants.gd.algorithm.step_size=0.5/L"
    said = command("run", scenario, "--out", out, "--set", override)
    assert said.exit_code == 0, said.output
    assert f"{out / 'gd'} holds runs with other values" in said.stderr
    assert "algorithm.step_size: 1/L then, 0.5/L now" in said.stderr
    assert str(out / "base") not in said.stderr
    changed = {run for run, age in ages(out).items() if age != before[run]}
    assert changed == {"gd/seed-1", "gd/seed-2"}
    assert gather([out]).left_out == ()


@pytest.mark.slow
def test_from_python_what_becomes_of_earlier_runs_is_a_note(out: Path, made: Path) -> None:
    scenario, told = made.parent / "one.yaml", list[Note]()
    edited = ["variants.gd.algorithm.step_size=0.5/L"]
    result = fedsim.run(scenario, out=out, overrides=edited, tell=told.append)
    (note,) = (note for note in result.notes if note.key == RUNS)
    assert note in told
    assert note.about == "gd"
    assert "algorithm.step_size: 1/L then, 0.5/L now" in note.text
    again = fedsim.run(scenario, out=out, overrides=edited)
    assert RUNS not in {note.key for note in again.notes}
    less = fedsim.run(scenario, out=out, overrides=["variants={}"])
    assert [note.about for note in less.notes if note.key == RUNS] == ["gd"]


@pytest.mark.slow
def test_variants_that_the_scenario_no_longer_has_are_named_and_left_out(
    out: Path, made: Path
) -> None:
    scenario = made.parent / "one.yaml"
    said = command("run", scenario, "--out", out, "--set", "variants={}")
    assert "also has runs of gd, which the scenario no longer has" in said.stderr
    for place in ("compare", "report"):
        assert command(place, out).exit_code == 0
    comparison = Comparison.of([out])
    assert list(comparison.runs.labels) == ["base"]
    (note,) = comparison.runs.left_out
    assert "no variant gd any more" in note
    assert note.lower() in (out / "report.html").read_text(encoding="utf-8").lower()
    assert set(gather([out / "gd"]).labels) == {"gd"}, "by its own name it is compared"
    assert set(gather([out, out / "gd"]).labels) == {"base", "gd"}
    assert command("run", scenario, "--out", out).exit_code == 0
    assert gather([out]).left_out == ()


@pytest.mark.slow
def test_what_was_not_made_again_yet_is_not_averaged_with_what_was(out: Path) -> None:
    """An edited scenario was cut off after its first run."""
    edited = fedsim.run(source(stop={"rounds": 5}), out=out.parent / "edited").folder
    shutil.copy(edited / "study.json", out / "study.json")
    shutil.rmtree(out / "base/seed-1")
    shutil.copytree(edited / "base/seed-1", out / "base/seed-1")
    runs = gather([out])
    assert runs.summary[["variant", "seed", "rounds"]].to_numpy().tolist() == [["base", 1, 5]]
    assert len(runs.left_out) == 2
    assert all("earlier state of the scenario small" in text for text in runs.left_out)


@pytest.mark.slow
def test_seeds_of_different_scenarios_are_never_averaged(out: Path, made: Path) -> None:
    harder = {**small()["problem"], "loss": {"kind": "squared", "scale": "sum", "l2": 7.0}}
    other = fedsim.run(source(problem=harder), out=out.parent / "other").folder
    (out / "study.json").unlink()  # as when folders were put together by hand
    shutil.rmtree(out / "base/seed-2")
    shutil.copytree(other / "base/seed-2", out / "base/seed-2")
    comparison = Comparison.of([out])
    assert list(comparison.runs.labels) == ["gd"]
    (note,) = comparison.runs.left_out
    assert "problem.loss.l2: 1 seed-1, 7 seed-2" in note
    alone = Comparison.of([made / "gd"]).cases[0].costs
    pd.testing.assert_frame_equal(comparison.cases[0].costs, alone)
    with pytest.raises(DataError, match="different scenarios"):
        gather([out / "base"])


@pytest.mark.slow
def test_seeds_may_come_one_by_one(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        fedsim.run(source(seed=seed, seeds=1), out=tmp_path)
    runs = gather([tmp_path])
    assert runs.summary["seed"].tolist() == [1, 2, 3] * 2
    assert runs.left_out == ()


@pytest.mark.slow
def test_a_damaged_study_is_named_and_written_again(out: Path) -> None:
    (out / "study.json").write_text("{", encoding="utf-8")
    runs = gather([out])
    assert len(runs.folders) == 4
    (note,) = runs.left_out
    assert f"{out / 'study.json'} is damaged" in note
    fedsim.run(source(), out=out)
    assert gather([out]).left_out == ()


@pytest.mark.slow
def test_a_pricing_writes_over_pricings_alone(out: Path, tmp_path: Path) -> None:
    run = fedsim.run(source(stop={"rounds": 4}), out=tmp_path / "run").folder
    with pytest.raises(DataError, match="nothing was written"):
        fedsim.reprice(out, [WIFI], run)
    priced = tmp_path / "priced"
    fedsim.reprice(out / "base", [WIFI], priced)
    with pytest.raises(DataError, match="re-priced"):
        fedsim.run(source(), out=priced)
    fedsim.reprice(out / "gd", [WIFI], priced)
    assert len(gather([priced]).folders) == 4
    fedsim.reprice(out / "gd/seed-1", ["fleet.0.radio=nb-iot"], priced)
    assert len(gather([priced]).left_out) == 1


@pytest.mark.slow
def test_what_is_stale_is_not_priced(out: Path, made: Path, tmp_path: Path) -> None:
    command("run", made.parent / "one.yaml", "--out", out, "--set", "variants={}")
    result = fedsim.reprice(out, [WIFI], tmp_path / "priced")
    assert result.summary["variant"].tolist() == ["base", "base"]
    (note,) = result.foreseen
    assert note.about == "gd"
    assert "no variant gd any more" in note.text
    said = command("reprice", out, "--set", WIFI, "--out", tmp_path / "again")
    assert note.text in " ".join(said.stderr.split())
