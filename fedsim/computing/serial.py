"""The evaluator that is the reference for all others: it does one thing after the other."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from fedsim.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.restricted import restrict
from fedsim.problems.samples import Draw, draw_minibatches


class SerialEvaluator:
    """Evaluates one piece of work after the other, when its result is due.

    Args:
        losses: of the clients in the order of the fleet; none where no work is about them.

    Attributes:
        losses: the same, with a memory of what was computed last.
    """

    choice: Mapping[str, Any] = {"evaluator": "one-by-one"}
    draw: Draw = staticmethod(draw_minibatches)

    def __init__(self, losses: Sequence[LocalLoss] = ()) -> None:
        self.losses = ClientLosses.of(losses).remembering()

    def submit(self, work: Work) -> Work:
        """See `Evaluator.submit`: the ticket is the work itself."""
        return work

    def result(self, ticket: Work) -> Array:
        """See `Evaluator.result`."""
        return evaluate(ticket, self.losses)

    def withdraw(self, ticket: Work) -> None:
        """See `Evaluator.withdraw`: nothing was begun."""

    def values(self, w: Array) -> list[float]:
        """See `Evaluator.values`."""
        return self.losses.values(w)


def evaluate(work: Work, losses: Sequence[LocalLoss]) -> Array:
    """Return the result of work, as its kernel computes it.

    Args:
        work: what is computed.
        losses: of the clients in the order of the fleet.
    """
    if work.client is None:
        return work.kernel(*work.arguments)
    loss = losses[work.client]
    for basis in work.bases:
        loss = restrict(loss, basis)
    return work.kernel(loss, *work.arguments)


# Evaluators of numeric work: submission, withdrawal and results.
#
# A client's work starts at one virtual time and its result is needed at a later one. An
# evaluator receives work when it starts and returns the result when it ends, so it may
# evaluate in between, batched or elsewhere: work is a pure function of its arguments and of the
# loss of the client that it names, which the evaluator has.


class Evaluator(Protocol):
    """Evaluates work between its virtual start and its virtual finish.

    No result depends on other submitted work, nor on the time of the request; but for the last bits
    where `choice` is "vmap".
    """

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """The clients' losses in fleet order, for use by the observer.

        They share with the work what both compute at one model.
        """
        ...

    @property
    def choice(self) -> Mapping[str, Any]:
        """What was chosen of how it evaluates, for the manifest: it may change last bits."""
        ...

    @property
    def draw(self) -> Draw:
        """What draws the clients' minibatches."""
        ...

    def submit(self, work: Work) -> Any:  # noqa: ANN401 - a ticket means something to its evaluator only
        """Take note of work that has begun; return a ticket for its result."""
        ...

    def result(self, ticket: Any) -> Array:  # noqa: ANN401
        """Return the result of the work, evaluating it now at the latest."""
        ...

    def withdraw(self, ticket: Any) -> None:  # noqa: ANN401
        """Cancel work that was submitted: its result will not be requested."""
        ...

    def values(self, w: Array) -> Sequence[float]:
        """Return f_m(w) of all clients at a model, shape (d,), for use by the observer."""
        ...


# The check of whether results are finite.


def finite(result: object) -> bool:
    """Return whether a computed vector is finite, quickly where its squares can be added up.

    Numbers are not looked at: a value of a trial step may be infinite, and says that the step was
    too long. Nor is what no kernel of fedsim returns.

    >>> finite(np.array([1.0, -1e300])), finite(np.array([1.0, np.nan])), finite(np.array(np.inf))
    (True, False, True)
    """
    if not isinstance(result, np.ndarray) or not result.ndim:
        return True
    return isfinite(np.vdot(result, result)) or bool(np.isfinite(result).all())


# Threads of linear algebra: with more than one, the last bits depend on their number.


def one_thread() -> AbstractContextManager[object]:
    """Return a context within which every library that is loaded does linear algebra by one."""
    # Looking for these libraries takes 4 ms, and no new one is there without a new module.
    found = _libraries(len(sys.modules), next(reversed(sys.modules)))
    return cast("AbstractContextManager[object]", found.limit(limits=1))


@lru_cache(maxsize=1)
def _libraries(_count: int, _last: str) -> ThreadpoolController:
    return ThreadpoolController()


# The number of threads that a process may compute on.

VARIABLE = "FEDSIM_THREADS"
"""The environment variable that says how many, where not all processors shall be used."""


def usable_threads() -> int:
    """Return how many threads this process may compute on; no result depends on it."""
    given = os.environ.get(VARIABLE, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
