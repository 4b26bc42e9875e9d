"""Noise: Gaussian for real numbers, and Skellam for integers, whose sums are Skellam again."""

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], deviation: float) -> Array:
    """Return independent normal numbers with mean 0 and a standard deviation."""
    return np.asarray(deviation * rng.standard_normal(shape))


def skellam(
    rng: np.random.Generator, shape: tuple[int, ...], deviation: float
) -> NDArray[np.int64]:
    """Return independent Skellam integers with mean 0 and a standard deviation.

    Each is the difference of two Poisson numbers with the mean v/2, v the variance. The sum of such
    numbers is one with the sum of the variances: Agarwal, Kairouz, Liu, "The Skellam Mechanism for
    Differentially Private Federated Learning", NeurIPS 2021.
    """
    mean = deviation**2 / 2
    return rng.poisson(mean, shape) - rng.poisson(mean, shape)
