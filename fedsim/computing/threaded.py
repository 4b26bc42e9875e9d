"""The evaluator of losses that leave Python's lock to others while they compute: on threads.

Every piece of work is evaluated by itself as the reference does it, so results depend neither on
how many threads there are nor on which of them takes what.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from fedsim.computing.serial import SerialEvaluator, evaluate
from fedsim.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.samples import Draw


class EvaluationTask:
    """A unit of work with its claim flag and its future.

    Args:
        work: what is computed.

    Attributes:
        future: its result.
        taken: whether a thread has claimed it, or it was withdrawn.
    """

    __slots__ = ("_work", "future", "taken")

    def __init__(self, work: Work) -> None:
        self._work = work
        self.future: Future[Array] = Future()
        self.taken = False

    def evaluate(self, losses: Sequence[LocalLoss]) -> None:
        """Evaluate it; what is raised is raised where the result is asked for."""
        try:
            result = evaluate(self._work, losses)
        except BaseException as error:  # noqa: BLE001 - any error is passed to the caller
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ThreadedEvaluator:
    """Evaluates work on threads from its submission on, and on the thread that needs it.

    Args:
        losses: of the clients in the order of the fleet, pure functions of what they are given.
        threads: how many may compute, the one that asks for results among them.
    """

    choice: Mapping[str, Any] = SerialEvaluator.choice
    draw: Draw = staticmethod(SerialEvaluator.draw)

    def __init__(self, losses: Sequence[LocalLoss], threads: int) -> None:
        self.losses = ClientLosses.of(losses)
        self._others = threads - 1
        self._waiting: deque[EvaluationTask] = deque()
        self._lock = Lock()
        self._busy = 0

    @cached_property
    def _helpers(self) -> ThreadPoolExecutor:
        """Threads beside the one that asks; they end with the evaluator."""
        return ThreadPoolExecutor(self._others, "fedsim-compute", _let_overflow)

    def submit(self, work: Work) -> EvaluationTask:
        """See `Evaluator.submit`: a thread that is free begins with it."""
        task = EvaluationTask(work)
        with self._lock:
            self._waiting.append(task)
            free = self._busy < self._others
            self._busy += free
        if free:
            self._helpers.submit(self._help)
        return task

    def result(self, ticket: EvaluationTask) -> Array:
        """See `Evaluator.result`: its own work first, then what waits while others do that."""
        task: EvaluationTask | None = ticket if self._take(ticket) else None
        while task or not ticket.future.done():
            if task is None and (task := self._next()) is None:
                break
            task.evaluate(self.losses)
            task = None
        return ticket.future.result()

    def withdraw(self, ticket: EvaluationTask) -> None:
        """See `Evaluator.withdraw`: what waits is not evaluated."""
        self._take(ticket)

    def values(self, w: Array) -> list[float]:
        """See `Evaluator.values`: each client's by itself, on all threads."""
        if not self._others:
            return self.losses.values(w)
        return list(self._helpers.map(lambda loss: loss.value(w), self.losses))

    def _take(self, task: EvaluationTask) -> bool:
        """Claim a task; return whether it was unclaimed."""
        with self._lock:
            free = not task.taken
            task.taken = True
        return free

    def _next(self) -> EvaluationTask | None:
        """Take the oldest task that waits, if there is one."""
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if not task.taken:
                    task.taken = True
                    return task
        return None

    def _help(self) -> None:
        """Evaluate what waits, until nothing does."""
        while True:
            task = self._next()
            if task is None:
                with self._lock:
                    if not self._waiting:
                        self._busy -= 1
                        return
                continue
            task.evaluate(self.losses)


def _let_overflow() -> None:
    """Let what is too large be infinite without a warning, as in the thread of the run."""
    np.seterr(over="ignore", invalid="ignore")
