"""The vectorised evaluator: work of many clients as one operation, for losses that support it.

Work is pending until a result is requested; then all pending work of the same shape is evaluated at
once, in groups of clients that threads compute at the same time. The composition of a batch follows
from the order of events in virtual time, and that of its groups from the operations of a client's
step, hence both from the scenario alone, so a log is reproducible, on any number of threads. But
rounding depends on the group, so the logs of this evaluator differ in last bits from those of the
others.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, Work
from fedsim.problems import kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators.serial import Evaluator, finite
from fedsim.problems.evaluators.task_pool import Task, TaskPool
from fedsim.problems.losses import Rows
from fedsim.problems.optimizers import Training
from fedsim.problems.samples import Draw, equal_sizes

MOST = 64
"""The largest number of clients in a batch."""

NUMBERS = 2**26
"""The largest number of coordinates of all models in a batch, which bounds its memory."""

GROUP = 4e7
"""Smallest number of operations of a step, over all clients of a group, if a batch has several
groups.

The calls of a step cost each group as much as some 10^6 operations, and Python makes one at a time.
"""


_PLAIN = {kernels.sgd_steps, kernels.sgd_change}
"""Those of plain gradient steps, which have a step size and a pull."""


@runtime_checkable
class SimultaneousLoss(Protocol):
    """A loss that evaluates several clients at once."""

    def check_together(self, features: int, outputs: int) -> None:
        """Check that the loss supports it.

        Raises:
            DataError: it does not.
        """
        ...

    def divides_together(self, features: int, outputs: int) -> bool:
        """Return whether threads gain by computing some of the clients each."""
        ...

    def steps_together(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        eta: float,
        drawn: NDArray[np.intp],
        pull: float | None,
    ) -> list[Array]:
        """Return the models after steps from models (clients, d) on rows (clients, steps, b)."""
        ...

    def trained_together(
        self,
        rows: Sequence[Rows],
        models: Sequence[Array],
        drawn: NDArray[np.intp],
        trainings: Sequence[Training],
    ) -> list[Array]:
        """Return the results of optimizers, which differ in their moments at most."""
        ...

    def gradients_together(
        self, rows: Sequence[Rows], models: Sequence[Array], drawn: NDArray[np.intp]
    ) -> Array:
        """Return stochastic gradients (clients, d) at models (clients, d) on rows (clients, b)."""
        ...


class VmapTicket:
    """Pending work, or its result.

    Args:
        work: the description of the computation.
        drawn: the rows of its minibatches, shape (steps, b), or (b,) for one gradient.

    Attributes:
        work, drawn: see the arguments.
        key: equal for work that can be evaluated together.
        task: which evaluates it, with others; None while it is pending.
        result: the result of the work; None until it is evaluated.
    """

    __slots__ = ("drawn", "key", "result", "task", "work")

    def __init__(self, work: Work, drawn: NDArray[np.intp]) -> None:
        self.work, self.drawn = work, drawn
        alike: Hashable = ()
        if work.kernel in _PLAIN:
            alike = work.arguments[1], work.arguments[3]
        elif work.kernel is kernels.optimizer_steps:
            alike = work.arguments[2].batched
        self.key: Hashable = (work.kernel, drawn.shape, alike)
        self.task: Task | None = None
        self.result: Array | None = None


class VmapEvaluator:
    """Evaluates steps and stochastic gradients of many clients together.

    Args:
        loss: the loss of all clients.
        others: the evaluator of all other work.
        divided: whether batches have groups.
        threads: the number of threads that evaluate them, including the one that requests results.
    """

    choice: Mapping[str, Any] = {"evaluator": "vmap"}
    together = True
    draws = False

    def __init__(
        self,
        loss: SimultaneousLoss,
        others: Evaluator,
        *,
        divided: bool = False,
        threads: int = 1,
    ) -> None:
        self._loss = loss
        self._others = others
        self._divided = divided
        self._pool = TaskPool(threads)
        self._waiting: dict[Hashable, list[VmapTicket]] = {}

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._others.losses

    @property
    def draw(self) -> Draw:
        """See `Evaluator.draw`."""
        return self._others.draw

    def submit(self, work: Work) -> Any:
        """See `Evaluator.submit`: work that can be batched stays pending."""
        drawn = _drawn_rows(work)
        if drawn is None:
            return self._others.submit(work)
        ticket = VmapTicket(work, drawn)
        self._waiting.setdefault(ticket.key, []).append(ticket)
        return ticket

    def result(self, ticket: Any) -> Array:
        """See `Evaluator.result`: evaluates similar pending work along with it."""
        if not isinstance(ticket, VmapTicket):
            return self._others.result(ticket)
        task = self._begin(ticket) if ticket.task is None else ticket.task
        self._pool.result(task)
        assert ticket.result is not None  # noqa: S101 - its task has ended without an error
        return ticket.result

    def finite(self, ticket: Any, result: Array) -> bool:
        """See `Evaluator.finite`."""
        return finite(result)

    def withdraw(self, ticket: Any) -> None:
        """See `Evaluator.withdraw`: pending work is not evaluated."""
        if not isinstance(ticket, VmapTicket):
            self._others.withdraw(ticket)
        elif ticket.task is None:
            # Only pending work: a ticket with a task may be under way in a group, whose other
            # members need it as it is.
            self._waiting[ticket.key].remove(ticket)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`."""
        return self._others.values(w)

    def _with(self, ticket: VmapTicket) -> list[VmapTicket]:
        """Remove a ticket and the oldest similar ones from the pending work, a batch at most."""
        waiting = self._waiting[ticket.key]
        # The ticket that is requested is always in the batch, also if it is not among the oldest.
        # All others go in the order of submission, so the composition of batches follows from the
        # run alone.
        room = min(MOST, max(1, NUMBERS // len(ticket.work.arguments[0])))
        others = [other for other in waiting if other is not ticket]
        self._waiting[ticket.key] = others[room - 1 :]
        return [ticket, *others[: room - 1]]

    def _begin(self, ticket: VmapTicket) -> Task:
        """Return the task of a ticket; other threads begin with the groups of similar work."""
        # The first group has the ticket that is requested. Its task is not submitted: the waiting
        # thread takes it itself, and by then the other groups are under way.
        own, *others = self._groups(self._with(ticket))
        for group in others:
            _assign(group, self._pool.submit(partial(self._evaluate, group)))
        task = Task(partial(self._evaluate, own))  # for the thread that waits for it
        _assign(own, task)
        return task

    def _groups(self, tickets: list[VmapTicket]) -> list[list[VmapTicket]]:
        """Divide a batch into 2^k groups of nearly equal sizes, each of `GROUP` operations."""
        least = ceil(GROUP / max(tickets[0].work.operations, 1.0))
        # Doubled by the number of operations alone. The number of threads must not matter, as the
        # composition of a group decides its last bits.
        count, size = 1, len(tickets)
        while self._divided and 2 * count * least <= size:
            count *= 2
        bounds = [size * number // count for number in range(count + 1)]
        return [tickets[begin:end] for begin, end in pairwise(bounds)]

    def _evaluate(self, tickets: list[VmapTicket]) -> None:
        """Evaluate the work of tickets together."""
        works = [ticket.work for ticket in tickets]
        losses = [self.losses[work.client or 0] for work in works]
        rows = [loss.arranged for loss in losses]
        models = [work.arguments[0] for work in works]
        # Stackable, as the shape of the minibatches is part of the key.
        drawn = np.stack([ticket.drawn for ticket in tickets])
        if works[0].kernel in _PLAIN:
            _, eta, _, pull = works[0].arguments
            results: Sequence[Array] = self._loss.steps_together(rows, models, eta, drawn, pull)
            if works[0].kernel is kernels.sgd_change:
                results = [end - w for end, w in zip(results, models, strict=True)]
        elif works[0].kernel is kernels.optimizer_steps:
            trainings = [work.arguments[2] for work in works]
            results = self._loss.trained_together(rows, models, drawn, trainings)
        else:
            results = list(self._loss.gradients_together(rows, models, drawn))
        for ticket, result in zip(tickets, results, strict=True):
            ticket.result = result


def _assign(tickets: Sequence[VmapTicket], task: Task) -> None:
    for ticket in tickets:
        ticket.task = task


def _drawn_rows(work: Work) -> NDArray[np.intp] | None:
    """Return the rows of work that can be batched; None for other work."""
    if work.client is None or work.bases:
        return None
    if work.kernel is kernels.minibatch_gradient:
        drawn: Any = work.arguments[1]
        return None if drawn is None else np.asarray(drawn)
    if work.kernel in kernels.STEPS and not _is_alone(work):
        batches = work.arguments[kernels.STEPS[work.kernel]]
        drawn = len(batches) and all(batch is not None for batch in batches)
        if drawn and equal_sizes(batches):
            return np.stack(list(batches))
    return None


def _is_alone(work: Work) -> bool:
    """Return whether work is that of a training that is for one client: see `Training.alone`."""
    return work.kernel is kernels.optimizer_steps and work.arguments[2].alone
