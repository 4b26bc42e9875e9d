"""Reference optima: f* far below any tolerance, how it was got, and what certifies it."""

import math

import numpy as np
from scipy.linalg import svd

from fedsim.ports import Array
from fedsim.problems.features import dense
from fedsim.problems.losses import LeastSquares, LinearLoss
from fedsim.problems.problem import Objective, Problem
from fedsim.problems.references.composite import Composite, affordable, approach, convex
from fedsim.problems.references.newton import NEWTON_LIMIT, polish, solvable
from fedsim.problems.references.optima import Reference, Task, certified
from fedsim.problems.references.proximal import accelerated, proximal_residual


def optimum(problem: Problem, objective: Objective) -> Reference | None:
    """Return the optimum of a convex objective, from the user's cache when it is there.

    Returns:
        The reference. None where no optimum is known: for a loss that is not convex or that
        comes with a constraint, and for a group or nuclear penalty beside the l1 term of a
        loss, which together have no prox.
    """
    if not convex(problem):
        return None
    f, name = Composite.of(problem, objective), f"{problem.fingerprint}-{objective}"
    if f is not None:
        return Task(name, problem.dimension, f.value, f.residual, lambda: _solve(f)).result()
    if isinstance(problem.loss, LinearLoss) and problem.loss.l1:
        return None

    def residual(w: Array) -> float:
        return proximal_residual(problem, objective, w)

    def solve() -> tuple[Array, str]:
        model = accelerated(problem, objective)
        return model, certified("FISTA", residual(model), residual(np.zeros_like(model)))

    def value(w: Array) -> float:
        return problem.value(w, objective)

    return Task(name, problem.dimension, value, residual, solve).result()


def _solve(f: Composite) -> tuple[Array, str]:
    dimension = f.problem.dimension
    if isinstance(f.problem.loss, LeastSquares) and not f.l1 and _factorisable(f.problem):
        method, model = "closed form", _least_squares(f)
        # One or two steps of refinement take out what the factorisation rounded.
        model = polish(f, model, limit=2) if dimension <= NEWTON_LIMIT else model
    else:
        # Beyond the limit a step may take a hundred gradients.
        limit = 200 if dimension <= NEWTON_LIMIT else min(20, affordable(f.problem) // 100)
        model = polish(f, approach(f), limit=limit)
        exact = solvable(f, (model != 0) | (f.l1 == 0))
        method = f"L-BFGS, then {'' if exact else 'truncated '}Newton"
        method += " on the support" if f.l1 else ""
    return model, certified(method, f.residual(model), f.residual(np.zeros_like(model)))


def _factorisable(problem: Problem) -> bool:
    """Return whether all rows can be stacked as one array and decomposed."""
    rows = sum(loss.rows for loss in problem.losses)
    arrays = all(isinstance(loss.arranged.X, np.ndarray) for loss in problem.losses)
    return arrays and min(rows, problem.dimension) <= NEWTON_LIMIT


def _least_squares(f: Composite) -> Array:
    """Solve the stacked weighted system |B w - b|^2 + l2 |w|^2, of least norm if singular."""
    shares = f.problem.coefficients(f.objective)
    weights = [
        math.sqrt(p * loss.majorant[0]) for p, loss in zip(shares, f.problem.losses, strict=True)
    ]
    parts = list(zip(weights, f.problem.losses, strict=True))
    B = np.vstack([root * dense(loss.arranged.X) for root, loss in parts])
    b = np.concatenate([root * loss.arranged.t for root, loss in parts])
    l2 = float(shares.sum()) * f.problem.loss.l2 + f.l2
    U, s, Vt = svd(B, full_matrices=False)
    # Singular values at the level of rounding, or without a square, are zeros: they take no part.
    info = np.finfo(np.float64)
    rank = int((s > max(max(B.shape) * info.eps * s[0], math.sqrt(info.tiny))).sum())
    filtered = s[:rank] / (s[:rank] ** 2 + l2) * (U[:, :rank].T @ b)
    return np.asarray(Vt[:rank].T @ filtered)
