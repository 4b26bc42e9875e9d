"""Folders in which something is wrong: each is named, the others are compared all the same."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import DataError, VersionError
from fedsim.results import report
from fedsim.results.analysis import Comparison, gather, write_traces
from fedsim.results.record.folder import HISTORY
from fedsim.results.record.journal import append_lines
from fedsim.results.record.read import read_run, read_summaries, run_folders
from fedsim.results.record.studies import read_study
from tests.results.analysis.breaking import BROKEN, says, sealed, table, text, without
from tests.runs import small

START = table("rounds", lambda own: own.slice(0, 1))
EMPTY = sealed(START, says("summary.json", rounds=0, reason="time: 1 s"))
"""What makes a run one that ended before its first round did."""

ALL = pytest.mark.parametrize("name", BROKEN)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "out"
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    fedsim.run(small(variants=variants, seeds=2, stop={"rounds": 4}), out=folder)
    return folder


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may break."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


@pytest.mark.slow
@ALL
def test_a_broken_run_is_named_and_the_rest_is_compared(name: str, whole: Path, out: Path) -> None:
    harm, words = BROKEN[name]
    harm(out / "gd/seed-2")
    comparison = Comparison.of([out])
    (note,) = comparison.runs.left_out
    if name == "unfinished":  # missing runs are counted
        assert note.startswith(f"{out} is unfinished: it has 3 of 4 runs")
        assert "missing: 1 of 2 of gd. " in note
    else:
        assert words in note
        assert str(out / "gd/seed-2") in note
    assert comparison.notes[0] == f"left out: {note}"
    alone = Comparison.of([whole / "base", whole / "gd/seed-1"])
    pd.testing.assert_frame_equal(comparison.cases[0].costs, alone.cases[0].costs)
    assert comparison.cases[0].table.set_index("variant")["runs"].to_dict() == {"base": 2, "gd": 1}


@ALL
def test_a_broken_run_alone_is_one_clear_error(name: str, out: Path) -> None:
    harm, words = BROKEN[name]
    harm(out / "gd/seed-2")
    for own in (gather, lambda places: write_traces(places[0])):
        with pytest.raises(DataError) as caught:
            own([out / "gd/seed-2"])
        assert words in str(caught.value)
    assert not list(out.rglob("trace.json"))


def test_round_tables_that_count_energy_otherwise_are_not_mixed_with_new_ones(out: Path) -> None:
    """One sentence tells why; the energy of the tails after a round is not in these tables."""
    for seed in (1, 2):
        sealed(says("manifest.json", rounds_version=2))(out / f"base/seed-{seed}")
    said = (
        f"the 2 logs in {out} have a round table of version 2, and this fedsim reads version 3,"
        " with the energy until radios sleep; repeat the run with fedsim run"
    )
    comparison = Comparison.of([out])
    assert [*comparison.runs.labels] == ["gd"]
    assert list(comparison.runs.left_out) == [said]
    with pytest.raises(DataError) as caught:
        Comparison.of([out / "base"])
    assert str(caught.value) == said
    with pytest.raises(DataError, match="base/seed-1 has a round table of version 2"):
        _ = fedsim.Result(out, tuple(run_folders(out))).rounds


def test_runs_of_an_earlier_version_come_with_the_command_that_makes_them_again(out: Path) -> None:
    study = read_study(out)
    assert study is not None
    call = {"digest": study.digest, "command": ["fedsim", "run", "mine.yaml"]}
    append_lines(out / HISTORY, call)
    for seed in (1, 2):
        sealed(says("manifest.json", rounds_version=2))(out / f"base/seed-{seed}")
    (said,) = gather([out]).left_out
    assert said.endswith("; make the runs again: fedsim run mine.yaml")


def test_a_variant_of_which_no_run_is_left_is_no_variant(out: Path) -> None:
    for seed, name in ((1, "unfinished"), (2, "no joules")):
        BROKEN[name][0](out / f"base/seed-{seed}")
    comparison = Comparison.of([out])
    assert list(comparison.runs.labels) == [comparison.against] == ["gd"]
    assert len(comparison.runs.left_out) == 2


def test_a_run_that_ended_before_its_first_round_did_is_no_failure_of_its_method(
    out: Path,
) -> None:
    EMPTY(out / "gd/seed-1")
    (note,) = gather([out]).left_out
    assert "is empty" in note
    assert "time: 1 s" in note


def test_empty_runs_alone_are_said_to_be_so(out: Path) -> None:
    for seed in (1, 2):
        EMPTY(out / f"gd/seed-{seed}")
    comparison = Comparison.of([out / "gd"])
    assert comparison.cases[0].table["reached"].tolist() == [0]
    assert any("completed a round" in note for note in comparison.notes)


def test_a_folder_of_a_run_that_was_stopped_at_once_is_named(out: Path) -> None:
    (out / "gd/seed-3").mkdir()
    (note,) = gather([out]).left_out
    assert f"{out / 'gd/seed-3'} has not ended" in note


def test_a_folder_without_runs_among_others_is_named(out: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    runs = gather([out, tmp_path / "none"])
    assert len(runs.folders) == 4
    assert f"no runs in {tmp_path / 'none'}" in runs.left_out[0]


@pytest.mark.slow
def test_the_commands_name_them_all_and_go_on(out: Path) -> None:
    harms = {"base/seed-2": "later version", "gd/seed-1": "log cut", "gd/seed-2": "no joules"}
    for place, name in harms.items():
        BROKEN[name][0](out / place)
    for command in ("compare", "report"):
        result = CliRunner().invoke(app, [command, str(out)])
        assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    for place, name in harms.items():
        assert f"{out / place}" in page
        assert BROKEN[name][1] in page
    assert len(pd.read_csv(out / "comparison/runs.csv")) == 1


def test_a_folder_of_an_older_version_is_one_line_of_every_reader(out: Path) -> None:
    for folder in run_folders(out):  # as it was then: other keys, no seal
        says("manifest.json", schema_version=3)(folder)
        says("summary.json", looks=0)(folder)
    helps = "repeat the run with fedsim run"
    otherwise = "counts rounds and objectives otherwise, so that the figures cannot be compared"
    said = f"have schema version 3, and this fedsim reads version 6, which {otherwise}; {helps}"
    priced = ["reprice", "--set", "fleet.0.radio=nb-iot"]
    commands = ["compare"], ["compare", "--out", "new"], ["report"], ["trace"], priced
    for command, *more in commands:
        result = CliRunner().invoke(app, [command, str(out), *more])
        assert result.exit_code == 2, result.output
        (line,) = result.stderr.splitlines()
        one = f"the log in {out}/base/seed-1 {said}".replace("have", "has", 1)
        assert line == (one if command in {"trace", "reprice"} else f"the 4 logs in {out} {said}")
    with pytest.raises(VersionError, match="has schema version 3"):
        _ = fedsim.Result(out, tuple(run_folders(out))).summary
    says("manifest.json", schema_version=99)(out / "gd/seed-1")
    with pytest.raises(DataError) as caught:
        gather([out])
    assert sorted(line[:9] for line in str(caught.value).splitlines()) == ["the 3 log", "the log i"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (sealed(text("scenario.yaml", "a: [b")), "it is no YAML"),
        (sealed(text("scenario.yaml", "- 1")), "no fleet"),
        (text("scenario.yaml", "a: [b"), "scenario.yaml is damaged"),
        (without("scenario.yaml"), "there is no"),
    ],
)
def test_a_scenario_that_cannot_be_read_is_an_error_of_the_report(
    harm: object, words: str, out: Path
) -> None:
    assert callable(harm)
    harm(out / "base/seed-1")
    with pytest.raises(DataError, match=words):
        report.write(out / "base/seed-1")


def test_damage_within_a_table_is_told_when_it_is_read(out: Path) -> None:
    path = out / "base/seed-1/rounds.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"rounds\.parquet is damaged"):
        read_run(path.parent, "rounds")
    assert len(gather([out]).left_out) == 1


def test_a_summary_that_is_cut_is_named(out: Path) -> None:
    summary = json.loads((out / "gd/seed-1/summary.json").read_text(encoding="utf-8"))
    assert read_summaries([out / "gd/seed-1"])["t"].tolist() == [summary["t"]]
    (out / "gd/seed-1/summary.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"summary\.json is damaged"):
        read_summaries([out / "gd/seed-1"])
