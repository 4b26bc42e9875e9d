"""Whole messages, and bytes that are none."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import DecodeError
from fedsim.wire import (
    HEADER_BITS,
    Dense,
    Encodable,
    ValueFormat,
    decode,
    decode_message,
    encode,
    encode_message,
)
from tests.wire.strategies import payloads

numbered = st.integers(0, 2**32 - 1)


@given(st.lists(payloads.filter(lambda payload: payload.bits > 0), max_size=4), numbered)
def test_a_message_comes_back(parts: list[Encodable], round_number: int) -> None:
    data = encode_message(parts, message_type=3, sender=-1, round_number=round_number)
    header, arrived = decode_message(data)
    assert (header.message_type, header.sender, header.round_number) == (3, -1, round_number)
    assert [encode(part) for part in arrived] == [encode(part) for part in parts]
    assert 8 * len(data) == HEADER_BITS + sum(part.bits for part in parts)


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        payload = decode(data)
    except DecodeError:
        return
    assert encode(payload) == data or payload.bits >= 8 * len(encode(payload))


@settings(max_examples=300)
@given(payloads.filter(lambda payload: payload.bits > 0), st.data())
def test_a_damaged_payload_is_read_as_something_or_refused(
    payload: Encodable, data: st.DataObject
) -> None:
    encoded = bytearray(encode(payload))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(DecodeError):  # the one documented error
        decode(bytes(encoded))


@given(payloads.filter(lambda payload: payload.bits > 0))
def test_every_truncation_is_refused(payload: Encodable) -> None:
    encoded = encode(payload)
    for length in range(1, len(encoded)):
        with pytest.raises(DecodeError):
            decode(encoded[:length])


@given(payloads.filter(lambda payload: payload.bits > 0), st.binary(min_size=1, max_size=1))
def test_trailing_bytes_are_refused(payload: Encodable, garbage: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(encode(payload) + garbage)


@pytest.mark.parametrize("data", [
    struct.pack("<BBI", 0x10, 1, 2**32 - 1),           # a vector of 32 GiB that is not there
    struct.pack("<BB3I", 0x10, 3, *[2**32 - 1] * 3),    # a product beyond 64 bits
    struct.pack("<BB3I", 0x10, 3, 0, 2**32 - 1, 2**32 - 1),
    struct.pack("<BBII", 0x20, 0, 2**32 - 1, 1),        # a bitmap of half a gigabyte
    struct.pack("<BBII", 0x20, 1, 5, 6),                # more indices than coordinates
    struct.pack("<BBII", 0x20, 9, 5, 1),                # no such index code
    bytes([0x10, 200]),
    bytes([0x1F]),
    bytes([0xF0]),
])  # fmt: skip
def test_absurd_sizes_are_refused_before_anything_is_allocated(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


def test_indices_that_do_not_ascend_are_refused() -> None:
    two_fives = struct.pack("<BBII", 0x20, 1, 8, 2) + bytes([0b101101]) + bytes(16)
    with pytest.raises(DecodeError, match="ascend"):
        decode(two_fives)


@pytest.mark.parametrize(("change", "named"), [
    (lambda data: data[:10], "15 bytes"),
    (lambda data: b"\x07" + data[1:], "version 7"),
    (lambda data: data[:-1], "announces"),
    (lambda data: data + b"\x00", "announces"),
])  # fmt: skip
def test_a_wrong_header_is_named(change: object, named: str) -> None:
    data = encode_message(
        [Dense.of(np.ones(2), ValueFormat.FLOAT32)], message_type=0, sender=1, round_number=1
    )
    assert callable(change)
    with pytest.raises(DecodeError, match=named):
        decode_message(change(data))
