"""What is charged is what arrives: bits and rounding."""

import math
from collections import Counter
from dataclasses import FrozenInstanceError, dataclass, fields
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedsim.core.ports import Message
from fedsim.wire import Dense, Empty, Encodable, Scalar, Sparse, ValueFormat, decode, encode
from fedsim.wire.payloads import draw_indices
from tests.tiers import every
from tests.wire.strategies import formats, numbers, payloads


@given(payloads)
def test_bits_are_those_of_the_encoding(payload: Encodable) -> None:
    assert payload.bits == 8 * len(encode(payload))


@given(payloads)
def test_what_arrives_is_what_the_payload_says(payload: Encodable) -> None:
    arrived = decode(encode(payload))
    assert type(arrived) is type(payload)
    assert arrived.values.shape == payload.values.shape
    number = ~np.isnan(payload.values)  # which bits a NaN has says nothing
    assert np.isnan(arrived.values[~number]).all()
    assert arrived.values[number].tobytes() == payload.values[number].tobytes()


@given(payloads)
def test_a_payload_stays_what_was_charged(payload: Encodable) -> None:
    for field in fields(payload):  # type: ignore[arg-type]  # all are dataclasses
        with pytest.raises(FrozenInstanceError):
            setattr(payload, field.name, None)


@given(payloads)
def test_what_arrives_is_encoded_as_before(payload: Encodable) -> None:
    data = encode(payload)
    assert encode(decode(data)) == data


@given(payloads)
def test_what_arrives_cannot_be_changed_by_a_receiver(payload: Encodable) -> None:
    assert not payload.values.flags.writeable or payload.values.size == 0
    assert not decode(encode(payload)).values.flags.writeable or payload.values.size == 0


def test_a_sender_may_go_on_with_its_array() -> None:
    vector = np.ones(3)
    payload = Dense.of(vector, ValueFormat.FLOAT64)
    vector[0] = 7.0
    assert payload.values.tolist() == [1.0, 1.0, 1.0]


@given(st.floats(-1e38, 1e38, allow_subnormal=False))
def test_float32_is_the_nearest_of_the_24_bit_numbers(value: float) -> None:
    arrived = float(Scalar.of(value, ValueFormat.FLOAT32).values)
    # An independent rounding: the exact value in units of the last of 24 binary places.
    exact = Fraction(value)
    exponent = math.frexp(value)[1] - 24 if value else 0
    unit = Fraction(2) ** max(exponent, -149)
    assert abs(Fraction(arrived) - exact) <= unit / 2


@pytest.mark.parametrize(
    ("value_format", "places", "least", "most"),
    [
        (ValueFormat.BFLOAT16, 8, -133, Fraction(2) ** 128 - Fraction(2) ** 120),
        (ValueFormat.FLOAT16, 11, -24, Fraction(65504)),
    ],
    ids=["bfloat16", "float16"],
)
@given(value=st.one_of(st.floats(-7e4, 7e4), st.floats(allow_nan=False, allow_infinity=False)))
@example(value=1 + 2**-8)  # ties of bfloat16, to even: down, up, and a hair above a tie
@example(value=1 + 3 * 2**-8)
@example(value=1 + 2**-8 + 2**-40)
@example(value=65520.0)
@example(value=3.3961775292304957e38)
@example(value=2.0**-25)
def test_the_16_bit_formats_are_the_nearest_numbers_with_ties_to_even(
    value_format: ValueFormat, places: int, least: int, most: Fraction, value: float
) -> None:
    arrived = float(Scalar.of(value, value_format).values)
    exponent = math.frexp(value)[1] - places if value else 0
    unit = Fraction(2) ** max(exponent, least)
    steps = round(Fraction(value) / unit)  # which rounds ties to even
    if abs(steps * unit) > most:
        assert arrived == math.copysign(math.inf, value)
    else:
        assert Fraction(arrived) == steps * unit
        assert math.copysign(1.0, arrived) == math.copysign(1.0, value)


@given(st.sampled_from([ValueFormat.BFLOAT16, ValueFormat.FLOAT16]))
def test_the_16_bit_formats_know_what_is_no_number(value_format: ValueFormat) -> None:
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0])
    arrived = Dense.of(values, value_format).values
    assert np.isnan(arrived[:2]).all()
    assert arrived[2:4].tolist() == [np.inf, -np.inf]
    assert np.signbit(arrived[4])


@given(numbers)
def test_float64_arrives_as_it_is(value: float) -> None:
    arrived = Scalar.of(value, ValueFormat.FLOAT64).values
    assert arrived.tobytes() == np.float64(value).tobytes()


def test_what_does_not_fit_becomes_infinite() -> None:
    payload = Dense.of(np.array([1e300, -1e300]), ValueFormat.FLOAT32)
    assert payload.values.tolist() == [np.inf, -np.inf]


@every(("shape", "value_format", "bits"), [
    ((0,), ValueFormat.FLOAT64, 8 * (2 + 4)),
    ((1,), ValueFormat.FLOAT32, 8 * (2 + 4 + 4)),
    ((30,), ValueFormat.FLOAT64, 8 * (2 + 4 + 30 * 8)),
    ((3, 5), ValueFormat.FLOAT32, 8 * (2 + 8 + 15 * 4)),
])  # fmt: skip
def test_bits_of_dense_by_hand(
    shape: tuple[int, ...], value_format: ValueFormat, bits: int
) -> None:
    assert Dense.of(np.zeros(shape), value_format).bits == bits


def test_an_empty_payload_has_no_bits() -> None:
    assert Empty().bits == 0
    assert encode(Empty()) == b""


@given(formats)
def test_sparse_is_shorter_than_dense_where_most_is_zero(value_format: ValueFormat) -> None:
    values = np.zeros(10_000)
    values[::500] = 1.0
    sparse, dense = Sparse.of(values, value_format), Dense.of(values, value_format)
    assert np.array_equal(sparse.values, dense.values)
    assert sparse.bits < dense.bits / 50


def drawn_one_by_one(seed: int, count: int, dimension: int) -> list[int]:
    """Return the first distinct numbers that a seed gives, in exact arithmetic."""
    source, found = np.random.PCG64(seed), list[int]()
    while len(found) < count:
        index = int(source.random_raw()) * dimension >> 64
        if index not in found:
            found.append(index)
    return sorted(found)


@given(
    st.integers(0, 2**64 - 1), st.one_of(st.integers(1, 40), st.integers(2**27, 2**28)), st.data()
)
def test_both_ends_draw_the_same_coordinates(
    seed: int, dimension: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, min(dimension // 2, 40)))
    expected = drawn_one_by_one(seed, count, dimension)
    assert draw_indices(seed, count, dimension).tolist() == expected
    if dimension <= 40:
        others = sorted(set(range(dimension)) - set(expected))
        if len(others) > dimension / 2:
            assert draw_indices(seed, len(others), dimension).tolist() == others


@pytest.mark.parametrize("count", [2, 5])
def test_every_set_of_coordinates_is_drawn_as_often(count: int) -> None:
    draws, choices = 4200, comb(7, count)
    seen = Counter(tuple(draw_indices(seed, count, 7).tolist()) for seed in range(draws))
    assert len(seen) == choices
    expected = draws / choices
    squares = sum((times - expected) ** 2 / expected for times in seen.values())
    assert squares < choices - 1 + 5 * math.sqrt(2 * (choices - 1))  # chi-square, 5 sigma


@dataclass(frozen=True, slots=True)
class Pair(Message):
    left: Dense
    right: Scalar


def test_a_message_has_the_bits_of_all_its_payloads() -> None:
    left = Dense.of(np.ones(4), ValueFormat.FLOAT32)
    right = Scalar.of(1.0, ValueFormat.FLOAT64)
    assert Pair(left, right).bits == 8 * len(encode(left)) + 8 * len(encode(right))
    assert Pair(left, right).payloads() == (left, right)
    assert Pair.label == "pair"


@every("shape", [(0,), (1,), (7,), (2, 3), (2, 3, 4)])
@every("form", ValueFormat)
def test_the_length_of_an_array_is_known_before_it_is_encoded(
    shape: tuple[int, ...], form: ValueFormat
) -> None:
    values = np.ones(shape)
    assert Dense.length(values, form) == 8 * len(encode(Dense.of(values, form)))
