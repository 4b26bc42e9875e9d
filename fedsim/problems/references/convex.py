"""Reference optima: f*, far more exact than any stop tolerance, with its method and certificate.

Gaps f(w) - f* are compared with tolerances such as 1e-12, so f* must be exact up to rounding. Two
points matter for that:

- `Reference.value` is evaluated by `Problem.value`, the same function as the run's objective.
  Another order of summation would shift all gaps by rounding.
- A method's own stopping test is not trusted. The certificate is the least subgradient at the
  result (`certified`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.linalg import svd

from fedsim.core.atomic import write_whole
from fedsim.core.errors import OutputError
from fedsim.core.ports import Array
from fedsim.problems.losses import LeastSquares, LinearLoss
from fedsim.problems.partition import cache_folder
from fedsim.problems.problem import Problem
from fedsim.problems.references.composite import (
    NEWTON_LIMIT,
    CompositeForm,
    affordable,
    approach,
    convex,
    gradient_step,
    polish,
    solvable,
)
from fedsim.problems.samples import dense

# Minimisers of f + h, with a penalty h that has a prox, by accelerated proximal gradients.

_CHECK = 10
"""The number of steps between two checks of the residual, each of which costs another gradient."""


def proximal_residual(problem: Problem, w: Array) -> float:
    """Return the norm of the least subgradient of the objective, penalty included, at `w`."""
    return problem.regulariser.residual(w, problem.gradient(w))


def accelerated_descent(problem: Problem) -> Array:
    """Return the point of least residual among FISTA's iterates from zero, shape (d,).

    Steps are 1/L, with the smoothness constant of the whole objective. The momentum restarts when
    it points uphill. The iteration stops at the level of rounding, or if the residual has not
    decreased in the last tenth of the steps.

    Source: Beck, Teboulle, SIAM J. Imaging Sci. 2009; restarts by the gradient scheme of
    O'Donoghue, Candes, Found. Comput. Math. 2015.
    """
    step = gradient_step(problem.smoothness())
    prox = problem.regulariser.prox
    v = y = best = np.zeros(problem.dimension)
    enough = least = proximal_residual(problem, v)
    enough *= 1e-15
    t, found = 1.0, 0
    for k in range(1, affordable(problem) + 1):
        new = prox(y - step * problem.gradient(y), step)
        if float((y - new) @ (new - v)) > 0:
            t = 1.0
        t, last = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        y, v = new + (last - 1) / t * (new - v), new
        if k % _CHECK:
            continue
        residual = proximal_residual(problem, v)
        if residual < least:
            best, least, found = v, residual, k
        if least <= enough or k - found > 200 + k // 10:
            break
    return best


# Reference optima, stored in the user's cache or sent to other processes.

CERTIFIED = 1e-8
"""The largest residual of a certified optimum, relative to the residual at zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The least value of an objective, or the least value that was found.

    Attributes:
        value: f*, computed by `Problem.value` at `model`, so that gaps are consistent.
        model: the minimiser, shape (d,).
        method: how it was found.
        residual: the norm of the least subgradient at `model`; under a constraint, the norm of the
            residual of the optimality conditions.
        certified: whether it is proved that no model has a smaller value; otherwise it is the best
            value found.
    """

    value: float
    model: Array
    method: str
    residual: float
    certified: bool

    @property
    def title(self) -> str:
        """The name of the value in messages."""
        return "optimum" if self.certified else "best value found"


class Solution(NamedTuple):
    """The result of a solver.

    Attributes:
        model: the point, shape (d,).
        method: how it was found.
        certified: whether it is proved to be a minimiser.
    """

    model: Array
    method: str
    certified: bool


@dataclass(frozen=True, slots=True)
class OptimumTask:
    """An optimum to be computed, unless it is in the cache.

    Attributes:
        problem: whose optimum it is. If it contains Python code that was passed in, no cache is
            used.
        name: the name of its file in the cache; two tasks with the same name are the same task.
        value: the objective.
        residual: the violation of the optimality conditions at a point.
        solve: computes the optimum.
    """

    problem: Problem
    name: str
    value: Callable[[Array], float]
    residual: Callable[[Array], float]
    solve: Callable[[], Solution]

    def result(self) -> Reference:
        """Return the optimum, from the user's cache if it is there."""
        path = cache_folder() / "optima" / f"{self.name}.json"
        cached = not self.problem.has_code
        stored = self._load(path) if cached else None
        if stored is None:
            solution = self.solve()
            stored = _Stored(
                model=tuple(solution.model.tolist()),
                method=solution.method,
                value=self.value(solution.model),
                certified=solution.certified,
            )
            if cached:
                _store(path, stored)
        for noted in _noting if cached else ():
            noted[self.name] = stored.model_dump_json().encode()
        model = np.array(stored.model)
        residual = self.residual(model)
        return Reference(self.value(model), model, stored.method, residual, stored.certified)

    def _load(self, path: Path) -> "_Stored | None":
        """Return the cached optimum; None if it is missing, damaged or of another problem."""
        try:
            stored = _Stored.model_validate_json(_given.get(self.name) or path.read_bytes())
        except (OSError, ValidationError):
            return None
        if len(stored.model) != self.problem.dimension:
            return None
        # Other versions of fedsim or of libraries may compute another value.
        value = self.value(np.array(stored.model))
        return stored if math.isclose(value, stored.value, rel_tol=1e-9, abs_tol=1e-12) else None


class _Stored(BaseModel):
    """The cached form of an optimum; its value shows whether it is still valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: tuple[float, ...]
    method: str
    value: float
    certified: bool


_given: dict[str, bytes] = {}
"""Optima received from another process: file contents by name of the task."""

# Recordings in progress, each for one `record_optima` block.
_noting: list[dict[str, bytes]] = []


@contextmanager
def record_optima() -> Iterator[dict[str, bytes]]:
    """Record the optima that are loaded or computed within the block, for `use_optima`."""
    found: dict[str, bytes] = {}
    _noting.append(found)
    try:
        yield found
    finally:
        _noting.remove(found)


def use_optima(optima: Mapping[str, bytes]) -> None:
    """Use the optima recorded by another process, in place of those received before."""
    _given.clear()
    _given.update(optima)


def certified(residual: float, at_zero: float) -> bool:
    """Return whether a residual certifies an optimum; `at_zero` is the residual at zero."""
    return residual <= CERTIFIED * at_zero


def _store(path: Path, stored: _Stored) -> None:
    try:
        write_whole(path, stored.model_dump_json().encode())
    except OutputError:
        return  # A cache is optional: a folder that cannot be written must not end a run.


def optimum(problem: Problem) -> Reference | None:
    """Return the optimum of a convex objective, from the user's cache if it is there.

    Returns:
        The reference. None if no optimum is known: for a loss that is not convex or has a
            constraint, and for a group or nuclear penalty together with an l1 term of the loss,
            whose sum has no prox.
    """
    if not convex(problem):
        return None
    f, name = CompositeForm.of(problem), problem.fingerprint
    if f is not None:
        return OptimumTask(problem, name, f.value, f.residual, lambda: _solve(f)).result()
    if isinstance(problem.loss, LinearLoss) and problem.loss.l1:
        return None

    def residual(w: Array) -> float:
        return proximal_residual(problem, w)

    def solve() -> Solution:
        model = accelerated_descent(problem)
        exact = certified(residual(model), residual(np.zeros_like(model)))
        return Solution(model, "FISTA", exact)

    def value(w: Array) -> float:
        return problem.value(w)

    return OptimumTask(problem, name, value, residual, solve).result()


def _solve(f: CompositeForm) -> Solution:
    dimension = f.problem.dimension
    if isinstance(f.problem.loss, LeastSquares) and not f.l1 and _factorisable(f.problem):
        method, model = "closed form", _least_squares(f)
        # One or two Newton steps remove the rounding of the factorisation.
        model = polish(f, model, limit=2) if dimension <= NEWTON_LIMIT else model
    else:
        # Beyond the limit, a truncated step may need a hundred gradients.
        limit = 200 if dimension <= NEWTON_LIMIT else min(20, affordable(f.problem) // 100)
        model = polish(f, approach(f), limit=limit)
        exact = solvable(f, (model != 0) | (f.l1 == 0))
        method = f"L-BFGS, then {'' if exact else 'truncated '}Newton"
        method += " on the support" if f.l1 else ""
    optimal = certified(f.residual(model), f.residual(np.zeros_like(model)))
    return Solution(model, method, optimal)


def _factorisable(problem: Problem) -> bool:
    """Return whether all rows can be stacked into one array and decomposed."""
    rows = sum(loss.rows for loss in problem.losses)
    arrays = all(isinstance(loss.arranged.X, np.ndarray) for loss in problem.losses)
    return arrays and min(rows, problem.dimension) <= NEWTON_LIMIT


def _least_squares(f: CompositeForm) -> Array:
    """Minimise the stacked |B w - b|^2 + l2 |w|^2; if it is singular, with least norm."""
    shares = f.problem.coefficients
    weights = [
        math.sqrt(p * loss.majorant[0]) for p, loss in zip(shares, f.problem.losses, strict=True)
    ]
    parts = list(zip(weights, f.problem.losses, strict=True))
    B = np.vstack([root * dense(loss.arranged.X) for root, loss in parts])
    b = np.concatenate([root * loss.arranged.t for root, loss in parts])
    l2 = float(shares.sum()) * f.problem.loss.l2 + f.l2
    U, s, Vt = svd(B, full_matrices=False)
    # Singular values at the level of rounding, or with a square that underflows, count as zero.
    info = np.finfo(np.float64)
    rank = int((s > max(max(B.shape) * info.eps * s[0], math.sqrt(info.tiny))).sum())
    filtered = s[:rank] / (s[:rank] ** 2 + l2) * (U[:, :rank].T @ b)
    return np.asarray(Vt[:rank].T @ filtered)
