"""Puts one mutant after another before the tests that reach it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from .copies import in_copy, replaced, run_tests
from .listed import Listed
from .places import Place, change, mutated
from .reach import Reach
from .results import ALIVE, KILLED, TIMED_OUT, UNREACHED, Trial

FIRST = 1.5
"""Seconds of the tests that are asked first: most mutants fall there."""

LEAST = 15
"""Seconds of the processor that a mutant is allowed at least."""

_FAILED = {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR}


class Trials:
    """Tries mutants in a copy of the checkout."""

    def __init__(
        self, copy: Path, work: Path, reach: Reach, budget: float, only: Sequence[str] = ()
    ) -> None:
        """Prepare.

        Args:
            copy: of the checkout.
            work: a folder for outputs.
            reach: which tests reach what.
            budget: seconds of tests that a mutant is put before at most.
            only: if any, these tests are asked, whatever they reach.
        """
        self._copy, self._log, self._reach, self._budget = copy, work / "log", reach, budget
        self._only = list(only)

    def __call__(self, place: Place) -> Trial:
        """Try one mutant."""
        source = (self._copy / place.file).read_text(encoding="utf-8")
        parts = [self._only] if self._only else self._in_turn(self._reach.tests(place, source))
        return self._before(place, source, mutated(source, place), parts)

    def one_listed(self, mutant: Listed) -> Trial:
        """Try one of the list, before the tests that it names or those given."""
        source = (self._copy / mutant.file).read_text(encoding="utf-8")
        tests = self._only or list(mutant.tests)
        return self._before(mutant.place(source), source, mutant.mutated(source), [tests])

    def _before(self, place: Place, source: str, mutant: str, parts: Iterable[list[str]]) -> Trial:
        file = self._copy / place.file
        end, asked = UNREACHED, 0
        with replaced(file, mutant):
            for part in parts:
                asked += len(part)
                end = self._end(part)
                if end != ALIVE:
                    break
        return Trial(place, change(source, mutant), end, asked)

    def _in_turn(self, tests: Sequence[str]) -> Iterator[list[str]]:
        first: list[str] = []
        rest: list[str] = []
        spent = 0.0
        for test in tests:
            spent += self._reach.seconds[test]
            if first and spent > self._budget:
                break
            (first if spent <= FIRST or not first else rest).append(test)
        yield from (part for part in (first, rest) if part)

    def _end(self, tests: Sequence[str]) -> str:
        allowed = LEAST + 4 * sum(self._reach.seconds.get(test, LEAST) for test in tests)
        job = partial(run_tests, tests, "-x", "--tb=line", "-p", "no:faulthandler")
        code = in_copy(self._copy, job, self._log, allowed)
        if code is None:
            return TIMED_OUT
        if code == pytest.ExitCode.OK:
            return ALIVE
        if code in _FAILED or code < 0 or code == pytest.ExitCode.INTERNAL_ERROR:
            return KILLED
        end = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
        message = f"pytest ended with {code}:\n{end}"
        raise RuntimeError(message)
