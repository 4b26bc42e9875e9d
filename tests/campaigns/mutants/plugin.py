"""A plugin of pytest's: tells coverage which test runs, and counts the seconds of each.

It is loaded in the process that runs the tests, by `-p tests.campaigns.mutants.plugin`.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest
from hypothesis import Phase, settings

# A mutant is dead with the first example that fails; nobody reads a smaller one.
settings.register_profile(
    "mutants", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)

SECONDS_TO = "FEDSIM_MUTANTS_SECONDS"
"""The environment variable that names the file for the seconds of every test that passes."""

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count the processor's seconds of a test and of what is set up for it."""
    start = time.process_time()
    result = yield
    _seconds[item.nodeid] = time.process_time() - start
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what fails without any mutant: it cannot be asked about one."""
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Book what a fixture reaches on the whole file, for its other tests may look at it."""
    _context(item.nodeid.partition("::")[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Book what a test reaches on the test."""
    _context(item.nodeid)
    result = yield
    _context("")
    return result


def pytest_sessionfinish() -> None:
    """Write down the seconds."""
    if SECONDS_TO in os.environ:
        passed = {test: seconds for test, seconds in _seconds.items() if test not in _failed}
        Path(os.environ[SECONDS_TO]).write_text(json.dumps(passed), encoding="utf-8")


def _context(name: str) -> None:
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(name)
