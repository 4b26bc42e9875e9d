"""Puts mutants before the tests that reach them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import compress
from operator import not_
from pathlib import Path

import pytest

from .copies import BROKEN, Replaced, in_copy, run_tests
from .exchange import same_at_import
from .listed import Listed
from .packages import COMPILED
from .places import Place, change, mutated
from .reach import Reach
from .results import ALIVE, KILLED, TIMED_OUT, UNREACHED, Trial
from .server import LEAST, LONGER, OPTIONS, Failure, Job, end_of_log, served

FIRST = 1.5
"""Seconds of the tests that are asked first where tests are collected anew: most mutants fall."""

_FAILED = {
    pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR,
}  # fmt: skip


class Trials:
    """Tries mutants in a copy of the checkout."""

    def __init__(
        self,
        copy: Path,
        work: Path,
        reach: Reach,
        budget: float,
        only: Sequence[str] = (),
        tier: str = "",
    ) -> None:
        """Prepare.

        Args:
            copy: of the checkout.
            work: a folder for outputs.
            reach: which tests reach what.
            budget: seconds of tests that a mutant is put before at most.
            only: if any, these tests are asked, whatever they reach.
            tier: of the tests, an expression of markers.
        """
        self._copy, self._work, self._reach, self._budget = copy, work, reach, budget
        self._only, self._tier = list(only), tier

    def of_places(self, places: Iterable[Place]) -> Iterator[Trial]:
        """Try mutants of a sample."""
        return self._tried([self._of_place(place) for place in places])

    def of_list(self, mutants: Iterable[Listed]) -> Iterator[Trial]:
        """Try mutants of the list, each before the tests that it names or those given."""
        jobs = [self._of_list(mutant) for mutant in mutants]
        self._check({test for job in jobs for test in job.tests})
        return self._tried(jobs)

    def _check(self, tests: set[str]) -> None:
        """Refuse tests that fail without any mutant: they would seem to notice each."""
        once = sorted(test for test in tests if test.partition("::")[0] not in tests - {test})
        code = in_copy(
            self._copy, partial(run_tests, once, *OPTIONS, tier=self._tier), self._work / "log"
        )
        if _outcome(code, self._work / "log") != ALIVE:
            message = f"tests fail without any mutant:\n{end_of_log(self._work / 'log')}"
            raise RuntimeError(message)

    def _of_place(self, place: Place) -> Job:
        source = (self._copy / place.file).read_text(encoding="utf-8")
        tests = self._only or self._within_budget(self._reach.tests(place, source))
        return Job(place, source, mutated(source, place), tests)

    def _of_list(self, mutant: Listed) -> Job:
        source = (self._copy / mutant.file).read_text(encoding="utf-8")
        tests = self._only or mutant.tests
        return Job(mutant.place(source), source, mutant.mutated(source), tests)

    def _within_budget(self, tests: Sequence[str]) -> list[str]:
        kept: list[str] = []
        spent = 0.0
        for test in tests:
            spent += self._reach.seconds[test]
            if kept and spent > self._budget:
                break
            kept.append(test)
        return kept

    def _tried(self, jobs: Sequence[Job]) -> Iterator[Trial]:
        """Try those that change what is run at import in processes that import anew."""
        called = [bool(job.tests) and self._only_called(job) for job in jobs]
        of_functions = [*compress(jobs, called)]
        seconds = self._reach.seconds
        ends = served(self._copy, self._work, of_functions, seconds, self._tier)
        for job, code, test in ends:
            yield _trial(job, _outcome(code, self._work / "log"), test)
        yield from map(self._anew, compress(jobs, map(not_, called)))

    def _only_called(self, job: Job) -> bool:
        at_import = self._reach.at_import(job.place, job.source)
        at_import |= job.place.file.as_posix().startswith(COMPILED)
        return not at_import and same_at_import(job.source, job.mutant)

    def _anew(self, job: Job) -> Trial:
        end = UNREACHED
        failed = self._work / "failed"
        failure = Failure(failed)
        replaced = Replaced(self._copy / job.place.file, job.mutant)
        try:
            for part in self._parts(job.tests):
                code = in_copy(
                    self._copy,
                    partial(run_tests, part, *OPTIONS, tier=self._tier, plugins=[failure]),
                    self._work / "log",
                    LEAST + LONGER * sum(self._reach.seconds.get(test, LEAST) for test in part),
                )
                end = _outcome(code, self._work / "log")
                if end != ALIVE:
                    break
        finally:
            replaced.restore()
        return _trial(job, end, failed.read_text(encoding="utf-8"))

    def _parts(self, tests: Sequence[str]) -> Iterator[list[str]]:
        first: list[str] = []
        rest: list[str] = []
        spent = 0.0
        for test in tests:
            spent += self._reach.seconds.get(test, 0)
            (first if spent <= FIRST or not first else rest).append(test)
        yield from (part for part in (first, rest) if part)


def _trial(job: Job, end: str, test: str) -> Trial:
    return Trial(job.place, change(job.source, job.mutant), end, len(job.tests), test)


def _outcome(code: int | None, log: Path) -> str:
    if code is None:
        return TIMED_OUT
    if code == pytest.ExitCode.OK:
        return ALIVE
    # Broken: pytest raises what was left unclosed as its session ends, beyond any test.
    if code in _FAILED or code == BROKEN or code < 0:
        return KILLED
    message = f"pytest ended with {code}:\n{end_of_log(log)}"
    raise RuntimeError(message)
