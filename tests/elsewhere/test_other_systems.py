"""fedsim where the system is not POSIX: what Windows lacks is hidden, see `sitecustomize.py`."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedsim
from fedsim.core import atomic
from fedsim.core.atomic import write_whole
from fedsim.results.record.lock import LOCK
from tests.conftest import ROOT
from tests.runs import small
from tests.tiers import LIBRARIES

HERE = Path(__file__).parent

OF_OPTIONAL = {library for libraries in LIBRARIES.values() for library in libraries}
"""Libraries without which a module of fedsim need not be importable."""


def elsewhere(*command: object) -> "subprocess.Popen[str]":
    """Start Python as on another system."""
    path = os.pathsep.join((str(HERE), str(ROOT)))
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def answer(*command: object) -> str:
    """Return what a command prints on another system, where it succeeds."""
    with elsewhere(*command) as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    return out


IMPORTS = """\
import os, signal, sys
from importlib import import_module
from pathlib import Path

hidden = [name for name in ("fcntl", "resource", "termios", "pty", "grp", "pwd")
          if sys.modules.get(name, "") is not None]
assert not hidden and not hasattr(os, "fork") and not hasattr(signal, "SIGKILL"), hidden
root, optional, count = Path(sys.argv[1]), sys.argv[2:], 0
for file in sorted((root / "fedsim").rglob("*.py")):
    name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in optional:
            raise
    except ImportError as error:  # of an extra that is not installed; it says which
        if "pip install" not in str(error):
            raise
    count += 1
print(count)
"""


@pytest.mark.slow
def test_every_module_can_be_imported() -> None:
    count = int(answer("-c", IMPORTS, ROOT, *OF_OPTIONAL).splitlines()[-1])
    assert count == len(list((ROOT / "fedsim").rglob("*.py")))


def test_what_systems_do_differently_is_asked_in_one_module() -> None:
    asks = re.compile(
        r"\b(?:import|from|import_module\()\W*(?:fcntl|msvcrt|resource|termios|pty)\b"
    )
    asking = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "fedsim").rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    }
    assert asking == {"fedsim/core/file_locks.py"}


def tables(out: Path) -> dict[str, bytes]:
    """Return the content of all tables of runs, by their places."""
    return {file.relative_to(out).as_posix(): file.read_bytes() for file in out.rglob("*.parquet")}


@pytest.mark.slow
def test_a_study_in_two_processes_is_run_resumed_and_compared(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    short = ("--set", "stop.rounds=2", "--set", "seeds=2", "--jobs", "2", "--out")
    run = ("-m", "fedsim", "run", "quickstart", *short)
    assert "event logs and tables in" in answer(*run, there)
    (there / "chb/seed-2/summary.json").unlink()
    assert "5 runs kept, 1 made" in answer(*run, there)
    assert "tables and figures in" in answer("-m", "fedsim", "compare", there)
    assert (there / "comparison/costs.csv").is_file()
    subprocess.run([sys.executable, *run, here], capture_output=True, check=True)
    assert tables(here)
    assert tables(there) == tables(here)


HOLD = """
import sys, time
from pathlib import Path
from fedsim.results.record.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""

RUN = """
import sys
import fedsim
try:
    fedsim.run(sys.argv[1], out=sys.argv[2], shard=sys.argv[3] if len(sys.argv) > 3 else None)
except fedsim.OccupiedError as error:
    print("refused:", error)
else:
    print("made")
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(small(stop={"rounds": 3}, seeds=2)), encoding="utf-8")
    return file


@pytest.mark.slow
def test_two_writers_of_a_folder_exclude_each_other(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with elsewhere("-c", HOLD, out) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        refused = answer("-c", RUN, scenario, out)
        assert refused.startswith(f"refused: {out} is in use: process {first.pid} on ")
        first.kill()
    assert answer("-c", RUN, scenario, out) == "made\n"
    assert (out / LOCK).read_bytes() == b""


@pytest.mark.slow
def test_shares_of_a_study_run_side_by_side(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shares = [elsewhere("-c", RUN, scenario, out, f"{number}/2") for number in (1, 2)]
    said = [process.communicate() for process in shares]
    assert [out for out, _ in said] == ["made\n"] * 2, said
    assert tables(out) == tables(fedsim.run(scenario, out=tmp_path / "alone").folder)


LOCKS = """
import os, sys
from fedsim.core.file_locks import lock_of_file

def opened():
    return lock_of_file(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT))

one, two, three = opened(), opened(), opened()
seen = [one.take(exclusive=True), two.take(exclusive=True), two.take(exclusive=False)]
seen += [one.take(exclusive=False), two.take(exclusive=False), three.take(exclusive=True)]
one.close()
seen += [two.take(exclusive=True), three.take(exclusive=False)]
two.close()
seen += [three.take(exclusive=False), three.take(exclusive=True), opened().take(exclusive=False)]
print(type(three).__name__, *map(int, seen))
"""


def test_locked_bytes_are_locks_as_those_of_flock(tmp_path: Path) -> None:
    """The same calls have the same results: exclusive, shared, changed from one to the other."""
    kind, *elsewhere_seen = answer("-c", LOCKS, tmp_path / "there").split()
    command = [sys.executable, "-c", LOCKS, str(tmp_path / "here")]
    other, *here_seen = subprocess.run(
        command, capture_output=True, check=True, text=True
    ).stdout.split()
    assert (kind, other) == ("ByteLock", "FileLock")
    assert elsewhere_seen == here_seen == ["1", "0", "0", "1", "1", "0", "1", "0", "1", "1", "0"]


def test_a_file_that_a_reader_has_open_is_replaced_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([True, True, False])
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if next(refusals):
            raise PermissionError(13, "it is used by another process")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(atomic, "_TRIES", 5)
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert next(refusals, None) is None


INTERRUPTED = """
import signal, sys, time
from fedsim.running import interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
interrupts.raise_once()
try:
    if sys.argv[1] == "lost":
        interrupts.Interrupted(2, pending=True)  # collected at once, as in a destructor
    else:
        import slow_module
    for _ in range(600):  # where there is no timer, nothing ends a sleep before its time
        time.sleep(0.1)
except interrupts.Interrupted as error:
    interrupts.behind(error)
    print(error)
"""


@pytest.mark.parametrize("where", ["lost", "import"])
def test_an_interrupt_is_raised_again_without_timers_of_the_system(
    where: str, tmp_path: Path
) -> None:
    (tmp_path / "slow_module.py").write_text("import signal\nsignal.raise_signal(2)\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r})\n{INTERRUPTED}"
    assert answer("-c", code, where).startswith("interrupted (SIGINT)")
