"""Saltelli's design, and the Sobol' indices that are estimated from it.

Saltelli et al., "Variance based sensitivity analysis of model output", Comp. Phys. Comm. 2010: N
points A, N further points B, and for each of k constants the points A with that constant from B.
First-order indices use the estimator of that paper, total indices that of Jansen (1999).

A first-order index is the share of the variance that one constant explains alone; a total index
includes its interactions with others. First-order indices sum to at most 1, total ones to at least
1. Estimates can violate both, and can even be negative.

A and B serve twice: all their points are sampled worlds, from which probabilities are estimated.
Mixed points exist for a part of A only (`_SHARE`), since each one costs k further worlds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from fedsim.core.ports import Array

FEWEST = 256
"""Least number of base points N for indices. From this number on, the bootstrap's 90 % intervals
contain the indices of a linear function, of Ishigami's and of Sobol's g-function in nine of ten
samples; with 64 points, all indices of a function were inside in only 47 to 75 % of the samples."""

_SHARE = 4  # one in _SHARE points of A has k mixed worlds
_RESAMPLES = 200  # bootstrap samples of an interval
_ROUNDING = 1e-12  # standard deviations of logarithms up to this are rounding
_WIDTH = float(ndtri(0.95))  # half a 90 % interval, in standard deviations
_NAMES = "first", "first_error", "total", "total_error"


@dataclass(frozen=True)
class Saltelli:
    """Points in the unit cube, and indices of a quantity that is known at them.

    Attributes:
        names: the names of the k constants.
        points: the number of points in A, and in B; a power of two.
        seed: the seed of the sampling.
    """

    names: tuple[str, ...]
    points: int
    seed: int

    @classmethod
    def enough(cls, drawn: int) -> bool:
        """Return whether a number of sampled worlds, A and B together, is enough for indices."""
        return drawn // 2 // _SHARE >= FEWEST

    @property
    def base(self) -> int:
        """N, the number of points of A that have mixed ones."""
        return self.points // _SHARE

    @property
    def mixed(self) -> int:
        """The number of mixed points."""
        return self.base * len(self.names)

    @cached_property
    def shares(self) -> tuple[Array, Array]:
        """A above B, shape (2 points, k), and the mixed points, shape (N k, k), point by point."""
        count = len(self.names)
        # A and B are halves of the coordinates of one sequence, so that they are independent.
        # The older `seed` in place of `rng`, which would sample other worlds than published ones.
        sequence = qmc.Sobol(2 * count, scramble=True, seed=self.seed).random(self.points)
        one, other = sequence[:, :count], sequence[:, count:]
        swapped = np.eye(count, dtype=bool)  # mixed point i of a base point has constant i from B
        mixed = np.where(swapped, other[: self.base, None], one[: self.base, None])
        return np.vstack([one, other]), mixed.reshape(-1, count)

    def indices(self, drawn: Array, mixed: Array) -> Mapping[str, Array]:
        """Return indices with their errors, each of shape (k,).

        Args:
            drawn: the quantity at A, then at B, shape (2 points,).
            mixed: the quantity at the mixed points, shape (N k,).

        Returns:
            first, total; first_error and total_error, half widths of their 90 % intervals by
            bootstrap. All are 0 if the quantity is constant, NaN if some value is not finite.
        """
        count, base = len(self.names), self.base
        one, other = drawn[:base], drawn[self.points :][:base]
        values = np.column_stack([one, mixed.reshape(base, count), other])
        if not np.isfinite(values).all():
            return {name: np.full(count, np.nan) for name in _NAMES}
        # Indices divide by the variance.
        if values.std() <= _ROUNDING:
            return {name: np.zeros(count) for name in _NAMES}
        # First-order estimates are biased unless the values are centred.
        values = (values - values.mean()) / values.std()
        first, total = _estimates(values)
        picks = np.random.default_rng(self.seed).integers(base, size=(base, _RESAMPLES))
        errors = _WIDTH * np.std([_estimates(values[pick]) for pick in picks.T], axis=0, ddof=1)
        return dict(zip(_NAMES, (first, errors[0], total, errors[1]), strict=True))


def _estimates(values: Array) -> tuple[Array, Array]:
    """Return first-order and total indices, each of shape (k,).

    Args:
        values: the quantity at A, at the k mixed points, and at B, shape (N, k + 2).
    """
    one, mixed, other = values[:, :1], values[:, 1:-1], values[:, -1:]
    variance = np.var([one, other])
    if not variance:  # a resample may hit equal values only
        return np.zeros(mixed.shape[1]), np.zeros(mixed.shape[1])
    first = (other * (mixed - one)).mean(axis=0)
    return first / variance, ((one - mixed) ** 2).mean(axis=0) / 2 / variance
