"""Checks of a client's numeric work, in the simulated and in the live world."""

from math import inf
from typing import Any

from fedsim.core.errors import Diverged
from fedsim.core.ports import Array, ClientId, Work
from fedsim.problems.evaluators import Evaluator


def submit_work(evaluator: Evaluator, work: Work) -> Any:
    """Submit work to an evaluator; return the ticket for its result.

    Raises:
        ValueError: the number of operations is not finite.
    """
    if not 0.0 <= work.operations < inf:
        raise ValueError(f"work needs a finite number of operations, not {work.operations}")
    return evaluator.submit(work)


def check_result(
    evaluator: Evaluator,
    ticket: Any,
    result: Array,
    client: ClientId,
    number: int,
) -> Array:
    """Return the result of a client's work in a round, after a check.

    Raises:
        Diverged: a vector that was computed is not finite.
    """
    if not evaluator.finite(ticket, result):
        raise Diverged(number, f"client {client} has computed a vector that is not finite")
    return result
