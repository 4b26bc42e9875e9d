"""The best value known of a sparse model: least squares and classifiers with few weights.

The least value over all supports is not computable (Natarajan, SIAM J. Comput. 1995), so the result
is the best of a few local searches, and labelled so.
"""

from functools import cached_property, partial

import numpy as np

from fedsim.ports import Array
from fedsim.problems.problem import Problem
from fedsim.problems.projections import hard_threshold, hard_threshold_columns
from fedsim.problems.references.composite import CompositeForm, Mask, gradient_step, polish
from fedsim.problems.references.convex import OptimumTask, Reference

_STEPS = 300
"""Steps of iterative hard thresholding, at most."""

_SETTLED = 20
"""It ends when the support has not changed in so many steps."""

_PURSUIT = 50
"""Rounds of hard thresholding pursuit, at most."""


def sparse_optimum(problem: Problem, count: int, *, columns: bool = False) -> Reference | None:
    """Return the best model known with at most `count` weights, from the cache if it is there.

    From zero, and from the planted truth where there is one, iterative hard thresholding
    with full gradients and steps 1/L finds a support, hard thresholding pursuit betters it,
    and the weights on the support are those that minimise the objective there.

    Source: Blumensath, Davies, Appl. Comput. Harmon. Anal. 2009; Foucart, SIAM J. Numer.
    Anal. 2011.

    Args:
        problem: with a convex loss, and a penalty out of none, l1, l2 and elastic net.
        count: the number of weights that may differ from zero.
        columns: whether that is the number in each column of a matrix model, as for softmax.

    Returns:
        The reference, its method beginning with "best value known"; its residual is of the
        weights on the support. None for any other problem.

    Raises:
        ValueError: the count is negative.
    """
    f = CompositeForm.of(problem)
    if f is None:
        return None
    search = _SupportSearch(f, count, columns=columns)
    name = f"{problem.fingerprint}-{count}{'-columns' if columns else ''}"

    def residual(w: Array) -> float:
        return f.residual(w, w != 0)

    return OptimumTask(name, problem.dimension, f.value, residual, search.best).result()


class _SupportSearch:
    """The local searches for one sparse model."""

    def __init__(self, f: CompositeForm, count: int, *, columns: bool) -> None:
        self.f, self.problem = f, f.problem
        self.cut = partial(self._by_column if columns else hard_threshold, count=count)

    @cached_property
    def step(self) -> float:
        """The step 1/L; computed only if the cache has no result."""
        return gradient_step(self.problem.smoothness() + self.f.l2)

    def best(self) -> tuple[Array, str]:
        """Return the best model found, shape (d,), and the method."""
        starts = [np.zeros(self.problem.dimension)]
        method = "best value known, by iterative hard thresholding from zero"
        truth = self.problem.truth
        if truth is not None and truth.shape == starts[0].shape:
            starts.append(self.cut(truth))
            method += " and from the truth"
        found = [self._pursue(self._threshold(start)) for start in starts]
        return min(found, key=self.f.value), f"{method}, then pursuit on the support"

    def _by_column(self, w: Array, count: int) -> Array:
        return hard_threshold_columns(w.reshape(self.problem.shape), count).ravel()

    def _threshold(self, w: Array) -> Array:
        """Take steps of iterative hard thresholding until the support stays."""
        unchanged = 0
        for _ in range(_STEPS):
            new = self._next(w)
            unchanged = unchanged + 1 if np.array_equal(new != 0, w != 0) else 0
            w = new
            if unchanged == _SETTLED:
                break
        return w

    def _pursue(self, w: Array) -> Array:
        """Minimise on the support and step to the next support, while the value decreases."""
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
