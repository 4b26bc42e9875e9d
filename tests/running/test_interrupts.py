"""Interrupts: one line, one exit code, nothing left behind, at whatever moment they come."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.atomic import Draft
from fedsim.core.signals import ENDING, postpone_signals
from fedsim.results.record.lock import LOCK, hold, share
from fedsim.running.interrupts import Interrupted, behind, raise_once
from fedsim.running.run import ignore_progress
from fedsim.running.staging import share_folder
from fedsim.running.workers import workers
from tests.interrupting import LONG, hearing, interrupted
from tests.runs import small

SLEEPING = (sys.executable, "-c", "import time; time.sleep(600)")
WAYS = (signal.SIGINT, signal.SIGTERM)

proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "long.yaml"
    path.write_text(json.dumps(LONG))  # which is YAML
    return path


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what a test does to signals."""
    before, hook = {number: signal.getsignal(number) for number in ENDING}, sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
@proc
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("after", [0.0, 0.1, 0.4, 0.9, 1.6, 2.5])
def test_a_command_that_is_interrupted_says_so_and_leaves_nothing(
    after: float, jobs: int, scenario: Path, tmp_path: Path
) -> None:
    way = WAYS[(round(10 * after) + jobs) % 2]
    (tmp_path / "aside").mkdir()
    words = ["run", str(scenario), "--out", str(tmp_path / "out"), "--jobs", str(jobs)]
    group = way == signal.SIGINT  # as Ctrl-C does
    ended = interrupted(words, way, after, tmp_path / "aside", group=group)
    assert ended.faults(way) == [], ended.said
    assert ended.code == 128 + way
    counted = re.search(r"(\d+) of \d+ runs are finished and saved", ended.said)
    assert counted is None or counted[1] == "0"  # no run of `LONG` comes to its end


@pytest.mark.slow
@proc
def test_an_interrupted_command_counts_the_runs_that_are_saved(tmp_path: Path) -> None:
    scenario, out = tmp_path / "one_long.yaml", tmp_path / "out"
    values = [1, 2, 100_000]
    scenario.write_text(json.dumps(small(sweep={"stop.rounds": values})))
    with subprocess.Popen(
        [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    ) as process:
        while len(list(out.rglob("scenario.yaml"))) < len(values) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    saved = len(list(out.rglob("summary.json")))
    assert saved == len(values) - 1
    counted = f"{saved} of {len(values)} runs are finished and saved."
    assert f"interrupted (SIGINT). {counted} Repeat the command to resume.\n" in said


@pytest.mark.slow
@proc
@pytest.mark.parametrize("until", ["loading", "running"])
def test_a_command_interrupted_before_its_first_end_counts_none_and_status_too(
    until: str, tmp_path: Path
) -> None:
    scenario, out = tmp_path / "long.yaml", tmp_path / "out"
    scenario.write_text(json.dumps(LONG | {"seeds": 2}))
    words = ["run", str(scenario), "--out", str(out)]
    start = ["-c", SLOW] if until == "loading" else ["-m", "fedsim"]
    with subprocess.Popen(
        [sys.executable, *start, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"CHECKING": str(tmp_path / "checking")},
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    ) as process:
        there = tmp_path / "checking" if until == "loading" else out / "study.json"
        while not there.exists() and process.poll() is None:
            time.sleep(0.01)
        assert out.exists() is (until == "running")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    counted = "0 of 6 runs are finished and saved. Repeat the command to start.\n"
    assert process.returncode == 130
    assert said.endswith(f"interrupted (SIGINT). {counted}")
    status = subprocess.run(
        [sys.executable, "-m", "fedsim", "status", str(out)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (status.returncode, status.stderr) == (0, "")
    assert status.stdout.endswith(f"no process is running: {counted}")


SLOW = """
import os, time

from fedsim import __main__
from fedsim.scenario.building.builder import Builder


def check(self):
    open(os.environ["CHECKING"], "w").close()
    time.sleep(1000)


Builder.check = check
__main__.main()
"""
"""Runs a command whose check of the plan does not end."""


@pytest.mark.slow
def test_what_was_started_to_ignore_a_signal_ignores_it(scenario: Path, tmp_path: Path) -> None:
    way, out = signal.SIGINT, tmp_path / "out"
    command = [sys.executable, "-m", "fedsim", "run", str(scenario), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--set", "stop.rounds=100"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(way, signal.SIG_IGN),  # noqa: PLW1509
    ) as process:
        while not list(out.rglob("scenario.yaml")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(way)
        assert process.wait() == 0


FRAIL = """
import atexit, os, sys

from fedsim import __main__, cli
from fedsim.running.interrupts import Interrupted


class Extension:
    def __del__(self):
        os.abort()


def run():
    sys.modules["frail"] = Extension()  # as what C++ keeps of a module that is half loaded
    atexit.register(print, "tidied up")
    raise Interrupted(2)


cli.app = run
__main__.main()
"""


def test_an_interrupt_ends_before_extensions_are_taken_apart_and_after_all_is_tidied_up() -> None:
    command = [sys.executable, "-c", FRAIL]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 130, ended.stderr
    assert ended.stdout == "tidied up\n"
    assert ended.stderr == "interrupted (SIGINT).\n"  # nothing is saved yet


def test_an_interrupt_is_found_that_comes_while_a_class_is_made() -> None:
    class Slow:
        def __set_name__(self, owner: type, name: str) -> None:
            raise Interrupted(signal.SIGTERM)

    with pytest.raises((Interrupted, RuntimeError)) as caught:
        type("Made", (), {"slow": Slow()})
    found = behind(caught.value)
    assert found is not None
    assert found.number == signal.SIGTERM


def test_an_error_that_no_interrupt_is_behind_stays_what_it_is() -> None:
    assert behind(RuntimeError("no interrupt")) is None


def test_signals_wait_for_the_end_of_a_block_and_come_then(handlers: None) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    with postpone_signals():
        os.kill(os.getpid(), signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert seen == []
    assert set(seen) == {signal.SIGINT}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(ENDING) == set()


def _hold(folder: Path) -> None:
    with hold(folder):
        (folder / "a").touch()


def _share(folder: Path) -> None:
    with share(folder, nothing, nothing, nothing):
        (folder / "a").touch()


def _make_staged(folder: Path) -> None:
    with share_folder(folder) as place, place.stage() as home:
        (home / "b").touch()
    (folder / "a").touch()


def _drop(folder: Path) -> None:
    (folder / "a").touch()
    with suppress(OverflowError), Draft(folder / "b") as draft:
        draft.write(b"what is never kept")
        raise OverflowError


def nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize("use", [_hold, _share, _make_staged, _drop])
@pytest.mark.parametrize("number", WAYS)
def test_an_interrupt_of_what_tidies_up_leaves_nothing(
    use: Callable[[Path], None],
    number: int,
    handlers: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hearing()
    raise_once()
    unlink = Path.unlink

    def struck(path: Path, *, missing_ok: bool = False) -> None:
        signal.raise_signal(number)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", struck)
    with pytest.raises(Interrupted) as caught:
        use(tmp_path)
    behind(caught.value)  # it is told: it need not come again
    assert {path.name for path in tmp_path.iterdir()} <= {"a", LOCK}


def test_what_is_begun_while_signals_wait_hears_none(handlers: None) -> None:
    hearing()
    with postpone_signals(), subprocess.Popen(SLEEPING) as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.kill()


def test_the_first_signal_raises_and_the_others_are_ignored(handlers: None) -> None:
    hearing()
    raise_once()
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 143
    signal.raise_signal(signal.SIGINT)
    behind(caught.value)  # it is told: it need not come again


class _Collected:
    """Interrupted while it is collected, where no exception can get out."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_is_lost_in_a_destructor_comes_again(handlers: None) -> None:
    hearing()
    raise_once()
    with pytest.raises(Interrupted, match="SIGINT") as caught:  # noqa: PT012 - a moment later
        _Collected()
        time.sleep(600)
    behind(caught.value)


def test_an_interrupt_that_is_caught_by_mistake_comes_again(handlers: None) -> None:
    hearing()
    raise_once()
    with pytest.raises(Interrupted, match="SIGTERM") as caught:  # noqa: PT012 - a moment later
        with suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        time.sleep(600)
    behind(caught.value)


@pytest.mark.slow
def test_a_worker_that_dies_is_told_in_one_error(tmp_path: Path) -> None:
    def watch(_: object) -> None:
        for process in multiprocessing.active_children():
            with suppress(ProcessLookupError):
                process.kill()

    said = (
        "a worker process died, perhaps because memory was short|"
        "its worker process died twice, perhaps out of memory"
    )
    with pytest.raises(fedsim.RunError, match=said):
        fedsim.run(small(seeds=2, stop={"rounds": 500}), out=tmp_path, jobs=2, watch=watch)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedsim", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "cannot write standard output: No space left on device\n"


@proc
@pytest.mark.parametrize(("lasts", "code"), [(0.4, 0), (300.0, 1)])
def test_an_import_is_finished_before_the_interrupt_unless_it_takes_long(
    lasts: float, code: int, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(f"import time\ntime.sleep({lasts})\n")
    text = """
import os, signal, sys, threading, time
from fedsim.running import interrupts
interrupts._PATIENCE = 1.0
interrupts.raise_once()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
loaded = False
try:
    import slow
    loaded = True
    time.sleep(60)
except interrupts.Interrupted as error:
    interrupts.behind(error)
    sys.exit(0 if loaded else 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


def found_in_a_worker() -> tuple[dict[int, Any], set[int]]:
    """Return how a worker takes the signals that end a process, and which of them wait."""
    taken = {int(number): signal.getsignal(number) for number in ENDING}
    return taken, {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())}


@pytest.mark.slow
def test_a_worker_leaves_interrupts_to_its_parent_and_can_be_ended() -> None:
    with workers(1, ignore_progress) as pool:
        taken, waiting = pool.submit(found_in_a_worker).result()
    ignored = {number for number, handler in taken.items() if handler == signal.SIG_IGN}
    assert ignored == {int(number) for number in ENDING} - {int(signal.SIGTERM)}
    assert taken[signal.SIGTERM] == signal.SIG_DFL
    assert waiting.isdisjoint(taken)
