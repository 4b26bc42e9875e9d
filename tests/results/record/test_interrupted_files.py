"""What is done to files, in which order: at every moment a folder is what it says."""

import errno
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import copytree

import pytest

import fedsim
from fedsim.core.atomic import write_whole
from fedsim.results.record.folder import SUMMARY, RunFolder
from fedsim.results.record.parts import read_table
from fedsim.running.run import RunProgress
from tests.campaigns.faults.operations import Counter, Meet, Operation, met
from tests.runs import files, small

RUN = Path("base/seed-1")


class Stopped(BaseException):
    """An interrupt, or a kill."""


def at(number: int, error: Callable[[], BaseException]) -> Meet:
    """Return what raises an error at one operation."""

    def meet(operation: Operation) -> None:
        if operation.number == number:
            raise error()

    return meet


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was cut off once its log had two parts."""

    def watch(reached: RunProgress) -> None:
        if reached.round == 28:
            raise KeyboardInterrupt

    out = tmp_path_factory.mktemp("cut") / "out"
    with pytest.raises(KeyboardInterrupt):
        fedsim.run(small(stop={"rounds": 60}), out=out, watch=watch)
    assert len(list((out / RUN / "events.parts").iterdir())) == 2
    return out


def removed(out: Path) -> list[Path]:
    """Return what is removed of a run that is made again, in order."""
    counter = Counter()
    with met(out, counter):
        RunFolder(out, "base", 1)
    return [each.path for each in counter.seen if each.name in {"unlink", "rmdir"}]


def test_a_run_is_over_with_the_first_file_that_is_removed(
    unfinished: Path, tmp_path: Path
) -> None:
    out = copytree(unfinished, tmp_path / "out")
    (out / RUN / SUMMARY).write_text("{}")
    assert removed(out)[0].name == SUMMARY
    assert files(out / RUN) == {}


def test_parts_go_the_last_one_first(unfinished: Path, tmp_path: Path) -> None:
    out = copytree(unfinished, tmp_path / "out")
    parts = [path.name[:11] for path in removed(out) if path.parent.name == "events.parts"]
    assert parts == ["part-000001", "part-000000"]


def test_what_is_left_of_a_run_can_be_read_while_it_is_removed(
    unfinished: Path, tmp_path: Path
) -> None:
    for number in count():
        out = copytree(unfinished, tmp_path / str(number))
        try:
            with met(out, at(number, Stopped)):
                RunFolder(out, "base", 1)
        except Stopped:
            for name in ("events", "rounds", "models"):
                if list((out / RUN).glob(f"{name}.parts/part-*")):
                    assert read_table(out / RUN, name).num_rows
        else:
            break
    assert number > 10


def test_parts_that_cannot_be_removed_are_told(unfinished: Path, tmp_path: Path) -> None:
    out = copytree(unfinished, tmp_path / "out")

    def meet(operation: Operation) -> None:
        if operation.name == "unlink" and operation.path.name.startswith("part-"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with met(out, meet), pytest.raises(fedsim.OutputError, match=r"events\.parts: Input/output"):
        fedsim.run(small(stop={"rounds": 60}), out=out)


@pytest.mark.parametrize("before", [None, b"before"])
def test_a_file_that_is_interrupted_is_what_it_was(before: bytes | None, tmp_path: Path) -> None:
    if before is not None:
        (tmp_path / "file").write_bytes(before)
    there = files(tmp_path)
    for number in count():
        try:
            with met(tmp_path, at(number, Stopped)):
                write_whole(tmp_path / "file", b"after")
        except Stopped:
            assert files(tmp_path) == there
        else:
            break
    assert number >= 5
    assert files(tmp_path) == {"file": b"after"}


@pytest.mark.parametrize("moment", ["write", "close", "rename"])
def test_a_disk_that_lets_nothing_go_tells_what_was_not_written(
    moment: str, tmp_path: Path
) -> None:
    def meet(operation: Operation) -> None:
        if operation.name in {moment, "unlink"}:
            raise OSError(errno.EROFS if operation.name == "unlink" else errno.EIO, operation.name)

    with (
        met(tmp_path, meet),
        pytest.raises(fedsim.OutputError, match=f"cannot write {tmp_path}/file: {moment}"),
    ):
        write_whole(tmp_path / "file", b"content")
    assert not (tmp_path / "file").exists()
