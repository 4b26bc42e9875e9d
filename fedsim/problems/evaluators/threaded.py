"""The evaluator on threads, for losses that release Python's global lock while they compute.

Every piece of work is evaluated by itself, as the serial evaluator does, so results do not depend
on the number of threads or on their timing.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsim.core.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.evaluators.serial import SerialEvaluator, evaluate, finite
from fedsim.problems.evaluators.task_pool import Task, TaskPool
from fedsim.problems.samples import Draw


class ThreadedEvaluator:
    """Evaluates work on background threads, and on the thread that requests a result.

    Args:
        losses: the losses of the clients in fleet order; their methods must be pure functions.
        threads: the number of threads, including the one that requests results.
    """

    choice: Mapping[str, Any] = SerialEvaluator.choice
    together = SerialEvaluator.together  # as on a machine of one processor
    draws = False
    draw: Draw = staticmethod(SerialEvaluator.draw)

    def __init__(self, losses: Sequence[LocalLoss], threads: int) -> None:
        self.losses = ClientLosses.of(losses)
        self._pool = TaskPool(threads)

    def submit(self, work: Work) -> Task:
        """See `Evaluator.submit`: an idle thread starts on it at once."""
        return self._pool.submit(partial(_evaluate, work, self.losses))

    def result(self, ticket: Task) -> Array:
        """See `Evaluator.result`: evaluates the work, or other pending work until it is done."""
        result: Array = self._pool.result(ticket)[0]
        return result

    def finite(self, ticket: Task, result: Array) -> bool:
        """See `Evaluator.finite`: the thread that evaluated the work has looked."""
        finite: bool = ticket.future.result()[1]
        return finite

    def withdraw(self, ticket: Task) -> None:
        """See `Evaluator.withdraw`: a pending task is not evaluated."""
        self._pool.take(ticket)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`: each client's value by itself, on the background threads."""
        if not self._pool.others:
            return self.losses.values(w)
        # One value per call and client: a sum over clients in one call would depend on the number
        # of threads.
        return np.array(list(self._pool.map(lambda loss: loss.value(w), self.losses)))


def _evaluate(work: Work, losses: Sequence[LocalLoss]) -> tuple[Array, bool]:
    """Return the result of work and whether it is finite."""
    result = evaluate(work, losses)
    return result, finite(result)  # here: the thread that waits for results has enough to do
