"""CPython's own tests of asyncio, of the installed Python, pass on the simulation's loop."""

import json
import subprocess
import sys
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MODULES = {
    "test_locks": 60,
    "test_queues": 30,
    "test_taskgroups": 25,
    "test_timeouts": 20,
    "test_waitfor": 10,
    "test_futures": 100,
    "test_futures2": 2,
    "test_tasks": 400,
}
"""Modules, and how many tests of each run at least."""

EXCEPTIONS = {
    "of two deadlines at one instant, the one that was set first expires alone": [
        "test_timeouts.*.test_nested_timeouts",
    ],
    "what completes at the very instant of its deadline has met it": [
        "test_timeouts.*.test_timeout_zero_sleep_zero",
    ],
    "an exception of a callback ends the run, unless a handler is set (these mock its caller)": [
        "test_tasks.*.test_set_exception_causes_invalid_state",
        "test_tasks.*.test_set_result_causes_invalid_state",
    ],
    "nothing waits for a thread, and nothing runs in one": [
        "test_tasks.RunCoroutineThreadsafeTests.*",
    ],
    "where nothing is scheduled, and a task waits, there is a deadlock": [
        "test_tasks.*.test_log_destroyed_pending_task",
    ],
    "a task is of the loop's class, which hashes by its number": [
        "test_tasks.*.test_bare_create_task",
    ],
    "the clock stands still once the loop is stopped; that of CPython's loop for tests moves on": [
        "test_tasks.*.test_stop_while_run_in_complete",
    ],
    "no coroutine moves the clock by hand, as these do with that of CPython's loop for tests": [
        "test_tasks.*.test_as_completed",
        "test_tasks.*.test_as_completed_reverse_wait",
        "test_tasks.*.test_as_completed_with_timeout",
    ],
    "a timer has the methods of asyncio's, not its private attributes": [
        "test_tasks.*.test_sleep_cancel",
    ],
}
"""Tests of what the loop does otherwise by design, by the reason."""


def reason_of(test: str) -> str:
    """Return why a test need not pass; empty if it has to."""
    found = (why for why, tests in EXCEPTIONS.items() if any(fnmatch(test, each) for each in tests))
    return next(found, "")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_cpython_s_own_tests_pass_but_for_what_is_refused_by_design(module: str) -> None:
    if find_spec("test") is None or find_spec("test.test_asyncio") is None:
        pytest.skip("this Python is installed without its package test")
    if find_spec(f"test.test_asyncio.{module}") is None:
        pytest.skip(f"this Python's package test has no {module}")
    command = [sys.executable, "-m", "tests.sim.cpython_asyncio", module]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    ((ran, errors),) = json.loads(ended.stdout.splitlines()[-1]).values()
    assert ran >= MODULES[module]
    unexpected = {test: text for test, text in errors.items() if not reason_of(test)}
    assert unexpected == {}
