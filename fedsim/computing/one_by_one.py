"""The evaluator that is the reference for all others: it does one thing after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.ports import Array, Work
from fedsim.problems.client_losses import ClientLosses
from fedsim.problems.local import LocalLoss
from fedsim.problems.minibatches import Draw, drawn
from fedsim.problems.restricted import restricted


class OneByOne:
    """Evaluates one piece of work after the other, when its result is due.

    Args:
        losses: of the clients in the order of the fleet; none where no work is about them.

    Attributes:
        losses: the same, with a memory of what was computed last.
    """

    choice: Mapping[str, Any] = {"evaluator": "one-by-one"}
    draw: Draw = staticmethod(drawn)

    def __init__(self, losses: Sequence[LocalLoss] = ()) -> None:
        self.losses = ClientLosses.of(losses).remembering()

    def submit(self, work: Work) -> Work:
        """See `Evaluator.submit`: the ticket is the work itself."""
        return work

    def result(self, ticket: Work) -> Array:
        """See `Evaluator.result`."""
        return evaluated(ticket, self.losses)

    def withdraw(self, ticket: Work) -> None:
        """See `Evaluator.withdraw`: nothing was begun."""

    def values(self, w: Array) -> list[float]:
        """See `Evaluator.values`."""
        return self.losses.values(w)


def evaluated(work: Work, losses: Sequence[LocalLoss]) -> Array:
    """Return the result of work, as its kernel computes it.

    Args:
        work: what is computed.
        losses: of the clients in the order of the fleet.
    """
    if work.client is None:
        return work.kernel(*work.arguments)
    loss = losses[work.client]
    for basis in work.bases:
        loss = restricted(loss, basis)
    return work.kernel(loss, *work.arguments)
