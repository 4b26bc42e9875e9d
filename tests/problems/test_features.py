"""Matrices of features: what kernels ask of them, alike for dense and sparse ones."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from fedsim.core.ports import Array
from fedsim.problems.samples import (
    Sparse,
    dense,
    entries,
    gram,
    laid_out,
    longest_row,
    product,
    scaled_rows,
    transposed_product,
)
from tests.tiers import every

RNG = np.random.default_rng(3)
X: Sparse = csr_array(random_array((15, 7), density=0.3, rng=RNG, data_sampler=RNG.normal))
ARRAY: Array = X.toarray()
FACTORS = np.linspace(-1, 3, 15)


def test_rows_are_scaled_without_becoming_dense() -> None:
    scaled = scaled_rows(X, FACTORS)
    assert not isinstance(scaled, np.ndarray)
    assert dense(scaled) == pytest.approx(np.diag(FACTORS) @ ARRAY)
    assert scaled_rows(ARRAY, FACTORS) == pytest.approx(np.diag(FACTORS) @ ARRAY)
    assert np.array_equal(dense(X), ARRAY)


@pytest.mark.parametrize("features", [X, ARRAY], ids=["sparse", "dense"])
def test_products_norms_and_grams_are_those_of_the_formulas(features: Sparse) -> None:
    V, U = RNG.standard_normal((7, 3)), RNG.standard_normal((15, 2))
    assert product(features, V) == pytest.approx(ARRAY @ V)
    assert product(features, V[:, 0]) == pytest.approx(ARRAY @ V[:, 0])
    assert transposed_product(features, U) == pytest.approx(ARRAY.T @ U)
    assert transposed_product(features, U[:, 0]) == pytest.approx(ARRAY.T @ U[:, 0])
    assert gram(features, FACTORS) == pytest.approx(ARRAY.T @ np.diag(FACTORS) @ ARRAY)
    assert longest_row(features) == pytest.approx(np.linalg.norm(ARRAY, axis=1).max())


def test_entries_are_what_a_row_stores() -> None:
    assert entries(ARRAY) == 7.0
    assert entries(X) == pytest.approx(np.count_nonzero(ARRAY) / 15)


@every(
    ("shape", "by_columns"), [((9, 4), True), ((4, 9), False), ((90, 70), False), ((1, 1), True)]
)
def test_tall_matrices_of_few_columns_are_stored_by_columns(
    shape: tuple[int, int], by_columns: bool
) -> None:
    for order in (np.ascontiguousarray, np.asfortranarray):
        given = order(RNG.standard_normal(shape))
        stored = laid_out(given)
        assert np.array_equal(stored, given)
        assert stored.flags.f_contiguous == by_columns
    assert laid_out(X) is X
