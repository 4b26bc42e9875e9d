"""Calls on background threads, and on the thread that requests their results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np


class Task:
    """A call with its claim flag and its future.

    Args:
        call: run once.

    Attributes:
        future: the future of the result.
        taken: whether a thread has claimed the task, or it was withdrawn.
    """

    __slots__ = ("_call", "future", "taken")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = call
        self.future: Future[Any] = Future()
        self.taken = False

    def make(self) -> None:
        """Run the call and store its result or exception."""
        # Released before the call: it refers to models, which would stay alive as long as the
        # result.
        call, self._call = self._call, None
        assert call is not None  # noqa: S101 - a task is claimed once
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - any error is passed to the caller
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class TaskPool:
    """Runs calls on background threads, and on the thread that requests a result.

    Args:
        threads: the number of threads, including the one that requests results.
    """

    def __init__(self, threads: int) -> None:
        self.others = threads - 1
        self._waiting: deque[Task] = deque()
        self._lock = Lock()
        self._busy = 0

    @cached_property
    def _helpers(self) -> ThreadPoolExecutor:
        """The background threads; they end with the pool."""
        return ThreadPoolExecutor(self.others, "fedsim-compute", _let_overflow)

    def submit(self, call: Callable[[], Any]) -> Task:
        """Return a task; an idle thread starts it at once."""
        task = Task(call)
        if not self.others:
            # Without other threads nothing is queued: the task runs when its result is requested.
            return task
        # `_busy` counts threads that will look at the queue. It is raised under the same lock that
        # adds the task, so no task is left without a thread.
        with self._lock:
            self._waiting.append(task)
            free = self._busy < self.others
            self._busy += free
        if free:
            self._helpers.submit(self._help)
        return task

    def result(self, wanted: Task) -> Any:
        """Return the result of a task: run its call, or other pending ones until it is done.

        Args:
            wanted: a task of this pool; this thread runs it if it was not submitted.
        """
        # If a background thread has claimed the task, this thread does not block on it as long as
        # there are other pending ones.
        task: Task | None = wanted if self.take(wanted) else None
        while task or not wanted.future.done():
            if task is None and (task := self._next()) is None:
                break
            task.make()
            task = None
        return wanted.future.result()

    def map(self, call: Callable[[Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of a call for each value, made on the background threads."""
        return self._helpers.map(call, values)

    def take(self, task: Task) -> bool:
        """Claim a task, so that no thread starts it; return whether it was unclaimed."""
        with self._lock:
            free = not task.taken
            task.taken = True
        return free

    def _next(self) -> Task | None:
        """Claim the oldest pending task, if there is one."""
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if not task.taken:
                    task.taken = True
                    return task
        return None

    def _help(self) -> None:
        """Run pending calls until there are none."""
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
            task.make()


def _let_overflow() -> None:
    """Ignore overflow, which gives infinity, as in the main thread of a run."""
    np.seterr(over="ignore", invalid="ignore")
