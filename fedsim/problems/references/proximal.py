"""Minimisers of f + h with a penalty h that has a prox, by accelerated proximal gradients."""

import math

import numpy as np

from fedsim.ports import Array
from fedsim.problems.problem import Objective, Problem
from fedsim.problems.references.composite import affordable, gradient_step

_CHECK = 10
"""The residual is looked at once in so many steps, since it costs another gradient."""


def proximal_residual(problem: Problem, objective: Objective, w: Array) -> float:
    """Return the norm of the least subgradient of the objective, penalty included, at `w`."""
    return problem.regulariser.residual(w, problem.gradient(w, objective))


def accelerated(problem: Problem, objective: Objective) -> Array:
    """Return the point of least residual that FISTA reaches from zero, shape (d,).

    Steps are 1/L, with the smoothness constant of the whole objective; the momentum starts
    anew where it points uphill. It ends at the level of rounding, or where the residual has
    not fallen in a tenth of the steps taken.

    Source: Beck, Teboulle, SIAM J. Imaging Sci. 2009; restarts by the gradient scheme of
    O'Donoghue, Candes, Found. Comput. Math. 2015.
    """
    step = gradient_step(problem.smoothness(objective))
    prox = problem.regulariser.prox
    v = y = best = np.zeros(problem.dimension)
    enough = least = proximal_residual(problem, objective, v)
    enough *= 1e-15
    t, found = 1.0, 0
    for k in range(1, affordable(problem) + 1):
        new = prox(y - step * problem.gradient(y, objective), step)
        if float((y - new) @ (new - v)) > 0:
            t = 1.0
        t, last = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        y, v = new + (last - 1) / t * (new - v), new
        if k % _CHECK:
            continue
        residual = proximal_residual(problem, objective, v)
        if residual < least:
            best, least, found = v, residual, k
        if least <= enough or k - found > 200 + k // 10:
            break
    return best
