"""Samples: rows taken without copying, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.problems import Samples
from fedsim.problems.samples import as_read, check
from tests.tiers import every

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


@every(("rows", "shared"), [([1, 2, 3], True), ([2], True), ([1, 3], False), ([2, 1], False)])
def test_a_run_of_consecutive_rows_is_not_copied(rows: list[int], shared: bool) -> None:
    assert np.shares_memory(DATA.take(np.array(rows)).X, X) == shared


def test_sizes_are_those_of_the_features() -> None:
    assert (DATA.rows, DATA.features) == (4, 3)


def spoilt(row: int, column: int, value: float) -> Samples:
    features = X.copy()
    features[row, column] = value
    return Samples(features, np.zeros(4))


@every(
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


def test_what_is_computed_with_a_model_has_to_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten vectors of a model's size, 8 bytes a number: 240 bytes for three features."""
    monkeypatch.setenv("FEDSIM_MEMORY", "0.24 kB")
    check(DATA)
    monkeypatch.setenv("FEDSIM_MEMORY", "0.239 kB")
    with pytest.raises(DataError, match="3 features: a model and what is computed with it"):
        check(DATA)


@every("code", ["?", "b", "B", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "f8"])
@every("order", "<>")
def test_numbers_of_up_to_four_bytes_keep_their_type_and_all_values(code: str, order: str) -> None:
    kind = np.dtype(f"{order}{code}")
    given = np.array([[1, 0], [1, 1]]).astype(kind).T
    held = as_read(given)
    own = {"?": np.dtype("u1"), "i8": np.dtype("f8")}.get(code, np.dtype(code))
    assert held.dtype == own
    assert held.dtype.isnative
    assert held.flags["C_CONTIGUOUS"]
    assert held.tolist() == [[1, 1], [0, 1]]
