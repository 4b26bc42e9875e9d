"""Preprocessing of sparse features, which stay sparse, and of other rows than the fitted ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import TypeAdapter
from scipy.sparse import csr_array
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.data import Step, fit
from fedsim.problems.data.preprocess import preprocess
from fedsim.problems.samples import Features

STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])


def tables(least: int = -5) -> st.SearchStrategy[Array]:
    elements = st.integers(least, 5).map(lambda number: float(max(abs(number) - 2, 0)) * number)
    return arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 4)), elements=elements)


def steps(*written: Any) -> tuple[Step, ...]:
    return STEPS.validate_python(written)


def dense(X: Features) -> Array:
    assert isinstance(X, csr_array)
    assert X.has_canonical_format
    return X.toarray()


@pytest.mark.parametrize("step", ["max-abs", "unit-rows", "intercept", {"divide": 3.0}])
@given(X=tables())
def test_a_sparse_step_is_the_dense_one(step: object, X: Array) -> None:
    found = preprocess(csr_array(X), steps(step))
    assert dense(found) == pytest.approx(np.asarray(preprocess(X, steps(step))), rel=1e-14)


@given(X=tables(), k=st.integers(1, 4))
def test_the_first_columns_are_kept(X: Array, k: int) -> None:
    if k <= X.shape[1]:
        assert np.array_equal(dense(preprocess(csr_array(X), steps({"first": k}))), X[:, :k])


@given(X=tables())
def test_max_abs_agrees_with_scikit_learn(X: Array) -> None:
    assert preprocess(X, steps("max-abs")) == pytest.approx(MaxAbsScaler().fit_transform(X))


@given(X=tables(least=0))
def test_the_unit_range_of_columns_from_0_up_stays_sparse(X: Array) -> None:
    X[0] = 0.0
    found = preprocess(csr_array(X), steps("unit-range"))
    assert dense(found) == pytest.approx(MinMaxScaler().fit_transform(X))


@pytest.mark.parametrize(
    ("step", "X", "words"),
    [
        ("standardise", [[1.0, 0.0]], ["standardise", "zeros of sparse"]),
        ("unit-range", [[0.0, -1.5], [0.0, 0.0]], ["unit-range", "column 2 with -1.5"]),
        ("unit-range", [[2.0, 0.0]], ["unit-range", "column 1 with 2"]),
    ],
)
def test_what_would_fill_in_zeros_is_refused(
    step: str, X: list[list[float]], words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        preprocess(csr_array(np.array(X)), steps(step))
    assert caught.value.key == "data.preprocess"
    assert all(word in str(caught.value) for word in [*words, "max-abs", "layout: dense"])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_input_is_left_as_it_was(sparse: bool) -> None:
    X = np.array([[0.0, 2.0], [3.0, 0.0]])
    given_features: Features = csr_array(X) if sparse else X.copy()
    for step in ("max-abs", "unit-rows", "intercept", {"divide": 2.0}, {"first": 1}):
        preprocess(given_features, steps(step))
    assert np.array_equal(given_features.toarray() if sparse else given_features, X)  # type: ignore[union-attr]


class TestOtherRows:
    """Rows that a step has not seen are treated by what it learnt of those that it has."""

    @pytest.mark.parametrize(
        ("step", "scaler"),
        [
            ("standardise", StandardScaler()),
            ("unit-range", MinMaxScaler()),
            ("max-abs", MaxAbsScaler()),
        ],
    )
    @given(data=st.data())
    def test_steps_agree_with_scikit_learn(self, step: str, scaler: Any, data: Any) -> None:
        X = data.draw(tables())
        other = data.draw(arrays(np.float64, (3, X.shape[1]), elements=st.integers(-9, 9)))
        varied = (np.ptp(X, axis=0) > 0) & X.any(axis=0)
        _, transform = fit(X, steps(step))
        expected = scaler.fit(X).transform(other)
        assert np.asarray(transform(other))[:, varied] == pytest.approx(expected[:, varied])

    def test_a_column_that_was_constant_says_nothing(self) -> None:
        X = np.array([[2.0, 1.0], [2.0, 3.0]])
        for step in ("standardise", "unit-range"):
            _, transform = fit(X, steps(step))
            assert np.asarray(transform(X + 5.0))[:, 0].tolist() == [0.0, 0.0]

    @given(X=tables())
    def test_the_fitted_rows_themselves_come_out_alike(self, X: Array) -> None:
        chain = steps("standardise", "unit-rows", "intercept", {"divide": 2.0}, "max-abs")
        found, transform = fit(X, chain)
        assert np.array_equal(np.asarray(transform(X)), np.asarray(found))

    def test_sparse_rows_stay_sparse(self) -> None:
        _, transform = fit(csr_array(np.eye(2)), steps("max-abs", "intercept"))
        assert dense(transform(csr_array([[4.0, 0.0]]))).tolist() == [[4.0, 0.0, 1.0]]
