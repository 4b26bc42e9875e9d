"""The least objective under a loss's own constraint, or the proof that no model satisfies it."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.errors import InfeasibleError
from fedsim.core.ports import Array
from fedsim.problems.penalties import NoPenalty
from fedsim.problems.problem import Problem
from fedsim.problems.references.composite import NEWTON_LIMIT, affordable, lbfgs
from fedsim.problems.references.convex import OptimumTask, Reference, Solution, certified


def constrained_optimum(problem: Problem, tolerance: float) -> Reference | None:
    """Return the least objective under a mean constraint g(w) <= tolerance.

    g = sum_m p_m g_m with the shares `Problem.weights`, which is the constraint as a server sees
    it.

    1. Sequential quadratic programming finds a point.
    2. Newton steps on the conditions of Karush, Kuhn and Tucker refine it.
    3. These conditions certify it.

    If the point violates the constraint, L-BFGS minimises g, which is convex. The search then
    starts again from the result, if it satisfies the constraint.

    Source: Kraft, SLSQP, 1988; More, Garbow, Hillstrom, MINPACK, 1980.

    Returns:
        The reference, from the user's cache if it is there; its residual is that of the conditions.
            None if the loss has no constraint, if the objective has a term that is not smooth, and
            for models of more than `NEWTON_LIMIT` numbers.

    Raises:
        InfeasibleError: the least g is above the tolerance.
    """
    smooth = isinstance(problem.penalty, NoPenalty) and not getattr(problem.loss, "l1", 0.0)
    if not problem.loss.constrained or not smooth or problem.dimension > NEWTON_LIMIT:
        return None
    program = _Program(problem.remembering(), tolerance)
    name = f"{problem.fingerprint}-within-{tolerance!r}"
    task = OptimumTask(problem, name, program.value, program.residual, program.solve)
    reference = task.result()
    if program.breaks(reference.model):
        least = program.excess(reference.model) + tolerance
        text = (
            f"no model meets the tolerance {tolerance:g}: the least constraint found is {least:.6g}"
        )
        raise InfeasibleError(text)
    return reference


_ROUNDING = 1e-9
"""The excess of a constraint that counts as rounding, relative to the constraint's values."""


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """min f(w) subject to g(w) <= tolerance."""

    problem: Problem
    tolerance: float

    def value(self, w: Array) -> float:
        """Return f(w)."""
        return self.problem.value(w)

    def slope(self, w: Array) -> Array:
        """Return the gradient of f at `w`, shape (d,)."""
        return self.problem.gradient(w)

    def excess(self, w: Array) -> float:
        """Return g(w) - tolerance."""
        values = [loss.constraint(w) for loss in self.problem.losses]
        return float(self.problem.weights @ values) - self.tolerance

    def excess_slope(self, w: Array) -> Array:
        """Return the gradient of g at `w`, shape (d,)."""
        slopes = [loss.constraint_gradient(w) for loss in self.problem.losses]
        return np.asarray(self.problem.weights @ np.array(slopes))

    def breaks(self, w: Array) -> bool:
        """Return whether g exceeds the tolerance at `w` by more than rounding."""
        scale = abs(self.excess(np.zeros_like(w))) + abs(self.tolerance)
        return self.excess(w) > _ROUNDING * scale

    def multiplier(self, w: Array) -> float:
        """Return the multiplier with the least residual of stationarity, at least 0."""
        a, b = self.slope(w), self.excess_slope(w)
        # Where g is flat, this is 0 and not 0/0.
        return max(0.0, -float(a @ b) / max(float(b @ b), np.finfo(np.float64).tiny))

    def residual(self, w: Array) -> float:
        """Return how far `w` is from stationary, feasible and complementary, as a norm.

        If the constraint is inactive, the multiplier is zero. So the smaller of the residuals with
        and without the constraint counts.
        """
        excess = self.excess(w)
        free = float(np.linalg.norm(self.slope(w)))
        multiplier = self.multiplier(w)
        tied = float(np.linalg.norm(self.slope(w) + multiplier * self.excess_slope(w)))
        inactive = np.hypot(free, max(excess, 0.0))
        active = np.hypot(tied, max(1.0, multiplier) * abs(excess))
        return float(min(inactive, active))

    def solve(self) -> Solution:
        """Return the solution; if no point is feasible, the point of least g."""
        start = np.zeros(self.problem.dimension)
        w, method = self._search(start)
        if self.breaks(w):
            inside = self._least_constraint()
            if self.breaks(inside):
                return Solution(inside, "least constraint, by L-BFGS", certified=True)
            w, method = self._search(inside)
            # The second search may leave the constraint set again.
            w = inside if self.breaks(w) else w
        size = float(np.linalg.norm(self.slope(start)) + np.linalg.norm(self.excess_slope(start)))
        return Solution(w, method, certified(self.residual(w), size))

    def _search(self, start: Array) -> tuple[Array, str]:
        """Return the point found from a starting point, shape (d,), and the method."""
        w = self._program(start)
        refined = self._refine(w)
        method = "sequential quadratic programming"
        if self.residual(refined) < self.residual(w):
            return refined, f"{method}, then Newton on its conditions"
        return w, method

    def _least_constraint(self) -> Array:
        """Return a minimiser of g, shape (d,)."""

        def both(w: Array) -> tuple[float, Array]:
            return self.excess(w), self.excess_slope(w)

        return lbfgs(both, self.problem.dimension, None, affordable(self.problem))

    def _program(self, start: Array) -> Array:
        from scipy.optimize import NonlinearConstraint, minimize  # takes 0.2 s

        def both(w: Array) -> tuple[float, Array]:
            return self.value(w), self.slope(w)

        def excess(w: Array) -> Array:
            return np.array([self.excess(w)])

        result = minimize(
            both,
            start,
            jac=True,
            method="SLSQP",
            constraints=NonlinearConstraint(excess, -np.inf, 0.0, jac=self.excess_slope),
            options={"maxiter": 2000, "ftol": 1e-15},
        )
        return np.asarray(result.x, dtype=np.float64)

    def _refine(self, w: Array) -> Array:
        """Solve the conditions with the constraint as an equation."""
        from scipy.optimize import root  # takes 0.2 s

        def conditions(unknowns: Array) -> Array:
            v, multiplier = unknowns[:-1], unknowns[-1]
            stationary = self.slope(v) + multiplier * self.excess_slope(v)
            return np.append(stationary, self.excess(v))

        solution = root(conditions, np.append(w, self.multiplier(w)), method="hybr", tol=1e-15)
        return np.asarray(solution.x[:-1], dtype=np.float64)
