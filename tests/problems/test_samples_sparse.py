"""Sparse samples: the same rows as dense ones, and a digest that tells content apart."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Samples
from fedsim.problems.samples import canonical, check

tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.sampled_from([0.0, 0.0, 1.0, -2.5]),
)


def sparse(X: Array) -> Samples:
    return Samples(csr_array(X), np.arange(float(len(X))), np.arange(len(X)))


def digest(samples: Samples) -> str:
    total = hashlib.sha256()
    for block in samples.blocks():
        total.update(block)
    return total.hexdigest()


@given(X=tables, data=st.data())
def test_rows_are_taken_in_the_order_asked_for(X: Array, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(X) - 1)))
    part = sparse(X).take(np.array(rows, dtype=np.intp))
    assert isinstance(part.X, csr_array)
    assert np.array_equal(part.X.toarray(), X[rows])
    assert part.y.tolist() == rows
    assert part.X.shape == (len(rows), X.shape[1])


@given(X=tables, data=st.data())
def test_a_run_of_consecutive_rows_is_taken(X: Array, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(X) - 1))
    last = data.draw(st.integers(first, len(X) - 1))
    part = sparse(X).take(np.arange(first, last + 1))
    assert isinstance(part.X, csr_array)
    assert np.array_equal(part.X.toarray(), X[first : last + 1])


def test_sizes_are_those_of_the_features() -> None:
    samples = sparse(np.eye(3, 7))
    assert (samples.rows, samples.features) == (3, 7)
    check(samples)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "nan"), (-np.inf, "-inf")])
def test_a_number_that_is_not_finite_is_named(value: float, word: str) -> None:
    X = np.zeros((5, 4))
    X[0, 3], X[3, 2], X[4, 0] = 1.0, value, np.nan
    with pytest.raises(DataError, match=f"row 4, column 3 of the features is {word}"):
        check(sparse(X))


def test_canonical_rows_are_sorted_and_have_no_zeros() -> None:
    X = csr_array((np.array([3.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    tidy = canonical(X)
    assert tidy.indices.tolist() == [0, 2]
    assert tidy.data.tolist() == [1.0, 3.0]


class TestBlocks:
    def test_dense_samples_are_their_types_their_shape_and_their_numbers(self) -> None:
        X, y = np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0, 1.0])
        expected = hashlib.sha256(b"(3, 2) <f8 <f8" + X.tobytes() + y.tobytes()).hexdigest()
        assert digest(Samples(X, y)) == expected
        assert digest(Samples(np.asfortranarray(X), y.copy())) == expected

    @given(X=tables, data=st.data())
    def test_a_digest_goes_by_content(self, X: Array, data: st.DataObject) -> None:
        samples, again = sparse(X), sparse(X.copy())
        assert digest(samples) == digest(again)
        row = data.draw(st.integers(0, X.shape[0] - 1))
        column = data.draw(st.integers(0, X.shape[1] - 1))
        X[row, column] += 1.0
        assert digest(sparse(X)) != digest(samples)

    def test_a_dense_row_made_of_the_bytes_of_a_sparse_one_is_another(self) -> None:
        row = sparse(np.array([[1.0, 0.0, 0.0, 0.0]]))
        # The number, its column, and the two ends of the row, as eight bytes each.
        numbers = np.array([np.float64(1.0).view(np.int64), 0, 0, 1]).view(np.float64)
        assert digest(Samples(numbers[None, :], row.y)) != digest(row)

    def test_a_digest_does_not_depend_on_the_width_of_indices(self) -> None:
        narrow = sparse(np.eye(3))
        assert isinstance(narrow.X, csr_array)
        parts = (narrow.X.data, narrow.X.indices.astype("i8"), narrow.X.indptr.astype("i8"))
        wide = Samples(csr_array(parts, shape=(3, 3)), narrow.y)
        assert digest(wide) == digest(narrow)

    @pytest.mark.parametrize("moved", [[[0, 1.0], [0, 0]], [[1.0, 0, 0], [0, 0, 0]]])
    def test_a_digest_sees_where_a_number_stands_and_how_wide_rows_are(
        self, moved: list[list[float]]
    ) -> None:
        assert digest(sparse(np.array(moved))) != digest(sparse(np.array([[1.0, 0], [0, 0]])))
