"""Who evaluates numeric work, and when.

A client's work starts at one virtual time and its result is needed at a later one. An
evaluator is told of work when it starts and asked for the result when it ends, so it may
evaluate in between, batched or elsewhere: work is a pure function of its arguments and of the
loss of the client that it names, which the evaluator has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedsim.ports import Array, Work
from fedsim.problems.local import LocalLoss
from fedsim.problems.minibatches import Draw


class Evaluator(Protocol):
    """Evaluates work between its virtual start and its virtual finish.

    No result depends on what else it was told of, nor on when it is asked; but for the last bits
    where `choice` is "vmap".
    """

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """The clients' losses in the order of the fleet, as who looks at models takes them.

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
        """Take note that nobody will ask for a result: the work was broken off."""
        ...

    def values(self, w: Array) -> Sequence[float]:
        """Return f_m(w) of all clients, for who looks at a model, shape (d,)."""
        ...
