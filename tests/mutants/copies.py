"""A copy of the checkout in which mutants are made, and processes that run tests there."""

import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

import pytest

from .packages import COPIED

WALL = 8
"""A process may take so many times its limit of the processor's seconds: others use it, too."""

MEMORY = 6 * 2**30
"""Bytes of address space that a mutant may take."""

_LIBRARIES = (
    "hypothesis.extra.numpy", "matplotlib.pyplot", "networkx", "numpy", "pandas", "pint", "pooch",
    "pyarrow.parquet", "pydantic", "rich.console", "rich.progress",
    "ruamel.yaml", "scipy.optimize", "scipy.sparse", "scipy.stats", "simpy", "typer.testing",
)  # fmt: skip

_ALWAYS = (
    "-q", "-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin",
    "-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "--hypothesis-profile=mutants",
    "-W", "ignore:Module already imported",  # Hypothesis is, and nothing asserts there
)  # fmt: skip


def make_copy(root: Path, to: Path) -> None:
    """Copy what the tests need of a checkout."""
    for name in COPIED:
        if (root / name).is_dir():
            copytree(root / name, to / name, ignore=ignore_patterns("__pycache__"))
        else:
            copy2(root / name, to / name)


@contextmanager
def replaced(file: Path, text: str) -> Iterator[None]:
    """Let a file hold another text for a while; bytecode that was kept of it is not used then."""
    before, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(text, encoding="utf-8")
    os.utime(file, (times.st_atime, times.st_mtime + 3600))
    try:
        yield
    finally:
        file.write_text(before, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


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
        The exit code, or None where it came to no end.
    """
    process = get_context("fork").Process(target=_enter, args=(copy, job, log, seconds))
    process.start()
    process.join(seconds * WALL or None)
    late = process.is_alive()
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # what a test has started goes with it
    process.join()
    return None if late or process.exitcode == -signal.SIGXCPU else process.exitcode


def _enter(copy: Path, job: Callable[[], int], log: Path, seconds: float) -> None:
    os.setpgid(0, 0)
    if seconds:
        already = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(already + seconds) + 1, -1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in [each for each in sys.modules if each.partition(".")[0] in {"fedsim", "tests"}]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what else is installed takes half a second
    code = job()
    sys.stdout.flush()
    os._exit(code)


def run_tests(names: Sequence[str], *options: str) -> int:
    """Run tests in this process; return pytest's exit code."""
    return int(pytest.main([*_ALWAYS, *options, *names]))
