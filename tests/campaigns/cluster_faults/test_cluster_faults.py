"""A few of the faults that the campaign lets parts of a cluster have."""

from .__main__ import campaign
from .cases import RUNS, Case

FEW = [
    Case(0, "worker", "SIGKILL", blind=False, after=4, pause=0.1, lasting=0.0),
    Case(1, "parent", "SIGTERM", blind=False, after=2, pause=0.1, lasting=0.0),
    Case(2, "scheduler", "SIGKILL", blind=False, after=RUNS // 2, pause=0.0, lasting=0.0),
]


def test_no_part_that_fails_costs_a_run() -> None:
    ended = list(campaign(FEW))
    assert not [(each.case.called, each.faults) for each in ended if each.faults]
    assert all(each.struck for each in ended)
