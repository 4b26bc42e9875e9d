"""Maximum likelihood with lognormal noise, and intervals from the observed information.

The noise model: an observation is the prediction times exp(sigma Z), with independent standard
normal Z, and one sigma per kind of observation. So the logarithms of durations have normal errors,
and the likelihood is maximal where the sum of their squares, weighted by 1 / sigma^2, is minimal.
The sigmas are estimated as well, so parameters and sigmas are computed alternately.

Intervals contain a constant with a probability of 90 %: the estimate plus and minus its standard
error, times a quantile of Student's t. They are exact if the logarithm of a duration is linear in
the parameters, as for work, whose speeds are fitted as logarithms. Degrees of freedom are counted
by kind: three pings that alone determine a latency have two, however many messages there are. If
several kinds determine a constant, Satterthwaite's approximation (1946) combines them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from fedsim.core.ports import Array

LEVEL = 0.9
"""Probability of an interval, as for those of presets."""

FLOOR = 1e-6
"""Smallest sigma: the resolution of clocks in a recording without noise."""

_TURNS = 20  # most alternations of parameters and sigmas
_TRIES = 40  # most evaluations in one search of parameters
_LOOKS = 5  # evaluations from each start, to find the most promising one
_CHANGE = 1e-2  # relative change of the sigmas at which the turns end

Residuals = Callable[[Array], Array]
Jacobian = Callable[[Array], Array]


@dataclass(frozen=True)
class Maximum:
    """A maximum of the likelihood.

    Attributes:
        x: the parameters, shape (p,).
        errors: their standard errors, shape (p,); infinite if the data do not determine them.
        sigmas: the noise by kind, shape (kinds,).
        quantiles: the quantiles of Student's t that multiply standard errors, shape (p,).
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
        residuals: returns residuals of logarithms for parameters, shape (n,).
        jacobian: returns their derivatives, shape (n, p).
        starts: initial parameters, each of shape (p,); the most promising one is used.
        bounds: the smallest and the largest value of each parameter.
        kinds: the number of the kind of each observation, from 0, shape (n,).
        tolerance: the relative change of the sum of squares at which the search ends.
    """
    # The first search weighs all kinds alike; its residuals give the first sigmas.
    sigmas = np.ones(int(kinds.max()) + 1)
    search = partial(optimize.least_squares, bounds=bounds, x_scale="jac")
    x = starts[0]
    if len(starts) > 1:  # a few steps of each show the most promising one
        tried = [search(residuals, x, jac=jacobian, max_nfev=_LOOKS) for x in starts]
        x = min(tried, key=lambda trial: float(trial.cost)).x
    # Weights and parameters in turns (iteratively reweighted least squares).
    for _ in range(_TURNS):
        fitted = search(
            partial(_weigh, residuals, 1.0 / sigmas[kinds]),
            x,
            jac=partial(_weigh, jacobian, 1.0 / sigmas[kinds][:, None]),
            xtol=tolerance,
            ftol=tolerance,
            gtol=tolerance,
            max_nfev=_TRIES,
        )
        x, before = fitted.x, sigmas
        free = np.maximum(_free(np.asarray(fitted.jac), kinds), _LEAST)
        # Divided by degrees of freedom rather than counts, which removes the bias.
        sigmas = np.maximum(np.sqrt(np.bincount(kinds, residuals(x) ** 2) / free), FLOOR)
        if np.all(np.abs(sigmas / before - 1.0) < _CHANGE):
            break
    # Computed anew with the last sigmas. `fitted.jac` has those of the turn before.
    slopes = jacobian(x) / sigmas[kinds][:, None]
    # Covariance = (J^T J)^-1 with J in units of sigma, split by the kinds whose noise it stems
    # from.
    shares, unknown = _variances(slopes, kinds)
    variances = shares.sum(axis=1)
    by_kind = (shares**2 / np.maximum(_free(slopes, kinds), _LEAST)).sum(axis=1)
    # Satterthwaite: (sum of v_k)^2 / sum of (v_k^2 / f_k).
    free = np.divide(variances**2, by_kind, out=np.full(len(x), 1.0), where=by_kind > 0)
    errors = np.sqrt(variances)
    # The pseudo-inverse gives them a small variance, as if they were known to be 0 in the
    # directions without effect.
    errors[list(unknown)] = np.inf
    quantiles = stats.t.ppf((1.0 + LEVEL) / 2.0, np.maximum(free, _LEAST))
    return Maximum(x, errors, sigmas, quantiles, free, unknown)


def _weigh(law: Callable[[Array], Array], weights: Array, x: Array) -> Array:
    return weights * law(x)


_LEAST = 0.05  # least degrees of freedom, so that no sigma is divided by 0
_RANK = 1e-7  # singular values below this share of the largest are zero
_PART = 0.05  # least component of a parameter in a direction without effect, for it to be named


def _variances(slopes: Array, kinds: NDArray[np.intp]) -> tuple[Array, tuple[int, ...]]:
    """Return the variance of each parameter by kind, and parameters that are not determined."""
    sizes = np.linalg.norm(slopes, axis=0)
    # Columns are normalised first, so that the rank does not depend on the units of parameters.
    scale = np.where(sizes > 0, sizes, 1.0)
    basis, values, directions = np.linalg.svd(slopes / scale, full_matrices=False)
    rank = values > _RANK * max(values.max(initial=0.0), 1e-300)
    # Directions without effect: parameters in them are not determined.
    null = directions[~rank] if len(values) == len(scale) else directions[:0]
    unknown = np.flatnonzero((np.abs(null) > _PART).any(axis=0) | (sizes == 0))
    inverse = np.where(rank, 1.0 / np.where(rank, values, 1.0), 0.0)
    # The pseudo-inverse of the slopes: entry (p, n) is the change of parameter p by a unit of noise
    # in observation n. So the sum of squares over the observations of a kind is the variance that
    # stems from that kind.
    effects = (directions.T * inverse) @ basis.T / scale[:, None]
    shares = np.zeros((len(scale), int(kinds.max()) + 1))
    np.add.at(shares.T, kinds, effects.T**2)
    return shares, tuple(unknown.tolist())


def _free(slopes: Array, kinds: NDArray[np.intp]) -> Array:
    """Return the degrees of freedom that the parameters leave to each kind."""
    sizes = np.linalg.norm(slopes, axis=0)
    basis, values, _ = np.linalg.svd(slopes / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    basis = basis[:, values > _RANK * max(values.max(initial=0.0), 1e-300)]
    # Leverage: the share of each observation that the fit absorbs. Summed by kind.
    remaining: Array = 1.0 - (basis**2).sum(axis=1)
    return np.bincount(kinds, remaining).astype(float)


_WIDE = 100.0  # largest squared sigma for which means are informative


@dataclass(frozen=True)
class Speed:
    """The speed of work and its spread, by maximum likelihood.

    Attributes:
        speed: the amount of work per second: value, and both ends of the interval.
        sigma: the standard deviation of the logarithm of a task's time, likewise.
    """

    speed: tuple[float, float, float]
    sigma: tuple[float, float, float]


def fit_speed(amounts: Array, seconds: Array, mean_of: int = 1) -> Speed:
    """Return the speed of tasks with known amounts and times, with lognormal noise.

    Means over several tasks are assumed to be lognormal, too, with the mean and the variance of
    such means (Fenton 1960).

    Args:
        amounts: the amount of each task, above 0; at least two tasks.
        seconds: the time of each task, above 0.
        mean_of: the number of tasks of which each time is the mean.

    Example:
        >>> fitted = fit_speed(np.array([1e9, 1e9, 4e9]), np.array([0.9, 1.1, 4.0]))
        >>> round(float(fitted.speed[0]) / 1e9, 4)
        1.0034
    """
    logs = np.log(amounts / seconds)
    count, mean, spread = len(logs), float(logs.mean()), float(logs.std(ddof=1))
    # Below the floor, the spread is rounding.
    spread = spread if spread > FLOOR else 0.0
    # The floor keeps an interval of some width, also if all tasks have taken the same time.
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * max(spread, FLOOR) / np.sqrt(count)
    low, high = (
        spread * np.sqrt((count - 1) / float(stats.chi2.ppf(level, count - 1)))
        for level in ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    )
    squares = np.array([spread, low, high]) ** 2  # variances of the logarithms of means
    task_squares = np.log1p(
        mean_of * np.expm1(np.minimum(squares, _WIDE))
    )  # variances for single tasks
    # Fenton: the logarithm of a mean of lognormal times exceeds that of their median by half the
    # difference of the two variances.
    value, least, most = (mean + (task_squares - squares) / 2.0).tolist()
    # Two errors: that of the mean logarithm, and that of the spread, which moves Fenton's shift.
    # They are independent for normal samples, so their squares add up.
    ends = value, value - np.hypot(half, value - least), value + np.hypot(half, most - value)
    speeds = tuple(float(np.exp(end)) for end in ends)
    return Speed(speeds, tuple(np.sqrt(task_squares).tolist()))  # type: ignore[arg-type]  # three
