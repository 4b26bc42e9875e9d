"""Commands of fedsim, each in a process forked off this one, in which all of it is loaded.

The figure at the end of `fedsim run` is a few bytes here: to draw it takes longer than all the
rest of a small study.
"""

import importlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

import fedsim
from fedsim import __main__ as command
from fedsim.core.atomic import write_whole
from fedsim.results import analysis
from fedsim.results.display import Shown
from tests.interrupting import hearing

LONGEST = 300.0
"""Seconds of real time after which a command hangs."""

LOADED = (
    *("fedsim.cli", "fedsim.cli.progress", "fedsim.cli.progress", "fedsim.running.api"),
    *("fedsim.running.folder", "fedsim.results.analysis", "fedsim.results", "sklearn.datasets"),
)
"""What commands load, and a fork has."""


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: of its end; the number of a signal below zero.
        said: on standard error.
        printed: on standard output.
        group: of its processes.
    """

    code: int
    said: str
    printed: str
    group: int


def load(study: Mapping[str, Any]) -> None:
    """Load what commands load, and what a study takes."""
    for name in LOADED:
        importlib.import_module(name)
    with TemporaryDirectory() as folder:
        fedsim.run(study, out=folder)


def given(
    words: Sequence[str | Path],
    folder: Path,
    within: AbstractContextManager[None] | None = None,
    after: tuple[float, int] | None = None,
) -> Ended:
    """Give a command, and wait for its end, though not for that of its workers.

    Args:
        words: of the command.
        folder: for temporary files, and for what it says.
        within: what its process does it in.
        after: so many seconds from its start a signal of this number is sent to it.
    """
    return ended(begun(words, folder, within), folder, after)


def begun(
    words: Sequence[str | Path], folder: Path, within: AbstractContextManager[None] | None = None
) -> int:
    """Begin a command, and return the number of its process; see `given`."""
    return _forked(lambda: _main(words, folder, within or nullcontext()))


def ended(child: int, folder: Path, after: tuple[float, int] | None = None) -> Ended:
    """Wait for the end of a command that has begun; see `given`."""
    ends = time.monotonic() + LONGEST
    moment = time.monotonic() + after[0] if after else None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        now = time.monotonic()
        if after and moment is not None and now >= moment:
            os.kill(child, after[1])
            moment = None
        if now > ends:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)
    said, printed = ((folder / f"{name}.txt").read_text() for name in ("err", "out"))
    return Ended(os.waitstatus_to_exitcode(status), said, printed, child)


def is_alive(group: int) -> bool:
    """Say whether a process of a group is left."""
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def gone(group: int) -> bool:
    """Wait a moment for the processes of a group to end, and say whether they have."""
    for _ in range(1000):
        if not is_alive(group):
            return True
        time.sleep(0.005)
    return False


def _forked(main: Callable[[], int]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of OpenBLAS, which knows
        child = os.fork()
    if child:
        with suppress(OSError):
            os.setpgid(child, child)
        return child
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(words: Sequence[str | Path], folder: Path, within: AbstractContextManager[None]) -> int:
    """Be the command."""
    with suppress(OSError):
        os.setpgid(0, 0)
    hearing()
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    os.environ["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir(exist_ok=True)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = ["fedsim", *map(str, words)]
    warnings.simplefilter("ignore", ResourceWarning)  # as Python has it, unlike pytest
    with pytest.MonkeyPatch.context() as patch, within:
        patch.setattr(Shown, "overview", lambda _: None)
        patch.setattr(analysis, "save", lambda _, path: write_whole(path, b"a figure"))
        try:
            command.main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
    return 0
