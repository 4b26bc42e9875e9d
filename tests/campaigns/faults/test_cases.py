"""The faults that are drawn are of every kind."""

from . import disk, kill
from .studies import WAYS


def test_commands_are_killed_in_every_way_and_at_every_place() -> None:
    cases = [kill.case_of(1, number) for number in range(200)]
    assert {case.way for case in cases} == set(WAYS)
    blows = [blow for case in cases for blow in case.blows]
    assert {blow.worker for blow in blows} == {blow.amid for blow in blows} == {True, False}
    assert {blow.way.name for blow in blows} == {"SIGKILL", "SIGTERM", "SIGINT"}


def test_disks_fail_in_every_way_with_every_error() -> None:
    cases = [disk.case_of(1, number) for number in range(20)]
    assert {case.kind for case in cases} == set(disk.KINDS)
    assert {case.error for case in cases} == set(disk.ERRORS)
