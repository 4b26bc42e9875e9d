"""Commands that are interrupted, and what they leave behind.

As a script it interrupts `fedsim run` at many moments of its start-up and of its runs:

    python -m tests.interrupting --every 0.01 --until 3
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.runs import small

NOISE = ("Traceback", "Exception ignored", "leaked", "never retrieved", "Error")
LONG = small(sweep={"algorithm.censor": [0.01, 0.1, 1]}, stop={"rounds": 100_000})


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: of its end; below zero where the signal ended it before it could say anything.
        said: on standard error.
        left: temporary files.
        alive: whether a process of it is still there.
    """

    code: int
    said: str
    left: list[str]
    alive: bool

    def faults(self, way: signal.Signals) -> list[str]:
        """Return what is wrong with that."""
        found = [f"said {noise}" for noise in NOISE if noise in self.said]
        if self.code not in {0, 128 + way}:
            found.append(f"ended with {self.code}")
        if self.code and self.said.count("interrupted") != 1:
            found.append("did not say once that it was interrupted")
        if self.left:
            found.append(f"left {self.left}")
        return [*found, *(["a process is left"] if self.alive else [])]


def interrupted(
    arguments: list[str], way: signal.Signals, after: float, folder: Path, *, group: bool
) -> Ended:
    """Start a command, and send it a signal so many seconds after it can hear any.

    Args:
        arguments: of `fedsim`.
        way: the signal.
        after: seconds.
        folder: an empty one, for temporary files.
        group: whether the signal goes to all its processes, as Ctrl-C in a terminal does.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "fedsim", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(folder)},
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    ) as process:
        while process.poll() is None and not _hears(process.pid):
            time.sleep(0.001)
        time.sleep(after)
        with suppress(ProcessLookupError):  # it has ended already
            (os.killpg if group else os.kill)(process.pid, way)
        _, said = process.communicate()
    left = sorted(path.name for path in folder.iterdir())
    return Ended(process.returncode, said, left, alive(process.pid))


def hearing() -> None:
    """Let a process hear signals, though what started it may ignore them, in the background."""
    for way in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(way, signal.SIG_DFL)


def _hears(pid: int) -> bool:
    """Say whether a process has said what SIGTERM does to it, as Python by itself does not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def alive(group: int) -> bool:
    """Say whether a process of a group is left, a moment after its end."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    return True


def _sweep(every: float, until: float) -> int:
    wrong = tried = 0
    for step in range(round(until / every)):
        for jobs in (1, 2):
            for way in (signal.SIGINT, signal.SIGTERM):
                with TemporaryDirectory() as place:
                    out, aside = Path(place) / "out", Path(place) / "tmp"
                    aside.mkdir()
                    scenario = Path(place) / "long.yaml"
                    scenario.write_text(json.dumps(LONG), encoding="utf-8")
                    words = ["run", str(scenario), "--out", str(out), "--jobs", str(jobs)]
                    group = way == signal.SIGINT or bool(step % 2)
                    ended = interrupted(words, way, step * every, aside, group=group)
                tried += 1
                if faults := ended.faults(way):
                    wrong += 1
                    print(f"{way.name} after {step * every:.3f} s, {jobs} jobs:", faults)  # noqa: T201
                    print(ended.said[-1500:])  # noqa: T201
    print(f"{tried} interrupts, {wrong} with faults")  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Interrupt fedsim run at many moments.")
    parser.add_argument("--every", type=float, default=0.01, help="seconds between moments")
    parser.add_argument("--until", type=float, default=3.0, help="seconds; the last moment")
    given = parser.parse_args()
    sys.exit(_sweep(given.every, given.until))
