"""Squared and logistic loss: against their formulas, and by the laws of convex functions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import LinearLoss, LocalLoss, Logistic, Squared
from tests.tiers import every

from .examples import LINEAR, differences, local, named, plain_value, samples

DATA = samples(rows=40, features=6)
each_loss = pytest.mark.parametrize("loss", LINEAR, ids=named)
models = arrays(np.float64, 6, elements=st.floats(-20, 20))


def formula(loss: LinearLoss) -> Callable[[Array], float]:
    return lambda w: plain_value(loss, DATA, w)


@each_loss
@given(w=models)
def test_the_value_is_that_of_the_formula(loss: LinearLoss, w: Array) -> None:
    assert local(loss, DATA).value(w) == pytest.approx(formula(loss)(w), rel=1e-12)


@each_loss
def test_the_gradient_is_that_of_finite_differences(
    loss: LinearLoss, rng: np.random.Generator
) -> None:
    for _ in range(5):
        w = rng.standard_normal(6)
        w += 0.01 * np.sign(w)  # away from the kinks of |w|
        expected = differences(formula(loss), w)
        assert local(loss, DATA).gradient(w) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@each_loss
def test_the_hessian_is_that_of_finite_differences(
    loss: LinearLoss, rng: np.random.Generator
) -> None:
    f, w = local(loss, DATA), rng.standard_normal(6) + 3.0
    columns = [(f.gradient(w + e) - f.gradient(w - e)) / 2e-5 for e in 1e-5 * np.eye(6)]
    assert f.hessian(w) == pytest.approx(np.array(columns), rel=1e-5, abs=1e-6)


@each_loss
@given(v=models, w=models)
def test_a_subgradient_supports_the_function_from_below(
    loss: LinearLoss, v: Array, w: Array
) -> None:
    f = local(loss, DATA)
    below = f.value(w) + f.gradient(w) @ (v - w)
    assert f.value(v) >= below - 1e-9 * (1 + abs(below) + abs(f.value(w)))


@pytest.mark.parametrize("loss", [loss for loss in LINEAR if loss.l1 == 0], ids=named)
@given(v=models, w=models)
def test_the_gradient_is_lipschitz_with_the_smoothness_constant(
    loss: LinearLoss, v: Array, w: Array
) -> None:
    f = local(loss, DATA)
    change = np.linalg.norm(f.gradient(v) - f.gradient(w))
    assert change <= f.smoothness * np.linalg.norm(v - w) * (1 + 1e-9) + 1e-9


@each_loss
@pytest.mark.parametrize("shape", [(40, 6), (5, 30)])
def test_no_smaller_smoothness_constant_would_do(loss: LinearLoss, shape: tuple[int, int]) -> None:
    # Both losses are steepest where all products are zero, so the Hessian there attains it.
    f = local(loss, samples(*shape))
    largest = np.linalg.eigvalsh(f.hessian(np.zeros(shape[1])))[-1]
    assert f.smoothness == pytest.approx(largest, rel=1e-10)


@each_loss
def test_the_subgradient_at_zero_leaves_out_the_kink(loss: LinearLoss) -> None:
    without = loss.model_copy(update={"l1": 0.0})
    zero = np.zeros(6)
    assert local(loss, DATA).gradient(zero) == pytest.approx(local(without, DATA).gradient(zero))


@pytest.mark.parametrize(
    ("scale", "share"), [("sum", 1.0), ("mean", 1 / 40), ("mean-square", 2 / 40)]
)
def test_scales_of_the_squared_loss_are_multiples_of_the_sum(
    scale: str, share: float, rng: np.random.Generator
) -> None:
    w = rng.standard_normal(6)
    scaled = local(Squared.model_validate({"scale": scale}), DATA)
    total = local(Squared(scale="sum"), DATA)
    assert scaled.value(w) == pytest.approx(share * total.value(w))
    assert scaled.gradient(w) == pytest.approx(share * total.gradient(w))
    assert scaled.smoothness == pytest.approx(share * total.smoothness)


@pytest.mark.parametrize("loss", [Squared(scale="sum"), Logistic(scale="sum")], ids=named)
def test_a_sum_over_rows_is_the_sum_over_its_parts(
    loss: LinearLoss, rng: np.random.Generator
) -> None:
    w = rng.standard_normal(6)
    whole = local(loss, DATA)
    parts = [local(loss, DATA.take(rows)) for rows in np.split(np.arange(40), [7, 8, 25])]
    assert whole.value(w) == pytest.approx(math.fsum(part.value(w) for part in parts))
    assert whole.gradient(w) == pytest.approx(sum(part.gradient(w) for part in parts))


@each_loss
def test_a_gradient_costs_four_operations_an_entry(loss: LinearLoss) -> None:
    # A multiplication and an addition for X w, and as many for X^T times the slopes.
    assert local(loss, samples(13, 7)).gradient_operations == 2 * 13 * 7 + 2 * 13 * 7


class TestLogistic:
    @given(
        u=arrays(np.float64, st.integers(1, 200), elements=st.floats(-700, 700)),
        scale=st.sampled_from([0.01, 1.0]),
    )
    def test_the_value_is_accurate_to_rounding(self, u: Array, scale: float) -> None:
        u = scale * u
        exact = math.fsum(max(x, 0.0) + math.log1p(math.exp(-abs(x))) for x in u)
        f = LocalLoss(Logistic(scale="sum"), -u[:, None], np.ones(len(u)))
        # The product rounds each 1 + e once, by half a unit of 2^-52; the sum adds its own error.
        assert abs(f.value(np.ones(1)) - exact) <= 2.3e-16 * len(u) + 4e-15 * exact

    @every("rows", [1, 31, 32, 33, 511, 512, 513, 5554])
    def test_no_row_is_left_out_of_the_product(self, rows: int) -> None:
        u = np.random.default_rng(rows).normal(scale=3.0, size=rows)
        f = LocalLoss(Logistic(scale="sum"), -u[:, None], np.ones(rows))
        assert f.value(np.ones(1)) == pytest.approx(np.log1p(np.exp(u)).sum(), rel=1e-14)

    @given(u=st.floats(-1e4, 1e4))
    def test_the_slope_is_the_sigmoid_with_full_relative_accuracy(self, u: float) -> None:
        f = LocalLoss(Logistic(scale="sum"), np.array([[-u]]), np.ones(1))
        sigmoid = 1 / (1 + math.exp(-u)) if u > -700 else 0.0
        assert f.gradient(np.ones(1))[0] == pytest.approx(u * sigmoid, rel=1e-13, abs=1e-290)

    @every("margin", [1e4, -1e4, 30.0, -30.0, 700.0, -710.0])
    def test_huge_margins_neither_overflow_nor_warn(self, margin: float) -> None:
        X = np.array([[margin], [margin], [0.5]])
        f = LocalLoss(Logistic(scale="sum"), X, np.ones(3))
        expected = 2 * max(-margin, 0.0) + np.log1p(np.exp(-0.5))
        assert f.value(np.ones(1)) == pytest.approx(expected, rel=1e-12)
        rest = -0.5 / (1 + math.exp(0.5))
        assert f.gradient(np.ones(1)) == pytest.approx([rest + 2 * max(-margin, 0.0)], rel=1e-9)
        assert np.isfinite(f.hessian(np.ones(1))).all()

    def test_both_ways_to_the_value_agree_where_they_meet(self) -> None:
        # Just below and just above the threshold from which exponents are split.
        values = []
        for top in (20.0 - 1e-9, 20.0 + 1e-9):
            u = np.linspace(-30, top, 100)
            f = LocalLoss(Logistic(scale="sum"), -u[:, None], np.ones(100))
            values.append((f.value(np.ones(1)), *f.gradient(np.ones(1)), *f.hessian(np.ones(1))[0]))
        assert values[0] == pytest.approx(values[1], rel=1e-8)

    def test_labels_are_used_as_given_where_that_is_asked_for(self) -> None:
        labels = np.array([0.0, 1.0, 9.0])
        assert Logistic(labels="as-given").encode(labels) is labels
        f = LocalLoss(Logistic(scale="sum", labels="as-given"), np.eye(3), labels)
        assert f.value(np.ones(3)) == pytest.approx(np.logaddexp(0, -labels).sum())

    @every("labels", [[0, 1, 0], [1, 2, 1], [-1, 1, -1], [-7.5, 3, -7.5]])
    def test_two_labels_of_any_kind_map_to_minus_and_plus_one(self, labels: list[float]) -> None:
        encoded = Logistic(labels="plus-minus").encode(np.array(labels, dtype=np.float64))
        assert encoded.tolist() == [-1.0, 1.0, -1.0]

    @pytest.mark.parametrize(
        ("labels", "seen"),
        [([1, 1], "has 1 (1)"), ([0, 1, 2], "has 3 (0, 1, 2)"), (range(9), "4, ...)")],
    )
    def test_other_than_two_labels_cannot_be_mapped(self, labels: list[float], seen: str) -> None:
        with pytest.raises(DataError) as caught:
            Logistic(labels="plus-minus").encode(np.array(labels, dtype=np.float64))
        assert caught.value.key == "loss.labels"
        assert seen in str(caught.value)
