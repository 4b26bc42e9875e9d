"""What is sent to a worker next: short runs together, the longest first, a seed to one worker."""

from pathlib import Path

from fedsim.running.batches import LASTING, Batches
from fedsim.running.tasks import Known, Order, Outcome, Run
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
