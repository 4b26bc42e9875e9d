"""Threads: what each client's loss says by itself, whichever thread has asked it."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from fedsim.core.ports import Array, Work
from fedsim.problems import Logistic, Problem, Samples
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators.threaded import ThreadedEvaluator
from fedsim.problems.kernels import gradient

CLIENTS = 4


def losses() -> Sequence[LocalLoss]:
    rng = np.random.default_rng(1)
    parts = [
        Samples(rng.standard_normal((3, 2)), np.array([1.0, -1.0, 1.0])) for _ in range(CLIENTS)
    ]
    return Problem.of(Logistic(), parts).losses


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_values_are_those_of_each_loss_on_other_threads_where_there_are_some(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, w = losses(), np.array([0.3, -0.7])
    wanted, seen = [loss.value(w) for loss in own], []
    value = LocalLoss.value

    def watched(loss: LocalLoss, at: Array) -> float:
        seen.append(threading.current_thread() is threading.main_thread())
        return value(loss, at)

    evaluator = ThreadedEvaluator(own, threads)
    if threads > 1:
        monkeypatch.setattr(LocalLoss, "value", watched)
        assert evaluator.values(w).tolist() == wanted
        assert seen == [False] * CLIENTS
    else:
        np.testing.assert_allclose(evaluator.values(w), wanted, rtol=1e-14)


def test_submitted_work_is_done_on_another_thread_before_its_result_is_asked_for() -> None:
    own, w = losses(), np.array([0.3, -0.7])
    evaluator = ThreadedEvaluator(own, 2)
    tickets = [evaluator.submit(Work(gradient, client, (w,), 1.0)) for client in range(CLIENTS)]
    evaluator._pool._helpers.shutdown(wait=True)  # its threads end when they have done all
    assert all(ticket.future.done() for ticket in tickets)
    for ticket, loss in zip(tickets, own, strict=True):
        assert evaluator.result(ticket).tolist() == loss.gradient(w).tolist()
