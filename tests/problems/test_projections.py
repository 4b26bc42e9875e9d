"""Projections: feasible, nearest by the dual norm or by brute force, and of their own memory."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.ports import Array
from fedsim.problems.projections import (
    hard_threshold,
    hard_threshold_columns,
    l1_ball,
    largest,
    nuclear_ball,
    rank,
    soft_threshold,
)
from tests.tiers import every, examples

Norm = Callable[[Array], float]
Project = Callable[[Array, float], Array]

WEIGHTS = np.array([[0.5, 1.0, 2.0], [3.0, 0.1, 1.5], [1.0, 1.0, 4.0], [0.7, 2.5, 0.3]])
"""Of a weighted l1 norm, in the shape of the matrices that are projected here."""

BALLS: dict[str, tuple[Project, Norm, Norm]] = {
    "l1": (l1_ball, lambda W: np.abs(W).sum(), lambda W: np.abs(W).max()),
    "weighted-l1": (
        lambda W, radius: l1_ball(W, radius, WEIGHTS),
        lambda W: (WEIGHTS * np.abs(W)).sum(),
        lambda W: (np.abs(W) / WEIGHTS).max(),
    ),
    "nuclear": (
        nuclear_ball,
        lambda W: np.linalg.svd(W)[1].sum(),
        lambda W: np.linalg.svd(W)[1][0],
    ),
}
"""Each ball's projection, its norm and the norm's dual."""

each_ball = pytest.mark.parametrize(("project", "norm", "dual"), BALLS.values(), ids=BALLS)
few = examples(30)
entries = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))
matrices = arrays(np.float64, (4, 3), elements=entries)
vectors = arrays(np.float64, st.integers(1, 7), elements=entries)
radii = st.floats(1e-2, 1e3)


@each_ball
@few
@given(W=matrices, radius=radii)
def test_what_comes_is_in_the_ball(
    project: Project, norm: Norm, dual: Norm, W: Array, radius: float
) -> None:
    assert norm(project(W, radius)) <= radius * (1 + 1e-10) + 1e-13 * norm(W)


@each_ball
@few
@given(W=matrices, radius=radii)
def test_no_point_of_the_ball_makes_an_acute_angle_with_the_step(
    project: Project, norm: Norm, dual: Norm, W: Array, radius: float
) -> None:
    # <W - P, U - P> <= 0 for all U in the ball: the largest <W - P, U> is radius x dual norm.
    P = project(W, radius)
    step = W - P
    rounding = 1e-14 * norm(W)  # of P, as of any matrix that is put together from its factors
    slack = 1e-11 * (np.abs(step) * (radius + norm(W))).sum() + radius * rounding + 1e-12
    assert radius * dual(step) <= (step * P).sum() + slack


@each_ball
@few
@given(W=matrices, radius=radii)
def test_projecting_twice_is_projecting_once(
    project: Project, norm: Norm, dual: Norm, W: Array, radius: float
) -> None:
    once = project(W, radius)
    assert project(once, radius) == pytest.approx(once, rel=1e-10, abs=1e-10)


@each_ball
@few
@given(W=matrices)
def test_what_is_inside_stays_and_is_copied(
    project: Project, norm: Norm, dual: Norm, W: Array
) -> None:
    same = project(W, 1.0 + 2.0 * norm(W))
    assert same == pytest.approx(W, rel=1e-12, abs=1e-12 * (1.0 + norm(W)))
    assert not np.shares_memory(same, W)


@each_ball
@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan")])
def test_a_ball_has_a_radius(project: Project, norm: Norm, dual: Norm, radius: float) -> None:
    with pytest.raises(ValueError, match="radius of a ball is above 0; got"):
        project(np.ones((4, 3)), radius)


def test_a_large_vector_is_projected_on_the_l1_ball_at_its_known_threshold() -> None:
    # All of 1..n leave a common threshold behind: what remains sums to the radius.
    w = np.arange(1.0, 100_001.0)
    projected = l1_ball(-w, 10.0)
    assert projected[-4:] == pytest.approx([-1.0, -2.0, -3.0, -4.0])
    assert not projected[:-4].any()


@few
@given(w=vectors, count=st.integers(0, 8))
def test_thresholding_is_a_best_approximation(w: Array, count: int) -> None:
    kept = hard_threshold(w, count)
    assert np.count_nonzero(kept) <= count
    supports = combinations(range(len(w)), min(count, len(w)))
    least = min((np.delete(w, support) ** 2).sum() for support in supports)
    assert ((w - kept) ** 2).sum() == pytest.approx(least, rel=1e-12)
    assert ((kept == w) | (kept == 0)).all()


@few
@given(w=arrays(np.float64, st.integers(1, 9), elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0])))
def test_of_equal_magnitudes_the_lowest_index_is_kept(w: Array) -> None:
    for count in range(len(w) + 2):
        order = sorted(range(len(w)), key=lambda j: (-abs(w[j]), j))
        assert largest(w, count).tolist() == sorted(order[:count])
        expected = [x if j in order[:count] else 0.0 for j, x in enumerate(w)]
        assert hard_threshold(w, count).tolist() == expected


def test_what_is_not_a_number_is_largest_and_stays() -> None:
    w = np.array([1.0, np.nan, -5.0, 2.0])
    assert largest(w, 1).tolist() == [1]
    assert np.isnan(hard_threshold(w, 2)[1])
    for balled in (l1_ball(w, 1.0), soft_threshold(w, 1.0)):
        assert np.isnan(balled).any()
    for matrix in (nuclear_ball(w.reshape(2, 2), 1.0), rank(w.reshape(2, 2), 1)):
        assert np.isnan(matrix).any()


@few
@given(W=matrices, count=st.integers(0, 5))
def test_each_column_is_thresholded_on_its_own(W: Array, count: int) -> None:
    expected = np.column_stack([hard_threshold(column, count) for column in W.T])
    assert np.array_equal(hard_threshold_columns(W, count), expected)


@few
@given(W=matrices, count=st.integers(0, 4))
def test_a_rank_is_cut_where_the_tail_of_singular_values_is_least(W: Array, count: int) -> None:
    # Eckart, Young: the error is the tail, whatever basis is taken.
    cut = rank(W, count)
    s = np.linalg.svd(W)[1]
    scale = 1.0 + s[0]
    assert np.linalg.norm(W - cut) == pytest.approx(np.linalg.norm(s[count:]), abs=1e-11 * scale)
    assert (np.linalg.svd(cut)[1][count:] <= 1e-12 * scale).all()
    assert not np.shares_memory(cut, W)


def test_no_random_matrix_of_low_rank_is_nearer(rng: np.random.Generator) -> None:
    W = rng.standard_normal((6, 5))
    error = np.linalg.norm(W - rank(W, 2))
    for _ in range(50):
        left, right = rng.standard_normal((6, 2)), rng.standard_normal((2, 5))
        left = W @ np.linalg.pinv(right) if rng.random() < 0.5 else left
        assert np.linalg.norm(W - left @ right) >= error


@every("cut", [largest, hard_threshold, hard_threshold_columns, rank])
def test_counts_are_not_negative(cut: Callable[[Array, int], Array]) -> None:
    with pytest.raises(ValueError, match="0 or more; got -1"):
        cut(np.ones((2, 2)) if cut in (rank, hard_threshold_columns) else np.ones(2), -1)


@few
@given(w=vectors, t=st.floats(0, 100))
def test_soft_thresholding_shrinks_magnitudes_and_keeps_signs(w: Array, t: float) -> None:
    shrunk = soft_threshold(w, t)
    assert np.abs(shrunk) == pytest.approx(np.maximum(np.abs(w) - t, 0.0))
    assert (shrunk * w >= 0).all()
    assert (shrunk[np.abs(w) <= t] == 0).all()
