"""What is sent to a worker next: short runs together, the longest first, a seed to one worker."""

import os
from math import ceil
from pathlib import Path

import pytest

import fedsim
from fedsim.building.builder import Builder
from fedsim.record.folder import SCENARIO, SUMMARY
from fedsim.running.batches import LASTING, Batches, run_duration
from fedsim.running.run import RunProgress
from fedsim.running.workers import Known, Order, Outcome, Run, find_finished, make
from fedsim.scenario import load
from tests.runs import small

SEEDS = 40


def batches(variants: int, tmp_path: Path) -> Batches:
    values = [round(0.01 * (number + 1), 2) for number in range(variants)]
    plan = load(small(sweep={"algorithm.censor": values}, seeds=SEEDS))
    runs = [Run(number, seed) for number in range(variants) for seed in range(1, SEEDS + 1)]
    return Batches(Order(plan, tmp_path), [Known(run) for run in runs])


def test_short_runs_go_together_and_each_goes_once(tmp_path: Path) -> None:
    left = batches(2, tmp_path)
    first = left.take("a", 2).runs
    assert len(first) == 1, "nobody knows how long it takes"
    other = left.take("b", 2).runs
    assert other[0].run.seed != first[0].run.seed
    left.note([Outcome(each.run, seconds=LASTING / 10) for each in first])
    left.note([Outcome(Run(1, 99), seconds=LASTING / 5)])
    sizes, taken = [], [*first, *other]
    while left.left:
        batch = left.take("a", 2).runs
        sizes.append(len(batch))
        taken += batch
    assert 5 <= max(sizes) <= 10
    assert max(sizes[-4:]) <= 3, "nobody waits long for one worker's batch at the end"
    assert 1 not in sizes[:-3], "nor does a task go for one of them: it has its price"
    assert len({each.run for each in taken}) == len(taken) == 2 * SEEDS


def test_a_worker_keeps_to_its_seed(tmp_path: Path) -> None:
    left = batches(4, tmp_path)
    seeds: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(4):
        for worker, seen in seeds.items():
            seen += [each.run.seed for each in left.take(worker, 2).runs]
    assert [len(set(seen)) for seen in seeds.values()] == [1, 1]
    assert set(seeds["a"]) != set(seeds["b"])


def test_what_came_back_unmade_goes_alone(tmp_path: Path) -> None:
    left = batches(1, tmp_path)
    left.note([Outcome(Run(0, 99), seconds=LASTING / 100)])
    batch = left.take("a", 1)
    assert len(batch.runs) > 1
    left.again(batch)
    again = [left.take("a", 1).runs for _ in batch.runs]
    assert {runs[0] for runs in again if len(runs) == 1} == set(batch.runs)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_batch_has_a_quarter_of_each_workers_share_at_most(workers: int, tmp_path: Path) -> None:
    """Runs that take next to no time: so many alone decide, until a quarter of the time is over."""
    left = batches(1, tmp_path)
    left.note([Outcome(Run(0, 99), seconds=1e-9)])
    before, sizes = left.left, list[int]()
    assert before == SEEDS
    # What takes no time goes all at once: the time is what bounds it.
    assert len(left.take("a", workers).runs) == before
    left = batches(1, tmp_path)
    left.note([Outcome(Run(0, 99), seconds=LASTING / 3.5)])  # longer than a quarter of a batch
    while left.left:
        most = min(4, ceil(left.left / (4 * workers)))
        sizes.append(len(left.take("a", workers).runs))
        assert sizes[-1] == most
    assert sum(sizes) == SEEDS
    assert len(batches(1, tmp_path).take("a", 0).runs) == 1  # nobody is there yet


@pytest.mark.parametrize(
    ("took", "runs"),
    [
        ([0.4], 3),  # a second is over with the third of 0.4 s
        ([0.4, 0.2], 4),  # the mean of what was known and of what came: 0.3 s
        ([0.4, 0.2, 0.1], 5),  # 0.2 s
        ([0.4, 0.2, 0.0], 4),  # what was there already took no time, and says nothing
    ],
)
def test_a_batch_lasts_by_what_runs_took_the_last_one_weighing_half(
    took: list[float], runs: int, tmp_path: Path
) -> None:
    left = batches(1, tmp_path)
    left.note([Outcome(Run(0, 90 + at), seconds=each) for at, each in enumerate(took)])
    assert len(left.take("a", 1).runs) == runs


def test_a_free_seed_comes_before_the_larger_one_of_another_worker(tmp_path: Path) -> None:
    plan = load(small(sweep={"algorithm.censor": [0.01, 0.02, 0.03, 0.04]}, seeds=2))
    runs = [*(Run(number, 1) for number in range(4)), Run(0, 2), Run(1, 2)]
    left = Batches(Order(plan, tmp_path), [Known(run) for run in runs])
    assert left.take("a", 2).runs[0].run.seed == 1  # where most is left
    assert left.take("b", 2).runs[0].run.seed == 2
    assert left.take("b", 2).runs[0].run.seed == 2
    assert left.take("b", 2).runs[0].run.seed == 1  # none is free: it helps


def test_who_has_no_seed_begins_one_that_is_free_and_helps_where_most_is_left(
    tmp_path: Path,
) -> None:
    left = batches(3, tmp_path)
    begun = [left.take(str(worker), SEEDS).runs[0].run.seed for worker in range(SEEDS)]
    assert len(set(begun)) == SEEDS  # each its own, as long as there are free ones
    for worker in range(3, SEEDS):  # their runs are all taken, but for those of the first three
        for _ in range(2):
            assert left.take(str(worker), SEEDS).runs[0].run.seed == begun[worker]
    assert left.take("1", SEEDS).runs[0].run.seed == begun[1]
    for _ in range(2):
        left.take("2", SEEDS)
    # Two are left of the first seed, one of the second: who comes helps with the first.
    assert left.take("39", SEEDS).runs[0].run.seed == begun[0]
    assert left.left == 2


def test_what_has_ended_is_awaited_no_more_whoever_tells_of_it(tmp_path: Path) -> None:
    left = batches(2, tmp_path)
    names = [each.name for each in load(_two()).variants]
    assert left.awaited == 2 * SEEDS
    left.report_progress(RunProgress(names[1], 7, "gd", 10, round=3))
    assert left.awaited == 2 * SEEDS  # it goes on
    left.report_progress(RunProgress(names[1], 7, "gd", 10, ended=True))
    left.note([Outcome(Run(1, 7)), Outcome(Run(0, 7), seconds=1.0)])
    assert left.awaited == 2 * SEEDS - 2
    several = [left.take("a", 2) for _ in range(3)]
    for batch in several:
        left.again(batch)
    assert (left.left, left.awaited) == (2 * SEEDS, 2 * SEEDS - 2)


def _two() -> dict[str, object]:
    return small(sweep={"algorithm.censor": [0.01, 0.02]}, seeds=SEEDS)


def test_a_run_took_the_time_from_its_first_file_to_its_last(tmp_path: Path) -> None:
    assert run_duration(tmp_path) is None
    for name, at in ((SCENARIO, 100.0), (SUMMARY, 102.5)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert run_duration(tmp_path) == 2.5
    os.utime(tmp_path / SCENARIO, (102.5, 102.5))
    assert run_duration(tmp_path) == 0
    os.utime(tmp_path / SCENARIO, (103, 103))
    assert run_duration(tmp_path) is None  # the clock went back
    (tmp_path / SUMMARY).unlink()
    assert run_duration(tmp_path) is None


def test_a_run_that_exists_took_no_time_and_one_that_is_made_took_some(tmp_path: Path) -> None:
    """Its duration would else count among those that batches are made by."""
    fedsim.run(small(stop={"rounds": 2}), out=tmp_path / "runs")
    plan, seen = load(small(stop={"rounds": 2})), list[RunProgress]()
    for out, there in ((tmp_path / "runs", True), (tmp_path / "other", False)):
        out.mkdir(exist_ok=True)
        order = Order(plan, out)
        known = find_finished(order, Run(0, 1), lambda _: None)
        assert (known.there is not None) == there
        outcome = make(order, Builder(plan), out, known, seen.append)
        assert outcome.error is None
        assert (outcome.seconds == 0.0) == there
        assert outcome.seconds >= 0.0
        assert seen[-1].ended
