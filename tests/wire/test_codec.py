"""Whole messages, and bytes that are none."""

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DecodeError
from fedsim.wire import (
    HEADER_BITS,
    Dense,
    Encodable,
    Quantized,
    Update,
    ValueFormat,
    decode,
    decode_message,
    encode,
    encode_message,
)
from fedsim.wire.bitstream import concatenate, fixed_width, gamma, unary, varint
from fedsim.wire.indices import IndexCode, IndexSet
from tests.tiers import every, examples
from tests.wire.strategies import payloads, updates

numbered = st.integers(0, 2**32 - 1)
some = st.one_of(payloads.filter(lambda payload: payload.bits > 0), updates())


@given(st.lists(some, max_size=4), numbered, numbered)
def test_a_message_comes_back(
    parts: list[Encodable | Update], round_number: int, exchange: int
) -> None:
    numbers = {"round_number": round_number, "exchange": exchange}
    data = encode_message(parts, message_type=3, sender=-1, **numbers)
    header, arrived = decode_message(data)
    assert (header.message_type, header.sender) == (3, -1)
    assert (header.round_number, header.exchange) == (round_number, exchange)
    assert [encode(part) for part in arrived] == [encode(part) for part in parts]
    assert 8 * len(data) == HEADER_BITS + sum(part.bits for part in parts)


@given(updates())
def test_an_update_comes_back_without_what_it_was_added_to(update: Update) -> None:
    held = Update(update.sent, update.number, np.ones(update.sent.values.shape), note="a note")
    arrived = decode(encode(held))
    assert isinstance(arrived, Update)
    assert (arrived.number, arrived.before, arrived.note) == (update.number, None, None)
    assert 8 * len(encode(held)) == held.bits == update.sent.bits + 8
    assert encode(arrived.sent) == encode(update.sent)
    assert np.array_equal(arrived.values, update.sent.values, equal_nan=True)


@examples(500)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        payload = decode(data)
    except DecodeError:
        return
    assert encode(payload) == data


@examples(300)
@given(some, st.data())
def test_a_damaged_payload_is_read_as_something_or_refused(
    payload: Encodable | Update, data: st.DataObject
) -> None:
    encoded = bytearray(encode(payload))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(DecodeError):  # the one documented error
        assert encode(decode(bytes(encoded))) == encoded


@given(some)
def test_every_truncation_is_refused(payload: Encodable | Update) -> None:
    encoded = encode(payload)
    for length in range(1, len(encoded)):
        with pytest.raises(DecodeError):
            decode(encoded[:length])


@given(some, st.binary(min_size=1, max_size=1))
def test_trailing_bytes_are_refused(payload: Encodable | Update, garbage: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(encode(payload) + garbage)


@every("data", [
    struct.pack("<BBI", 0x10, 1, 2**32 - 1),           # a vector of 32 GiB that is not there
    struct.pack("<BB3I", 0x10, 3, *[2**32 - 1] * 3),    # a product beyond 64 bits
    struct.pack("<BB3I", 0x10, 3, 0, 2**32 - 1, 2**32 - 1),
    b"\x20" + varint(2**28) + varint(1) + b"\x00" + bytes(16),   # a bitmap of 32 MiB
    b"\x20" + varint(2**28) + varint(2**28) + b"\x01",          # all of them, without a value
    b"\x40" + varint(2**28) + varint(2**27) + bytes(8),         # a draw of half of them
    b"\x51" + varint(2**28) + b"\x01" + bytes(4) + b"\x80",     # levels that are not there
    b"\x51" + varint(2**28) + b"\x02" + bytes(4) + b"\x03" + varint(2**27) + bytes(9),
    b"\x61" + varint(2**28) + bytes(4),
    b"\x71" + varint(2**28),
    b"\x80" + varint(2**28) + varint(2**14) + varint(2**14),    # factors of 4 GiB
    bytes([0x10, 200]),
    bytes([0x1F]),
    bytes([0xF0]),
])  # fmt: skip
def test_absurd_sizes_are_refused_before_anything_is_allocated(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@every(("data", "named"), [
    (b"\x20" + varint(2**28 + 1) + b"\x00\x01", "coordinates; at most 268435456"),
    (b"\x23\x05\x06\x01" + bytes(15), "no index code 0x01 of 6 out of 5"),
    (b"\x23\x05\x01\x04\x01" + bytes(2), "no index code 0x04"),  # a parameter for a bitmap
    (b"\x23\x08\x02\x01\x2d" + bytes(4), "do not ascend"),      # 5 and 5, in three bits each
    (b"\x43\x05\x06" + bytes(20), "6 values of 5 coordinates"),
    (b"\x51\x01\x00" + bytes(4) + b"\x80\x00", "0 steps of a norm"),
    (b"\x51\x00" + varint(2**24 + 1) + bytes(4) + b"\x80", "16777217 steps of a norm"),
    (b"\x51\x01\x01\x00\x00\x80\xbf\x80\x01", "a norm of -1"),
    (b"\x51\x01\x01\x00\x00\x80\x3f\x80\x03", "a level beyond 1 steps"),
    (b"\x51\x03\x02\x00\x00\x80\x3f\x00\x01\x42\x00", "a level beyond 2 steps"),  # gamma of 4
    (b"\x50\x01\x01" + bytes(8) + b"\x80\x01", "byte 0x50"),     # a norm that is no float32
    (b"\x61\x01" + bytes(4) + b"\x02", "padding"),
    (b"\x71\x01\x7f\x02", "padding"),
    (b"\x83\x06\x02\x03" + bytes(30), "has no rank 3"),
    (b"\x83\x06\x07\x01" + bytes(16), "no matrix of 7 rows has 6 entries"),
    (b"\x83\x06\x00\x00", "no matrix of 0 rows has 6 entries"),
    (b"\x51\x01\x01\x00\x00\x00\x80\x80\x01", "a norm of -0"),
    (b"\x91\x02\x01\x01\x00\x00", "a zero among the nonzero"),
    (b"\xa0", "an update of nothing"),
    (b"\xa0\xa1\x33\x00\x3c", "no payload starts with byte 0xa1"),  # an update of an update
    (b"\xa3\x33\x01\x7c", "byte 1 of a payload is 0x01, expected 0x00"),  # a NaN that signals
])  # fmt: skip
def test_what_no_sender_would_write_is_named(data: bytes, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        decode(data)


EIGHT = np.array([0, 0, 0, 5.0, 0, 0, 0, 0])


def by_code(code: IndexCode, low: int | None = None) -> bytes:
    """Return the payload of `EIGHT` with its index by any code; r = `low` in the Rice code."""
    where = IndexSet.of(np.flatnonzero(EIGHT), EIGHT.size)
    tag, bits = where.tag(code), where.write(code)
    if low is not None:
        tag = code | low << 2
        bits = np.concatenate(
            [unary(np.array([3 >> low])), fixed_width(np.array([3 % 2**low]), low)]
        )
    return (
        b"\x23\x08\x01" + bytes([tag]) + concatenate(bits) + ValueFormat.FLOAT16.encode(EIGHT[3:4])
    )


def levels_by_elias() -> bytes:
    """Return four levels, none of them zero, by the longer of the two ways."""
    magnitudes = gamma(np.array([3, 3, 3, 3]))
    signs = np.zeros(4, np.uint8)
    assert Quantized.of(1.0, np.full(4, 3), 3).body()[6] == 0x80  # the shorter: fixed
    return b"\x51\x04\x03\x00\x00\x80\x3f\x00\x04" + concatenate(signs, magnitudes)


@every(("data", "named"), [
    (by_code(IndexCode.BITMAP), "byte 3 of a payload is 0x00, expected 0x01"),
    (by_code(IndexCode.GAMMA), "byte 3 of a payload is 0x02, expected 0x01"),
    (by_code(IndexCode.RICE, 0), "byte 3 of a payload is 0x03, expected 0x01"),
    (by_code(IndexCode.RICE, 1), "byte 3 of a payload is 0x07, expected 0x01"),
    (b"\x23\x02\x01\x02\x01\x00\x3c", "is 0x02, expected 0x01"),   # gamma: as long, but later
    (b"\x23\x00\x00\x01", "is 0x01, expected 0x00"),                # no index by another code
    (levels_by_elias(), "a payload of 11 bytes whose encoding has 10"),
    (b"\x33\x01\x7c", "byte 1 of a payload is 0x01, expected 0x00"),  # a NaN that signals
    (b"\x33\x00\xfe", "byte 2 of a payload is 0xfe, expected 0x7e"),  # one with a sign
    (b"\x32\xc1\x7f", "is 0xc1, expected 0xc0"),                     # one that carries a bit
    (b"\x31\x01\x00\xc0\x7f", "is 0x01, expected 0x00"),
    (b"\x30\x01" + bytes(5) + b"\xf0\x7f", "is 0x01, expected 0x00"),
    (b"\x61\x01\x00\x00\xc0\xff\x00", "is 0xff, expected 0x7f"),   # a scale that is such a NaN
])  # fmt: skip
def test_what_could_be_written_otherwise_is_refused(data: bytes, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        decode(data)
    front = struct.pack("<BHiIII", 2, 2, 3, 4, 5, len(data))
    with pytest.raises(DecodeError, match=named):
        decode_message(front + data)


@every("form", ValueFormat)
def test_every_nan_is_written_as_one(form: ValueFormat) -> None:
    patterns = np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0 << 48 | 1, (1 << 64) - 1], np.uint64)
    strings = {encode(Dense.of(nan.reshape(1), form)) for nan in patterns.view(np.float64)}
    assert len(strings) == 1
    assert np.isnan(decode(strings.pop()).values).all()


@every("value", [0.0, -0.0, np.inf, -np.inf])
@every("form", ValueFormat)
def test_a_zero_keeps_its_sign(form: ValueFormat, value: float) -> None:
    (arrived,) = decode(encode(Dense.of(np.array([value]), form))).values
    assert (arrived, np.signbit(arrived)) == (value, np.signbit(value))


def test_an_array_of_any_number_of_dimensions_is_read() -> None:
    data = encode(Dense.of(np.ones((1,) * 64), ValueFormat.FLOAT16))
    assert decode(data).values.ndim == 64


def test_nobody_else_sends() -> None:
    with pytest.raises(ValueError, match="no sender has the number -2"):
        encode_message([], message_type=0, sender=-2, round_number=0, exchange=0)
    data = struct.pack("<BHiIII", 2, 0, -2, 0, 0, 0)
    with pytest.raises(DecodeError, match="no sender has the number -2; clients count from 0"):
        decode_message(data)


@pytest.mark.parametrize("data", [
    b"\x20" + varint(2**28) + b"\x00\x01",                      # no coordinate out of 2^28
    b"\x51" + varint(2**28) + b"\x02" + bytes(4) + b"\x01\x00",
    b"\x80" + varint(2**28) + varint(2**14) + b"\x00",          # a matrix of rank 0
])  # fmt: skip
def test_a_long_vector_in_a_few_bytes_stays_small_until_it_is_asked_for(data: bytes) -> None:
    tracemalloc.start()
    payload = decode(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert payload.bits == 8 * len(data)


@every("fill", [0x00, 0x01, 0x11, 0x55, 0xFF])
@every("front", [
    b"\x23" + varint(2**20) + varint(2**15) + b"\x02",
    b"\x23" + varint(2**20) + varint(2**15) + b"\x07",
    b"\x23" + varint(2**20) + varint(2**15) + b"\x01",
    b"\x23" + varint(2**20) + varint(2**15) + b"\x00",
    b"\x51" + varint(2**20) + varint(2**24) + bytes(4) + b"\x02" + varint(2**17),
    b"\x51" + varint(2**19) + varint(1) + bytes(4) + b"\x80",
    b"\x71" + varint(2**16),
    b"\x43" + varint(2**17) + varint(2**16) + bytes(8),
])  # fmt: skip
def test_memory_is_proportional_to_what_came(front: bytes, fill: int) -> None:
    data = front + bytes([fill]) * 2**17
    tracemalloc.start()
    with contextlib.suppress(DecodeError):
        decode(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 250 * len(data)


@every(("change", "named"), [
    (lambda data: data[:10], "19 bytes"),
    (lambda data: b"\x07" + data[1:], "version 7"),
    (lambda data: data[:-1], "announces"),
    (lambda data: data + b"\x00", "announces"),
])  # fmt: skip
def test_a_wrong_header_is_named(change: object, named: str) -> None:
    data = encode_message(
        [Dense.of(np.ones(2), ValueFormat.FLOAT32)],
        message_type=0,
        sender=1,
        round_number=1,
        exchange=1,
    )
    assert callable(change)
    with pytest.raises(DecodeError, match=named):
        decode_message(change(data))
