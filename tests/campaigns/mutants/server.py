"""Mutants before tests that are collected once: each in a process that is split off from one.

To start pytest, import fedsim and collect tests takes two seconds for a mutant, its tests mostly
less. So one process does it once, and splits off a process for each mutant, where the functions
that it changes get their other code.
"""

import gc
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from .copies import Replaced, become_killable, end_of, limit_processor, run_tests, start_in_copy
from .exchange import Functions, exchange, functions_of
from .places import Place

OPTIONS = ("-x", "--tb=line", "-p", "no:faulthandler")
"""Of pytest, before a mutant."""

LEAST = 15
"""Seconds of the processor that a test is allowed at least."""

LONGER = 4
"""How many times as long as without a mutant a test may take besides."""


class Job(NamedTuple):
    """A mutant, and the tests that are asked about it."""

    place: Place
    source: str
    mutant: str
    tests: Sequence[str]
    """Names of tests in the order in which they are asked, or beginnings of names."""


def served(
    copy: Path, work: Path, jobs: Sequence[Job], seconds: Mapping[str, float], tier: str = ""
) -> Iterator[tuple[Job, int | None, str]]:
    """Try mutants that change functions alone.

    Args:
        copy: of the checkout.
        work: a folder for outputs.
        jobs: the mutants.
        seconds: that tests take without a mutant, as far as they are known.
        tier: of the tests, an expression of markers.

    Yields:
        Each mutant, the exit code of its process (`in_copy`), and the test that failed, if any.
    """
    if not jobs:
        return
    reading, writing = os.pipe()
    files = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
    plugin = _Server(copy, work / "failed", jobs, seconds, writing)
    job = partial(run_tests, files, *OPTIONS, tier=tier, plugins=[plugin])
    process = start_in_copy(copy, job, work / "log")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as results:
        for result in results:
            number, code, failed = json.loads(result)
            yield jobs[number], code, failed
    if end_of(process, 0) != 0:
        message = f"the tests of mutants came to no end:\n{end_of_log(work / 'log')}"
        raise RuntimeError(message)


def end_of_log(log: Path) -> str:
    """Return what pytest wrote last."""
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


class Failure:
    """A plugin of pytest's that keeps which test failed."""

    def __init__(self, file: Path) -> None:
        """Forget what failed before."""
        self._file = file
        file.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it where another process reads it."""
        if report.failed:
            self._file.write_text(report.nodeid, encoding="utf-8")


class _Server:
    """A plugin of pytest's that runs tests in processes of its own."""

    def __init__(
        self,
        copy: Path,
        failed: Path,
        jobs: Sequence[Job],
        seconds: Mapping[str, float],
        results: int,
    ) -> None:
        self._copy, self._failed, self._jobs = copy, failed, jobs
        self._seconds, self._results = seconds, results

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Split off a process for each mutant; there, go on to pytest's own loop."""
        functions = functions_of(self._copy / "fedsim")
        gc.collect()
        gc.freeze()  # what is there already is not looked through again by every process
        for number, job in enumerate(self._jobs):
            failure = Failure(self._failed)
            replaced = Replaced(self._copy / job.place.file, job.mutant)
            process = os.fork()
            if not process:
                self._become(session, job, functions)
                session.config.pluginmanager.register(failure)
                return None
            code = end_of(process, self._limit(job))
            replaced.restore()
            result = json.dumps([number, code, self._failed.read_text(encoding="utf-8")])
            os.write(self._results, f"{result}\n".encode())
        return True

    def _become(self, session: pytest.Session, job: Job, functions: Functions) -> None:
        os.close(self._results)
        become_killable(self._limit(job))
        exchange(self._copy / job.place.file, job.source, job.mutant, functions)
        session.items = chosen(session.items, job.tests)

    def _limit(self, job: Job) -> float:
        return LEAST + LONGER * sum(self._seconds.get(test, LEAST) for test in job.tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Let a test take some times what it takes without a mutant."""
        limit_processor(LEAST + LONGER * self._seconds.get(item.nodeid, LEAST))


def chosen(items: Sequence[pytest.Item], names: Sequence[str]) -> list[pytest.Item]:
    """Return the tests of these names, or whose names begin with them, in their order."""
    by_name = {item.nodeid: item for item in items}
    return [
        item
        for name in names
        for item in (
            [by_name[name]]
            if name in by_name
            else [
                each
                for each in items
                if each.nodeid.startswith((f"{name}::", f"{name}[", f"{name}/"))
            ]
        )
    ]
