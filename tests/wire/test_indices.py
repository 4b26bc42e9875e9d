"""Index codes: each is read as it was written, and the shortest is near the entropy."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DecodeError
from fedsim.wire.bitstream import Reader, concatenate
from fedsim.wire.indices import IndexCode, IndexSet, entropy, read, rice_parameter
from tests.tiers import every
from tests.wire.strategies import dimensions, masks

ISSUED = {0.001: 11.5, 0.01: 8.1, 0.1: 4.8, 0.3: 3.0}
"""Bits an index at some densities, at d = 10^5."""


@given(dimensions.flatmap(masks), st.sampled_from(IndexCode))
def test_every_code_is_read_as_it_was_written(present: np.ndarray, code: IndexCode) -> None:
    indices, dimension = np.flatnonzero(present), present.size
    where = IndexSet.of(indices, dimension)
    bits = where.write(code)
    assert bits.size == where.sizes[code]
    reader = Reader(concatenate(bits))
    assert read(reader, where.tag(code), indices.size, dimension).tolist() == indices.tolist()
    reader.align()
    assert reader.left == 0


@given(dimensions.flatmap(masks), st.sampled_from(IndexCode))
def test_an_index_beyond_the_dimension_is_refused(present: np.ndarray, code: IndexCode) -> None:
    """Written for a vector that is longer by one, whose last coordinate is named."""
    indices, dimension = np.append(np.flatnonzero(present), present.size), present.size + 1
    where = IndexSet.of(indices, dimension)
    reader = Reader(concatenate(np.concatenate([where.write(code), np.zeros(64, np.uint8)])))
    try:
        seen = read(reader, where.tag(code), indices.size, dimension - 1)
    except DecodeError:
        return
    assert seen.max(initial=-1) < dimension - 1
    assert (np.diff(seen) > 0).all()
    assert seen.size == indices.size


@given(dimensions.flatmap(masks))
def test_the_shortest_of_textbook_lengths_is_chosen(present: np.ndarray) -> None:
    count, dimension = int(present.sum()), present.size
    written = np.flatnonzero(present if 2 * count <= dimension else ~present).tolist()
    gaps = [after - before for before, after in pairwise([-1, *written])]
    divisor = 2 ** rice_parameter(len(written), dimension)
    lengths = [
        dimension,
        len(written) * (math.ceil(math.log2(dimension)) if dimension > 1 else 0),
        sum(2 * math.floor(math.log2(gap)) + 1 for gap in gaps),
        sum((gap - 1) // divisor + 1 + divisor.bit_length() - 1 for gap in gaps),
    ]
    where = IndexSet.of(np.flatnonzero(present), dimension)
    assert where.bits == where.sizes[where.code] == min(lengths)


@every("density", ISSUED)
def test_bits_an_index_come_near_the_entropy(density: float) -> None:
    dimension, rng = 10**5, np.random.default_rng(0)
    count = round(density * dimension)
    indices = np.sort(rng.choice(dimension, count, replace=False))
    bits = IndexSet.of(indices, dimension).bits / count
    assert bits == pytest.approx(ISSUED[density], rel=0.03)
    bound = -math.log2(density) - (1 - density) / density * math.log2(1 - density)
    assert bound <= bits <= 1.03 * bound
    assert entropy(count, dimension) / count == pytest.approx(bound, rel=0.01)


@every(("count", "dimension"), [(0, 0), (0, 9), (9, 9), (3, 10), (50, 100)])
def test_the_entropy_counts_the_choices(count: int, dimension: int) -> None:
    bits = math.log2(math.comb(dimension, count))
    assert entropy(count, dimension) == pytest.approx(bits, abs=1e-9)


@given(st.integers(1, 10**6), st.data())
def test_no_rice_parameter_is_better_for_gaps_drawn_at_random(
    dimension: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, max(dimension // 2, 1)))
    chosen = rice_parameter(count, dimension)
    if count == dimension:
        return

    def mean_bits(low: int) -> float:
        """1 + r + E floor((g - 1)/2^r), a geometric series in (1 - p)^(2^r)."""
        jump = math.exp(2**low * math.log1p(-count / dimension))
        return 1 + low + jump / (1 - jump)

    assert mean_bits(chosen) <= min(mean_bits(chosen + 1), mean_bits(max(chosen - 1, 0))) + 1e-9


CASES = {
    IndexCode.BITMAP: [0, 2, 5, 7],
    IndexCode.FIXED: [7],
    IndexCode.GAMMA: [0, 1, 2, 100, 101],
    IndexCode.RICE: [10, 30, 60, 90, 100],
}


@every("code", CASES)
def test_each_code_is_the_shortest_for_some_set(code: IndexCode) -> None:
    dimension = {IndexCode.BITMAP: 8, IndexCode.FIXED: 8}.get(code, 128)
    assert IndexSet.of(np.array(CASES[code]), dimension).code is code


@every(("tag", "count", "dimension", "data", "named"), [
    (0x00, 2, 8, "01", "not 2 numbers"),              # a bitmap with one bit set
    (0x01, 2, 8, "2d", "ascend"),                     # 5 and 5, in three bits each
    (0x01, 1, 5, "07", "not 1 numbers below 5"),      # 7
    (0x01, 2, 8, "7d", "padding"),                    # 5 and 7, and a bit too many
    (0x05, 1, 8, "00", "no index code 0x05"),         # a parameter where there is none
    (0x13, 1, 8, "00", "no index code 0x13"),         # r = 4, beyond the bits of an index
    (0x01, 9, 8, "00", "no index code"),
    (0x02, 1, 4, "08", "not 1 numbers below 4"),      # a gap of 8
    (0x03, 1, 8, "0008", "a gap leads beyond 8"),     # r = 0, a gap of 12
    (0x03, 1, 8, "0000", "1 numbers are announced"),
    (0xFF, 1, 2**28, "00", "no index code 0xff"),
])  # fmt: skip
def test_what_is_no_set_of_indices_is_refused(
    tag: int, count: int, dimension: int, data: str, named: str
) -> None:
    def read_all(reader: Reader) -> None:
        read(reader, tag, count, dimension)
        reader.align()

    with pytest.raises(DecodeError, match=named):
        read_all(Reader(bytes.fromhex(data)))


def test_a_rice_code_may_have_all_bits_of_an_index() -> None:
    """Then every index is written whole, after a unary code of nothing: even one of 5 in 3 bits."""
    whole = IndexCode.RICE | 3 << 2
    for index in range(5):
        bits = np.array([1, *(index >> np.arange(3) & 1)], np.uint8)
        assert read(Reader(concatenate(bits)), whole, 1, 5).tolist() == [index]
