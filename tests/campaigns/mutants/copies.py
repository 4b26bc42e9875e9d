"""A copy of the checkout in which mutants are made, and processes that run tests there."""

import importlib
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from compileall import compile_dir
from contextlib import suppress
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

import pytest

from .packages import COPIED

WALL = 8
"""A process may take so many times its limit of the processor's seconds: others use it, too."""

MEMORY = 6 * 2**30
"""Bytes of address space that a mutant may take."""

_LIBRARIES = (
    "hypothesis.extra.numpy", "matplotlib.pyplot", "networkx", "numpy", "pandas", "pint",
    "pyarrow.parquet", "pydantic", "rich.console", "rich.progress",
    "ruamel.yaml", "scipy.optimize", "scipy.sparse", "scipy.stats", "simpy", "typer.testing",
)  # fmt: skip

_ALWAYS = (
    "-q", "-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin",
    "-p", "tests.campaigns.mutants.plugin", "-p", "no:cacheprovider",
    "--hypothesis-profile=mutants",
    "-W", "ignore:Module already imported",  # Hypothesis is, and nothing asserts there
)  # fmt: skip


def make_copy(root: Path, to: Path) -> None:
    """Copy what the tests need of a checkout, and compile what is imported again and again.

    What the checkout has compiled of fedsim is copied, too: it is of the same sources and times.
    """
    for name in COPIED:
        if (root / name).is_dir():
            left = () if name == "fedsim" else ("__pycache__",)
            copytree(root / name, to / name, ignore=ignore_patterns(*left))
        else:
            copy2(root / name, to / name)
    compile_dir(to / "fedsim", quiet=1)


class Replaced:
    """A file that holds another text until `restore`; bytecode kept of it is not used then."""

    def __init__(self, file: Path, text: str) -> None:
        """Put the other text there."""
        self._file, self._before, self._times = file, file.read_bytes(), file.stat()
        file.write_text(text, encoding="utf-8")
        os.utime(file, (self._times.st_atime, self._times.st_mtime + 3600))

    def restore(self) -> None:
        """Put the file's own text back."""
        self._file.write_bytes(self._before)
        os.utime(self._file, ns=(self._times.st_atime_ns, self._times.st_mtime_ns))


BROKEN = 70
"""The exit code of a process that an exception has ended."""


def load_libraries() -> None:
    """Import what the tests import beside fedsim, once for all processes that are split off."""
    for name in _LIBRARIES:
        importlib.import_module(name)


def in_copy(copy: Path, job: Callable[[], int], log: Path, seconds: float = 0) -> int | None:
    """Run something in a process that sees the copy's fedsim and tests; return its exit code.

    Args:
        copy: where the copy is.
        job: what is run there.
        log: where its output goes.
        seconds: of the processor, after which it is ended; zero for no limit.

    Returns:
        The exit code, below zero for a signal, or None where it came to no end.
    """
    return end_of(start_in_copy(copy, job, log, seconds), seconds)


def start_in_copy(copy: Path, job: Callable[[], int], log: Path, seconds: float = 0) -> int:
    """Start what `in_copy` runs; return its process."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = BROKEN
    try:
        become_killable(seconds)
        _enter(copy, log)
        code = job()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def end_of(process: int, seconds: float) -> int | None:
    """Wait for a process's end, for a multiple of its seconds at most, and end what it started."""
    handle = os.pidfd_open(process)
    ended, _, _ = select.select([handle], [], [], seconds * WALL or None)
    os.close(handle)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code if ended and code != -signal.SIGXCPU else None


def become_killable(seconds: float) -> None:
    """Lead a group of processes that is ended as one, and take no more than a mutant may."""
    os.setpgid(0, 0)
    if seconds:
        limit_processor(seconds)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def limit_processor(seconds: float) -> None:
    """Let this process take so many more seconds of the processor."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, -1))


def _enter(copy: Path, log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in [each for each in sys.modules if each.partition(".")[0] in {"fedsim", "tests"}]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # that of a mutant would be taken for the next
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what else is installed takes half a second


def run_tests(
    names: Sequence[str], *options: str, tier: str = "", plugins: Sequence[object] = ()
) -> int:
    """Run tests of a tier (an expression of markers) in this process; return pytest's exit code."""
    return int(pytest.main([*_ALWAYS, "-m", tier, *options, *names], plugins=[*plugins]))
