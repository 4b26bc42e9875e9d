"""Trace regression: the squared loss of a matrix, <X, W> with both of them flat."""

import numpy as np
import pytest

from fedsim.core.errors import DataError
from fedsim.problems import LocalLoss, Problem, Samples, Squared, TraceRegression
from tests.tiers import every

from .examples import local


def test_predictions_are_traces(rng: np.random.Generator) -> None:
    matrices, W, y = (rng.standard_normal(shape) for shape in ((9, 2, 3), (2, 3), 9))
    f = LocalLoss(TraceRegression(rows=2), matrices.reshape(9, 6), y)
    traces = np.array([np.trace(M.T @ W) for M in matrices])
    assert f.value(W.ravel()) == pytest.approx(((traces - y) ** 2).mean() / 2)
    expected = sum((trace - t) * M for trace, t, M in zip(traces, y, matrices, strict=True)) / 9
    assert f.gradient(W.ravel()).reshape(2, 3) == pytest.approx(np.asarray(expected))


def test_it_is_the_squared_loss_but_for_the_shape_of_its_model(rng: np.random.Generator) -> None:
    data = Samples(rng.standard_normal((8, 12)), rng.standard_normal(8))
    for scale in ("sum", "mean", "mean-square", "share"):
        options = {"scale": scale, "l2": 0.1, "l1": 0.2}
        matrix = local(TraceRegression.model_validate({**options, "rows": 3}), data)
        vector = local(Squared.model_validate(options), data)
        w = rng.standard_normal(12)
        assert matrix.value(w) == vector.value(w)
        assert np.array_equal(matrix.gradient(w), vector.gradient(w))
        assert matrix.smoothness == vector.smoothness


@every(
    ("rows", "features", "shape"),
    [(3, 12, (3, 4)), (1, 5, (1, 5)), (5, 5, (5, 1)), (None, 1024, (32, 32)), (None, 1, (1, 1))],
)
def test_the_shape_is_rows_by_what_is_left(
    rows: int | None, features: int, shape: tuple[int, int]
) -> None:
    assert TraceRegression(rows=rows).shape(features, 1) == shape


@every(
    ("rows", "features", "words"),
    [
        (5, 12, "5 rows do not divide the 12 features of the data"),
        (13, 12, "13 rows do not divide the 12"),
        (None, 12, "a square matrix does not take the 12 features"),
        (None, 20, "a square matrix does not take the 20 features"),
    ],
)
def test_features_that_fill_no_such_matrix_are_refused(
    rows: int | None, features: int, words: str
) -> None:
    data = Samples(np.ones((4, features)), np.ones(4))
    with pytest.raises(DataError, match=words) as caught:
        Problem.of(TraceRegression(rows=rows), [data])
    assert caught.value.key == "loss.rows"
