"""Bits: textbook codes, written and read again many at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DecodeError
from fedsim.wire.bitstream import (
    Reader,
    concatenate,
    fixed_width,
    gamma,
    gamma_length,
    unary,
    varint,
    varint_size,
)
from tests.tiers import every

small = st.lists(st.integers(0, 70), max_size=40).map(lambda some: np.array(some, dtype=np.intp))
positive = st.lists(
    st.one_of(st.integers(1, 9), st.integers(1, 2**32 - 1)), max_size=40
).map(lambda some: np.array(some, dtype=np.intp))  # fmt: skip


@given(small, positive, st.integers(7, 32))
def test_a_stream_is_read_as_it_was_written(
    counts: np.ndarray, wide: np.ndarray, width: int
) -> None:
    data = concatenate(
        unary(counts), fixed_width(counts, width), gamma(wide), fixed_width(wide, 32)
    )
    reader = Reader(data)
    assert reader.unary(counts.size).tolist() == counts.tolist()
    assert reader.fixed_width(counts.size, width).tolist() == counts.tolist()
    assert reader.gamma(wide.size).tolist() == wide.tolist()
    assert reader.fixed_width(wide.size, 32).tolist() == wide.tolist()
    reader.align()
    assert reader.left == 0


@given(positive)
def test_gamma_is_as_long_as_the_textbook_s(numbers: np.ndarray) -> None:
    textbook = [(len(f"{number:b}") - 1) * "0" + f"{number:b}" for number in numbers]
    assert gamma(numbers).size == gamma_length(numbers) == sum(map(len, textbook))


@given(small)
def test_unary_is_as_long_as_its_numbers_and_their_ends(numbers: np.ndarray) -> None:
    assert unary(numbers).size == numbers.sum() + numbers.size


@given(st.one_of(st.integers(0, 300), st.integers(0, 2**35 - 1)))
def test_a_count_takes_a_byte_for_every_seven_bits(number: int) -> None:
    data = varint(number)
    assert len(data) == varint_size(number)
    assert 128 ** (len(data) - 1) <= max(number, 1) < 128 ** len(data)
    assert Reader(data).varint() == number


@every(("number", "data"), [
    (0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"),
    (2**28, "8080808001"),
])  # fmt: skip
def test_counts_by_hand(number: int, data: str) -> None:
    assert varint(number).hex() == data


@every("data", ["80", "8000", "ffffffffff01", "808080808000"])
def test_a_count_that_is_cut_off_or_longer_than_it_has_to_be_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        Reader(bytes.fromhex(data)).varint()


@pytest.mark.parametrize("ones", [0, 3])
def test_unary_numbers_without_an_end_are_refused(ones: int) -> None:
    reader = Reader(
        concatenate(unary(np.zeros(ones, dtype=np.intp)), np.zeros(5000, dtype=np.uint8))
    )
    with pytest.raises(DecodeError, match=f"4 numbers are announced, {ones} follow"):
        reader.unary(4)


def test_a_gamma_code_beyond_32_bits_is_refused() -> None:
    with pytest.raises(DecodeError, match="33 bits"):
        Reader(bytes(4) + b"\xff" * 8).gamma(1)


def test_padding_that_is_not_zero_is_refused() -> None:
    reader = Reader(b"\x09")
    assert reader.bits(3).tolist() == [1, 0, 0]
    with pytest.raises(DecodeError, match="padding"):
        reader.align()


def test_no_more_is_read_than_there_is() -> None:
    for read in (Reader(b"ab").bits, Reader(b"ab").expect):
        with pytest.raises(DecodeError, match="17 bits are announced, 16 follow"):
            read(17)
