"""Preprocessing: the laws of each step, with scikit-learn's transformers as an oracle."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import TypeAdapter, ValidationError
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Bundled, PlantedSmoothness
from fedsim.problems.data import First, Step
from fedsim.problems.data.preprocess import preprocess
from tests.tiers import every

STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])

# Whole numbers, so that columns are constant exactly or not at all.
tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 4)),
    elements=st.integers(-50, 50).map(float),
)


@given(X=tables)
def test_standardised_columns_agree_with_scikit_learn(X: Array) -> None:
    expected = StandardScaler().fit_transform(X)
    assert preprocess(X, ["standardise"]) == pytest.approx(expected, abs=1e-12)


@given(X=tables)
def test_columns_in_the_unit_range_agree_with_scikit_learn(X: Array) -> None:
    scaled = preprocess(X, ["unit-range"])
    assert scaled == pytest.approx(MinMaxScaler().fit_transform(X), abs=1e-12)
    assert scaled.min() >= 0
    assert scaled.max() <= 1


@given(X=tables)
def test_unit_rows_agree_with_scikit_learn(X: Array) -> None:
    assert preprocess(X, ["unit-rows"]) == pytest.approx(normalize(X), abs=1e-15)


@every("constant", [0.1, 1e9 + 0.1, 0.0, -3.0])
@every("step", ["standardise", "unit-range"])
def test_a_constant_column_becomes_zeros_exactly(step: str, constant: float) -> None:
    X = np.column_stack([np.full(7, constant), np.arange(7.0)])
    assert not preprocess(X, STEPS.validate_python((step,)))[:, 0].any()


@given(X=tables)
def test_the_intercept_is_a_last_column_of_ones(X: Array) -> None:
    extended = preprocess(X, ["intercept"])
    assert np.array_equal(extended[:, :-1], X)
    assert (extended[:, -1] == 1).all()


@given(X=tables, k=st.integers(1, 4))
def test_the_first_columns_are_kept_or_an_error_names_both_numbers(X: Array, k: int) -> None:
    if k <= X.shape[1]:
        assert np.array_equal(preprocess(X, [First(first=k)]), X[:, :k])
        return
    with pytest.raises(DataError, match=f"first {k} .*the data has {X.shape[1]}") as caught:
        preprocess(X, [First(first=k)])
    assert caught.value.key == "data.preprocess"


@given(X=tables, steps=st.lists(st.sampled_from(["standardise", "unit-rows", "intercept"])))
def test_steps_apply_one_after_the_other(X: Array, steps: list[str]) -> None:
    expected = X
    for step in STEPS.validate_python(steps):
        expected = preprocess(expected, [step])
    once = preprocess(X, STEPS.validate_python(steps))
    assert np.array_equal(once, expected)
    assert once.flags.c_contiguous


def test_the_input_is_left_as_it_was() -> None:
    X = np.arange(6.0).reshape(3, 2)
    for steps in STEPS.validate_python([("standardise"), ("unit-range"), ("unit-rows")]):
        preprocess(X, [steps])
    assert np.array_equal(X, np.arange(6.0).reshape(3, 2))


def test_steps_are_written_as_words_and_one_as_a_mapping() -> None:
    steps = STEPS.validate_python(["standardise", {"first": 3}, "intercept"])
    assert steps == ("standardise", First(first=3), "intercept")


@every("step", ["standardize", {"first": 0}, {"last": 1}, 7])
def test_other_steps_are_refused(step: object) -> None:
    with pytest.raises(ValidationError):
        STEPS.validate_python([step])


def test_every_source_takes_steps(rng: np.random.Generator) -> None:
    source = Bundled(name="wine", preprocess=("standardise", First(first=2), "intercept"))
    samples = source.load(Path(), rng)
    assert samples.X.shape == (178, 3)
    assert samples.X.mean(axis=0) == pytest.approx([0, 0, 1])


def test_client_numbers_outlive_preprocessing(rng: np.random.Generator) -> None:
    samples = PlantedSmoothness(growth=1.3, preprocess=("intercept",)).load(Path(), rng)
    assert samples.client is not None
    assert len(samples.client) == samples.rows
