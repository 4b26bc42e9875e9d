"""Saltelli's design, and the Sobol' indices that are estimated from it.

Saltelli et al., "Variance based sensitivity analysis of model output", Comp. Phys. Comm. 2010: N
points A, N further points B, and for each of k constants the points A with that constant from B.
First-order indices use the estimator of that paper, total indices that of Jansen (1999), as
implemented in SALib.

A first-order index is the share of the variance that one constant explains alone; a total index
includes its interactions with others. First-order indices sum to at most 1, total ones to at least
1. Estimates can violate both, and can even be negative.

A and B serve twice: all their points are sampled worlds, from which probabilities are estimated.
Mixed points exist for a part of A only (`_SHARE`), since each one costs k further worlds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from SALib.analyze import sobol as analysis
from SALib.sample import sobol as sampling

from fedsim.core.ports import Array

FEWEST = 256
"""Least number of base points N for indices. From this number on, the bootstrap's 90 % intervals
contain the indices of a linear function, of Ishigami's and of Sobol's g-function in nine of ten
samples; with 64 points, all indices of a function were inside in only 47 to 75 % of the samples."""

_SHARE = 4  # one in _SHARE points of A has k mixed worlds
_RESAMPLES = 200  # bootstrap samples of an interval
_ROUNDING = 1e-12  # standard deviations of logarithms up to this are rounding
_NAMES = {"first": "S1", "first_error": "S1_conf", "total": "ST", "total_error": "ST_conf"}


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

    @property
    def _problem(self) -> Mapping[str, Any]:
        count = len(self.names)
        return {"num_vars": count, "names": list(self.names), "bounds": [[0.0, 1.0]] * count}

    @cached_property
    def shares(self) -> tuple[Array, Array]:
        """A above B, shape (2 points, k), and the mixed points, shape (N k, k), point by point."""
        count = len(self.names)
        sampled = sampling.sample(
            self._problem, self.points, calc_second_order=False, seed=self.seed
        ).reshape(self.points, count + 2, count)
        # SALib returns for each point A, its k mixed points, and B.
        return np.vstack([sampled[:, 0], sampled[:, -1]]), sampled[: self.base, 1:-1].reshape(
            -1, count
        )

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
        values = np.empty((base, count + 2))
        # SALib expects, for each base point, A, the k mixed points, and B, in this order.
        values[:, 0], values[:, -1] = drawn[:base], drawn[self.points :][:base]
        values[:, 1:-1] = mixed.reshape(base, count)
        if not np.isfinite(values).all():
            return {name: np.full(count, np.nan) for name in _NAMES}
        # Indices divide by the variance.
        if values.std() <= _ROUNDING:
            return {name: np.zeros(count) for name in _NAMES}
        estimates = analysis.analyze(
            self._problem,
            values.ravel(),
            calc_second_order=False,
            num_resamples=_RESAMPLES,
            conf_level=0.9,
            seed=self.seed,
        )
        return {name: np.asarray(estimates[key]) for name, key in _NAMES.items()}
