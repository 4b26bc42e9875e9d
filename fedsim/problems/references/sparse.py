"""Sparse models: the optimum over all supports if there are few, else the best value found.

The least value over all supports can only be found by searching them (Natarajan, SIAM J. Comput.
1995). If there are too many, the result is the best of a few local searches, and is labelled so.
"""

from functools import cached_property, partial
from itertools import chain, combinations, product
from math import comb

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.losses import LeastSquares
from fedsim.problems.problem import Problem
from fedsim.problems.projections import Indices, hard_threshold, hard_threshold_columns
from fedsim.problems.references.composite import (
    NEWTON_LIMIT,
    CompositeForm,
    Mask,
    gradient_step,
    polish,
)
from fedsim.problems.references.convex import (
    CERTIFIED,
    OptimumTask,
    Reference,
    Solution,
    certified,
)

_STEPS = 300
"""Steps of iterative hard thresholding, at most."""

_SETTLED = 20
"""Iterative hard thresholding ends if the support stays the same for this number of steps."""

_PURSUIT = 50
"""Rounds of hard thresholding pursuit, at most."""

_QUADRATIC = 2**17
"""Supports of a quadratic objective that are searched, at most: seconds, a batch at a time."""

_EFFORT = 1e8
"""Supports of another objective times operations of a gradient that are searched, at most."""

_CALL = 2e4
"""The fixed cost of calling a client's gradient, as the number of operations that take as long."""

_BATCH = 4096
"""Supports whose normal equations are solved together."""

_NEAR = 1e-6
"""Supports are solved once more if their fall from zero is within this share of the largest fall,
since rounding may have changed their order."""

_SOLVED_AGAIN = 16
"""Supports that are solved once more, at most."""


def sparse_optimum(problem: Problem, count: int, *, columns: bool = False) -> Reference | None:
    """Return the best model with at most `count` nonzero weights, from the cache if it is there.

    If there are few supports, the objective is minimised on each. Otherwise local searches start
    from zero, and from the planted truth if there is one:

    1. Iterative hard thresholding with full gradients and steps 1/L finds a support.
    2. Hard thresholding pursuit improves the support.
    3. The weights on the support are those that minimise the objective there.

    Source: Blumensath, Davies, Appl. Comput. Harmon. Anal. 2009; Foucart, SIAM J. Numer. Anal.
    2011.

    Args:
        problem: with a convex loss, and no penalty or l1, l2 or elastic net.
        count: the number of weights that may differ from zero.
        columns: whether `count` applies to each column of a matrix model, as for softmax.

    Returns:
        The reference, certified if all supports were searched; its residual is that of the weights
            on the support. None for any other problem.

    Raises:
        ValueError: the count is negative.
    """
    f = CompositeForm.of(problem)
    if f is None:
        return None
    search = _SupportSearch(f, count, columns=columns)
    name = f"{problem.fingerprint}-{count}-{'columns' if columns else 'weights'}"

    def residual(w: Array) -> float:
        return f.residual(w, w != 0)

    return OptimumTask(problem, name, f.value, residual, search.best).result()


class _SupportSearch:
    """The searches for one sparse model."""

    def __init__(self, f: CompositeForm, count: int, *, columns: bool) -> None:
        self.f, self.problem = f, f.problem
        if count < 0:
            raise ValueError(f"got {count}, expected a number of weights of 0 or more")
        shape = self.problem.shape if columns else (self.problem.dimension,)
        self.rows, self.columns = shape[0], shape[1] if len(shape) > 1 else 1
        self.count = min(count, self.rows)
        self.cut = partial(self._by_column if columns else hard_threshold, count=count)

    @cached_property
    def step(self) -> float:
        """The step 1/L, which is computed only if the cache has no result."""
        return gradient_step(self.problem.smoothness() + self.f.l2)

    def best(self) -> Solution:
        """Return the optimum if all supports can be searched, else the best model found."""
        return self.exhaustive() or self.local()

    def exhaustive(self) -> Solution | None:
        """Return the best model over all supports; None if there are too many."""
        f, start = self.f, np.zeros(self.problem.dimension)
        # Each column of a matrix model has its own support.
        count = comb(self.rows, self.count) ** self.columns
        quadratic = isinstance(self.problem.loss, LeastSquares) and not f.l1
        if quadratic and count <= _QUADRATIC and len(start) <= NEWTON_LIMIT:
            method, (falls, sure) = "least squares", self._quadratic()
        elif count <= _EFFORT / sum(
            loss.gradient_operations + _CALL for loss in self.problem.losses
        ):
            method, (falls, sure) = "Newton's method", self._convex()
        else:
            return None
        order = np.argsort(-falls, kind="stable")[:_SOLVED_AGAIN]
        near = order[falls[order] >= falls[order[0]] * (1 - _NEAR)]
        masks = map(self._mask, self._supports[near])
        model, mask = min(
            ((self._on_support(mask), mask) for mask in masks), key=lambda pair: f.value(pair[0])
        )
        exact = sure and certified(f.residual(model, mask), f.residual(start, mask))
        searched = "the only support" if count == 1 else f"all {count:,} supports"
        return Solution(model, f"{method} on {searched}", exact)

    def local(self) -> Solution:
        """Return the best model that local searches find."""
        starts = [np.zeros(self.problem.dimension)]
        method = "iterative hard thresholding from zero"
        truth = self.problem.truth
        if truth is not None and truth.shape == starts[0].shape:
            starts.append(self.cut(truth))
            method += " and from the truth"
        candidates = [self._pursue(self._threshold(start)) for start in starts]
        model = min(candidates, key=self.f.value)
        return Solution(model, f"{method}, then pursuit on the support", certified=False)

    @cached_property
    def _supports(self) -> Indices:
        """All supports, as positions in the flat model, shape (n, entries)."""
        supports = list(combinations(range(self.rows), self.count))
        places = (
            [row * self.columns + column for column, part in enumerate(parts) for row in part]
            for parts in product(supports, repeat=self.columns)
        )
        flat = np.fromiter(chain.from_iterable(places), np.intp)
        return flat.reshape(len(supports) ** self.columns, -1)

    def _quadratic(self) -> tuple[Array, bool]:
        """Return the falls of a quadratic from zero to its minimum on each support, and True."""
        start = np.zeros(self.problem.dimension)
        H = self.f.hessian(start, np.ones(len(start), dtype=np.bool_))
        g = self.f.smooth(start)[1]
        every = self._supports
        parts = (every[at : at + _BATCH] for at in range(0, len(every), _BATCH))
        return np.concatenate([_falls(H, g, part) for part in parts]), True

    def _convex(self) -> tuple[Array, bool]:
        """Return the fall on each support, and whether all of the minima are certified."""
        f, start = self.f, np.zeros(self.problem.dimension)
        value, falls, sure = f.value(start), np.empty(len(self._supports)), True
        for number, support in enumerate(self._supports):
            mask = self._mask(support)
            w = polish(f, start, within=mask, enough=CERTIFIED)
            falls[number] = value - f.value(w)
            sure = sure and certified(f.residual(w, mask), f.residual(start, mask))
        return falls, sure

    def _mask(self, support: Indices) -> Mask:
        mask = np.zeros(self.problem.dimension, dtype=np.bool_)
        mask[support] = True
        return mask

    def _by_column(self, w: Array, count: int) -> Array:
        return hard_threshold_columns(w.reshape(self.problem.shape), count).ravel()

    def _threshold(self, w: Array) -> Array:
        """Take steps of iterative hard thresholding until the support stays the same."""
        unchanged = 0
        for _ in range(_STEPS):
            new = self._next(w)
            unchanged = unchanged + 1 if np.array_equal(new != 0, w != 0) else 0
            w = new
            if unchanged == _SETTLED:
                break
        return w

    def _pursue(self, w: Array) -> Array:
        """Alternate between minimising on the support and a step, while the value decreases."""
        best = self._on_support(w != 0)
        for _ in range(_PURSUIT):
            support = self._next(best) != 0
            if np.array_equal(support, best != 0):
                break
            new = self._on_support(support)
            if not self.f.value(new) < self.f.value(best):
                break
            best = new
        return best

    def _next(self, w: Array) -> Array:
        return self.cut(w - self.step * self.f.subgradient(w))

    def _on_support(self, support: Mask) -> Array:
        """Return the minimiser among the models with this support, shape (d,)."""
        return polish(self.f, np.zeros(len(support)), within=support)


def _falls(H: Array, g: Array, supports: Indices) -> Array:
    """Return the decrease of g.w + w.Hw/2 from 0 to its minimum on each support, shape (n,)."""
    slopes = g[supports]
    inverse = np.linalg.pinv(H[supports[:, :, None], supports[:, None, :]], hermitian=True)
    return np.asarray(0.5 * np.einsum("ni,nij,nj->n", slopes, inverse, slopes))
