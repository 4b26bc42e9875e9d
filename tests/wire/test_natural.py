"""What nothing compresses goes in the shortest way that its structure allows."""

from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import DENSE, SPARSE, Array, Structure
from fedsim.wire import (
    PACKERS,
    QSGD,
    Dense,
    Identity,
    LowRank,
    Scalar,
    Sparse,
    TopK,
    ValueFormat,
    decode,
    encode,
)
from fedsim.wire.payloads.dense import natural
from tests.tiers import every

F64 = ValueFormat.FLOAT64


def sparse_vector(nonzeros: int, dimension: int) -> Array:
    vector = np.zeros(dimension)
    vector[np.random.default_rng(nonzeros).permutation(dimension)[:nonzeros]] = 1.5
    return vector


@given(st.integers(0, 200), st.sampled_from(list(ValueFormat)))
def test_a_sparse_vector_takes_the_shorter_of_two_ways(nonzeros: int, form: ValueFormat) -> None:
    vector = sparse_vector(nonzeros, 200)
    payload = natural(vector, SPARSE, form)
    both = [Sparse.of(vector, form).bits, Dense.of(vector, form).bits]
    assert payload.bits == min(both) == 8 * len(encode(payload))
    assert payload.values.tolist() == vector.tolist()


def test_the_bits_of_a_sparse_vector_by_hand() -> None:
    """One byte for kind and format, two and one for d and k, one for the index code."""
    payload = natural(sparse_vector(7, 1000), SPARSE, ValueFormat.FLOAT32)
    fixed_width = ceil(7 * ceil(log2(1000)) / 8)
    assert isinstance(payload, Sparse)
    assert payload.bits <= 8 * (1 + 2 + 1 + 1 + fixed_width + 7 * 4)
    assert payload.bits > 8 * (1 + 2 + 1 + 1 + 7 * 4)


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_matrix_of_low_rank_goes_as_its_factors_where_that_is_shorter(
    rank: int, rows: int, columns: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    payload = natural(matrix.ravel(), Structure("low-rank", rows), F64)
    assert payload.values == pytest.approx(matrix.ravel(), rel=1e-12, abs=1e-12)
    true_rank = min(rank, rows, columns)
    shorter = true_rank * (rows + columns) + 2 < rows * columns  # counts take some bytes, too
    if shorter:
        assert isinstance(payload, LowRank)
        assert payload.left.shape == (rows, true_rank)
    if true_rank * (rows + columns) > rows * columns:
        assert isinstance(payload, Dense)
    assert payload.bits == 8 * len(encode(payload))
    assert decode(encode(payload)).values.tolist() == payload.values.tolist()


def test_a_matrix_of_zeros_has_rank_zero() -> None:
    payload = natural(np.zeros(64), Structure("low-rank", 8), F64)
    assert isinstance(payload, LowRank)
    assert not payload.values.any()
    assert payload.bits == 8 * 4


@pytest.mark.parametrize("structure", [DENSE, SPARSE, Structure("low-rank", 2)])
def test_what_is_not_finite_arrives_as_such(structure: Structure) -> None:
    vector = np.array([0.0, np.nan, np.inf, 0.0])
    payload = natural(vector, structure, F64)
    assert np.isnan(payload.values[1])
    assert np.isinf(payload.values[2])


@every("feedback", ["none", "ef", "ef21"])
@every("compressor", [Identity(), TopK(fraction=0.5), QSGD()])
def test_a_number_is_never_compressed(feedback: str, compressor: object) -> None:
    packer = PACKERS[feedback](compressor, F64, np.random.default_rng(1))  # type: ignore[index,arg-type]
    payload = packer.pack(np.array(0.1))
    assert isinstance(payload, Scalar)
    assert float(payload.values) == 0.1
    assert payload.bits == 8 * 9


def test_what_compresses_has_the_last_word() -> None:
    packer = PACKERS["none"](TopK(count=2), F64, np.random.default_rng(1))
    payload = packer.pack(np.array([3.0, 0.0, -4.0, 1.0]), Structure("low-rank", 2))
    assert payload.values.tolist() == [3.0, 0.0, -4.0, 0.0]
