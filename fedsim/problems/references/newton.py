"""Newton's method on the support of a composite objective, to the level of rounding.

Damped steps are taken on the coordinates that are not zero, with their signs fixed; one
that reaches zero leaves the support, one that violates the optimality conditions enters it.
Systems of up to `NEWTON_LIMIT` coordinates are solved by their eigenvalues, larger ones by
conjugate gradients with differences of gradients for products (truncated Newton: Dembo,
Steihaug 1983).
"""

import numpy as np

from fedsim.ports import Array
from fedsim.problems.losses import LinearLoss
from fedsim.problems.references.composite import CompositeForm, Mask

NEWTON_LIMIT = 2000
"""Up to this many coordinates the Hessian itself is computed."""

_TRUNCATED = 50
"""Products of a truncated Newton step, at most."""


def polish(f: CompositeForm, w: Array, limit: int = 200, within: Mask | None = None) -> Array:
    """Return the point of least residual that Newton steps reach from `w`, shape (d,).

    Args:
        f: what to minimise.
        w: where to begin.
        limit: of the number of steps.
        within: the coordinates that may change, off which `w` is zero; all when not given.
    """
    allowed = np.ones(len(w), dtype=np.bool_) if within is None else within
    free = allowed & ((w != 0) | (f.l1 == 0))
    signs = np.sign(w)
    best, least = w, f.residual(w, allowed)
    # Where there is no minimiser, as on separable data, the residual falls for ever.
    enough = 1e-16 * f.residual(np.zeros_like(w), allowed)
    for _ in range(limit):
        if least <= enough:
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
            signs[entering] = -np.sign(f.smooth(w)[1][entering])
            free[entering] = True
    return best


def _violator(f: CompositeForm, w: Array, outside: Mask) -> int | None:
    """Return the coordinate off the support that violates optimality most, if one does."""
    excess = np.where(outside, np.abs(f.smooth(w)[1]) - f.l1, 0.0)
    worst = int(np.argmax(excess))
    return worst if excess[worst] > 1e-11 * f.l1 else None


def _newton(f: CompositeForm, w: Array, signs: Array, free: Mask) -> tuple[Array, bool]:
    """Take a damped Newton step on the free coordinates; return also whether it made progress."""
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
        # A decrease below rounding is none, except next to a kink: a coordinate less is progress.
        slack = (1e-14 if leaving.any() else -1e-14) * abs(value)
        if f.value(candidate) < value + 1e-4 * t * slope + slack:
            return candidate, True
        t, leaving = t / 2, np.zeros_like(free)
    return w, False


def _direction(
    f: CompositeForm, w: Array, gradient: Array, signs: Array, free: Mask
) -> tuple[Array, float]:
    """Return a direction of descent, zero off the free coordinates, and the longest step on it.

    It is Newton's, with steps up to 1. Where the Hessian is singular the smooth part is
    flat, and if the l1 term is not, it falls without end until a sign changes.
    """
    if not solvable(f, free):
        return _truncate(f, w, gradient, free), 1.0
    hessian = f.hessian(w, free)
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


def solvable(f: CompositeForm, free: Mask) -> bool:
    """Return whether the Hessian on the free coordinates is computed; else steps are truncated."""
    linear = isinstance(f.problem.loss, LinearLoss)
    return (int(np.count_nonzero(free)) if linear else len(free)) <= NEWTON_LIMIT


def _truncate(f: CompositeForm, w: Array, gradient: Array, free: Mask) -> Array:
    """Solve Newton's system to a tenth by scaled conjugate gradients, shape (d,)."""
    inverse = 1.0 / np.square(f.scale)
    step, residual = np.zeros_like(w), -gradient
    p = inverse * residual
    product, enough = float(residual @ p), 0.1 * float(np.linalg.norm(gradient))
    for _ in range(_TRUNCATED):
        curved = _curvature(f, w, p, free)
        bend = float(p @ curved)
        # A flat direction shows as the bound's curvature times rounding.
        if bend <= 1e-12 * float(np.square(p * f.scale).sum()):
            break
        step += product / bend * p
        residual = residual - product / bend * curved
        if float(np.linalg.norm(residual)) <= enough:
            break
        scaled = inverse * residual
        product, last = float(residual @ scaled), product
        p = scaled + product / last * p
    return step if step.any() else inverse * -gradient


def _curvature(f: CompositeForm, w: Array, p: Array, free: Mask) -> Array:
    """Return the Hessian of F at `w` times `p`, zero off the free coordinates."""
    length = float(np.linalg.norm(p))
    h = 1e-5 * max(1.0, float(np.linalg.norm(w))) / length
    difference = f.smooth(w + h * p)[1] - f.smooth(w - h * p)[1]
    return np.where(free, difference / (2 * h), 0.0)


def _to_zero(w: Array, step: Array, free: Mask) -> tuple[float, Mask]:
    """Return the longest t at which no sign has changed, and which coordinates are zero then."""
    shrinking = free & (w * step < 0)
    ratios = np.full(len(w), np.inf)
    ratios[shrinking] = -w[shrinking] / step[shrinking]
    t = float(ratios.min())
    return t, ratios <= t
