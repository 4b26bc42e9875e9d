"""Saltelli's design and the Sobol' indices that are estimated from it, in one class.

Saltelli et al., "Variance based sensitivity analysis of model output", Comp. Phys. Comm. 2010:
N points A, N others B, and for each of k constants the points A with that one from B. First
indices are by the estimator of that paper, total ones by Jansen's (1999), as SALib has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from SALib.analyze import sobol as analysis
from SALib.sample import sobol as sampling

from fedsim.ports import Array

FEWEST = 256
"""Base points from which indices are estimated. The bootstrap's 90 % intervals hold the indices of
a linear function, of Ishigami's and of Sobol's g-function in nine of ten draws from so many on; of
64 points, which once were the default, all indices of a function lay within in 47 to 75 % of the
draws."""

_SHARE = 4  # of the points, for one of which there are mixed worlds: k worlds each
_RESAMPLES = 200
_ROUNDING = 1e-12
_NAMES = {"first": "S1", "first_error": "S1_conf", "total": "ST", "total_error": "ST_conf"}


@dataclass(frozen=True)
class Saltelli:
    """Points in the unit cube, and indices of what is known at them.

    Attributes:
        names: of the constants, k of them.
        points: how many of A, and of B; a power of two.
        seed: of the drawing.
    """

    names: tuple[str, ...]
    points: int
    seed: int

    @classmethod
    def enough(cls, drawn: int) -> bool:
        """Return whether so many drawn worlds, A and B together, are enough for indices."""
        return drawn // 2 // _SHARE >= FEWEST

    @property
    def base(self) -> int:
        """N, of how many points there are mixed ones."""
        return self.points // _SHARE

    @property
    def mixed(self) -> int:
        """How many points are mixed of A and B."""
        return self.base * len(self.names)

    @property
    def _problem(self) -> Mapping[str, Any]:
        count = len(self.names)
        return {"num_vars": count, "names": list(self.names), "bounds": [[0.0, 1.0]] * count}

    @cached_property
    def shares(self) -> tuple[Array, Array]:
        """A above B, shape (2 points, k), and the mixed points, shape (N k, k), by point."""
        count = len(self.names)
        made = sampling.sample(
            self._problem, self.points, calc_second_order=False, seed=self.seed
        ).reshape(self.points, count + 2, count)
        return np.vstack([made[:, 0], made[:, -1]]), made[: self.base, 1:-1].reshape(-1, count)

    def indices(self, drawn: Array, mixed: Array) -> Mapping[str, Array]:
        """Return indices with their errors, each of shape (k,).

        Args:
            drawn: of A above B, shape (2 points,).
            mixed: of the mixed points, shape (N k,).

        Returns:
            first, total; first_error and total_error, half of their 90 % intervals by bootstrap.
            0 where nothing varies, NaN where some value is not finite.
        """
        count, base = len(self.names), self.base
        values = np.empty((base, count + 2))
        values[:, 0], values[:, -1] = drawn[:base], drawn[self.points :][:base]
        values[:, 1:-1] = mixed.reshape(base, count)
        if not np.isfinite(values).all():
            return {name: np.full(count, np.nan) for name in _NAMES}
        if values.std() <= _ROUNDING:
            return {name: np.zeros(count) for name in _NAMES}
        found = analysis.analyze(
            self._problem,
            values.ravel(),
            calc_second_order=False,
            num_resamples=_RESAMPLES,
            conf_level=0.9,
            seed=self.seed,
        )
        return {name: np.asarray(found[key]) for name, key in _NAMES.items()}
