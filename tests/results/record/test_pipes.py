"""Pipes and hard links within a study: nothing waits for the one, or writes into the other."""

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import FedsimError
from fedsim.core.files import open_file, read_bytes
from fedsim.results.record.folder import HISTORY
from fedsim.results.record.journal import append_lines, read_lines
from tests.runs import files, small

STUDY = small(stop={"rounds": 2}, models={"every": 1})
READ = (
    *("study.json", ".lock", ".lock.json", HISTORY, ".live/1-1.json"),
    *(f"base/seed-1/{name}.parquet" for name in ("events", "rounds", "clients", "models")),
    *(f"base/seed-1/{name}" for name in ("scenario.yaml", "manifest.json", "summary.json")),
    "base/seed-1/failed.json",
)
"""Files of a study that commands read."""


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


def plant(place: Path) -> None:
    """Put a pipe in the place of what is there."""
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)


@pytest.mark.parametrize("name", READ)
def test_no_command_waits_for_a_pipe(name: str, out: Path) -> None:
    """Each ends, with a result or with a message."""
    plant(out / name)
    for command in (("status",), ("history",), ("clean", "--yes")):
        ended = CliRunner().invoke(app, [command[0], str(out), *command[1:]])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), command


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_nor_does_one_that_reads_a_whole_study(name: str, out: Path) -> None:
    plant(out / name)
    for command in ("compare", "report", "trace"):
        ended = CliRunner().invoke(app, [command, str(out)])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), command


@pytest.mark.parametrize("name", READ)
def test_a_run_goes_on_beside_a_pipe_or_is_refused(name: str, out: Path) -> None:
    plant(out / name)
    refused = ""
    try:
        fedsim.run(STUDY, out=out)
    except (FedsimError, OSError) as error:
        refused = str(error)
    assert "it is a pipe" in refused or fedsim.open(out).summary["status"].tolist() == ["done"]


def test_a_history_with_another_name_is_not_written(out: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (out / HISTORY).unlink()
    os.link(precious, out / HISTORY)
    fedsim.run(STUDY, out=out)
    assert precious.read_text() == "mine\n"
    assert not append_lines(out / HISTORY, {"call": "1"})


def test_a_run_replaces_a_hard_link_and_does_not_write_into_it(out: Path, tmp_path: Path) -> None:
    kept = Path(shutil.copytree(out, tmp_path / "kept", copy_function=os.link))
    before = files(kept)
    fedsim.run(STUDY, out=out, fresh=True)
    assert files(kept) == before


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path, "a folder")):
        with pytest.raises(OSError, match=f"it is {kind}; expected a file"):
            open_file(path)
    with pytest.raises(FedsimError, match="it is a pipe"):
        read_bytes(tmp_path / "pipe")
    assert read_lines(tmp_path / "pipe") == []
