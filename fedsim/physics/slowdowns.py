"""Slowdowns: by what factor a task takes longer than its nominal time."""

from dataclasses import dataclass
from math import inf

import numpy as np


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A lognormal factor with median 1: tasks are as often faster as they are slower.

    Attributes:
        sigma: standard deviation of the factor's logarithm.

    Raises:
        ValueError: sigma is negative or not finite.
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < inf:
            raise ValueError(f"sigma is finite and at least 0; seen {self.sigma}")

    @property
    def least(self) -> float:
        """What no factor is below."""
        return 0.0 if self.sigma else 1.0

    def draw(self, rng: np.random.Generator) -> float:
        """Return the factor of one task."""
        return float(rng.lognormal(0.0, self.sigma))


@dataclass(frozen=True, slots=True)
class ShiftedExponential:
    """A factor a + Exp(1)/mu: a task of nominal time D takes at least a D.

    So P(T <= t) = 1 - exp(-(mu/D) (t - a D)) for t >= a D: Lee et al., "Speeding Up
    Distributed Machine Learning Using Codes", IEEE Trans. Inf. Theory 2018.

    Attributes:
        shift: a.
        rate: mu.

    Raises:
        ValueError: the shift is negative or not finite, or the rate is not above 0.
    """

    shift: float
    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.shift < inf:
            raise ValueError(f"shift is finite and at least 0; seen {self.shift}")
        if not self.rate > 0:
            raise ValueError(f"rate is above 0; seen {self.rate}")

    @property
    def least(self) -> float:
        """What no factor is below."""
        return self.shift

    def draw(self, rng: np.random.Generator) -> float:
        """Return the factor of one task."""
        return self.shift + float(rng.standard_exponential()) / self.rate
