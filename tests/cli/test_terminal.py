"""A run with a live page in a terminal that is interrupted: the terminal is as it was before."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedsim.results.record.live import LIVE
from fedsim.running.folder import status
from tests.runs import small

SETSID = shutil.which("setsid") or ""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SETSID, reason="needs setsid, which gives a process a terminal"),
]


def read_until(terminal: int, words: bytes) -> bytes:
    """Return what a process writes to a terminal until it writes some words, or to its end."""
    shown = b""
    while words not in shown:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the process has ended
            break
    return shown


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_puts_the_terminal_back_and_the_same_command_resumes(
    jobs: str, tmp_path: Path
) -> None:
    scenario, out = tmp_path / "study.yaml", tmp_path / "out"
    scenario.write_text(json.dumps(small(seeds=2, stop={"rounds": 100_000})))
    words = ["run", str(scenario), "--out", str(out), "--jobs", jobs, "--watch"]
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with subprocess.Popen(
        [SETSID, "--ctty", "--wait", sys.executable, "-m", "fedsim", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        shown = read_until(ours, b"at most about")  # the page has been drawn, with a rate
        assert b"at most about" in shown
        with ThreadPoolExecutor(1) as pool:  # a terminal that is not read would stop the process
            rest = pool.submit(read_until, ours, b"\0")
            os.write(ours, b"\x03")  # the terminal sends SIGINT to all processes in it
            code = process.wait()
            after = termios.tcgetattr(theirs)
            os.close(theirs)
            shown += rest.result()
        os.close(ours)
    assert code == 128 + signal.SIGINT, shown.decode(errors="replace")[-4000:]
    assert after == before
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")  # the cursor is seen again
    assert shown.count(b"interrupted (SIGINT)") == 1
    assert b"Traceback" not in shown
    assert not (out / LIVE).exists()
    left = status(out)
    assert not left.held
    assert [each.pending for each in left.variants] == [(1, 2)]
