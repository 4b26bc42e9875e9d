"""Maximum likelihood with lognormal noise, and intervals from the observed information.

The noise model: an observation is what the model predicts times exp(sigma Z), Z standard normal,
independent, with one sigma for each kind of observation. So the logarithms of durations have normal
errors, and the likelihood is greatest where the weighted sum of their squares is least, with
weights 1 / sigma^2 that are themselves those of greatest likelihood: both are found in turns.

Intervals contain a constant with a probability of 90 %: estimate plus and minus its standard error,
from the inverse of the information, times the quantile of Student's t. That is exact where the
logarithm of a duration is linear in the parameters, as for work, whose speeds are fitted in logs.
Degrees of freedom are counted by kind: three pings that alone determine a latency have two, however
many messages there are; a constant that several kinds determine has those of Satterthwaite (1946).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from fedsim.ports import Array

LEVEL = 0.9
"""The probability of an interval, as of those of presets."""

FLOOR = 1e-6
"""The smallest sigma: what clocks and rounding leave of a noise-free recording."""

_TURNS = 20
_TRIES = 40
_LOOKS = 5
_CHANGE = 1e-2  # of every sigma, below which the turns end

Residuals = Callable[[Array], Array]
Jacobian = Callable[[Array], Array]


@dataclass(frozen=True)
class Maximum:
    """A maximum of the likelihood.

    Attributes:
        x: the parameters, shape (p,).
        errors: their standard errors, shape (p,); infinite if the data do not determine them.
        sigmas: of the noise, by kind, shape (kinds,).
        quantiles: of Student's t, by which standard errors are multiplied, shape (p,).
        free: the degrees of freedom of each standard error, shape (p,).
        unknown: the parameters that only have a joint effect, so that none of them is determined.
    """

    x: Array
    errors: Array
    sigmas: Array
    quantiles: Array
    free: Array
    unknown: tuple[int, ...]


def maximise(
    residuals: Residuals,
    jacobian: Jacobian,
    starts: Sequence[Array],
    bounds: tuple[Array, Array],
    kinds: NDArray[np.intp],
    tolerance: float = 1e-10,
) -> Maximum:
    """Return the parameters of greatest likelihood.

    Args:
        residuals: of logarithms, by the parameters, shape (n,).
        jacobian: their derivatives, shape (n, p).
        starts: parameters to start from, each of shape (p,); the one that soon fits best is taken.
        bounds: the smallest and the largest value of each.
        kinds: the number of the kind of each observation, from 0, shape (n,).
        tolerance: a relative change of the sum of squares, below which the search ends.
    """
    sigmas = np.ones(int(kinds.max()) + 1)
    search = partial(optimize.least_squares, bounds=bounds, x_scale="jac")
    x = starts[0]
    if len(starts) > 1:  # a few steps show which of them leads to the lowest place
        tried = [search(residuals, x, jac=jacobian, max_nfev=_LOOKS) for x in starts]
        x = min(tried, key=lambda each: float(each.cost)).x
    for _ in range(_TURNS):
        found = search(
            partial(_weigh, residuals, 1.0 / sigmas[kinds]),
            x,
            jac=partial(_weigh, jacobian, 1.0 / sigmas[kinds][:, None]),
            xtol=tolerance,
            ftol=tolerance,
            gtol=tolerance,
            max_nfev=_TRIES,
        )
        x, before = found.x, sigmas
        free = np.maximum(_free(np.asarray(found.jac), kinds), _LEAST)
        sigmas = np.maximum(np.sqrt(np.bincount(kinds, residuals(x) ** 2) / free), FLOOR)
        if np.all(np.abs(sigmas / before - 1.0) < _CHANGE):
            break
    slopes = jacobian(x) / sigmas[kinds][:, None]
    shares, unknown = _variances(slopes, kinds)
    variances = shares.sum(axis=1)
    by_kind = (shares**2 / np.maximum(_free(slopes, kinds), _LEAST)).sum(axis=1)
    free = np.divide(variances**2, by_kind, out=np.full(len(x), 1.0), where=by_kind > 0)
    errors = np.sqrt(variances)
    errors[list(unknown)] = np.inf
    quantiles = stats.t.ppf((1.0 + LEVEL) / 2.0, np.maximum(free, _LEAST))
    return Maximum(x, errors, sigmas, quantiles, free, unknown)


def _weigh(law: Callable[[Array], Array], weights: Array, x: Array) -> Array:
    return weights * law(x)


_LEAST = 0.05  # degrees of freedom, for a sigma where parameters leave none
_RANK = 1e-7  # singular values below this share of the largest are zero
_PART = 0.05  # of a direction without effect that a parameter has to have, to be named


def _variances(slopes: Array, kinds: NDArray[np.intp]) -> tuple[Array, tuple[int, ...]]:
    """Return the variance of each parameter by kind, and what the data do not determine."""
    sizes = np.linalg.norm(slopes, axis=0)
    scale = np.where(sizes > 0, sizes, 1.0)
    left, values, ways = np.linalg.svd(slopes / scale, full_matrices=False)
    rank = values > _RANK * max(values.max(initial=0.0), 1e-300)
    null = ways[~rank] if len(values) == len(scale) else ways[:0]
    unknown = np.flatnonzero((np.abs(null) > _PART).any(axis=0) | (sizes == 0))
    inverse = np.where(rank, 1.0 / np.where(rank, values, 1.0), 0.0)
    effects = (ways.T * inverse) @ left.T / scale[:, None]
    shares = np.zeros((len(scale), int(kinds.max()) + 1))
    np.add.at(shares.T, kinds, effects.T**2)
    return shares, tuple(unknown.tolist())


def _free(slopes: Array, kinds: NDArray[np.intp]) -> Array:
    """Return the degrees of freedom that the parameters leave of each kind."""
    sizes = np.linalg.norm(slopes, axis=0)
    left, values, _ = np.linalg.svd(slopes / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    left = left[:, values > _RANK * max(values.max(initial=0.0), 1e-300)]
    each: Array = 1.0 - (left**2).sum(axis=1)
    return np.bincount(kinds, each).astype(float)


_WIDE = 100.0  # a square of a sigma beyond which means say nothing


@dataclass(frozen=True)
class Speed:
    """The speed of work, and its spread, by maximum likelihood.

    Attributes:
        speed: amounts of work a second: value, and both ends of the interval.
        sigma: the standard deviation of the logarithm of a task's time, likewise.
    """

    speed: tuple[float, float, float]
    sigma: tuple[float, float, float]


def fit_speed(amounts: Array, seconds: Array, mean_of: int = 1) -> Speed:
    """Return the speed at which tasks of known amounts took known times, each times exp(sigma Z).

    Means over several tasks are taken for lognormal, too, with the mean and the variance that such
    means have (Fenton 1960).

    Args:
        amounts: of each task, above 0, two tasks or more.
        seconds: that it took, above 0.
        mean_of: the number of tasks of which each is the mean.

    Example:
        >>> fitted = fit_speed(np.array([1e9, 1e9, 4e9]), np.array([0.9, 1.1, 4.0]))
        >>> round(float(fitted.speed[0]) / 1e9, 4)
        1.0034
    """
    logs = np.log(amounts / seconds)
    count, mean, spread = len(logs), float(logs.mean()), float(logs.std(ddof=1))
    spread = spread if spread > FLOOR else 0.0
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * max(spread, FLOOR) / np.sqrt(count)
    low, high = (
        spread * np.sqrt((count - 1) / float(stats.chi2.ppf(each, count - 1)))
        for each in ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    )
    squares = np.array([spread, low, high]) ** 2  # of the logarithms of the means
    own = np.log1p(mean_of * np.expm1(np.minimum(squares, _WIDE)))  # of the logarithms of tasks
    value, least, most = (mean + (own - squares) / 2.0).tolist()
    ends = value, value - np.hypot(half, value - least), value + np.hypot(half, most - value)
    speeds = tuple(float(np.exp(end)) for end in ends)
    return Speed(speeds, tuple(np.sqrt(own).tolist()))  # type: ignore[arg-type]  # three
