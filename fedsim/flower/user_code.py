"""Calls of code that a user has written: seeded, quiet, within a limit, and named where they fail.

A client's program may draw from the global generators of Python, NumPy and PyTorch. Each call
has them seeded from a stream of fedsim's own, and leaves them as it found them; so what one
client draws depends on no other one, nor on what runs beside it. A program that seeds them itself,
or draws from elsewhere (`os.urandom`, a clock), does as it likes: then the same bytes twice are
its own affair.
"""

import logging
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from math import fsum, isfinite, nan
from pathlib import Path
from traceback import extract_tb
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.compat.common.recorddict_compat import recorddict_to_evaluateres
from flwr.supercore.task_identity import TaskIdentity

from fedsim.errors import Failed

T = TypeVar("T")

RUN, TASK, SERVER_NODE = 1, 1, 1
"""The numbers that Flower gives a run, its task and the node of its server."""


def call_user_code(what: str, seed: int, call: Callable[[], T], limit: float | None = None) -> T:
    """Call code of a user's own.

    Args:
        what: the action, its client and its time: "train of client 3 in round 2".
        seed: of the global generators meanwhile.
        call: performs it.
        limit: the seconds of real time that it may take; None for no limit.

    Raises:
        Failed: it raises anything, or takes longer.
    """
    try:
        with _seed(seed), _quiet(), _identity(), redirect_stdout(sys.stderr):
            if limit is None:
                return call()
            return _within(limit, call)
    except _Overdue:
        text = f"{what} is not over after {limit:g} s of real time (problem.loss.limit)"
        raise Failed(text) from None
    except (Exception, SystemExit) as error:  # whatever the user's code may raise
        raise Failed(f"{what} has failed: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    """Say what was raised, and where in the user's code."""
    if isinstance(error, Failed):
        return str(error)
    lines = " ".join(str(error).split())
    what = f"{type(error).__name__}: {lines}".strip(": ")
    frames = [each for each in extract_tb(error.__traceback__) if _is_own(each.filename)]
    if not frames:
        return what
    return f"{what} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _is_own(file: str) -> bool:
    """Return whether a file is a user's: not of an installed package, and not fedsim's."""
    here = Path(__file__).parents[1]
    path = Path(file)
    installed = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return path.is_absolute() and not installed and here not in path.parents


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """Seed the global generators, and put them back."""
    torch = sys.modules.get("torch")
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - a user's code draws from it
    # Its own `manual_seed` does the same, and takes a hundred times as long on a CPU.
    own = None if torch is None else torch.default_generator
    state = None if own is None else own.get_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - likewise
        if own is not None and torch is not None:
            own.manual_seed(seed)
            if torch.backends.cuda.is_built():
                torch.cuda.manual_seed_all(seed)
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002 - likewise
        if own is not None:
            own.set_state(state)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Flower from telling what it does."""
    logger = logging.getLogger("flwr")
    before, logger.disabled = logger.disabled, True  # its level would take far longer to set
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def _identity() -> Iterator[None]:
    """Let messages be made as they are in a run of Flower's."""
    TaskIdentity.run_id, TaskIdentity.task_id = RUN, TASK
    TaskIdentity.node_id = SERVER_NODE
    yield


class _Overdue(BaseException):
    """Code has taken too long; no `except Exception` of its own catches that."""


def _within(limit: float, call: Callable[[], T]) -> T:
    """Call something and break it off where it takes too long.

    Raises:
        _Overdue: it does.
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
    """Do the same where no signal comes; what takes too long is left to itself."""
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


# Results of evaluations: the objective, and figures beside it.

EXAMPLES = "num-examples"
"""The figure by which Flower weighs what clients say."""


class Looked(NamedTuple):
    """How good a model is.

    Attributes:
        objective: NaN where none is reported.
        figures: reported beside it.
    """

    objective: float
    figures: Mapping[str, float]


NOTHING = Looked(nan, {})


class FlowerEvaluation(NamedTuple):
    """What one client says of a model.

    Attributes:
        weight: how many samples it has looked at.
        figures: by name.
    """

    weight: float
    figures: Mapping[str, float]


def parse_reply(content: RecordDict, *, legacy: bool) -> FlowerEvaluation:
    """Return what the answer to an evaluation says.

    Args:
        content: of the answer.
        legacy: whether it is by a client of the older interface.
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
    """Return the mean of what clients say, by their weights, in their order.

    Args:
        answers: of all clients.
        objective: the figure that is the objective; if empty, the one that is named loss, or the
            first whose name ends so.

    Raises:
        Failed: a client says NaN or infinity as the objective.
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
            text = f"evaluate of client {client} for the observer has said"
            raise Failed(f"{text} {each.figures[chosen]:g} as {chosen}")
    return Looked(means.pop(chosen, nan), means)


def numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that are single numbers."""
    return {name: float(each) for name, each in figures.items() if isinstance(each, int | float)}
