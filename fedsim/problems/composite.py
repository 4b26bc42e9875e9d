"""The composite form of a convex objective, F(w) + l1 |w|_1 with smooth F, and its minimiser.

Steps: L-BFGS-B (Byrd, Lu, Nocedal, Zhu 1995) on scaled variables gets close and finds the
support; damped Newton steps on the support with its signs fixed go to the level of
rounding; a coordinate that reaches zero leaves the support, one that violates the
optimality conditions enters it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fedsim.ports import Array
from fedsim.problems.problem import Objective, Problem

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Composite:
    """F(w) + l1 |w|_1, in terms of the values and gradients that an observer sees."""

    problem: Problem
    objective: Objective
    l1: float

    def smooth(self, w: Array) -> tuple[float, Array]:
        """Return F(w) and its gradient, shape (d,)."""
        value = self.problem.value(w, self.objective) - self.l1 * float(np.abs(w).sum())
        return value, self.problem.gradient(w, self.objective) - self.l1 * np.sign(w)

    def subgradient(self, w: Array) -> Array:
        """Return the subgradient of least norm, shape (d,): zero exactly at a minimiser."""
        gradient = self.smooth(w)[1]
        excess = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(w == 0, excess, gradient + self.l1 * np.sign(w))

    def residual(self, w: Array) -> float:
        """Return the norm of `subgradient`."""
        return float(np.linalg.norm(self.subgradient(w)))

    def value(self, w: Array) -> float:
        """Return the objective."""
        return self.problem.value(w, self.objective)


def approach(f: Composite) -> Array:
    """Return a point near a minimiser, shape (d,), by L-BFGS-B from zero.

    With an l1 term w = p - q with p, q >= 0, on which the term is linear; what is at a
    bound in both is zero exactly.
    """
    scale = _scale(f)
    d = len(scale)

    def split(v: Array) -> tuple[float, Array]:
        w = (v[:d] - v[d:]) / scale
        value, gradient = f.smooth(w)
        both = np.concatenate([f.l1 + gradient, f.l1 - gradient]) / np.tile(scale, 2)
        return value + f.l1 * float((v / np.tile(scale, 2)).sum()), both

    def whole(v: Array) -> tuple[float, Array]:
        value, gradient = f.smooth(v / scale)
        return value, gradient / scale

    if not f.l1:
        return _lbfgs(whole, d, None) / scale
    v = _lbfgs(split, 2 * d, 0.0)
    return (v[:d] - v[d:]) / scale


def polish(f: Composite, w: Array, limit: int = 200) -> Array:
    """Return the point of least residual that Newton steps reach from `w`, shape (d,)."""
    free = (w != 0) | (f.l1 == 0)
    signs = np.sign(w)
    best, least = w, f.residual(w)
    # Where there is no minimiser, as on separable data, the residual falls for ever.
    enough = 1e-16 * f.residual(np.zeros_like(w))
    for _ in range(limit):
        if least <= enough:
            break
        w, progress = _newton(f, w, signs, free)
        free &= (w != 0) | (f.l1 == 0)
        residual = f.residual(w)
        if residual < least:
            best, least = w, residual
        if not progress:
            entering = _violator(f, w, free)
            if entering is None:
                break
            signs[entering] = -np.sign(f.smooth(w)[1][entering])
            free[entering] = True
    return best


def _lbfgs(
    function: Callable[[Array], tuple[float, Array]], length: int, bound: float | None
) -> Array:
    """Minimise a function that returns its value and gradient, from zero, v >= bound."""
    result = minimize(
        function,
        np.zeros(length),
        jac=True,
        method="L-BFGS-B",
        bounds=None if bound is None else [(bound, None)] * length,
        options={"maxiter": 10_000, "maxfun": 10_000, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-12},
    )
    return np.asarray(result.x, dtype=np.float64)


def _scale(f: Composite) -> Array:
    """Return the square roots of the diagonal of the Hessian's bound; 1 where it is zero."""
    problem = f.problem
    diagonal = np.full(problem.dimension, problem.loss.l2)
    for p, loss in zip(problem.coefficients(f.objective), problem.losses, strict=True):
        c, A = loss.majorant
        diagonal += p * c * np.einsum("ij,ij->j", A, A)
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def _violator(f: Composite, w: Array, free: Mask) -> int | None:
    """Return the coordinate off the support that violates optimality most, if one does."""
    excess = np.where(free, 0.0, np.abs(f.smooth(w)[1]) - f.l1)
    worst = int(np.argmax(excess))
    return worst if excess[worst] > 1e-11 * f.l1 else None


def _newton(f: Composite, w: Array, signs: Array, free: Mask) -> tuple[Array, bool]:
    """Take a damped Newton step on the free coordinates; say whether it made progress."""
    gradient = np.where(free, f.smooth(w)[1] + f.l1 * signs, 0.0)
    norm = float(np.linalg.norm(gradient))
    if norm == 0:
        return w, False
    step, longest = _direction(f, w, gradient, signs, free)
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
        # A fall below rounding is none, except next to a kink: a coordinate less is progress.
        slack = (1e-14 if leaving.any() else -1e-14) * abs(value)
        if f.value(candidate) < value + 1e-4 * t * slope + slack:
            return candidate, True
        t, leaving = t / 2, np.zeros_like(free)
    return w, False


def _direction(
    f: Composite, w: Array, gradient: Array, signs: Array, free: Mask
) -> tuple[Array, float]:
    """Return a direction of descent, zero off the free coordinates, and the longest step on it.

    It is Newton's, with steps up to 1. Where the Hessian is singular the smooth part is
    flat, and if the l1 term is not, it falls without end until a sign changes.
    """
    hessian = f.problem.hessian(w, f.objective)[np.ix_(free, free)]
    diagonal = np.diag(hessian)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
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


def _to_zero(w: Array, step: Array, free: Mask) -> tuple[float, Mask]:
    """Return the longest t at which no sign has changed, and which coordinates are zero then."""
    shrinking = free & (w * step < 0)
    ratios = np.full(len(w), np.inf)
    ratios[shrinking] = -w[shrinking] / step[shrinking]
    t = float(ratios.min())
    return t, ratios <= t
