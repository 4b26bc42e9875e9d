"""The serial evaluator, which is the reference for all others, and the interface of evaluators."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedsim.core.ports import Array, Work
from fedsim.problems import kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.restricted import restrict
from fedsim.problems.samples import Draw, draw_minibatches
from fedsim.wire.payloads.rows import AddRows


class SerialEvaluator:
    """Evaluates each piece of work by itself, when its result is requested.

    Args:
        losses: the losses of the clients in fleet order; empty if no work needs them.

    Attributes:
        losses: the same losses, with a cache of the latest evaluations.
    """

    choice: Mapping[str, Any] = {"evaluator": "one-by-one"}
    together = False
    draws = False
    draw: Draw = staticmethod(draw_minibatches)
    add_rows: AddRows | None = None

    def __init__(self, losses: Sequence[LocalLoss] = ()) -> None:
        # Remembered, as several parts of a method, and the observer, often evaluate one loss at one
        # model.
        self.losses = ClientLosses.of(losses).remembering()

    def submit(self, work: Work) -> Work:
        """See `Evaluator.submit`: the ticket is the work itself."""
        return work

    def result(self, ticket: Work) -> Array:
        """See `Evaluator.result`."""
        return evaluate(ticket, self.losses)

    def finite(self, ticket: Work, result: Array) -> bool:
        """See `Evaluator.finite`."""
        return finite(result)

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return the places of clients whose work costs the same; none if that is not known."""
        return self.losses.alike(clients)

    def submit_rows(self, work: Work, clients: NDArray[np.int64]) -> Array | None:
        """Register the same work of several clients; return a ticket for `rows`.

        Args:
            work: of the first client. Its model may be one for all, shape (d,), or have a row for
                each client, shape (k, d).
            clients: their numbers, ascending; they have equally many samples.

        Returns:
            None for work that is evaluated one by one; nothing has been drawn then.
        """
        stacks = None if work.client is None or work.bases else self.losses.stacks_of(work.client)
        if stacks is None:
            return None
        if work.kernel is kernels.gradient:
            return stacks.gradients(clients, *work.arguments)
        if work.kernel is kernels.sgd_steps:
            w, eta, drawn, pull = work.arguments
            # Only steps on all rows: minibatches are drawn from each client's own stream, and their
            # rows differ.
            if all(rows is None for rows in drawn):
                return stacks.steps(clients, w, eta, len(drawn), pull)
        if work.kernel is kernels.sgd_change:
            w = work.arguments[0]
            ends = self.submit_rows(work._replace(kernel=kernels.sgd_steps), clients)
            return None if ends is None else ends - w
        return None

    def rows(self, ticket: Array) -> Array | None:
        """Return the results of such work, one a row, shape (k, d); None if not all are finite.

        Each is bit-identical to what `result` returns for this client alone.
        """
        return ticket if np.isfinite(ticket).all() else None

    def withdraw(self, ticket: Work) -> None:
        """See `Evaluator.withdraw`: there is nothing to cancel."""

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`."""
        return self.losses.values(w)


def evaluate(work: Work, losses: Sequence[LocalLoss]) -> Array:
    """Return the result of work by calling its kernel.

    Args:
        work: the description of the computation.
        losses: the losses of the clients in fleet order.
    """
    if work.client is None:
        return work.kernel(*work.arguments)
    loss = losses[work.client]
    # In the order in which they were applied: each restricts the loss that the one before has left.
    for basis in work.bases:
        loss = restrict(loss, basis)
    return work.kernel(loss, *work.arguments)


# Evaluators of numeric work: submission, withdrawal and results.
#
# A client's work starts at one virtual time, and its result is needed at a later one. An evaluator
# receives the work at the start and returns the result at the end, so it may evaluate at any point
# in between, together with other work or on another thread. This is safe because work is a pure
# function of its arguments and of the loss of its client: its random draws, such as minibatches,
# are made when the work is described, on the event loop, in an order that does not depend on the
# evaluator.


@runtime_checkable
class GroupEvaluator(Protocol):
    """An evaluator that computes the same work of many clients at once."""

    @property
    def together(self) -> bool:
        """See `Evaluator.together`."""
        ...

    @property
    def add_rows(self) -> AddRows | None:
        """What adds the rows of results to a long sum; None where NumPy does."""
        ...

    def alike(self, clients: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """See `SerialEvaluator.alike`."""
        ...

    def submit_rows(self, work: Work, clients: NDArray[np.int64]) -> Any | None:
        """See `SerialEvaluator.submit_rows`."""
        ...

    def rows(self, ticket: Any) -> Array | None:
        """See `SerialEvaluator.rows`; called once for each ticket, which holds the results."""
        ...


class Evaluator(Protocol):
    """Evaluates work between its virtual start and its virtual finish.

    No result depends on other submitted work or on the time of the request, except for the last
    bits if `choice` is "vmap".
    """

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """The clients' losses in fleet order, for use by the observer.

        Observer and work share the cache of evaluations at one model.
        """
        ...

    @property
    def choice(self) -> Mapping[str, Any]:
        """The evaluator's settings that may change last bits, for the manifest."""
        ...

    @property
    def together(self) -> bool:
        """Whether work that is submitted before a result is requested is computed along with it.

        Work that takes no simulated time then waits until all that starts at its instant is
        submitted; otherwise it is evaluated at once. A property of the kind of evaluator alone,
        since it may change the order of rows of one instant.
        """
        ...

    @property
    def draw(self) -> Draw:
        """The function that draws the clients' minibatches."""
        ...

    @property
    def draws(self) -> bool:
        """Whether it draws minibatches itself, as it evaluates work: see `LaterDraws`."""
        ...

    def submit(self, work: Work) -> Any:
        """Register work that has started; return a ticket for its result."""
        ...

    def result(self, ticket: Any) -> Array:
        """Return the result of the work, evaluating it now at the latest."""
        ...

    def finite(self, ticket: Any, result: Array) -> bool:
        """Return whether the result of a ticket is finite; see `finite`."""
        ...

    def withdraw(self, ticket: Any) -> None:
        """Cancel submitted work, whose result will not be requested."""
        ...

    def values(self, w: Array) -> Array:
        """Return f_m(w) of all clients at a model, shape (M,), for use by the observer."""
        ...


# The check of whether results are finite.


def finite(result: object) -> bool:
    """Return whether a computed vector is finite.

    Scalars are not checked: an infinite value of a trial step is legitimate, and shows that the
    step was too long. Neither are results of other types.

    >>> finite(np.array([1.0, -1e300])), finite(np.array([1.0, np.nan])), finite(np.array(np.inf))
    (True, False, True)
    """
    if not isinstance(result, np.ndarray) or not result.ndim:
        return True
    # The sum of squares is the fastest test, and is not finite if an entry is not. It may also
    # overflow for finite entries; only then are the entries tested one by one.
    return isfinite(np.vdot(result, result)) or bool(np.isfinite(result).all())


# Threads of linear algebra: with more than one, the last bits depend on their number.


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which every loaded library uses one thread for linear algebra."""
    # Searching for these libraries takes 4 ms. The result is cached by the number and the last name
    # of the loaded modules, since a library is only loaded along with a new module.
    libraries = _libraries(len(sys.modules), next(reversed(sys.modules)))
    return cast("AbstractContextManager[object]", libraries.limit(limits=1))


@lru_cache(maxsize=1)
def _libraries(_count: int, _last: str) -> ThreadpoolController:
    return ThreadpoolController()
