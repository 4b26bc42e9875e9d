"""Full disks and limits: one readable error, nothing by halves, and a rerun with room completes."""

import errno
import pickle
import re
import resource
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.atomic import ASIDE, Draft, write_whole
from fedsim.core.errors import Fault
from fedsim.results.record.parts import read_table
from tests.campaigns.faults.operations import met
from tests.disks import MOMENTS, Disk
from tests.runs import files
from tests.tiers import every

SCENARIO = """\
problem:
  loss: {kind: squared, scale: sum, l2: 1}
  data: {kind: sklearn, name: diabetes}
algorithm: {kind: chb, step_size: 1/L}
fleet:
  - {count: 2, device: phone-mid, radio: lte}
stop: {rounds: 70}
"""
"""Of enough rounds for a second part of the log."""

COMMANDS = {
    "run": ("run", "{scenario}", "--out", "{out}"),
    "compare": ("compare", "{runs}", "--out", "{out}"),
    "report": ("report", "{runs}", "--out", "{out}/report.html"),
    "trace": ("trace", "{runs}", "--out", "{out}"),
    "reprice": ("reprice", "{runs}", "--set", "fleet.0.radio=wifi", "--out", "{out}"),
}
"""All that write."""


COMMAND = (sys.executable, "-m", "fedsim", "run")


def invoke(command: str, **places: Path) -> Result:
    """Give a command, and look at how it ends."""
    words = [word.format_map(places) for word in COMMANDS[command]]
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A scenario, and its runs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.yaml").write_text(SCENARIO)
    places = {"scenario": folder / "small.yaml", "runs": folder / "runs"}
    assert invoke("run", scenario=places["scenario"], out=places["runs"]).exit_code == 0
    return places


def check_readable(out: Path) -> None:
    """Assert that whatever has a name is whole, and that nothing else is there."""
    for path in out.rglob("*"):
        assert not path.name.endswith(ASIDE)
        if path.suffix == ".parquet":
            read_table(path.parent, path.stem) if path.parent.suffix != ".parts" else None


def with_room(command: str, made: dict[str, Path], out: Path) -> int:
    """Give a command where there is room, and return how many files it writes."""
    disk = Disk()
    with met(out.parent, disk):
        assert invoke(command, **made, out=out).exit_code == 0
    return len(disk.names)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_meets_a_full_disk_at_any_file_says_so_once_and_a_rerun_completes(
    moment: str, made: dict[str, Path], tmp_path: Path
) -> None:
    wanted = files(fedsim.run(made["scenario"], out=tmp_path / "whole").folder)
    for number in count():
        out, disk = tmp_path / str(number), Disk(number, moment)
        with met(out, disk):
            try:
                fedsim.run(made["scenario"], out=out)
            except fedsim.OutputError as error:
                told = str(error), error.__suppress_context__ or error.__context__ is None
        check_readable(out)
        if not disk.full:
            break
        assert told[0].removeprefix("base, seed 1: ").startswith(f"cannot write {out}")
        assert told[1], "another error hides behind it"
        assert not (out / "base/seed-1/summary.json").exists()
        fedsim.run(made["scenario"], out=out)
        assert files(out) == wanted
    assert number > len(wanted)  # parts of tables were written as well


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_meets_a_full_disk_says_so_in_one_line_and_again_completes(
    command: str, made: dict[str, Path], tmp_path: Path
) -> None:
    number = with_room(command, made, tmp_path / "whole")
    wanted = files(tmp_path / "whole")
    for place, moment in ((0, "write"), (number - 1, "close")):
        out, disk = tmp_path / moment, Disk(place, moment)
        with met(out.parent, disk):  # what is not whole yet lies beside it
            result = invoke(command, **made, out=out)
        assert result.exit_code == 1, result.output
        (line,) = (line for line in result.stderr.splitlines() if "No space" in line)
        assert re.match(rf"cannot write {out}.*: No space left on device; make room", line)
        check_readable(out.parent)
    assert invoke(command, **made, out=out).exit_code == 0
    assert files(out) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_limit_of_the_file_size_is_told_in_one_line(
    jobs: int, made: dict[str, Path], tmp_path: Path
) -> None:
    out, size = tmp_path / "out", 8192
    done = subprocess.run(
        [*COMMAND, str(made["scenario"]), "--out", str(out), "--jobs", str(jobs)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for noise in ("Traceback", "ignored", "During handling", "leaked", "never retrieved"):
        assert noise not in done.stderr
    last = done.stderr.splitlines()[-1]
    last = last.removeprefix("base, seed 1: ")
    assert re.match(rf"cannot write {out}/base/seed-1/.*: File too large; raise the limit", last)
    check_readable(out)
    assert not (out / "base/seed-1/summary.json").exists()
    assert invoke("run", **{**made, "out": out}).exit_code == 0
    assert files(out) == files(made["runs"])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_where_a_folder_should_go_is_named(
    command: str, made: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("not a folder")
    result = invoke(command, **made, out=tmp_path / "out")
    assert result.exit_code == 2
    assert f"cannot write {tmp_path / 'out'}" in result.stderr
    assert (tmp_path / "out").read_text() == "not a folder"


def test_a_cache_without_room_ends_no_run(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("not a folder")
    monkeypatch.setenv("FEDSIM_CACHE", str(tmp_path / "cache"))
    assert invoke("run", **made, out=tmp_path / "out").exit_code == 0


def test_what_a_writer_says_after_the_first_error_goes_nowhere(tmp_path: Path) -> None:
    disk = Disk(0, "write")
    with met(tmp_path, disk):
        draft = Draft(tmp_path / "file")
        first = draft.write(b"one")
        draft.flush()  # only then does it meet the disk
        assert first == draft.write(b"and two") - 4
        with pytest.raises(fedsim.OutputError, match="No space left"):
            draft.check()
        with pytest.raises(fedsim.OutputError, match="No space left"):
            draft.keep()
    assert list(tmp_path.iterdir()) == []


def test_a_draft_that_is_given_up_leaves_what_was_there(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"before")
    with suppress(KeyboardInterrupt), Draft(tmp_path / "file") as draft:
        draft.write(b"half")
        raise KeyboardInterrupt
    assert files(tmp_path) == {"file": b"before"}


def test_an_unfinished_run_keeps_no_rows_beside_its_parts(
    made: dict[str, Path], tmp_path: Path
) -> None:
    copytree(made["runs"], tmp_path / "out")
    (tmp_path / "out/base/seed-1/events.parquet.1-1.aside").write_bytes(b"left by a kill")
    fedsim.run(made["scenario"], out=tmp_path / "out", fresh=True)
    assert files(tmp_path / "out") == files(made["runs"])


@every(
    "error",
    [
        fedsim.DataError("data.path", "no such file"),
        fedsim.ScenarioError([Fault("a.yaml:3", "seed", "got -1")]),
        fedsim.RepricingError([Fault("", "out", "the run itself")]),
        fedsim.OutputError(errno.ENOSPC, "No space left on device", "/out/events.parquet"),
        fedsim.Deadlock("nobody answers"),
    ],
)
def test_errors_come_back_whole_from_another_process(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


@pytest.mark.slow
def test_a_file_in_place_of_a_folder_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "fedsim", "run", "scenarios/censoring.yaml"]
    done = subprocess.run(
        [*command, "--out", tmp_path / "file"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "file: it is a file, where a folder is needed\n" in done.stderr
