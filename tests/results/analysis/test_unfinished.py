"""A campaign that was cut off is compared as far as it went, and says what it lacks."""

import json
import shlex
import shutil
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
        f"left out: {cut_off} is unfinished: it has 2 of 4 runs of the scenario phones;"
        " missing: 1 of 2 of base, 1 of 2 of gd."
        f" To resume, run the scenario again into {cut_off}"
    )
    assert told in result.stderr.splitlines()
    for name in ("runs", "costs", "pairs"):
        assert set(pd.read_csv(tmp_path / f"{name}.csv")["unfinished"]) == {"2 of 4 runs"}
    for figure in tmp_path.glob("*.svg"):
        assert "unfinished: 2 of 4 runs" in figure.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_report_names_them_as_well(cut_off: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(cut_off), "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert f"{cut_off} is unfinished: it has 2 of 4 runs" in page.read_text()


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
    with pytest.raises(fedsim.DataError, match=r"0 of 4 runs .*missing: 2 of 2 of base"):
        Comparison.of([tmp_path])


def test_a_study_that_does_not_say_its_seeds_lacks_nothing(cut_off: Path, tmp_path: Path) -> None:
    content = json.loads((cut_off / "study.json").read_text())
    assert content["seeds"] == {"base": [1, 2], "gd": [1, 2]}
    assert list(find_unfinished(cut_off, Study("phones", "", {"base": "1"}))) == []


@pytest.mark.parametrize(
    ("priced", "helps"), [(False, "run the scenario again into {}"), (True, "price the runs again")]
)
def test_what_finishes_a_folder_is_what_has_made_it(
    priced: bool, helps: str, tmp_path: Path
) -> None:
    study = Study("phones", "", {}, priced, {"base": [1], "gd": [1, 2]})
    left = UnfinishedCampaign(tmp_path, study, {"gd": [2]})
    assert left.extent == "2 of 3 runs"
    assert left.describe() == (
        f"{tmp_path} is unfinished: it has 2 of 3 runs of the scenario phones;"
        f" missing: 1 of 2 of gd. To resume, {helps.format(tmp_path)}"
    )


def test_missing_runs_are_counted_however_many_there_are(tmp_path: Path) -> None:
    seeds = {f"variant-{number}": [*range(1, 21)] for number in range(9)}
    left = UnfinishedCampaign(tmp_path, Study("many", "", {}, seeds=seeds), seeds)
    assert "missing: 20 of 20 of variant-0, " in left.describe()
    assert ", 80 of 4 more variants. To resume, " in left.describe()
    assert len(left.describe()) < 300 + 2 * len(str(tmp_path))


@pytest.mark.slow
def test_the_command_that_resumes_is_the_one_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --fresh, which would repeat all runs; a share of the runs is not all of them."""
    study = tmp_path / "my study.yaml"
    monkeypatch.chdir(tmp_path)
    study.write_text(json.dumps(STUDY | {"stop": {"rounds": 2}}))
    shard = ["--shard", "1/2"]
    for words in (["my study.yaml", "--set", "seeds=3", "--fresh"], ["my study.yaml", *shard]):
        words += ["--set", "seeds=3", "--out", "out"]
        monkeypatch.setattr("sys.argv", ["/bin/fedsim", "run", *words])
        result = CliRunner().invoke(app, ["run", *words])
        assert result.exit_code == 0, result.output
    assert Comparison.of([Path("out")]).runs.left_out == ()
    shutil.rmtree("out/gd/seed-3")
    (note,) = Comparison.of([Path("out")]).runs.left_out
    command = "fedsim run 'my study.yaml' --set seeds=3 --set seeds=3 --out out"
    assert note.endswith(f"missing: 1 of 3 of gd. To resume, repeat `{command}`")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert Comparison.of([Path("out")]).runs.left_out == ()


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
    assert note.endswith("missing: 2 of 2 of gd. To resume, price the runs again")
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
