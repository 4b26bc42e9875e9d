"""`fedsim trace` as a user meets it: files, a part of the rounds, and what cannot be traced."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.results.analysis import trace_files
from fedsim.results.record.folder import RunFolder
from tests.runs import small


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    fedsim.run(small(variants=variants, stop={"rounds": 9}), out=folder)
    return folder


def trace(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["trace", *map(str, arguments)])


def rounds(path: Path) -> list[str]:
    events = json.loads(path.read_text())["traceEvents"]
    return [each["name"] for each in events if each["ph"] == "X" and each["cat"] == "round"]


def check_blame(result: Result, *words: str) -> None:
    """Assert exit code 2 and one message that holds the words."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr


def test_every_run_has_its_trace_beside_its_log(out: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(out, tmp_path / "runs")
    result = trace(copy)
    assert result.exit_code == 0, result.output
    trace_files = [copy / name / "seed-1/trace.json" for name in ("base", "gd")]
    lines = "".join(result.stdout.splitlines())
    for file in trace_files:
        assert str(file) in lines
        assert len(rounds(file)) == 9
    assert lines.count("events in") == 2


def test_a_compressed_trace_is_the_same_trace_and_the_same_bytes_again(
    out: Path, tmp_path: Path
) -> None:
    plain, packed, again = (tmp_path / name for name in ("a.json", "a.json.gz", "b.json.gz"))
    for file in (plain, packed, again):  # the name says how
        assert trace(out / "gd", "--out", file).exit_code == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    assert packed.stat().st_size < plain.stat().st_size / 5


@pytest.mark.slow
def test_every_run_s_trace_can_be_compressed_and_goes_with_the_run(
    out: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(out, tmp_path / "runs")
    assert trace(copy, "--gzip").exit_code == 0
    trace_files = sorted(copy.rglob("trace.json*"))
    assert trace_files == [copy / name / "seed-1/trace.json.gz" for name in ("base", "gd")]
    assert trace(copy, "--gzip", "--out", tmp_path / "all").exit_code == 0
    names = ["base-seed-1.json.gz", "gd-seed-1.json.gz"]
    assert sorted(file.name for file in (tmp_path / "all").iterdir()) == names
    for file, name in zip(trace_files, names, strict=True):
        assert file.read_bytes() == (tmp_path / "all" / name).read_bytes()
    RunFolder(copy, "gd", 1)  # another run takes the place of this one
    assert not trace_files[1].exists()


def test_a_compressed_trace_has_a_name_that_says_so(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "chb.json"
    check_blame(trace(out / "base", "--gzip", "--out", file), "--gzip", "chb.json.gz")
    assert not file.exists()


def test_one_run_goes_into_the_file_that_is_named(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "new/chb.json"
    assert trace(out / "base", "--out", file).exit_code == 0
    assert rounds(file)[-1] == "round 9"
    assert not (out / "base/seed-1/trace.json").exists()


def test_several_runs_go_into_a_folder(out: Path, tmp_path: Path) -> None:
    assert trace(out, "--out", tmp_path / "traces").exit_code == 0
    names = sorted(path.name for path in (tmp_path / "traces").iterdir())
    assert names == ["base-seed-1.json", "gd-seed-1.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "first", "last"), [("3:5", 3, 5), (":2", 1, 2), ("8:", 8, 9), ("4", 4, 4)]
)
def test_some_rounds_alone(text: str, first: int, last: int, out: Path, tmp_path: Path) -> None:
    file = tmp_path / "part.json"
    assert trace(out / "base", "--rounds", text, "--out", file).exit_code == 0
    assert rounds(file) == [f"round {number}" for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:b", ["got 'a:b'", "10:20"]),
        (":", ["got ':'"]),
        ("0:3", ["rounds 1 to 9, not 0 to 3", "seed-1"]),
        ("3:12", ["rounds 1 to 9, not 3 to 12"]),
        ("5:4", ["not 5 to 4"]),
    ],
)
def test_rounds_that_there_are_not(text: str, words: list[str], out: Path, tmp_path: Path) -> None:
    check_blame(trace(out, "--rounds", text, "--out", tmp_path / "new"), "--rounds", *words)
    assert not (tmp_path / "new").exists()


def test_one_file_does_not_hold_several_runs(out: Path, tmp_path: Path) -> None:
    check_blame(trace(out, "--out", tmp_path / "all.json"), "--out", "2 runs", "base")
    assert not list(tmp_path.iterdir())


def test_folders_without_runs_have_no_trace(out: Path, tmp_path: Path) -> None:
    check_blame(trace(tmp_path / "none"), "there is no folder")
    check_blame(trace(tmp_path), "there are no runs in", "fedsim run")
    check_blame(trace(out / "base/seed-1/events.parquet"), "there is no folder")


def test_a_run_that_has_not_ended_is_named(out: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(out, tmp_path / "runs")
    (copy / "gd/seed-1/summary.json").unlink()
    result = trace(copy)
    check_blame(result, "has not ended")
    assert str(Path("gd/seed-1")) in "".join(result.stderr.split("\n"))
    assert not list(copy.rglob("trace.json"))


def test_some_clients_alone(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "part.json"
    assert trace(out / "base", "--clients", "1:2", "--out", file).exit_code == 0
    events = json.loads(file.read_text())["traceEvents"]
    threads = {each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert {name.partition(" ")[0] for name in threads} == {"rounds", "client-1", "client-2"}
    assert rounds(file)[-1] == "round 9"


def test_clients_that_there_are_not(out: Path, tmp_path: Path) -> None:
    check_blame(trace(out / "base", "--clients", "2:900"), "--clients", "clients 0 to")
    check_blame(trace(out / "base", "--clients", "x"), "--clients", "got 'x'")
    assert not list(out.rglob("trace.json"))


def test_a_log_that_nobody_could_look_at_is_not_traced(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "MOST_ROWS", 100)
    file = tmp_path / "trace.json"
    result = trace(out / "base", "--out", file)
    check_blame(result, "at most 100", "--rounds", "--clients", "base")
    assert not file.exists()
    assert trace(out / "base", "--out", file, "--rounds", "1").exit_code == 0
    assert trace(out / "base", "--out", file, "--clients", "0").exit_code == 0
