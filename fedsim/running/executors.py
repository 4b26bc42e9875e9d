"""Runs made by an executor: one of `concurrent.futures`, or anything with its method `submit`.

A task makes one run, whole, and returns its outcome; `fedsim.running.staging` tells how its files
reach their folder. A task that ends without an outcome has lost its worker: the run is sent again,
and is named as failed when it is lost a second time. Outcomes of other runs are kept in any case.
"""

import os
import platform
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from fedsim.core.errors import FedsimError, RunError
from fedsim.core.progress import activity
from fedsim.running.run import Watch, environment
from fedsim.running.workers import (
    Known,
    Order,
    Outcome,
    encode_order,
    make_all,
    process_callback,
    run_name,
)

_LOOK = 1.0  # seconds of real time between two looks at jobs that report their end to nobody


@dataclass(frozen=True)
class ExecutorEngine:
    """Makes runs by an executor, which is left open.

    Attributes:
        executor: of `concurrent.futures`, or one whose `submit` returns jobs with `done`, `result`
            and `cancel`, such as submitit's.
        sending: the context in which tasks are submitted.
    """

    executor: Executor
    sending: Callable[[], AbstractContextManager[object]] = nullcontext

    apart: ClassVar[bool] = False
    """Whether lost runs are sent again one by one, since workers have several at a time."""

    @property
    def processes(self) -> int:
        """How many processes of this machine the executor had; 0 if its workers may be anywhere."""
        local = isinstance(self.executor, ProcessPoolExecutor)
        return int(vars(self.executor)["_max_workers"]) if local else 0

    def outcomes(self, order: Order, runs: Sequence[Known], watch: Watch) -> Iterator[Outcome]:
        """Make runs; yield the outcome of each as it ends.

        Args:
            order: the campaign.
            runs: of it.
            watch: called with progress, if the executor reports any before a task ends.

        Raises:
            BlockError: a class of the scenario is in no file that workers can load.
            RunError: workers have other versions, or none of them can make any run.
            BrokenExecutor: it takes no more runs, as when a pool has lost a process.
        """
        del watch  # a task of a plain executor reports nothing before it ends
        here = isinstance(self.executor, ProcessPoolExecutor | ThreadPoolExecutor)
        pickled, came = encode_order(order, script=here), False
        given_up = list[tuple[Known, Exception]]()
        waves = deque([(runs, False)])  # sent together, and whether for the last time
        while waves:
            several, last = waves.popleft()
            lost, cut_off = list[Known](), list[Known]()
            for known, outcome in self._wave(pickled, several):
                if isinstance(outcome, Outcome):
                    came = True
                    yield outcome
                elif outcome is None:
                    cut_off.append(known)
                elif not last:
                    lost.append(known)
                else:
                    given_up.append((known, outcome))
            again = [[each] for each in lost] if self.apart else [lost]
            waves.extend((each, True) for each in again if each)
            if cut_off:
                waves.append((cut_off, last))
        if given_up and len(runs) > 1 and not came:  # the runs are not to blame
            error = given_up[0][1]
            raise RunError(f"no worker can make runs: {_words(error)}") from error
        for known, error in given_up:
            yield Outcome(known.run, error=_lost_error(order, known, error))

    def _wave(
        self, pickled: bytes, runs: Sequence[Known]
    ) -> Iterator[tuple[Known, Outcome | Exception | None]]:
        """Send runs together; yield the outcome of each, the error it was lost by, or None.

        None: the connection broke, for which neither the run nor its worker is to blame.
        """
        tasks, refused = dict[Any, Known](), None
        batch = getattr(self.executor, "batch", None)  # of submitit: one array job, sent at its end
        sent = batch is None
        try:
            with (batch or self.sending)():
                for known in runs:
                    try:
                        tasks[self._submit(pickled, known)] = known
                    except RuntimeError as error:
                        refused = error
                        break
            sent = True
            for task in _as_ended(tasks):
                try:
                    (outcome,) = task.result()
                except FedsimError:
                    raise
                except Exception as error:  # noqa: BLE001 - executors raise errors of their own
                    yield tasks[task], None if self._is_cut_off(task, error) else error
                else:
                    yield tasks[task], outcome
        finally:
            if sent:
                self._cancel([task for task in tasks if not task.done()])
        if refused is not None:
            raise BrokenExecutor(str(refused)) from refused

    def _submit(self, pickled: bytes, known: Known) -> Any:
        return self.executor.submit(make_elsewhere, pickled, environment(), known)

    def _cancel(self, tasks: Sequence[Any]) -> None:
        for task in tasks:
            task.cancel()

    def _is_cut_off(self, task: Any, error: Exception) -> bool:
        """Return whether a task gave an error because the connection broke."""
        return False


def _as_ended(tasks: Mapping[Any, Known]) -> Iterator[Any]:
    """Yield futures as they end; jobs without callbacks, such as submitit's, are asked for it."""
    ended, silent = SimpleQueue[Any](), list[Any]()
    for task in tasks:
        if hasattr(task, "add_done_callback"):
            task.add_done_callback(ended.put)
        else:
            silent.append(task)
    for _ in tasks:
        found = None
        while found is None:
            for task in [each for each in silent if each.done()]:
                silent.remove(task)
                ended.put(task)
            try:
                with activity("waiting for workers"):
                    found = ended.get(timeout=_LOOK)
            except Empty:
                continue
        yield found


def _lost_error(order: Order, known: Known, error: Exception) -> RunError:
    text = "its workers died, or sent nothing, perhaps because memory was short"
    return RunError(f"{run_name(order, known.run)}: {text}: {_words(error)}")


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


# What workers execute.


def make_elsewhere(
    pickled: bytes, wanted: Mapping[str, str], known: Known, watch: Watch | None = None
) -> list[Outcome]:
    """Make a run in this process, a worker's; return its outcome.

    Args:
        pickled: the campaign.
        wanted: the versions of the calling process.
        known: the run.
        watch: called with its progress.

    Raises:
        RunError: the versions here differ, so the run would differ.
    """
    check_versions(wanted, environment())
    return make_all(pickled, [known], watch or process_callback())


def check_versions(wanted: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Validate that a worker has the same versions as the calling process.

    Raises:
        RunError: some differ.
    """
    differ = [name for name in wanted if there.get(name) != wanted[name]]
    if differ:
        report = "; ".join(
            f"{name} is {there.get(name)} there, {wanted[name]} here" for name in differ
        )
        worker = f"the worker {platform.node()}, process {os.getpid()}"
        raise RunError(f"{worker}, would make other runs: {report}; install the same versions")
