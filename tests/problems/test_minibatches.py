"""Minibatches: some of a client's rows in place of all of them, without bias."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Array
from fedsim.problems import LinearLoss, LocalLoss, Loss, Squared
from tests.tiers import every

from .examples import CONSTRAINED, LINEAR, LOSSES, local, named, plain_value, samples

DATA = samples(rows=7, features=4)
EVERY = [*LOSSES, *CONSTRAINED]
each_loss = every("loss", EVERY)


def models(f: LocalLoss, seed: int = 5) -> Array:
    return np.random.default_rng(seed).standard_normal(f.dimension)


@each_loss
@every("batch", [1, 3, 6])
def test_the_mean_over_all_minibatches_is_the_full_gradient(loss: Loss, batch: int) -> None:
    f = local(loss, DATA)
    w = models(f)
    drawn = [f.minibatch_gradient(w, np.array(rows)) for rows in combinations(range(7), batch)]
    assert np.mean(drawn, axis=0) == pytest.approx(f.gradient(w), rel=1e-12, abs=1e-14)


@each_loss
def test_a_minibatch_of_all_rows_in_any_order_gives_the_full_gradient(loss: Loss) -> None:
    f = local(loss, DATA)
    w = models(f)
    expected = pytest.approx(f.gradient(w), rel=1e-12, abs=1e-14)
    assert f.minibatch_gradient(w, np.random.default_rng(1).permutation(7)) == expected


@pytest.mark.parametrize("loss", [loss for loss in LINEAR if loss.scale == "mean"], ids=named)
@given(rows=st.sets(st.integers(0, 6), min_size=1))
def test_a_mean_over_the_rows_is_a_mean_over_the_minibatch(
    loss: LinearLoss, rows: set[int]
) -> None:
    f, drawn = local(loss, DATA), np.array(sorted(rows))
    w = models(f)
    part = loss.subset(f.arranged, drawn)
    value = loss.value(part, w, loss.forward(part, w))
    assert value == pytest.approx(plain_value(loss, DATA.take(drawn), w), rel=1e-12)


def test_a_sum_over_the_rows_is_scaled_up_to_the_sum_over_all() -> None:
    f = local(Squared(scale="sum"), DATA)
    w, rows = models(f), np.array([4, 0])
    residuals = DATA.X[rows] @ w - DATA.y[rows]
    assert f.minibatch_gradient(w, rows) == pytest.approx(7 / 2 * DATA.X[rows].T @ residuals)


@each_loss
def test_a_subset_leaves_the_rows_as_they_were(loss: Loss) -> None:
    f = local(loss, DATA)
    w = models(f)
    before = f.gradient(w)
    f.minibatch_gradient(2 * w, np.array([0, 6]))
    assert np.array_equal(f.gradient(w), before)
    assert np.array_equal(local(loss, DATA).gradient(w), before)
