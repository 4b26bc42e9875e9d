"""How long a round takes here: the mean of those after the first, without what lies between."""

import pytest

import fedsim
from fedsim.running import probe
from fedsim.running.check import check_plan
from fedsim.running.probe import Enough, Pace, extent, opening
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.runs import small


class Clocks:
    """The clock of the wall and that of the processor, which a test moves."""

    def __init__(self) -> None:
        self.wall, self.worked = 0.0, 0.0

    def go_on(self, wall: float, worked: float) -> None:
        self.wall += wall
        self.worked += worked


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(probe, "perf_counter", lambda: made.wall)
    monkeypatch.setattr(probe, "process_time", lambda: made.worked)
    return made


def test_the_first_round_and_what_is_looked_up_between_two_are_left_out(clocks: Clocks) -> None:
    timed = Pace(100.0)
    for taken in (0.0, 7.0, 2.0, 4.0):
        clocks.go_on(taken, taken)
        with timed.round():
            clocks.go_on(50.0, 50.0)
    assert timed.seconds == 3.0


def test_neither_other_programs_count_nor_threads_twice(clocks: Clocks) -> None:
    timed = Pace(100.0)
    for wall, worked in ((0, 0), (1, 1), (9, 2), (2, 16)):
        clocks.go_on(wall, worked)
        with timed.round():
            pass
    assert timed.seconds == 2.0


def test_of_one_round_it_is_that_one_and_of_none_nothing(clocks: Clocks) -> None:
    timed = Pace(1.0)
    assert timed.seconds == 0.0
    for taken in (0.0, 0.5):
        clocks.go_on(taken, taken)
        with timed.round():
            pass
    assert timed.seconds == 0.5


def test_it_is_enough_when_the_time_is_over_but_two_rounds_there_are(clocks: Clocks) -> None:
    timed = Pace(1.0)
    for _ in range(2):
        clocks.go_on(5.0, 5.0)
        with timed.round():
            pass
    clocks.go_on(5.0, 5.0)
    with pytest.raises(Enough), timed.round():
        pass
    assert timed.seconds == 5.0


def test_rounds_that_are_timed_change_nothing_of_what_the_first_ones_cost() -> None:
    plan = load(small(stop={"rounds": 40}))
    (job,) = Builder(plan).check()
    plain, timed = opening(job), opening(job, timed=10.0)
    assert len(plain.rounds) == len(timed.rounds) == 2
    assert [cost.traffic for cost in plain.rounds] == [cost.traffic for cost in timed.rounds]
    assert plain.lasts.tolist() == timed.lasts.tolist()
    assert plain.ended == timed.ended == ""
    assert timed.pace > 0


def test_the_duration_counts_the_rounds_of_all_variants_and_seeds() -> None:
    gd = {"algorithm": {"kind": "gd", "step_size": "1/L"}, "stop": {"rounds": 1000}}
    plan = load(small(stop={"rounds": 500}, seeds=3, variants={"gd": gd}))
    found = check_plan(plan)
    paced = {
        name: began.__class__(**{**vars(began), "pace": 0.01})
        for name, began in found.openings.items()
    }
    told = extent(plan, found.jobs, paced, 100.0)
    assert told.runs == 6
    assert told.seconds == pytest.approx(300 + 3 * 500 * 0.01 + 3 * 1000 * 0.01)
    assert str(told).endswith(": 2 variants x 3 seeds = 6 runs, about 6 minutes")


def test_a_check_says_what_its_extent_says() -> None:
    found = fedsim.check(small(stop={"rounds": 3, "gap": 1e-3}))
    assert found.title == str(found.extent)
    assert found.title.endswith(", or less if a stop rule ends runs early")
    assert repr(found).startswith(found.title)
