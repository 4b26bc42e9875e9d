"""The evaluator on threads, for losses that release Python's global lock while they compute.

Every piece of work is evaluated by itself, as the serial evaluator does, so results do not depend
on the number of threads or on their timing.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from fedsim.computing.serial import SerialEvaluator, evaluate, finite
from fedsim.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.samples import Draw


class EvaluationTask:
    """A unit of work with its claim flag and its future.

    Args:
        work: the description of the computation.

    Attributes:
        finite: whether the result is, once there is one.
        future: of the result.
        taken: whether a thread has claimed it, or it was withdrawn.
    """

    __slots__ = ("_work", "finite", "future", "taken")

    def __init__(self, work: Work) -> None:
        self._work = work
        self.future: Future[Array] = Future()
        self.finite = False
        self.taken = False

    def evaluate(self, losses: Sequence[LocalLoss]) -> None:
        """Evaluate the work; an exception is raised again where the result is requested."""
        try:
            result = evaluate(self._work, losses)
            self.finite = finite(result)  # here: the thread that waits for results has enough to do
        except BaseException as error:  # noqa: BLE001 - any error is passed to the caller
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ThreadedEvaluator:
    """Evaluates work on background threads, and on the thread that requests a result.

    Args:
        losses: of the clients in fleet order; their methods must be pure functions.
        threads: the number of threads, including the one that requests results.
    """

    choice: Mapping[str, Any] = SerialEvaluator.choice
    together = SerialEvaluator.together  # as on a machine of one processor
    draws = False
    draw: Draw = staticmethod(SerialEvaluator.draw)

    def __init__(self, losses: Sequence[LocalLoss], threads: int) -> None:
        self.losses = ClientLosses.of(losses)
        self._others = threads - 1
        self._waiting: deque[EvaluationTask] = deque()
        self._lock = Lock()
        self._busy = 0

    @cached_property
    def _helpers(self) -> ThreadPoolExecutor:
        """The background threads; they end with the evaluator."""
        return ThreadPoolExecutor(self._others, "fedsim-compute", _let_overflow)

    def submit(self, work: Work) -> EvaluationTask:
        """See `Evaluator.submit`: an idle thread starts on it at once."""
        task = EvaluationTask(work)
        with self._lock:
            self._waiting.append(task)
            free = self._busy < self._others
            self._busy += free
        if free:
            self._helpers.submit(self._help)
        return task

    def result(self, ticket: EvaluationTask) -> Array:
        """See `Evaluator.result`: evaluates the work, or other pending work until it is done."""
        # If a background thread has claimed the work, this thread does not block on it as long as
        # there is other pending work.
        task: EvaluationTask | None = ticket if self._take(ticket) else None
        while task or not ticket.future.done():
            if task is None and (task := self._next()) is None:
                break
            task.evaluate(self.losses)
            task = None
        return ticket.future.result()

    def finite(self, ticket: EvaluationTask, result: Array) -> bool:  # noqa: ARG002
        """See `Evaluator.finite`: the thread that evaluated the work has looked."""
        return ticket.finite

    def withdraw(self, ticket: EvaluationTask) -> None:
        """See `Evaluator.withdraw`: a pending task is not evaluated."""
        self._take(ticket)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`: each client's value by itself, on the background threads."""
        if not self._others:
            return self.losses.values(w)
        return np.array(list(self._helpers.map(lambda loss: loss.value(w), self.losses)))

    def _take(self, task: EvaluationTask) -> bool:
        """Claim a task; return whether it was unclaimed."""
        with self._lock:
            free = not task.taken
            task.taken = True
        return free

    def _next(self) -> EvaluationTask | None:
        """Claim the oldest pending task, if there is one."""
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if not task.taken:
                    task.taken = True
                    return task
        return None

    def _help(self) -> None:
        """Evaluate pending tasks until there are none."""
        while True:
            task = self._next()
            if task is None:
                # Checked again under the lock: a task submitted between `_next` and here found this
                # thread busy and started no other one, so it must not be left behind.
                with self._lock:
                    if not self._waiting:
                        self._busy -= 1
                        return
                continue
            task.evaluate(self.losses)


def _let_overflow() -> None:
    """Let overflow give infinity without a warning, as in the main thread of a run."""
    np.seterr(over="ignore", invalid="ignore")
