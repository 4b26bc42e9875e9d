"""Reference optima: f* far below any tolerance, how it was got, and what certifies it."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from scipy.linalg import svd

from fedsim.ports import Array
from fedsim.problems.cache import cache_folder, write_whole
from fedsim.problems.composite import Composite, approach, polish
from fedsim.problems.losses import LinearLoss, Squared
from fedsim.problems.problem import Objective, Problem
from fedsim.spec import Spec

NEWTON_LIMIT = 2000
"""Up to this dimension Newton steps are taken; beyond it L-BFGS has the last word."""

CERTIFIED = 1e-8
"""The residual at an optimum, at most, as a share of the residual at zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The least value of an objective.

    Attributes:
        value: f*, as `Problem.value` computes it at `model`, so that gaps are consistent.
        model: where it is attained, shape (d,).
        method: how it was got; it begins with "best value known" where no optimum could
            be certified.
        residual: the norm of the least subgradient at `model`.
    """

    value: float
    model: Array
    method: str
    residual: float


def optimum(problem: Problem, objective: Objective) -> Reference | None:
    """Return the optimum of a convex objective, from the user's cache when it is there.

    Returns:
        The reference; None for a loss that is not convex, which has no known optimum.
    """
    loss = problem.loss
    if not isinstance(loss, LinearLoss):
        return None
    weight = float(problem.coefficients(objective).sum())
    f = Composite(problem, objective, weight * loss.l1)
    path = cache_folder() / "optima" / f"{problem.fingerprint}-{objective}.json"
    stored = _load(path, f)
    if stored is None:
        stored = _solve(f)
        _store(path, stored)
    model = np.array(stored.model)
    return Reference(f.value(model), model, stored.method, f.residual(model))


class _Stored(Spec):
    """What the cache keeps of an optimum; the value tells whether it still holds."""

    model: tuple[float, ...]
    method: str
    value: float


def _solve(f: Composite) -> _Stored:
    newton = f.problem.dimension <= NEWTON_LIMIT
    if isinstance(f.problem.loss, Squared) and not f.l1:
        method, model = "closed form", _least_squares(f)
        # One or two steps of refinement take out what the factorisation rounded.
        model = polish(f, model, limit=2) if newton else model
    elif newton:
        method = "L-BFGS, then Newton" + (" on the support" if f.l1 else "")
        model = polish(f, approach(f))
    else:
        method, model = "L-BFGS", approach(f)
    if f.residual(model) > CERTIFIED * f.residual(np.zeros_like(model)):
        method = f"best value known, by {method}"
    return _Stored(model=tuple(model.tolist()), method=method, value=f.value(model))


def _least_squares(f: Composite) -> Array:
    """Solve the stacked weighted system |B w - b|^2 + l2 |w|^2, of least norm if singular."""
    shares = f.problem.coefficients(f.objective)
    weights = [
        math.sqrt(p * loss.majorant[0]) for p, loss in zip(shares, f.problem.losses, strict=True)
    ]
    parts = list(zip(weights, f.problem.losses, strict=True))
    B = np.vstack([root * loss.arranged.X for root, loss in parts])
    b = np.concatenate([root * loss.arranged.t for root, loss in parts])
    l2 = float(shares.sum()) * f.problem.loss.l2
    U, s, Vt = svd(B, full_matrices=False)
    # Singular values at the level of rounding are zeros, and take no part.
    rank = int((s > max(B.shape) * np.finfo(np.float64).eps * s[0]).sum())
    filtered = s[:rank] / (s[:rank] ** 2 + l2) * (U[:, :rank].T @ b)
    return np.asarray(Vt[:rank].T @ filtered)


def _load(path: Path, f: Composite) -> _Stored | None:
    """Return what the cache has, unless it is damaged or not of this problem."""
    try:
        stored = _Stored.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    if len(stored.model) != f.problem.dimension:
        return None
    value = f.value(np.array(stored.model))
    return stored if math.isclose(value, stored.value, rel_tol=1e-9, abs_tol=1e-12) else None


def _store(path: Path, stored: _Stored) -> None:
    try:
        write_whole(path, stored.model_dump_json().encode())
    except OSError:
        return  # A cache is a convenience: a folder that cannot be written must not end a run.
