"""Samples: rows taken without copying, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import DataError
from fedsim.problems import Samples
from fedsim.problems.samples import check

X = np.arange(12.0).reshape(4, 3)
DATA = Samples(X, np.arange(4.0), np.array([3, 3, 5, 5]), truth=np.ones(3))


@given(rows=st.lists(st.integers(0, 3)))
def test_rows_are_taken_in_the_order_asked_for(rows: list[int]) -> None:
    part = DATA.take(np.array(rows, dtype=np.intp))
    assert part.client is not None
    assert part.X.tolist() == [X[row].tolist() for row in rows]
    assert part.y.tolist() == rows
    assert part.client.tolist() == [[3, 3, 5, 5][row] for row in rows]
    assert part.truth is DATA.truth


@pytest.mark.parametrize(
    ("rows", "shared"), [([1, 2, 3], True), ([2], True), ([1, 3], False), ([2, 1], False)]
)
def test_a_run_of_consecutive_rows_is_not_copied(rows: list[int], shared: bool) -> None:
    assert np.shares_memory(DATA.take(np.array(rows)).X, X) == shared


def test_sizes_are_those_of_the_features() -> None:
    assert (DATA.rows, DATA.features) == (4, 3)


def spoilt(row: int, column: int, value: float) -> Samples:
    features = X.copy()
    features[row, column] = value
    return Samples(features, np.zeros(4))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (spoilt(2, 1, np.nan), ["row 3, column 2", "nan"]),
        (spoilt(0, 2, -np.inf), ["row 1, column 3", "-inf"]),
        (Samples(X, np.array([0, 1, np.inf, 0])), ["label of row 3", "inf"]),
        (Samples(X, np.zeros(5)), ["4 rows", "5 labels"]),
        (Samples(X, np.zeros((4, 1))), ["(4, 3)", "(4, 1)"]),
        (Samples(X[0], np.zeros(4)), ["(3,)"]),
        (Samples(X[:0], np.zeros(0)), ["0 x 3"]),
        (Samples(X[:, :0], np.zeros(4)), ["4 x 0"]),
        (Samples(X, np.zeros(4), client=np.zeros(3, dtype=np.int64)), ["4 rows", "(3,)"]),
    ],
)
def test_samples_that_cannot_be_computed_with_are_refused(
    samples: Samples, words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        check(samples)
    assert caught.value.key == "data"
    assert all(word in str(caught.value) for word in words)


def test_samples_that_can_be_computed_with_pass() -> None:
    check(DATA)
