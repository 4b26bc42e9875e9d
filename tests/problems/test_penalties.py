"""Penalties: prox and residual held against subgradients, dual balls and slopes."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.penalties import (
    L1,
    L2,
    PENALTIES,
    ElasticNet,
    GroupL2,
    NoPenalty,
    Nuclear,
    Penalty,
    Regulariser,
)
from tests.tiers import every, examples

SHAPE = (5, 3)
CASES: list[Penalty] = [
    NoPenalty(),
    L1(weight=0.7),
    L2(weight=1.3),
    ElasticNet(weight=0.9, ratio=0.3),
    GroupL2(weight=0.4),
    GroupL2(weight=0.5, size=4),
    Nuclear(weight=1.1),
]
NORMS = [penalty for penalty in CASES if penalty.ball]
each_penalty = pytest.mark.parametrize("penalty", CASES, ids=lambda p: f"{p.kind}")
each_norm = pytest.mark.parametrize("penalty", NORMS, ids=lambda p: f"{p.kind}")
few = examples(30)
entries = st.floats(-9, 9).map(lambda x: round(x, 2))
matrices = arrays(np.float64, SHAPE, elements=entries)
steps = st.floats(0.01, 5.0)


def groups(penalty: GroupL2, W: Array) -> list[Array]:
    return np.split(W.ravel(), np.arange(0, W.size, penalty.size or W.shape[1])[1:])


def singular(W: Array) -> Array:
    return np.asarray(np.linalg.svd(W)[1])


def plain(penalty: Penalty, W: Array) -> float:
    """Compute h by the formula of its documentation."""
    if isinstance(penalty, L1):
        return float(penalty.weight * np.abs(W).sum())
    if isinstance(penalty, L2):
        return float(penalty.weight / 2 * (W**2).sum())
    if isinstance(penalty, ElasticNet):
        ratio = penalty.ratio
        return float(penalty.weight * (ratio * np.abs(W) + (1 - ratio) / 2 * W**2).sum())
    if isinstance(penalty, GroupL2):
        return penalty.weight * sum(
            float(np.sqrt(len(part)) * np.linalg.norm(part)) for part in groups(penalty, W)
        )
    return float(penalty.weight * singular(W).sum()) if isinstance(penalty, Nuclear) else 0.0


def dual(penalty: Penalty, G: Array) -> float:
    """Compute the dual of the norm of a penalty."""
    if isinstance(penalty, GroupL2):
        return max(float(np.linalg.norm(p) / np.sqrt(len(p))) for p in groups(penalty, G))
    return float(singular(G)[0] if isinstance(penalty, Nuclear) else np.abs(G).max())


@each_penalty
@few
@given(W=matrices)
def test_the_value_is_that_of_the_formula(penalty: Penalty, W: Array) -> None:
    assert penalty.value(W) == pytest.approx(plain(penalty, W), rel=1e-12, abs=1e-12)


@each_penalty
@few
@given(W=matrices, step=steps, seed=st.integers(0, 10**6))
def test_the_step_of_a_prox_is_a_subgradient(
    penalty: Penalty, W: Array, step: float, seed: int
) -> None:
    V = penalty.prox(W, step)
    slope = (W - V) / step
    rng = np.random.default_rng(seed)
    others = [W, np.zeros(SHAPE), *(V + s * rng.standard_normal(SHAPE) for s in (0.01, 1.0, 30.0))]
    for U in others:
        support = plain(penalty, V) + (slope * (U - V)).sum()
        assert plain(penalty, U) >= support - 1e-9 * (1 + abs(support))
    assert not np.shares_memory(V, W)


@each_norm
@few
@given(W=matrices, step=steps)
def test_what_the_prox_takes_away_is_in_the_dual_ball(
    penalty: Penalty, W: Array, step: float
) -> None:
    # Moreau: W = prox + the projection of W on the ball of the dual norm; complementary, too.
    V = penalty.prox(W, step)
    assert dual(penalty, (W - V) / step) <= weight(penalty) * (1 + 1e-9)
    assert ((W - V) / step * V).sum() == pytest.approx(plain(penalty, V), rel=1e-9, abs=1e-9)


def weight(penalty: Penalty) -> float:
    return float(penalty.model_dump()["weight"])


@each_penalty
@few
@given(A=matrices, B=matrices, step=steps)
def test_a_prox_is_firmly_nonexpansive(penalty: Penalty, A: Array, B: Array, step: float) -> None:
    moved = penalty.prox(A, step) - penalty.prox(B, step)
    assert (moved**2).sum() * (1 + step * penalty.strong_convexity) <= (
        moved * (A - B)
    ).sum() + 1e-9


@each_penalty
@few
@given(W=matrices, step=steps)
def test_the_residual_is_zero_at_a_minimiser(penalty: Penalty, W: Array, step: float) -> None:
    V = penalty.prox(W, step)
    assert penalty.residual(V, (V - W) / step) <= 1e-8 * (1 + float(np.linalg.norm(W)) / step)


@each_penalty
@few
@given(W=matrices, G=matrices, t=st.floats(0.1, 1.0), seed=st.integers(0, 10**6))
def test_the_residual_is_the_steepest_slope(
    penalty: Penalty, W: Array, G: Array, t: float, seed: int
) -> None:
    # The steepest descent of <G, .> + h at W has as its slope the least subgradient's norm.
    V = penalty.prox(W, t)
    least = penalty.residual(V, G)
    # A kink nearby is not one at V, and bends the chords that slopes are measured by.
    h = 1e-7
    step = (V - penalty.prox(V - h * G, h)) / h
    directions = [-step, *np.random.default_rng(seed).standard_normal((5, *SHAPE))]
    for D in directions:
        unit = D / max(float(np.linalg.norm(D)), 1e-300)
        slope = (G * unit).sum() + (plain(penalty, V + h * unit) - plain(penalty, V)) / h
        assert slope >= -least - 1e-5 * (1 + least)


@each_penalty
def test_the_residual_is_attained_by_proximal_steps(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    for _ in range(20):
        V = penalty.prox(2 * rng.standard_normal(SHAPE), 0.8)
        G = rng.standard_normal(SHAPE)
        step = (V - penalty.prox(V - 1e-7 * G, 1e-7)) / 1e-7
        assert penalty.residual(V, G) == pytest.approx(np.linalg.norm(step), rel=1e-5, abs=1e-6)


@each_penalty
def test_strong_convexity_is_what_is_left_beyond_convexity(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    def excess(W: Array, mu: float) -> float:
        return plain(penalty, W) - mu / 2 * float((W**2).sum())

    A, B = rng.standard_normal((2, *SHAPE))
    mu = penalty.strong_convexity
    assert excess((A + B) / 2, mu) <= (excess(A, mu) + excess(B, mu)) / 2 + 1e-12
    # Far out norms are straight along rays, so that nothing more would be convex.
    A *= 1e6
    assert excess(1.5 * A, mu + 1e-3) > (excess(A, mu + 1e-3) + excess(2 * A, mu + 1e-3)) / 2


@each_norm
@few
@given(W=matrices, radius=st.floats(0.01, 50.0))
def test_balls_are_those_of_the_norm(penalty: Penalty, W: Array, radius: float) -> None:
    P = penalty.project(W, radius)
    assert penalty.norm(W) * weight(penalty) == pytest.approx(plain(penalty, W))
    assert penalty.norm(P) <= radius * (1 + 1e-10)
    slack = 1e-10 * (1 + radius) * (1 + float(np.abs(W).sum()))
    assert radius * dual(penalty, W - P) <= ((W - P) * P).sum() + slack


@pytest.mark.parametrize("penalty", [NoPenalty(), L2(weight=1.0), ElasticNet(weight=1.0)])
def test_what_is_no_norm_has_no_ball(penalty: Penalty) -> None:
    assert not penalty.ball
    for ask in (penalty.norm, lambda W: penalty.project(W, 1.0)):
        with pytest.raises(DataError, match=f"{penalty.kind} is no multiple of a norm.*l1, group"):
            ask(np.ones(SHAPE))


@pytest.mark.parametrize("penalty", [Nuclear(weight=1.0), GroupL2(weight=1.0)])
def test_a_vector_has_no_rows_and_no_singular_values(penalty: Penalty) -> None:
    with pytest.raises(DataError, match="vector of 6 entries"):
        Regulariser(penalty, (6,))
    assert Regulariser(GroupL2(weight=1.0, size=4), (6,)).value(np.ones(6)) == pytest.approx(6.0)


@each_penalty
def test_flat_models_are_read_row_by_row(penalty: Penalty, rng: np.random.Generator) -> None:
    regulariser = Regulariser(penalty, SHAPE)
    W, G = rng.standard_normal((2, *SHAPE))
    w, g = W.ravel(), G.ravel()
    assert regulariser.value(w) == penalty.value(W)
    assert np.array_equal(regulariser.prox(w, 0.3), penalty.prox(W, 0.3).ravel())
    # A norm sums a vector and a matrix in other orders on some processors.
    assert regulariser.residual(w, g) == pytest.approx(penalty.residual(W, G), rel=1e-14)
    assert regulariser.operations == penalty.operations(SHAPE)
    if penalty.ball:
        assert regulariser.norm(w) == penalty.norm(W)
        assert np.array_equal(regulariser.project(w, 0.3), penalty.project(W, 0.3).ravel())
    assert regulariser.prox(w, 0.3).flags.owndata or regulariser.prox(w, 0.3).base is not w


def test_no_penalty_fits_models_of_any_length() -> None:
    nothing = Regulariser(NoPenalty(), (-1,))
    for length in (1, 7):
        w = np.arange(float(length))
        assert nothing.value(w) == nothing.operations == 0.0
        assert np.array_equal(nothing.prox(w, 2.0), w)
        assert nothing.residual(w, w) == pytest.approx(np.linalg.norm(w))


@every("penalty", CASES[1:])
def test_a_penalty_of_another_weight_is_a_multiple(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    W = rng.standard_normal(SHAPE)
    twice = Regulariser(penalty, SHAPE).with_weight(2 * weight(penalty))
    assert twice.value(W.ravel()) == pytest.approx(2 * penalty.value(W))
    assert twice.prox(W.ravel(), 0.2) == pytest.approx(penalty.prox(W, 0.4).ravel())


@every("make", PENALTIES.built_in[1:])
def test_weights_are_not_negative(make: Callable[..., Penalty]) -> None:
    with pytest.raises(ValidationError, match="weight"):
        make(weight=-0.1)


def test_the_operations_grow_with_the_decomposition() -> None:
    assert L1(weight=1.0).operations((100,)) == 300.0
    assert GroupL2(weight=1.0).operations((20, 5)) == 300.0
    assert Nuclear(weight=1.0).operations((32, 32)) == 16 * 32**3 + 8 * 32**3
    assert Nuclear(weight=1.0).operations((2, 10)) == Nuclear(weight=1.0).operations((10, 2))


@pytest.mark.parametrize("penalty", [Nuclear(weight=1.0), GroupL2(weight=1.0), L1(weight=1.0)])
def test_what_is_not_finite_does_not_become_so(penalty: Penalty) -> None:
    W = np.ones(SHAPE)
    W[1, 2] = np.nan
    assert np.isnan(penalty.value(W))
    assert np.isnan(penalty.residual(W, W))
    assert np.isnan(penalty.prox(W, 0.5)).any()
