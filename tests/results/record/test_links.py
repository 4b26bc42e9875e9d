"""Symbolic links within a study: nothing that they lead to is ever touched."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.atomic import Draft, check_links, write_whole
from fedsim.core.errors import OutputError
from fedsim.results.record.folder import HISTORY, RunFolder
from fedsim.results.record.parts import PartWriter, remove_parts
from tests.runs import files, small

STUDY = small(stop={"rounds": 2}, models={"every": 1})
WRITTEN = (
    *("study.json", ".lock", ".lock.json", "base", "base/seed-1"),
    *(f"base/seed-1/{name}.parts" for name in ("events", "rounds", "models")),
    *(f"base/seed-1/{name}.parquet" for name in ("events", "rounds", "clients", "models")),
    *(f"base/seed-1/{name}" for name in ("scenario.yaml", "manifest.json", "summary.json")),
)
"""Every path that a run writes, but for its history: a run goes on where that is a link."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study whose run is whole."""
    out = tmp_path_factory.mktemp("whole") / "out"
    fedsim.run(STUDY, out=out)
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


@pytest.fixture
def precious(whole: Path, tmp_path: Path) -> Path:
    """Return a folder that is no part of a study, and looks like all of one."""
    folder = Path(shutil.copytree(whole / "base", tmp_path / "precious"))
    (folder / "part-000000-0123456789abcdef.parquet").write_bytes(b"a part")
    (folder / "half.aside").write_bytes(b"a draft")
    shutil.copytree(whole / "base", folder / "token" / "base")
    return folder


def plant(place: Path, target: Path) -> None:
    """Put a link in the place of what is there."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def test_the_paths_are_those_that_a_run_writes(whole: Path) -> None:
    there = {str(path.relative_to(whole)) for path in whole.rglob("*")}
    parts = {name for name in WRITTEN if name.endswith(".parts")}  # which go with the run's end
    assert there == {*WRITTEN, HISTORY} - parts - {".lock.json"}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_run_writes_through_no_link(name: str, out: Path, precious: Path) -> None:
    is_folder = "." not in name or name.endswith(".parts")
    target = precious if is_folder else precious / "seed-1" / "summary.json"
    plant(out / name, target)
    before = files(precious)
    with pytest.raises(OutputError, match="a symbolic link") as caught:
        fedsim.run(STUDY, out=out, fresh=True)
    assert str(caught.value).startswith(f"cannot write {out / name}: ")
    assert caught.value.misplaced
    assert files(precious) == before


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != ".lock.json"])
def test_a_link_to_nothing_makes_nothing(name: str, out: Path, tmp_path: Path) -> None:
    plant(out / name, tmp_path / "nothing")
    with pytest.raises(OutputError, match="a symbolic link"):
        fedsim.run(STUDY, out=out, fresh=True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["base", "base/seed-1", "base/seed-1/events.parts"])
def test_the_folder_of_a_run_is_not_cleared_through_a_link(
    name: str, out: Path, precious: Path
) -> None:
    """Neither does it rest on whoever asks for the folder that the link has been looked for."""
    plant(out / name, precious)
    before = files(precious)
    with pytest.raises(OutputError, match="a symbolic link"):
        RunFolder(out, "base", 1)
    assert files(precious) == before


@pytest.mark.parametrize("name", [".making", "base", "base/seed-1"])
def test_nor_does_a_share(name: str, out: Path, precious: Path) -> None:
    plant(out / name, precious)
    before = files(precious)
    with pytest.raises(OutputError, match="a symbolic link"):
        fedsim.run(STUDY, out=out, shard="1/1", fresh=True)
    assert files(precious) == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("compare",), "comparison"),
        (("reprice", "--set", "fleet.0.radio=ble"), "repriced"),
        (("robust", "--worlds", "8"), "robustness"),
        (("trace",), "base/seed-1/trace.json"),
        (("trace", "--gzip"), "base"),
        (("report",), "report.html"),
    ],
)
def test_nor_does_another_command(
    command: tuple[str, ...], name: str, out: Path, precious: Path
) -> None:
    is_file = name.endswith((".json", ".html"))
    plant(out / name, precious / "seed-1" / "summary.json" if is_file else precious)
    before = files(precious)
    ended = CliRunner().invoke(app, [command[0], str(out), *command[1:]])
    # `compare` has printed its answer by then, which is a part of its work.
    assert ended.exit_code == (1 if name == "comparison" else 2), ended.output
    assert "it is a symbolic link" in ended.stderr
    assert files(precious) == before


def test_a_study_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "scratch")
    out = tmp_path / "runs" / "study"
    (tmp_path / "elsewhere").mkdir()
    out.symlink_to(tmp_path / "elsewhere")
    fedsim.run(STUDY, out=out)
    fedsim.run(STUDY, out=out, shard="1/1", fresh=True)
    assert (tmp_path / "elsewhere/base/seed-1/summary.json").is_file()


def test_a_draft_is_a_new_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"mine")
    draft = Draft(tmp_path / "probe")
    number = int(draft._aside.name.rpartition("-")[2].removesuffix(".aside"))
    draft.drop()
    for how in (os.symlink, os.link):
        number += 1
        how(kept, tmp_path / f"report.{os.getpid()}-{number}.aside")
        write_whole(tmp_path / "report", b"a report")
        assert (kept.read_bytes(), (tmp_path / "report").read_bytes()) == (b"mine", b"a report")


def test_parts_behind_a_link_stay(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "part-1").write_bytes(b"mine")
    (tmp_path / "events.parts").symlink_to(tmp_path / "precious")
    with pytest.raises(OutputError, match="a symbolic link"):
        remove_parts(tmp_path / "events.parts")
    assert files(tmp_path / "precious") == {"part-1": b"mine"}


def test_links_are_looked_for_below_the_root_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    check: Callable[[str, str], None] = lambda root, path: check_links(  # noqa: E731
        tmp_path / root, tmp_path / root / path
    )
    check("b", "")
    check("b", "not/there")
    check("a", ".")
    with pytest.raises(OutputError):
        check("", "b/not/there")
    with pytest.raises(OutputError):
        check("", "b")


@pytest.mark.parametrize("swapped", ["seed-1", "seed-1/events.parts"])
def test_a_link_that_is_planted_while_a_run_goes_on_is_not_followed(
    swapped: str, tmp_path: Path
) -> None:
    """The folder is moved away and a link takes its place: what it leads to stays as it is."""
    run, elsewhere = tmp_path / "seed-1", tmp_path / "elsewhere"
    (elsewhere / "events.parts").mkdir(parents=True)
    (elsewhere / "part-0.parquet").write_bytes(b"not ours")
    parts, table = PartWriter(run, "events"), pa.table({"seq": [1, 2, 3]})
    parts.write(table)
    (tmp_path / swapped).rename(tmp_path / "moved")
    (tmp_path / swapped).symlink_to(elsewhere)
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    with pytest.raises(OutputError, match="symbolic link"):
        parts.write(table)
    with suppress(OutputError):  # the table itself has its place where only the parts' is gone
        parts.close()
    parts.abandon()
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
