"""Disks that fail, in a few cases of each kind; `tests.campaigns.faults.disk` tries any number."""

import pytest

from tests.campaigns.faults.campaign import Studies
from tests.campaigns.faults.disk import ERRORS, KINDS, case_of, faults

CASES = (0, 1, 2, 3, 4, 5, 6, 13, 15, 19)
"""Of every kind, and with every error."""


@pytest.mark.parametrize("number", CASES)
def test_a_study_on_a_disk_that_fails_says_so_and_goes_on(number: int, studies: Studies) -> None:
    case = case_of(1, number)
    assert list(faults(case, studies.of(case))) == [], str(case)


def test_the_cases_are_of_every_kind() -> None:
    cases = [case_of(1, number) for number in CASES]
    assert {case.kind for case in cases} == set(KINDS)
    assert {case.error for case in cases} == set(ERRORS)
