"""Work as the tests have it evaluated: at once, with the losses that it may be about."""

from fedsim.core.ports import Array, Work
from fedsim.problems import LocalLoss
from fedsim.problems.evaluators import SerialEvaluator


def evaluated(work: Work, *losses: LocalLoss) -> Array:
    """Return the result of work on one of the losses, numbered from 0."""
    evaluator = SerialEvaluator(losses)
    return evaluator.result(evaluator.submit(work))
