"""Commands that are killed, in a few cases of each kind; `tests.faults.kill` tries any number."""

from pathlib import Path

import pytest

from fedsim.record.folder import SUMMARY, RunFolder
from tests.faults.campaign import Studies
from tests.faults.kill import case_of, faults
from tests.faults.operations import Counter, met
from tests.faults.studies import WAYS

CASES = 12


@pytest.mark.parametrize("number", range(CASES))
def test_a_study_that_is_killed_and_taken_up_is_the_undisturbed_one(
    number: int, studies: Studies
) -> None:
    case = case_of(1, number)
    assert list(faults(case, studies.of(case))) == [], str(case)


def test_the_cases_are_of_every_kind() -> None:
    cases = [case_of(1, number) for number in range(200)]
    assert {case.way for case in cases} == set(WAYS)
    blows = [blow for case in cases for blow in case.blows]
    assert {blow.worker for blow in blows} == {blow.amid for blow in blows} == {True, False}
    assert {blow.way.name for blow in blows} == {"SIGKILL", "SIGTERM", "SIGINT"}


def test_a_run_is_over_with_the_first_file_that_is_removed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "base", 1).path
    (run / SUMMARY).write_text("{}")
    counter = Counter()
    with met(tmp_path, counter):
        RunFolder(tmp_path, "base", 1)
    removed = [each.path.name for each in counter.seen if each.name in {"unlink", "rmdir"}]
    assert removed[0] == SUMMARY
    assert len(removed) > 1
