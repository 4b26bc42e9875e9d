"""Vectors as integers: exact sums, no bias, and what does not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import Failed
from fedsim.core.ports import Array
from fedsim.protocol.secrecy.integers import IntegerCode, Integers

codes = st.builds(
    IntegerCode,
    clients=st.integers(2, 50),
    bits=st.integers(2, 24),
    clip=st.floats(1e-3, 1e3),
    headroom=st.integers(0, 5),
    prime=st.booleans(),
)


@given(codes, st.integers(0, 2**32 - 1))
def test_the_sum_of_residues_is_the_sum_of_integers(code: IntegerCode, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = code.clip * rng.standard_normal((code.clients, 7))
    integers = [code.encode(vector, rng) for vector in vectors]
    residues = sum((code.reduce(one) for one in integers), np.zeros(7, np.int64))
    total = code.centre(code.reduce(residues))
    assert total.tolist() == np.sum(integers, axis=0).tolist()


@given(codes, st.integers(0, 2**32 - 1))
def test_decoded_vectors_are_within_one_integer_of_the_clipped_ones(
    code: IntegerCode, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vector = 2 * code.clip * rng.standard_normal(9)
    clipped = code.clipped(vector)
    assert np.linalg.norm(clipped) <= code.clip * (1 + 1e-12)
    error = code.decode(code.encode(vector, rng)) - clipped
    assert np.abs(error).max() <= (1 + 1e-9) / code.scale


def test_largest_values_of_all_clients_fit_and_one_more_would_not() -> None:
    code = IntegerCode(5, bits=8)
    ends = np.full(1, 1.0)
    rng = np.random.default_rng(0)
    assert code.encode(ends, rng).tolist() == [127]
    assert code.centre(code.reduce(np.array([-127 * 5, 127 * 5]))).tolist() == [-635, 635]
    assert code.room * code.clients <= (code.modulus - 1) / 2 < (code.room + 1) * code.clients


def test_rounding_is_without_bias() -> None:
    """The mean of 40,000 roundings is within five standard errors, 1/2 integer each at most."""
    code, rng = IntegerCode(2, bits=6), np.random.default_rng(3)
    vector = np.array([0.3, -0.123, 0.0, 0.01])
    drawn = np.array([code.encode(vector, rng) for _ in range(40_000)])
    assert np.abs(drawn.mean(axis=0) - vector * code.scale).max() < 5 * 0.5 / 200
    assert not drawn[:, 2].any()


def test_a_factor_multiplies_after_clipping() -> None:
    code, rng = IntegerCode(3, bits=20), np.random.default_rng(0)
    sent = code.encode(np.array([3.0, 4.0]), rng, 0.5)
    assert np.allclose(sent / code.scale, [0.3, 0.4], atol=1e-5)
    assert np.allclose(code.decode(sent, 0.5), [0.6, 0.8], atol=1e-5)


def noise(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Integers:
    return rng.integers(-200, 201, shape)


def test_noise_is_added_where_it_has_room() -> None:
    vector: Array = np.array([0.9, -0.1])
    roomy = IntegerCode(4, bits=8, headroom=3)
    alone = roomy.encode(vector, np.random.default_rng(1))
    with_noise = roomy.encode(vector, np.random.default_rng(1), noise=noise)
    assert np.abs(with_noise - alone).max() > 1
    with pytest.raises(Failed, match=r"integers with noise exceed .*; give more headroom"):
        IntegerCode(4, bits=4).encode(vector, np.random.default_rng(1), noise=noise)


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(Failed, match="not finite"):
        IntegerCode(2).encode(np.array([np.nan]), np.random.default_rng(0))
