"""Commands that are killed, in a few cases of each kind; `faults.kill` tries any number."""

import pytest

from tests.campaigns.faults.campaign import Studies
from tests.campaigns.faults.kill import case_of, faults
from tests.campaigns.faults.studies import WAYS

CASES = [
    number for number in range(40) if all(blow.number >= 0 for blow in case_of(1, number).blows)
][:7]
"""Those whose signals come at operations, the same every time; the command tries moments, too."""


@pytest.mark.parametrize("number", CASES)
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
