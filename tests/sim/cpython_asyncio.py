"""Runs CPython's own tests of asyncio on the simulation's loop: a process of its own.

    python -m tests.sim.cpython_asyncio test_locks test_tasks

It prints JSON: how many tests of each module ran, and the last line of each error, by the test.
"""

import asyncio
import json
import sys
import unittest
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from fedsim.sim.engine.loop import SimLoop


class Policy(asyncio.DefaultEventLoopPolicy):
    """Makes loops of the simulation where a test makes a new one."""

    def new_event_loop(self) -> SimLoop:
        """Return a loop."""
        return SimLoop()


class TestedLoop(SimLoop):
    """In place of CPython's loop for tests, whose clock is moved by hand, or by a generator."""

    def advance_time(self, seconds: float) -> None:
        """Let the time pass."""
        if seconds:
            self.run_until_complete(asyncio.sleep(seconds))


def new_test_loop(case: Any, gen: object = None) -> SimLoop:
    """Return a loop that moves its clock itself, whatever the generator says."""
    loop = TestedLoop()
    case.set_event_loop(loop)
    return loop


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from cases(each)
        else:
            yield each


def outcomes(name: str) -> tuple[int, dict[str, str]]:
    """Run a module of tests; return their number, and the errors by the test."""
    module = import_module(f"test.test_asyncio.{name}")
    result = unittest.TestResult()
    for case in cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        # Not by its suite: that would set CPython's own policy at the end of each module.
        case.run(result)
    errors = {
        case.id().removeprefix("test.test_asyncio."): trace.strip().splitlines()[-1]
        for case, trace in (*result.failures, *result.errors)
    }
    return result.testsRun, errors


def main() -> None:
    """Run the modules that are named."""
    asyncio.set_event_loop_policy(Policy())
    import_module("test.test_asyncio.utils").TestCase.new_test_loop = new_test_loop
    sys.stdout.write(json.dumps({name: outcomes(name) for name in sys.argv[1:]}) + "\n")


if __name__ == "__main__":
    main()
