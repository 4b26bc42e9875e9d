"""The prox of a norm in a ball around any centre: optima that are planted, and other solvers."""

from collections.abc import Callable
from typing import NamedTuple
from warnings import catch_warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, fsolve

from fedsim.core.ports import Array
from fedsim.problems import Regulariser
from fedsim.problems.penalties import L1, GroupL2, Nuclear
from fedsim.problems.penalties.bounded import LEG, LEGS, ROUNDING
from tests.tiers import every, examples

SEEDS = st.integers(0, 2**31)
Kind = type[L1] | type[GroupL2] | type[Nuclear]

NORMS: tuple[Kind, ...] = (L1, GroupL2, Nuclear)
SHAPE = (7, 4)

AGREE = 10 * ROUNDING
"""To what the points agree, relative to the data, at which the slowest iterations end."""

Rng = np.random.Generator


def entries(W: Array, rng: Rng) -> Array:
    """A subgradient of the l1 norm."""
    return np.where(W != 0, np.sign(W), rng.uniform(-1, 1, W.shape))


def rows(W: Array, rng: Rng) -> Array:
    """One of the sum of sqrt(columns) |row|."""
    norms = np.linalg.norm(W, axis=1, keepdims=True)
    free = rng.standard_normal(W.shape)
    free *= rng.uniform(0, 1, (len(W), 1)) / np.linalg.norm(free, axis=1, keepdims=True)
    unit = np.divide(W, norms, out=free, where=norms > 0)
    return np.asarray(np.sqrt(W.shape[1]) * unit)


def singular(W: Array, rng: Rng) -> Array:
    """One of the sum of singular values."""
    U, s, Vt = np.linalg.svd(W)
    rank = int((s > 1e-10).sum())
    free = rng.standard_normal((len(W) - rank, W.shape[1] - rank))
    if free.size:
        free *= rng.uniform(0, 1) / np.linalg.norm(free, 2)
    return np.asarray(U[:, :rank] @ Vt[:rank] + U[:, rank:] @ free @ Vt[rank:])


SUBGRADIENTS: dict[Kind, Callable[[Array, Rng], Array]] = {
    L1: entries,
    GroupL2: rows,
    Nuclear: singular,
}


class Planted(NamedTuple):
    """Data whose minimiser is known."""

    optimum: Array
    w: Array
    centre: Array
    radius: float


def planted(norm: Kind, seed: int, weight: float, multiplier: float) -> Planted:
    """Return w = V + weight U + multiplier Z, U and Z subgradients at V and at V - centre.

    These are the conditions of optimality of V, which are sufficient for a convex problem.
    """
    rng = np.random.default_rng(seed)
    if norm is Nuclear:
        one, two = (rng.integers(1, min(SHAPE) + 1) for _ in range(2))
        V = rng.standard_normal((SHAPE[0], one)) @ rng.standard_normal((one, SHAPE[1]))
        D = rng.standard_normal((SHAPE[0], two)) @ rng.standard_normal((two, SHAPE[1]))
    else:
        masks = (SHAPE if norm is L1 else (SHAPE[0], 1)) + (2,)
        kept = rng.random(masks) < 0.6
        kept[0] = True
        V, D = (rng.standard_normal(SHAPE) * kept[..., j] for j in range(2))
    U, Z = SUBGRADIENTS[norm](V, rng), SUBGRADIENTS[norm](D, rng)
    radius = norm(weight=1.0).norm(D)
    return Planted(V, V + weight * U + multiplier * Z, V - D, radius)


@pytest.mark.parametrize("norm", NORMS)
@examples(40)
@given(SEEDS, st.floats(0.01, 3), st.floats(0.01, 100))
@example(5923, 3.0, 22.0)
@example(5097, 1.0, 1.0)
def test_a_planted_optimum_is_found(
    norm: Kind, seed: int, weight: float, multiplier: float
) -> None:
    """In models as vectors, as the methods use them.

    Exactly, but for rounding, where there is a closed form. Iterations end where two points agree
    to `AGREE` of the data. Then the point is the minimiser of data that are off by as much, and so
    off itself by that, times the condition of the problem.
    """
    known = planted(norm, seed, weight, multiplier)
    h = Regulariser(norm(weight=2.0), SHAPE)
    w, centre = known.w.ravel(), known.centre.ravel()
    scale = max(np.abs(w).max(), np.abs(centre).max())

    def found(around: Array) -> Array:
        return h.prox_in_ball(w, weight / 2, around, known.radius).point

    point = found(centre)
    off = np.abs(point - known.optimum.ravel()).max() / scale
    if norm is L1:
        assert off <= 1e-14
    elif off > (least := AGREE * np.sqrt(w.size)):  # more than the best condition explains
        assert off <= least * (1 + condition(found, centre, point, 1e-8 * scale)) <= 1e-9
    assert h.norm(point - centre) <= known.radius * (1 + 1e-12) + 1e-14 * np.abs(w).max()


def condition(solve: Callable[[Array], Array], centre: Array, point: Array, step: float) -> float:
    """How far minimisers move with the centre, by differences: a Frobenius norm, from samples.

    It is large where a kink of the norm and one of the bound are nearly parallel. The step is far
    above what iterations leave open, and small against the stretch on which the kinks stay.
    """
    ways = np.random.default_rng(1).standard_normal((6, centre.size))
    moves = [solve(centre + step * way) - point for way in ways]
    return float(np.sqrt(np.mean(np.square(moves).sum(axis=1)))) / step


def entry(w: float, t: float, c: float, m: float) -> float:
    """The least of t |v| + m |v - c| + (v - w)^2/2 at its kinks and between them."""
    points = np.array([0.0, c, *(w - a * t - b * m for a in (-1, 1) for b in (-1, 1))])
    values = t * np.abs(points) + m * np.abs(points - c) + (points - w) ** 2 / 2
    return float(points[np.argmin(values)])


def group(w: Array, t: float, c: Array, m: float) -> Array:
    """The same of a group: at its kinks, or where the gradient vanishes."""
    weight = np.sqrt(w.size)

    def value(v: Array) -> float:
        norms = t * np.linalg.norm(v) + m * np.linalg.norm(v - c)
        return float(weight * norms + np.square(v - w).sum() / 2)

    def gradient(v: Array) -> Array:
        away = v - c
        pulls = t * v / np.linalg.norm(v) + m * away / np.linalg.norm(away)
        return np.asarray(weight * pulls + v - w)

    with catch_warnings(action="ignore"):  # it says so where rounding ends it
        between = fsolve(gradient, 0.5 * c + 0.5 * w, xtol=1e-15)
    return min((np.zeros_like(w), c, between), key=value)


def by_multiplier(known: Planted, weight: float, norm: Kind, most: float) -> Array:
    """The multiplier as a root, each entry or group minimised for itself."""

    def at(m: float) -> Array:
        if norm is GroupL2:
            parts = zip(known.w, known.centre, strict=True)
            return np.array([group(w, weight, c, m) for w, c in parts])
        pairs = zip(known.w.ravel(), known.centre.ravel(), strict=True)
        return np.array([entry(w, weight, c, m) for w, c in pairs]).reshape(SHAPE)

    h = norm(weight=1.0)
    return at(brentq(lambda m: h.norm(at(m) - known.centre) - known.radius, 0, most, xtol=1e-15))


@every("norm", [L1, GroupL2])
@every("seed", range(4))
def test_a_search_for_the_multiplier_finds_the_same(norm: Kind, seed: int) -> None:
    """Of data that were not made for it: a ball of half the radius that a prox would need."""
    rng = np.random.default_rng(seed)
    w, centre = 3 * rng.standard_normal(SHAPE), rng.standard_normal(SHAPE)
    h = norm(weight=1.0)
    radius = h.norm(h.prox(w, 0.7) - centre) / 2
    known = Planted(w, w, centre, radius)
    found = h.prox_in_ball(w, 0.7, centre, radius).point
    assert np.abs(found - by_multiplier(known, 0.7, norm, 50.0)).max() <= 1e-12 * np.abs(w).max()


@pytest.mark.parametrize("norm", NORMS)
@examples(15)
@given(SEEDS, st.floats(0.1, 0.9))
def test_prox_then_projection_is_it_around_zero(norm: Kind, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    w, h = 3 * rng.standard_normal(SHAPE), norm(weight=1.0)
    free = h.prox(w, 0.3)
    radius = share * h.norm(free)
    nearest = h.project(free, radius)
    assert np.array_equal(h.prox_in_ball(w, 0.3, np.zeros(SHAPE), radius).point, nearest)
    near = np.full(SHAPE, 1e-6)
    moved = h.prox_in_ball(w, 0.3, near, radius)
    assert np.abs(moved.point - nearest).max() <= 1e-4
    assert moved.evaluations < 2 * LEG * LEGS  # iterations end before they are stopped


def excess_of_prox_then_projection(norm: Kind, seed: int, share: float) -> float:
    """Return how much worse it is than the minimiser, around a centre that is drawn; relative."""
    rng = np.random.default_rng(seed)
    w, h = 3 * rng.standard_normal(SHAPE), norm(weight=1.0)
    free, centre = h.prox(w, 0.3), rng.standard_normal(SHAPE)
    radius = share * h.norm(free - centre)
    found = h.prox_in_ball(w, 0.3, centre, radius).point
    other = centre + h.project(free - centre, radius)

    def value(V: Array) -> float:
        return 0.3 * h.norm(V) + float(np.square(V - w).sum()) / 2

    assert h.norm(found - centre) <= radius * (1 + 1e-12)
    return value(other) / value(found) - 1


@pytest.mark.parametrize("norm", NORMS)
@examples(15)
@given(SEEDS, st.floats(0.1, 0.9))
def test_prox_then_projection_is_never_better(norm: Kind, seed: int, share: float) -> None:
    # They are the same where the bound meets none of the penalty's kinks.
    assert excess_of_prox_then_projection(norm, seed, share) >= -1e-12


@every("norm", NORMS)
@every("seed", [1, 2, 3])
def test_prox_then_projection_is_worse_around_another_centre(norm: Kind, seed: int) -> None:
    assert excess_of_prox_then_projection(norm, seed, 0.5) > 1e-4


@pytest.mark.parametrize("norm", NORMS)
def test_a_bound_that_is_not_met_changes_nothing(norm: Kind) -> None:
    rng = np.random.default_rng(3)
    w, centre = rng.standard_normal(SHAPE), rng.standard_normal(SHAPE)
    h = norm(weight=0.4)
    found = h.prox_in_ball(w, 0.5, centre, 1e3)
    assert np.array_equal(found.point, h.prox(w, 0.5))
    assert found.evaluations == 2


@every("norm", NORMS)
@every("wrong", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(norm: Kind, wrong: float) -> None:
    w = np.ones(SHAPE)
    w[1, 2] = wrong
    with np.errstate(invalid="ignore"):
        found = norm(weight=0.4).prox_in_ball(w, 0.5, np.ones(SHAPE), 1.0)
    assert not np.isfinite(found.point).all()
