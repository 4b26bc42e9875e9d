"""The composite form of a convex objective, F(w) + l1 |w|_1 with smooth F, and its minimisers.

L-BFGS-B (Byrd, Lu, Nocedal, Zhu 1995) on scaled variables approaches a minimiser and finds its
support. Newton's method on that support then polishes the result to the level of rounding. It takes
damped steps on the nonzero coordinates with their signs fixed. A coordinate that reaches zero
leaves the support, and one that violates the optimality conditions enters it.

Systems of up to `NEWTON_LIMIT` coordinates are solved by their eigenvalues. Larger ones are solved
by conjugate gradients, with differences of gradients as products (truncated Newton: Dembo, Steihaug
1983).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.losses import LinearLoss
from fedsim.problems.penalties import L1, L2, ElasticNet, NoPenalty
from fedsim.problems.problem import Problem
from fedsim.problems.projections import Indices
from fedsim.problems.samples import Features, gram

Mask = NDArray[np.bool_]

_EFFORT = 1e12
"""The budget of floating-point operations for all gradients: minutes on one core."""


@dataclass(frozen=True, eq=False)
class CompositeForm:
    """F(w) + l1 |w|_1, by the values and gradients of a problem.

    Attributes:
        problem: with the objective.
        l1: the total weight of |w|_1, from the clients' losses and from the penalty.
        own: the part of l1 from the clients' losses.
        l2: the weight of |w|^2/2 in the penalty, which belongs to F.
    """

    problem: Problem
    l1: float = 0.0
    own: float = 0.0
    l2: float = 0.0

    @classmethod
    def of(cls, problem: Problem) -> Self | None:
        """Return the objective's composite form.

        Returns:
            None if there is none: the loss is not convex or has a constraint, or the penalty is not
                l1, l2 or elastic net.
        """
        if not convex(problem):
            return None
        loss, penalty = problem.loss, problem.penalty
        clients = float(problem.coefficients.sum())
        # The objective weighs each client's l1 term like the client's loss.
        own = clients * loss.l1 if isinstance(loss, LinearLoss) else 0.0
        if not isinstance(penalty, NoPenalty | L1 | L2 | ElasticNet):
            return None
        l1 = penalty.weight if isinstance(penalty, L1) else 0.0
        l1 = penalty.l1 if isinstance(penalty, ElasticNet) else l1
        return cls(problem.remembering(), own + l1, own, penalty.strong_convexity)

    def smooth(self, w: Array) -> tuple[float, Array]:
        """Return F(w) and its gradient, shape (d,)."""
        # The values and subgradients of the losses include their own l1 term. It is removed here,
        # since it belongs to the other summand. On zeros the subtraction is exact as well, since
        # sign(0) = 0.
        value = self.problem.smooth_value(w)
        gradient = self.problem.gradient(w)
        if self.own:
            value -= self.own * float(np.abs(w).sum())
            gradient -= self.own * np.sign(w)
        if self.l2:
            value += 0.5 * self.l2 * float(w.dot(w))
            gradient += self.l2 * w
        return value, gradient

    def subgradient(self, w: Array) -> Array:
        """Return the subgradient of least norm, shape (d,); it is zero exactly at a minimiser."""
        gradient = self.smooth(w)[1]
        excess = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(w == 0, excess, gradient + self.l1 * np.sign(w))

    def residual(self, w: Array, within: Mask | None = None) -> float:
        """Return the norm of `subgradient`, on the coordinates `within` if they are given."""
        subgradient = self.subgradient(w)
        return float(np.linalg.norm(subgradient if within is None else subgradient[within]))

    def value(self, w: Array) -> float:
        """Return the objective."""
        return self.problem.value(w)

    def hessian(self, w: Array, free: Mask) -> Array:
        """Return the free rows and columns of the Hessian of F at `w`.

        For a linear loss, only these are computed.

        Raises:
            DataError: the loss does not provide its Hessian.
        """
        chosen = np.flatnonzero(free)
        if isinstance(self.problem.loss, LinearLoss) and len(chosen) < len(w):
            hessian = np.zeros((len(chosen), len(chosen)))
            shares = self.problem.coefficients
            for share, loss in zip(shares, self.problem.losses, strict=True):
                hessian += share * _curvature(loss, self.problem.loss, w, chosen)
        else:
            hessian = self.problem.hessian(w)[np.ix_(free, free)]
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    @cached_property
    def scale(self) -> Array:
        """The square roots of the diagonal of the Hessian's bound, shape (d,), with 1 for 0."""
        problem = self.problem
        shares = problem.coefficients
        diagonal = np.zeros(problem.losses[0].features)
        for share, loss in zip(shares, problem.losses, strict=True):
            c, A = loss.majorant
            diagonal += share * c * _squares(A)
        diagonal += float(shares.sum()) * problem.loss.l2 + self.l2
        # Each feature has a weight in each column of the model, with the same bound in all columns.
        diagonal = np.repeat(diagonal, problem.dimension // len(diagonal))
        return np.asarray(np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))


def convex(problem: Problem) -> bool:
    """Return whether the losses are known to be convex, without a constraint."""
    if problem.loss.constrained:
        return False
    try:
        _ = problem.losses[0].majorant
    except DataError:
        return False
    return True


def _curvature(local: LocalLoss, loss: LinearLoss, w: Array, chosen: Indices) -> Array:
    """Return the chosen rows and columns of the Hessian of f_m at `w`."""
    rows = local.arranged
    curvatures = rows.factor * loss.curvatures(loss.forward(rows, w))
    hessian = gram(rows.X[:, chosen], curvatures)
    hessian[np.diag_indices_from(hessian)] += loss.l2
    return hessian


def _squares(A: Features) -> Array:
    """Return the squared norms of the columns of A, shape (d,)."""
    squares = np.square(A) if isinstance(A, np.ndarray) else A.power(2)
    return np.asarray(squares.sum(axis=0))


def affordable(problem: Problem) -> int:
    """Return the number of gradients within the budget: 10000, fewer if they are expensive."""
    operations = sum(loss.gradient_operations for loss in problem.losses)
    return int(np.clip(_EFFORT / operations, 200, 10_000))


def gradient_step(smoothness: float) -> float:
    """Return the step 1/L; 1 if the loss is (nearly) flat, where any step works."""
    step = 1.0 / smoothness if smoothness else inf
    return step if isfinite(step) else 1.0


def approach(f: CompositeForm) -> Array:
    """Return a point near a minimiser, shape (d,), by L-BFGS-B from zero.

    With an l1 term, the variables are p, q >= 0 with w = p - q, in which the term is linear and the
    problem smooth. A coordinate with p = q = 0 is exactly zero, which gives the support.
    """
    scale = f.scale
    d, limit = len(scale), affordable(f.problem)

    def split(v: Array) -> tuple[float, Array]:
        w = (v[:d] - v[d:]) / scale
        value, gradient = f.smooth(w)
        both = np.concatenate([f.l1 + gradient, f.l1 - gradient]) / np.tile(scale, 2)
        return value + f.l1 * float((v / np.tile(scale, 2)).sum()), both

    def whole(v: Array) -> tuple[float, Array]:
        value, gradient = f.smooth(v / scale)
        return value, gradient / scale

    if not f.l1:
        return lbfgs(whole, d, None, limit) / scale
    v = lbfgs(split, 2 * d, 0.0, limit)
    return (v[:d] - v[d:]) / scale


def lbfgs(
    function: Callable[[Array], tuple[float, Array]],
    length: int,
    bound: float | None,
    limit: int,
) -> Array:
    """Minimise a function that returns its value and gradient, from zero, subject to v >= bound."""
    from scipy.optimize import minimize  # takes 0.2 s

    result = minimize(
        function,
        np.zeros(length),
        jac=True,
        method="L-BFGS-B",
        bounds=None if bound is None else [(bound, None)] * length,
        options={"maxiter": limit, "maxfun": limit, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-12},
    )
    return np.asarray(result.x, dtype=np.float64)


NEWTON_LIMIT = 2000
"""The largest number of coordinates for which the Hessian is computed."""

_TRUNCATED = 50
"""The largest number of products in a truncated Newton step."""


def polish(
    f: CompositeForm,
    w: Array,
    limit: int = 200,
    within: Mask | None = None,
    enough: float = 1e-16,
) -> Array:
    """Return the point of least residual among Newton iterates from `w`, shape (d,).

    Args:
        f: the objective.
        w: the initial point.
        limit: the largest number of steps.
        within: the coordinates that may change, outside which `w` is zero; all by default.
        enough: the residual at which the iteration ends, relative to the residual at zero.
    """
    allowed = np.ones(len(w), dtype=np.bool_) if within is None else within
    free = allowed & ((w != 0) | (f.l1 == 0))
    signs = np.sign(w)
    best, least = w, f.residual(w, allowed)
    # If there is no minimiser, as on separable data, the residual would decrease forever.
    wanted = enough * f.residual(np.zeros_like(w), allowed)
    for _ in range(limit):
        if least <= wanted:
            break
        w, progress = _newton(f, w, signs, free)
        free &= (w != 0) | (f.l1 == 0)
        residual = f.residual(w, allowed)
        if residual < least:
            best, least = w, residual
        if not progress:
            entering = _violator(f, w, allowed & ~free)
            if entering is None:
                break
            # The coordinate will move against its slope.
            signs[entering] = -np.sign(f.smooth(w)[1][entering])
            free[entering] = True
    return best


def _violator(f: CompositeForm, w: Array, outside: Mask) -> int | None:
    """Return the coordinate off the support that violates optimality most; None if none does."""
    excess = np.where(outside, np.abs(f.smooth(w)[1]) - f.l1, 0.0)
    worst = int(np.argmax(excess))
    return worst if excess[worst] > 1e-11 * f.l1 else None


def _newton(f: CompositeForm, w: Array, signs: Array, free: Mask) -> tuple[Array, bool]:
    """Take a damped Newton step on the free coordinates; also return whether it made progress."""
    gradient = np.where(free, f.smooth(w)[1] + f.l1 * signs, 0.0)
    norm = float(np.linalg.norm(gradient))
    if norm == 0:
        return w, False
    step, longest = _direction(f, w, gradient, signs, free)
    # With an l1 term, a step may lead to the first change of a sign, but not beyond it.
    t, leaving = _to_zero(w, step, free) if f.l1 else (np.inf, np.zeros_like(free))
    if t > longest:
        t, leaving = longest, np.zeros_like(free)
    value, slope = f.value(w), float(gradient @ step)
    least = 1e-6 * min(t, 1.0)
    while t >= least:
        candidate = np.where(leaving, 0.0, w + t * step)
        new = np.where(free, f.smooth(candidate)[1] + f.l1 * signs, 0.0)
        if float(np.linalg.norm(new)) <= (1 - min(t, 1.0) / 2) * norm:
            return candidate, True
        # Armijo's condition, with a slack at the level of rounding. A decrease below that level
        # counts as no progress, since accepting it could lead to cycles. A step to a kink, however,
        # removes a coordinate from the support, which is progress even if the value grows by
        # rounding.
        slack = (1e-14 if leaving.any() else -1e-14) * abs(value)
        if f.value(candidate) < value + 1e-4 * t * slope + slack:
            return candidate, True
        t, leaving = t / 2, np.zeros_like(free)
    return w, False


def _direction(
    f: CompositeForm, w: Array, gradient: Array, signs: Array, free: Mask
) -> tuple[Array, float]:
    """Return a direction of descent, zero off the free coordinates, and the longest step along it.

    Normally it is Newton's direction, with steps up to 1. On the null space of the Hessian, the
    smooth part is flat. If the l1 term has a slope there, the objective decreases along it until a
    coordinate changes its sign. Such a direction is then taken, with steps of any length.
    """
    if not solvable(f, free):
        return _truncate(f, w, gradient, free), 1.0
    hessian = f.hessian(w, free)
    diagonal = np.diag(hessian)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    # Scaled to a diagonal of ones, flatness does not depend on the units of features.
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    flat = values <= 1e-13 * values[-1]
    kinks = vectors.T @ (f.l1 * signs[free] / scale)
    step = np.zeros_like(w)
    if np.linalg.norm(kinks[flat]) > 1e-9 * np.linalg.norm(kinks):
        step[free] = -(vectors[:, flat] @ kinks[flat]) / scale
        return step, np.inf
    slopes = vectors.T @ (gradient[free] / scale)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=~flat)
    step[free] = -(vectors @ (inverse * slopes)) / scale
    return step, 1.0


def solvable(f: CompositeForm, free: Mask) -> bool:
    """Return whether Newton systems are solved exactly, not by truncated steps."""
    linear = isinstance(f.problem.loss, LinearLoss)
    return (int(np.count_nonzero(free)) if linear else len(free)) <= NEWTON_LIMIT


def _truncate(f: CompositeForm, w: Array, gradient: Array, free: Mask) -> Array:
    """Return a Newton step by scaled conjugate gradients, to a relative residual of 0.1."""
    inverse = 1.0 / np.square(f.scale)
    step, residual = np.zeros_like(w), -gradient
    p = inverse * residual
    product, enough = float(residual @ p), 0.1 * float(np.linalg.norm(gradient))
    for _ in range(_TRUNCATED):
        curved = _support_curvature(f, w, p, free)
        bend = float(p @ curved)
        # In a flat direction the computed curvature is only rounding, relative to its upper bound.
        if bend <= 1e-12 * float(np.square(p * f.scale).sum()):
            break
        step += product / bend * p
        residual = residual - product / bend * curved
        if float(np.linalg.norm(residual)) <= enough:
            break
        scaled = inverse * residual
        product, last = float(residual @ scaled), product
        p = scaled + product / last * p
    # If even the first direction is flat, the scaled gradient has to do.
    return step if step.any() else inverse * -gradient


def _support_curvature(f: CompositeForm, w: Array, p: Array, free: Mask) -> Array:
    """Return the Hessian of F at `w` times `p`, set to zero off the free coordinates."""
    length = float(np.linalg.norm(p))
    # A smaller step would increase rounding, and a larger one the error of the difference.
    h = 1e-5 * max(1.0, float(np.linalg.norm(w))) / length
    difference = f.smooth(w + h * p)[1] - f.smooth(w - h * p)[1]
    return np.where(free, difference / (2 * h), 0.0)


def _to_zero(w: Array, step: Array, free: Mask) -> tuple[float, Mask]:
    """Return the largest t without a change of sign, and the coordinates that become zero there."""
    shrinking = free & (w * step < 0)
    ratios = np.full(len(w), np.inf)
    ratios[shrinking] = -w[shrinking] / step[shrinking]
    t = float(ratios.min())
    return t, ratios <= t
