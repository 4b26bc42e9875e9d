"""What becomes of batches that do not come back from a cluster, told of no cluster at all."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError

from fedsim.algorithms import GradientDescent
from fedsim.errors import BlockError, RunError
from fedsim.running.batches import Batch, Batches, Sending, _check, _check_classes
from fedsim.running.workers import Known, Order, Run
from fedsim.scenario import load
from tests.runs import small

WORKERS: dict[str, Any] = {"tcp://a": {}, "tcp://b": {}}


def sending(folder: Path, runs: int = 6) -> tuple[Sending, Batches]:
    order = Order(load(small(seeds=runs)), folder)
    batches = Batches(order, [Known(run) for run in (Run(0, 1 + at) for at in range(runs))])
    info = {"address": "tcp://scheduler", "workers": WORKERS}
    client: Any = SimpleNamespace(scheduler_info=lambda **_: info, status="running")
    return Sending(client, order, "topic", batches), batches


def killed(failures: int = 3) -> KilledWorker:
    last: Any = SimpleNamespace(address="tcp://a")
    return KilledWorker("task", last, failures)


def lost(of: Sending, batch: Batch, error: Exception, *, alone: bool) -> list[Any]:
    return list(of._retry_lost(batch, error, alone=alone))


def test_an_error_of_a_worker_itself_ends_the_campaign(tmp_path: Path) -> None:
    of, batches = sending(tmp_path)
    with pytest.raises(RunError, match="workers of tcp://scheduler cannot make runs: no room"):
        lost(of, batches.take("tcp://a", 2), ValueError("no room"), alone=True)


def test_runs_of_a_batch_whose_workers_died_go_alone_and_are_suspected_before_they_are_given_up(
    tmp_path: Path,
) -> None:
    of, batches = sending(tmp_path)
    runs = [batches.take("tcp://a", 2).runs[0] for _ in range(2)]
    assert (batches.left, batches.awaited) == (4, 6)
    assert lost(of, Batch(tuple(runs)), killed(), alone=False) == []
    assert batches.left == 6  # to be sent again, each by itself
    single = batches.take("tcp://a", 2)
    assert len(single.runs) == 1
    assert lost(of, single, killed(), alone=False) == []
    assert (batches.left, batches.awaited) == (5, 6)  # it is a suspect: no batch has it
    (outcome,) = lost(of, single, killed(failures=3), alone=True)
    assert outcome.run == single.runs[0].run
    assert "each of 4 workers that made it has died" in str(outcome.error)
    assert batches.awaited == 5


class Unreachable:
    """The future of a batch whose scheduler cannot be asked."""

    key = "batch"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)

    def exception(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [FutureCancelledError("batch", "lost"), OSError("no route")])
def test_a_batch_whose_scheduler_is_out_of_reach_is_sent_again_with_its_order(
    error: Exception, tmp_path: Path
) -> None:
    of, batches = sending(tmp_path)
    asked = list[object]()

    def submit(task: object, *_: object, **__: object) -> Unreachable:
        asked.append(task)
        return Unreachable(error)

    of._client.submit = submit
    batch = batches.take("tcp://a", 2)
    of._launch(batch, "tcp://a")
    assert list(of._next()) == []
    assert (batches.left, batches.awaited) == (6, 6)
    again = [batches.take("tcp://a", 2) for _ in batch.runs]
    assert {one.runs for one in again} == {(run,) for run in batch.runs}
    of._launch(again[0], "tcp://a")
    assert len(asked) == 4  # twice the order, and twice a batch


@pytest.mark.parametrize(("runs", "words"), [(1, "1 run had not"), (2, "2 runs had not")])
def test_a_scheduler_that_is_gone_is_told_with_what_had_not_ended(
    runs: int, words: str, tmp_path: Path
) -> None:
    of, _ = sending(tmp_path, runs)
    assert f"tcp://scheduler is gone: {words} ended" in str(of._no_workers_error())


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"fedsim": "1", "numpy": "2"}, ""),
        ({"fedsim": "1", "numpy": "2", "more": "3"}, ""),
        ({"fedsim": "1", "numpy": "3"}, "numpy is 3 there, 2 here"),
        ({"fedsim": "1"}, "numpy is None there, 2 here"),
        ({}, "fedsim is None there, 1 here; numpy is None there, 2 here"),
    ],
)
def test_a_worker_of_other_versions_is_refused_with_each_of_them(
    there: dict[str, str], words: str
) -> None:
    wanted = {"fedsim": "1", "numpy": "2"}
    if not words:
        _check("tcp://a", wanted, there)
        return
    with pytest.raises(RunError, match=f"worker tcp://a would make other runs: {words}; install"):
        _check("tcp://a", wanted, there)


def test_a_class_that_was_typed_in_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(load(small(algorithm={"kind": "gd", "step_size": 0.1})), tmp_path)
    _check_classes(order)
    monkeypatch.setattr(GradientDescent, "__module__", "__main__")
    with pytest.raises(BlockError, match="the class GradientDescent is defined in the script"):
        _check_classes(order)
