"""The vectorised evaluator: work of many clients as one operation, for losses that support it.

Work is pending until a result is requested; then all pending work of the same shape is evaluated at
once. The composition of such a batch follows from the order of events in virtual time, hence from
the scenario alone, so a log is reproducible. But rounding depends on the batch, so the logs of this
evaluator differ in last bits from those of the others.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.serial import Evaluator, finite
from fedsim.ports import Array, Work
from fedsim.problems import kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.losses import Rows
from fedsim.problems.optimizers import Training
from fedsim.problems.samples import Draw, equal_sizes

MOST = 64
"""The largest number of clients in a batch."""

NUMBERS = 2**26
"""The largest number of coordinates of all models in a batch, which bounds its memory."""


_STEPS = {kernels.sgd_steps: 2, kernels.sgd_change: 2, kernels.optimizer_steps: 1}
"""The kernels of steps, with the place of the minibatches among their arguments."""

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
        result: of the work; None while it is pending.
    """

    __slots__ = ("drawn", "key", "result", "work")

    def __init__(self, work: Work, drawn: NDArray[np.intp]) -> None:
        self.work, self.drawn = work, drawn
        alike: Hashable = ()
        if work.kernel in _PLAIN:
            alike = work.arguments[1], work.arguments[3]
        elif work.kernel is kernels.optimizer_steps:
            alike = work.arguments[2].batched
        self.key: Hashable = (work.kernel, drawn.shape, alike)
        self.result: Array | None = None


class VmapEvaluator:
    """Evaluates steps and stochastic gradients of many clients together.

    Args:
        loss: of all clients.
        others: the evaluator of all other work.
    """

    choice: Mapping[str, Any] = {"evaluator": "vmap"}
    together = True
    draws = False

    def __init__(self, loss: SimultaneousLoss, others: Evaluator) -> None:
        self._loss = loss
        self._others = others
        self._waiting: dict[Hashable, list[VmapTicket]] = {}

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._others.losses

    @property
    def draw(self) -> Draw:
        """See `Evaluator.draw`."""
        return self._others.draw

    def submit(self, work: Work) -> Any:  # noqa: ANN401 - its own type of ticket, or another's
        """See `Evaluator.submit`: work that can be batched stays pending."""
        drawn = _drawn_rows(work)
        if drawn is None:
            return self._others.submit(work)
        ticket = VmapTicket(work, drawn)
        self._waiting.setdefault(ticket.key, []).append(ticket)
        return ticket

    def result(self, ticket: Any) -> Array:  # noqa: ANN401 - see `submit`
        """See `Evaluator.result`: evaluates similar pending work along with it."""
        if not isinstance(ticket, VmapTicket):
            return self._others.result(ticket)
        return self._evaluate(ticket) if ticket.result is None else ticket.result

    def finite(self, ticket: Any, result: Array) -> bool:  # noqa: ANN401, ARG002 - see `submit`
        """See `Evaluator.finite`."""
        return finite(result)

    def withdraw(self, ticket: Any) -> None:  # noqa: ANN401 - see `submit`
        """See `Evaluator.withdraw`: pending work is not evaluated."""
        if not isinstance(ticket, VmapTicket):
            self._others.withdraw(ticket)
        elif ticket.result is None:
            self._waiting[ticket.key].remove(ticket)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`."""
        return self._others.values(w)

    def _with(self, ticket: VmapTicket) -> list[VmapTicket]:
        """Remove a ticket and the oldest similar ones from the pending work, a batch at most."""
        waiting = self._waiting[ticket.key]
        room = min(MOST, max(1, NUMBERS // len(ticket.work.arguments[0])))
        others = [each for each in waiting if each is not ticket]
        self._waiting[ticket.key] = others[room - 1 :]
        return [ticket, *others[: room - 1]]

    def _evaluate(self, ticket: VmapTicket) -> Array:
        """Evaluate the work of a ticket, and similar pending work with it."""
        tickets = self._with(ticket)
        works = [each.work for each in tickets]
        losses = [self.losses[work.client or 0] for work in works]
        rows = [loss.arranged for loss in losses]
        models = [work.arguments[0] for work in works]
        drawn = np.stack([each.drawn for each in tickets])
        if works[0].kernel in _PLAIN:
            _, eta, _, pull = works[0].arguments
            found: Sequence[Array] = self._loss.steps_together(rows, models, eta, drawn, pull)
            if works[0].kernel is kernels.sgd_change:
                found = [end - w for end, w in zip(found, models, strict=True)]
        elif works[0].kernel is kernels.optimizer_steps:
            trainings = [work.arguments[2] for work in works]
            found = self._loss.trained_together(rows, models, drawn, trainings)
        else:
            found = list(self._loss.gradients_together(rows, models, drawn))
        for each, result in zip(tickets, found, strict=True):
            each.result = result
        return found[0]


def _drawn_rows(work: Work) -> NDArray[np.intp] | None:
    """Return the rows of work that can be batched; None for other work."""
    if work.client is None or work.bases:
        return None
    if work.kernel is kernels.minibatch_gradient:
        drawn: Any = work.arguments[1]
        return None if drawn is None else np.asarray(drawn)
    if work.kernel in _STEPS and not _is_alone(work):
        batches = work.arguments[_STEPS[work.kernel]]
        drawn = len(batches) and all(each is not None for each in batches)
        if drawn and equal_sizes(batches):
            return np.stack(list(batches))
    return None


def _is_alone(work: Work) -> bool:
    """Return whether work is that of a training that is for one client: see `Training.alone`."""
    return work.kernel is kernels.optimizer_steps and work.arguments[2].alone
