"""Noise: Gaussian for real numbers, by itself or in a tree; Skellam and discrete Gaussian integers.

Trees of noise are those of Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and Private
(Deep) Learning without Sampling or Shuffling", ICML 2021 (DP-FTRL): the leaves are the terms of a
running sum, each node stands for the sum of its leaves and has noise of its own, and the running
sum of t terms is that of one node per binary digit 1 of t.
"""

from math import pi

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


def discrete_gaussian(
    rng: np.random.Generator, shape: tuple[int, ...], deviation: float
) -> NDArray[np.int64]:
    """Return independent discrete Gaussian integers, with P(x) proportional to exp(-x^2/(2 s^2)).

    Discrete Laplace integers of scale t are kept with the probability exp(-(|x| - s^2/t)^2/(2 s^2))
    (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
    algorithm 3), here in floating point.

    Args:
        rng: the stream.
        shape: the shape.
        deviation: s, nearly the standard deviation; 0 for zeros.
    """
    drawn = np.zeros(shape, np.int64)
    if not deviation:
        return drawn
    scale, missing = int(deviation) + 1, np.ones(shape, dtype=bool)
    stop = -np.expm1(-1 / scale)
    while left := int(missing.sum()):
        tried = rng.geometric(stop, left) - rng.geometric(stop, left)
        distance = (np.abs(tried) - deviation**2 / scale) / deviation
        kept = rng.random(left) < np.exp(-(distance**2) / 2)
        places = np.flatnonzero(missing)[kept]
        drawn.flat[places] = tried[kept]
        missing.flat[places] = False
    return drawn


def tau(count: int, deviation: float) -> float:
    """Return how far a sum of discrete Gaussians is from one, as a bound on log ratios.

    Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with
    Secure Aggregation", ICML 2021, theorem 1.

    Args:
        count: n, the number of terms.
        deviation: s of each term.
    """
    terms = np.arange(1, count)
    return float(10 * np.exp(-2 * (pi * deviation) ** 2 * terms / (terms + 1)).sum())


class Tree:
    """The nodes that stand for the terms of a running sum so far, largest first.

    Args:
        most: the number of terms after which a new tree begins.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._nodes: list[tuple[int, Array]] = []

    def begin(self) -> Array | float:
        """Begin a term; return the sum of the nodes that the node which it completes replaces."""
        if self._count == self._most:
            self._nodes.clear()
            self._count = 0
        self._count += 1
        replaced: Array | float = 0.0
        while self._nodes and self._nodes[-1][0] < self._size:
            replaced = replaced + self._nodes.pop()[1]
        return replaced

    def end(self, value: Array) -> None:
        """End the term with the value of the node that it completes."""
        self._nodes.append((self._size, value))

    @property
    def _size(self) -> int:
        """The number of leaves of the node that the last term completes.

        It is the largest power of two that divides the number of terms.
        """
        return self._count & -self._count

    @staticmethod
    def squares(terms: int, most: int, *, every: bool) -> int:
        """Return the sum of a client's squared contributions to all nodes.

        Args:
            terms: the number of terms.
            most: the number of terms after which a new tree begins.
            every: whether it contributes 1 to each term; otherwise to the first one of each tree.
        """
        trees = [min(most, terms - begun) for begun in range(0, terms, most)]
        if not every:
            return sum(map(int.bit_length, trees))
        return sum((term & -term) ** 2 for count in trees for term in range(1, count + 1))
