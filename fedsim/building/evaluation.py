"""Who evaluates the work of a run, and what its observers look at: chosen here alone."""

from dataclasses import replace
from typing import NamedTuple

from fedsim.computing import Evaluator, OneByOne
from fedsim.ports import Array
from fedsim.problems import Objective, Problem


class Evaluation(NamedTuple):
    """A problem in the hands of an evaluator.

    Attributes:
        evaluator: evaluates the clients' work.
        problem: as observers take it, its losses those of the evaluator, so that what they
            and the clients compute at one model is computed once.
    """

    evaluator: Evaluator
    problem: Problem

    def value(self, w: Array, objective: Objective) -> float:
        """Return the objective at `w`, shape (d,), penalty included."""
        values = self.evaluator.values(w)
        return self.problem.total(values, objective) + self.problem.regulariser.value(w)


def evaluation(problem: Problem) -> Evaluation:
    """Return a problem in the hands of the evaluator that a run of it takes."""
    evaluator = OneByOne(problem.losses)
    return Evaluation(evaluator, replace(problem, losses=evaluator.losses))
