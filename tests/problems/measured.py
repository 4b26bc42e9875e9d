"""Problems that the measures are tested on."""

from itertools import pairwise

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems import Loss, Measure, Problem, Samples, Weighting


def parted(X: Array, y: Array, parts: int = 3, truth: Array | None = None) -> list[Samples]:
    """Deal rows out to clients of unlike sizes."""
    ends = np.cumsum(np.arange(1, parts + 1)) * len(y) // sum(range(1, parts + 1))
    edges = pairwise([0, *ends[:-1], len(y)])
    return [Samples(X[start:end], y[start:end], None, truth) for start, end in edges]


def gaussian(
    loss: Loss,
    truth: Array | None = None,
    features: int = 12,
    test: Samples | None = None,
    weighting: Weighting | None = None,
) -> Problem:
    """Return a problem on Gaussian features with labels -1 and +1."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, features))
    y = np.where(rng.random(60) < 0.4, 1.0, -1.0)
    return Problem.of(loss, parted(X, y, truth=truth), test=test, weighting=weighting)


def seen(measure: Measure, problem: Problem, w: Array) -> dict[str, float]:
    return dict(measure.bind(problem)(w))
