"""Calls of user code: seeded, with a time limit, and with errors that name the call.

A client's program may draw from the global generators of Python, NumPy and PyTorch. They are seeded
from a stream of fedsim before each call, and restored after it; so the draws of a client depend
neither on other clients nor on other code in the process. If a program seeds the generators itself,
or uses other sources (`os.urandom`, a clock), fedsim does not guarantee reproducible runs.
"""

import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from math import fsum, isfinite, nan
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, SupportsIndex, TypeVar

import flwr
import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.compat.common.recorddict_compat import recorddict_to_evaluateres
from flwr.supercore.task_identity import TaskIdentity

from fedsim.core.blocks.wording import place_of
from fedsim.core.errors import Failed

T = TypeVar("T")

RUN, TASK, SERVER_NODE = 1, 1, 1
"""Flower's numbers of a run, its task and its server node."""


def call_user_code(
    what: str, seed: int, call: Callable[[], T], limit: float | None = None, *, quiet: bool = False
) -> T:
    """Call user code.

    Args:
        what: the action, client and time, for errors: "train of client 3 in round 2".
        seed: of the global generators during the call.
        call: the code.
        limit: of its real time, s; None for no limit.
        quiet: whether the code's own log messages are discarded, as Flower's are.

    Raises:
        Failed: the code raises an exception, or exceeds the limit.
    """
    try:
        log = _log_filter(_discard if quiet else _from_user)
        with _seed(seed), log, _identity(), redirect_stdout(sys.stderr):
            if limit is None:
                return call()
            return _within(limit, call)
    except _Overdue:
        text = f"{what} did not return within {limit:g} s of real time (problem.loss.limit)"
        raise Failed(text) from None
    except (Exception, SystemExit) as error:  # any exception of user code
        raise Failed(f"{what} has failed: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    """Return the exception and its line in user code."""
    if isinstance(error, Failed):
        return str(error)
    lines = " ".join(str(error).split())
    what = f"{type(error).__name__}: {lines}".strip(": ")
    return what + place_of(error)


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Seed the global generators, and restore them afterwards."""
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - a user's code draws from it
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - likewise
        with nullcontext() if "torch" not in sys.modules else _torch_streams(seed):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002 - likewise


def _torch_streams(seed: int) -> AbstractContextManager[None]:
    from fedsim.problems.modules.seeding import own_streams  # takes PyTorch

    return own_streams(seed)


_FLOWER = str(Path(flwr.__file__).parent)
"""The folder of Flower's own code."""


def _from_user(record: logging.LogRecord) -> bool:
    """Return whether user code logged a record; Flower itself uses the same logger."""
    return not record.pathname.startswith(_FLOWER)


def _discard(_: logging.LogRecord) -> bool:
    return False


@contextmanager
def _log_filter(passes: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Filter the messages of Flower's logger, which apps use, too."""
    logger = logging.getLogger("flwr")

    def own(record: logging.LogRecord) -> bool:  # a new function per call, as calls may be nested
        return passes(record)

    logger.addFilter(own)
    try:
        yield
    finally:
        logger.removeFilter(own)


@contextmanager
def _identity() -> Iterator[None]:
    """Allow the creation of messages, as in a Flower run."""
    TaskIdentity.run_id, TaskIdentity.task_id = RUN, TASK
    TaskIdentity.node_id = SERVER_NODE
    yield


# Real sleeping, which takes no simulated time.

_thread = threading.local()
_patching = threading.Lock()
_watches = 0  # number of watches in progress, over all threads
_real_sleep = time.sleep


class SleepMeter:
    """Adds up the time that user code spends in `time.sleep`.

    Calls by code that ran `from time import sleep` are not counted.

    Attributes:
        seconds: the sum of the arguments of `time.sleep`, s.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count the time that this thread sleeps within the block."""
        outer, _thread.slept = getattr(_thread, "slept", None), 0.0
        _patch(1)
        try:
            yield
        finally:
            _patch(-1)
            self.seconds += _thread.slept
            _thread.slept = outer


def _patch(change: int) -> None:
    """Begin or end a watch: the first one replaces `time.sleep`, the last one restores it."""
    global _watches, _real_sleep  # noqa: PLW0603 - the function is one of the process
    with _patching:
        if not _watches:
            _real_sleep = time.sleep
        _watches += change
        time.sleep = _sleep if _watches else _real_sleep


def _sleep(seconds: SupportsIndex | float, /) -> None:
    """Sleep, and count the time if this thread is watched."""
    slept = getattr(_thread, "slept", None)
    if slept is not None:
        _thread.slept = slept + float(seconds)
    _real_sleep(seconds)


class _Overdue(BaseException):
    """User code exceeds the time limit; not an Exception, so that the code does not catch it."""


def _within(limit: float, call: Callable[[], T]) -> T:
    """Call a function, and interrupt it at a time limit.

    Raises:
        _Overdue: the limit was reached.
    """
    timed = hasattr(signal, "setitimer")
    if not timed or threading.current_thread() is not threading.main_thread():
        return _within_thread(limit, call)

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _Overdue

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _within_thread(limit: float, call: Callable[[], T]) -> T:
    """Do the same outside the main thread, without signals; an overdue call continues to run."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if errors:
        raise errors[0]
    if not results:
        raise _Overdue
    return results[0]


# Results of evaluations: the objective and further metrics.

EXAMPLES = "num-examples"
"""The metric by which Flower weights the clients' results."""


class Looked(NamedTuple):
    """The evaluation of a model.

    Attributes:
        objective: NaN if none is reported.
        figures: further metrics.
    """

    objective: float
    figures: Mapping[str, float]


NOTHING = Looked(nan, {})


class FlowerEvaluation(NamedTuple):
    """The evaluation of a model by one client.

    Attributes:
        weight: the number of samples evaluated.
        figures: metrics by name.
    """

    weight: float
    figures: Mapping[str, float]


def parse_reply(content: RecordDict, *, legacy: bool) -> FlowerEvaluation:
    """Return the metrics in a reply to an evaluation.

    Args:
        content: of the reply.
        legacy: whether the client has the older interface.
    """
    if legacy:
        result = recorddict_to_evaluateres(content)
        figures = {"loss": float(result.loss), **numbers(result.metrics)}
        return FlowerEvaluation(float(result.num_examples), figures)
    records: Sequence[MetricRecord] = list(content.metric_records.values())
    found = numbers({name: each for record in records for name, each in record.items()})
    weight = found.pop(EXAMPLES, 1.0)
    return FlowerEvaluation(weight, found)


def mean_of(answers: Sequence[FlowerEvaluation], objective: str) -> Looked:
    """Return the mean of the clients' evaluations, weighted, in their order.

    Args:
        answers: of all clients.
        objective: the metric that is the objective; if empty, the one named loss, or the first
            whose name ends with it.

    Raises:
        Failed: the objective of a client is NaN or infinite.
    """
    total = fsum(each.weight for each in answers)
    if not total:
        return NOTHING
    names = [name for name in answers[0].figures if all(name in each.figures for each in answers)]
    means = {
        name: fsum(each.weight * each.figures[name] for each in answers) / total for name in names
    }
    losses = [name for name in names if name == "loss"] or [n for n in names if n.endswith("loss")]
    chosen = objective or next(iter(losses), "")
    for client, each in enumerate(answers if chosen in names else ()):
        if not isfinite(each.figures[chosen]):
            text = f"evaluate of client {client} for the observer has returned"
            raise Failed(f"{text} {each.figures[chosen]:g} as {chosen}")
    return Looked(means.pop(chosen, nan), means)


def numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are single numbers."""
    return {name: float(each) for name, each in figures.items() if isinstance(each, int | float)}
