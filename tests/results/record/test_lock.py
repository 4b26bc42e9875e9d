"""One writer a folder: the second one is told who is there, and touches nothing."""

import errno
import fcntl
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.results.record.folder import HISTORY
from fedsim.results.record.lock import (
    HOLDER,
    LOCK,
    FolderLock,
    _receive,
    hold,
    is_at_work,
    is_held,
    share,
)
from tests.runs import files, small

QUICK = small(stop={"rounds": 3})
LONG = small(stop={"rounds": 3000})

WRITING = {
    "run": ("run", "{scenario}", "--out", "{out}"),
    "compare": ("compare", "{runs}", "--out", "{out}"),
    "reprice": ("reprice", "{runs}", "--set", "fleet.0.radio=wifi", "--out", "{out}"),
}
READING = {
    "check": ("check", "{scenario}"),
    "compare": ("compare", "{out}", "--out", "{new}"),
    "report": ("report", "{out}", "--out", "{new}/report.html"),
    "trace": ("trace", "{out}", "--out", "{new}"),
    "reprice": ("reprice", "{out}", "--set", "fleet.0.radio=wifi", "--out", "{new}"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A scenario, and its runs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "quick.yaml").write_text(json.dumps(QUICK))  # which is YAML
    return {
        "scenario": folder / "quick.yaml",
        "runs": fedsim.run(QUICK, out=folder / "runs").folder,
    }


def invoke(words: tuple[str, ...], **places: Path) -> Result:
    return CliRunner().invoke(app, [word.format_map(places) for word in words])


@pytest.mark.slow
@pytest.mark.parametrize("command", WRITING)
def test_a_folder_that_is_being_written_is_left_alone(
    command: str, made: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if command == "reprice":  # into a folder of other runs it is refused, whoever holds it
        assert invoke(WRITING[command], **made, out=out).exit_code == 0
    else:
        fedsim.run(LONG, out=out)
    with hold(out):
        before = files(out)
        result = invoke(WRITING[command], **made, out=out)
        assert files(out) == before
    # `compare` has printed its answer by then, which is a part of its work.
    assert result.exit_code == (1 if command == "compare" else 2)
    (line,) = (line for line in result.stderr.splitlines() if "in use" in line)
    assert line.startswith(f"{out} is in use: process {os.getpid()} on {platform.node()} ")
    assert line.endswith("wait for its end, or give another folder with --out")
    assert invoke(WRITING[command], **made, out=out).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", READING)
def test_reading_takes_no_lock(command: str, made: dict[str, Path], tmp_path: Path) -> None:
    (scenario, out), new = made.values(), tmp_path / "new"
    with hold(out):
        result = invoke(READING[command], scenario=scenario, out=out, new=new)
    assert result.exit_code == 0, result.output


def test_the_same_folder_under_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "out")
    with hold(tmp_path / "out"), pytest.raises(fedsim.OccupiedError):
        fedsim.run(QUICK, out=tmp_path / "other")


HOLD = """
import sys, time
from pathlib import Path
from fedsim.results.record.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_of_a_process_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(fedsim.OccupiedError, match=f"process {process.pid} on"):
            fedsim.run(QUICK, out=tmp_path)
        process.kill()
    assert (tmp_path / HOLDER).exists()
    assert fedsim.run(QUICK, out=tmp_path).summary["status"].tolist() == ["done"]
    assert not (tmp_path / HOLDER).exists()


@pytest.mark.slow
def test_two_commands_on_one_folder(tmp_path: Path) -> None:
    scenario, out = tmp_path / "long.yaml", tmp_path / "out"
    scenario.write_text(json.dumps(LONG))
    command = [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as first:
        wait(lambda: (out / "base/seed-1/scenario.yaml").exists() or first.poll() is not None)
        result = CliRunner().invoke(app, ["run", str(scenario), "--out", str(out)])
        assert (first.poll(), result.exit_code) == (None, 2), result.output
        assert f"process {first.pid} on" in result.stderr
        assert f"(fedsim run {scenario} --out {out})" in result.stderr
        assert first.wait() == 0
    assert files(out / "base") == files(fedsim.run(LONG, out=tmp_path / "alone").folder / "base")


@pytest.mark.slow
def test_workers_that_outlive_their_parent_keep_the_folder(tmp_path: Path) -> None:
    """Stopped, a worker does not see that its parent is gone, and could go on when it wakes."""
    scenario, out = tmp_path / "long.yaml", tmp_path / "out"
    scenario.write_text(json.dumps({**LONG, "seeds": 2, "stop": {"rounds": 100_000}}))
    command = [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--jobs", "2"],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as first:
        wait(lambda: len(list(out.rglob("part-*"))) > 1 or first.poll() is not None)
        for pid in children(first.pid):
            os.kill(pid, signal.SIGSTOP)
        first.kill()
    with pytest.raises(fedsim.OccupiedError, match=f"process {first.pid} on"):
        fedsim.run(QUICK, out=out, fresh=True)
    os.killpg(first.pid, signal.SIGKILL)
    fedsim.run(QUICK, out=out, fresh=True)


def children(parent: int) -> list[int]:
    """Return the processes that a process has begun and that hold a file called .lock."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(pid)
        for pid in found
        if any(file.resolve().name == LOCK for file in Path(f"/proc/{pid}/fd").iterdir())
    ]


def test_who_looks_whether_a_folder_is_held_stops_nobody(tmp_path: Path) -> None:
    fedsim.run(QUICK, out=tmp_path)
    for shard in (None, "1/1", "1/2"):
        with looking(tmp_path):
            fedsim.run({**QUICK, "seeds": 2}, out=tmp_path, shard=shard)


@contextmanager
def looking(folder: Path) -> Iterator[None]:
    """Have a folder's lock for a moment, as `fedsim status` has it."""
    file = os.open(folder / LOCK, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, [file])
    timer.start()
    yield
    timer.join()


def test_a_lock_that_lost_its_name_is_no_lock(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    assert lock.take(exclusive=False)
    (tmp_path / LOCK).unlink()
    assert not lock.take(exclusive=True)
    assert lock.take(exclusive=True)
    assert is_held(tmp_path)
    lock.drop()
    assert not is_held(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF])
def test_where_nothing_can_be_locked_it_is_said(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(fedsim.OutputError, match=f"cannot write {tmp_path}/.lock: .*") as caught:
        fedsim.run(QUICK, out=tmp_path)
    assert ("has no locks" in str(caught.value)) == (number != errno.EBADF)
    assert not is_held(tmp_path)


def wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(0.01)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": "x"}', '{"process": 1e400}'])
def test_whoever_cannot_be_named_is_somebody(content: str, tmp_path: Path) -> None:
    with hold(tmp_path):
        (tmp_path / HOLDER).write_text(content)
        with pytest.raises(fedsim.OccupiedError, match="another process writes into it"):
            fedsim.run(QUICK, out=tmp_path)


def test_what_a_command_says_of_itself_is_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["fedsim", "run", "a\x1b[31m\u202eb.yaml"])
    with hold(tmp_path), pytest.raises(fedsim.OccupiedError) as caught, hold(tmp_path):
        pass
    assert str(caught.value).isprintable()


def test_the_refusal_names_process_host_time_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/fedsim", "run", "my study.yaml"])
    before = datetime.now(UTC).replace(microsecond=0)
    with hold(tmp_path), pytest.raises(fedsim.OccupiedError) as caught, hold(tmp_path):
        pass
    said = re.fullmatch(
        f"{re.escape(str(tmp_path))} is in use: process {os.getpid()} on"
        f" {re.escape(platform.node())} writes into it since (.+) \\(fedsim run 'my study.yaml'\\);"
        " wait for its end, or give another folder with --out",
        ascii(str(caught.value))[1:-1],
    )
    assert said is not None
    assert before <= datetime.fromisoformat(said[1]) <= datetime.now(UTC)


def test_a_scenario_that_is_wrong_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(fedsim.ScenarioError):
        fedsim.run(small(stop={"rounds": -1}), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_finished_campaign_leaves_what_it_made_and_an_empty_lock(tmp_path: Path) -> None:
    fedsim.run(QUICK, out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(HISTORY, LOCK, "base", "study.json")
    ]
    assert (tmp_path / LOCK).read_bytes() == b""


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_where_nothing_was_written_nothing_is_left(
    error: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(error), hold(tmp_path / "deep" / "out"):
        raise error
    assert not list(tmp_path.iterdir())
    with hold(tmp_path):
        pass
    with pytest.raises(error), hold(tmp_path):
        raise error
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]  # as it was before


def test_what_was_written_stays_and_so_does_its_lock(tmp_path: Path) -> None:
    def written() -> None:
        with hold(tmp_path):
            (tmp_path / "base").mkdir()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        written()
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "base"]


def test_the_first_process_of_a_machine_may_be_at_work_too(tmp_path: Path) -> None:
    told = {"process": 1, "host": platform.node()}  # as a container's only command is
    (tmp_path / HOLDER).write_text(json.dumps(told))
    assert is_at_work(tmp_path)
    for nobody in (0, -1):  # which would be groups of processes
        (tmp_path / HOLDER).write_text(json.dumps(told | {"process": nobody}))
        assert not is_at_work(tmp_path)


def test_who_has_left_a_shared_folder_is_named_no_longer(tmp_path: Path) -> None:
    calls: list[str] = []
    with share(
        tmp_path,
        lambda: calls.append("begin"),
        lambda: calls.append("check"),
        lambda: calls.append("end"),
    ):
        assert (tmp_path / HOLDER).exists()
    assert not (tmp_path / HOLDER).exists()
    assert calls == ["begin", "end"]


def test_locks_that_a_worker_has_received_are_no_matter_of_programs_that_it_starts(
    tmp_path: Path,
) -> None:
    with (tmp_path / "file").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        _receive(SimpleNamespace(detach=file.fileno))
        assert not os.get_inheritable(file.fileno())
