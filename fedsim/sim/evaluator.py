"""Who does the numeric work, and when.

A client's work starts at one virtual time and its result is needed at a later one. An
evaluator is told of work when it starts and asked for the result when it ends, so it may
evaluate in between, batched or elsewhere: work is a pure function of its arguments.
"""

from typing import Any, Protocol

from fedsim.ports import Array, Work


class Evaluator(Protocol):
    """Evaluates work between its virtual start and its virtual finish."""

    def submit(self, work: Work) -> Any:  # noqa: ANN401 - a ticket means something to its evaluator only
        """Take note of work that has begun; return a ticket for its result."""
        ...

    def result(self, ticket: Any) -> Array:  # noqa: ANN401
        """Return the result of the work, evaluating it now at the latest."""
        ...


class SerialEvaluator:
    """Evaluates one piece of work after the other, when its result is due."""

    def submit(self, work: Work) -> Work:
        """See `Evaluator.submit`: the ticket is the work itself."""
        return work

    def result(self, ticket: Work) -> Array:
        """See `Evaluator.result`."""
        return ticket.kernel(*ticket.arguments)
