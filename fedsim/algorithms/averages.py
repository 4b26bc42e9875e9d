"""The weighted mean of models, which theorems are about where they are not about the last one."""

import numpy as np

from fedsim.ports import Array


class Average:
    """The weighted mean of models, as they come."""

    __slots__ = ("_mean", "_weight")

    def __init__(self, like: Array) -> None:
        self._mean, self._weight = np.zeros_like(like), 0.0

    def add(self, w: Array, weight: float) -> None:
        """Add a model."""
        if weight > 0:
            self._weight += weight
            self._mean = self._mean + (weight / self._weight) * (w - self._mean)

    def or_else(self, w: Array) -> Array:
        """Return the mean, or `w` where nothing has any weight."""
        return self._mean if self._weight else w
