"""A campaign that was cut off is compared as far as it went, and says what it lacks."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import RepricingError
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.compare.runs import UnfinishedCampaign, find_unfinished
from fedsim.results.record.studies import Study
from fedsim.running.run import RunProgress
from tests.runs import small

STUDY = small(
    name="phones",
    seeds=2,
    stop={"rounds": 200},
    variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
)


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that was interrupted in its third run of four."""

    def watch(progress: RunProgress) -> None:
        if (progress.variant, progress.seed, progress.round) == ("base", 2, 100):
            raise KeyboardInterrupt

    out = tmp_path_factory.mktemp("cut-off") / "out"
    with pytest.raises(KeyboardInterrupt):
        fedsim.run(STUDY, out=out, watch=watch)
    return out


@pytest.mark.slow
def test_what_has_ended_is_compared_as_if_nothing_else_had_been_asked_for(
    cut_off: Path, tmp_path: Path
) -> None:
    fedsim.run(STUDY | {"seeds": 1}, out=tmp_path)
    part, whole = (Comparison.of([place]) for place in (cut_off, tmp_path))
    for name, frame in part.frames().items():
        other = whole.frames()[name]
        marks = set(frame.pop("unfinished")), set(other.pop("unfinished"))
        assert marks == (({"2 of 4 runs"}, {""}) if len(frame) else (set(), set()))
        pd.testing.assert_frame_equal(frame, other)
    assert whole.runs.extent == ""


@pytest.mark.slow
def test_the_tables_are_marked_and_the_missing_runs_named(cut_off: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["compare", str(cut_off), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "unfinished: 2 of 4 runs" in " ".join(result.stdout.split())
    told = (
        f"left out: {cut_off} is unfinished, with 2 of 4 runs of the scenario phones: "
        f"{cut_off}/base/seed-2 has not ended (there are 100 rounds of it), "
        f"{cut_off}/gd/seed-2 has not begun; run the scenario again to finish it"
    )
    assert told in result.stderr.splitlines()
    assert result.stderr.count("base/seed-2") == 1
    for name in ("runs", "costs", "pairs"):
        assert set(pd.read_csv(tmp_path / f"{name}.csv")["unfinished"]) == {"2 of 4 runs"}
    for figure in tmp_path.glob("*.svg"):
        assert "unfinished: 2 of 4 runs" in figure.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_report_names_them_as_well(cut_off: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(cut_off), "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert f"{cut_off}/base/seed-2 has not ended (there are 100 rounds of it)" in page.read_text()


@pytest.mark.slow
def test_once_it_is_finished_nothing_is_marked(cut_off: Path, tmp_path: Path) -> None:
    done = fedsim.run(STUDY, out=tmp_path).folder
    comparison = Comparison.of([done])
    assert (comparison.runs.extent, comparison.runs.left_out) == ("", ())


def test_a_campaign_without_a_run_that_has_ended_says_how_far_it_is(tmp_path: Path) -> None:
    def watch(progress: RunProgress) -> None:
        if progress.round == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(STUDY, out=tmp_path, watch=watch)
    with pytest.raises(fedsim.DataError, match=r"0 of 4 runs .*base/seed-1 has not ended"):
        Comparison.of([tmp_path])


def test_a_study_that_does_not_say_its_seeds_lacks_nothing(cut_off: Path, tmp_path: Path) -> None:
    content = json.loads((cut_off / "study.json").read_text())
    assert content["seeds"] == {"base": [1, 2], "gd": [1, 2]}
    assert list(find_unfinished(cut_off, Study("phones", "", {"base": "1"}))) == []


@pytest.mark.parametrize(
    ("priced", "helps"), [(False, "run the scenario"), (True, "price the runs")]
)
def test_what_finishes_a_folder_is_what_has_made_it(
    priced: bool, helps: str, tmp_path: Path
) -> None:
    left = UnfinishedCampaign(tmp_path, "phones", 3, {"gd": [2]}, priced)
    assert left.extent == "2 of 3 runs"
    assert left.describe() == (
        f"{tmp_path} is unfinished, with 2 of 3 runs of the scenario phones:"
        f" {tmp_path}/gd/seed-2 has not begun; {helps} again to finish it"
    )


@pytest.mark.slow
def test_a_pricing_that_was_cut_off_says_what_it_lacks(tmp_path: Path) -> None:
    run, priced = (
        fedsim.run(STUDY | {"stop": {"rounds": 3}}, out=tmp_path / "run").folder,
        tmp_path / "priced",
    )
    wifi = ["fleet.0.radio=wifi"]

    def watch(progress: RunProgress) -> None:
        if (progress.variant, progress.seed) == ("gd", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.reprice(run, wifi, priced, watch=watch)
    runs = Comparison.of([priced]).runs
    assert runs.extent == "2 of 4 runs"
    (note,) = runs.left_out
    assert f"{priced}/gd/seed-2 has not begun; price the runs again to finish it" in note
    fedsim.reprice(run / "gd", wifi, priced)
    assert Comparison.of([priced]).runs.extent == ""


def test_a_pricing_that_is_refused_announces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, priced = (
        fedsim.run(STUDY | {"stop": {"rounds": 3}}, out=tmp_path / "run").folder,
        tmp_path / "priced",
    )

    def refuse(*_: object) -> None:
        raise RepricingError([])

    monkeypatch.setattr("fedsim.addons.repricing.api.execute", refuse)
    with pytest.raises(RepricingError):
        fedsim.reprice(run, ["fleet.0.radio=wifi"], priced)
    assert not priced.exists()


def test_where_no_run_has_ended_the_command_shows_how_far_each_has_come(tmp_path: Path) -> None:
    def watch(progress: RunProgress) -> None:
        if progress.round == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(STUDY, out=tmp_path, watch=watch)
    result = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert result.exit_code == 2
    assert "so far; unfinished: 0 of 4 runs have ended" in result.stdout
    (row,) = (line for line in result.stdout.splitlines() if line.startswith(" base "))
    rounds = fedsim.open(tmp_path).rounds
    assert row.split()[:4] == ["base", "1", "100", f"{rounds['transmissions'].sum():,}"]
    assert f"{rounds['gap'].iloc[-1]:.4g}" in row.split()
    assert "gd" not in result.stdout
    assert "0 of 4 runs of the scenario phones" in " ".join(result.stderr.split())
    assert not (tmp_path / "comparison").exists()
