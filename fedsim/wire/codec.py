"""The codec of whole messages: a header, then the payloads one after the other.

The header is the same 19 bytes for every message, little-endian: version (1), message
type (2), sender (4, signed: the server is -1), round (4), exchange (4), payload length (4). The
exchange tells a reply which question it answers, also where a round has several.

There is one string for what is said. What is read is written once more, and has to be what
came: a longer index code, a NaN of another pattern and the like are refused. So two ends that
hold the same bytes hold the same message, and the other way round, whatever a payload's reader
forgets to check.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fedsim.errors import DecodeError
from fedsim.ports import SERVER, Noted, Payload
from fedsim.wire.bitstream import Reader
from fedsim.wire.payloads import PAYLOADS, Empty, Encodable, Update
from fedsim.wire.payloads.base import first_byte

VERSION = 2
_HEADER = struct.Struct("<BHiIII")
HEADER_BITS = 8 * _HEADER.size
"""The bits of the header that stands in front of every message, beacons included."""


_READERS = {
    first_byte(payload.kind, form): (payload, form)
    for payload in PAYLOADS
    for form in payload.formats
}

Sent = Encodable | Update
"""What has an encoding: a payload, or one that is added to what its receiver holds."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in front of every message.

    Attributes:
        message_type: the number of the message's class, as the two ends agreed on.
        sender: the client's number; -1 for the server.
        round_number: the round it belongs to.
        exchange: the number of the exchange that it opens or answers.
        length: the bytes of payload that follow.
    """

    message_type: int
    sender: int
    round_number: int
    exchange: int
    length: int


def encode(payload: Payload) -> bytes:
    """Write one payload; what its sender has noted of it is not written.

    Raises:
        TypeError: it has no encoding.
    """
    while isinstance(payload, Noted):
        payload = payload.sent
    if isinstance(payload, Empty):
        return b""
    if isinstance(payload, Update):
        return bytes([Update.kind << 4 | payload.number]) + encode(payload.sent)
    if not hasattr(payload, "body"):
        raise TypeError(f"a payload of the class {type(payload).__name__} has no encoding")
    known = cast("Encodable", payload)
    return bytes([first_byte(known.kind, known.format)]) + known.body()


def decode(data: bytes) -> Sent:
    """Read one payload that fills `data` exactly, as `encode` writes it.

    Memory and time are at most proportional to the length of `data`. The `values` of what is
    decoded may be far longer: a sparse vector of `LARGEST_DIMENSION` coordinates is a few bytes.

    Raises:
        DecodeError: `data` is not the encoding of any payload.
    """
    if not data:
        return Empty()
    reader = Reader(data)
    payload = _next(reader)
    if reader.left:
        raise DecodeError(f"{reader.left // 8} bytes are left over after the payload")
    return payload


def encode_message(
    payloads: Sequence[Payload],
    *,
    message_type: int,
    sender: int,
    round_number: int,
    exchange: int,
) -> bytes:
    """Write a message: the header, then its payloads.

    Raises:
        ValueError: the sender is neither a client nor the server.
    """
    if sender < SERVER:
        raise ValueError(_no_sender(sender))
    body = b"".join(encode(payload) for payload in payloads)
    front = _HEADER.pack(VERSION, message_type, sender, round_number, exchange, len(body))
    return front + body


def decode_message(data: bytes) -> tuple[Header, list[Sent]]:
    """Read a message that fills `data` exactly, as `encode_message` writes it.

    Raises:
        DecodeError: `data` is not the encoding of any message.
    """
    if len(data) < _HEADER.size:
        raise DecodeError(f"a header has {_HEADER.size} bytes, got {len(data)}")
    version, *fields = _HEADER.unpack_from(data)
    header = Header(*fields)
    if version != VERSION:
        raise DecodeError(f"version {version} is not known, only {VERSION}")
    if header.sender < SERVER:
        raise DecodeError(_no_sender(header.sender))
    reader = Reader(memoryview(data)[_HEADER.size :])
    if 8 * header.length != reader.left:
        raise DecodeError(f"the header announces {header.length} bytes, {reader.left // 8} follow")
    payloads = []
    while reader.left:
        payloads.append(_next(reader))
    return header, payloads


def _no_sender(number: int) -> str:
    return f"no sender has the number {number}; clients count from 0, and the server is {SERVER}"


def _next(reader: Reader) -> Sent:
    """Read the payload that comes next, which may be added to what is held."""
    before = reader.left
    first = reader.byte()
    if first >> 4 != Update.kind:
        return _payload(reader, first, before)
    if not reader.left:
        raise DecodeError("an update of nothing")
    return Update(_payload(reader, reader.byte(), before - 8), first & 15)


def _payload(reader: Reader, first: int, before: int) -> Encodable:
    """Read the payload that starts with a byte, `before` which so many bits were left."""
    if first not in _READERS:
        raise DecodeError(f"no payload starts with byte {first:#04x}")
    kind, form = _READERS[first]
    payload = kind.read(reader, form)
    _check_written(reader.last((before - reader.left) // 8), encode(payload))
    return payload


def _check_written(came: bytes, due: bytes) -> None:
    """Check that a payload came as it is written.

    Raises:
        DecodeError: it came otherwise.
    """
    if len(came) != len(due):
        raise DecodeError(f"a payload of {len(came)} bytes that is written in {len(due)}")
    if came != due:
        differs = np.frombuffer(came, np.uint8) != np.frombuffer(due, np.uint8)
        place = int(differs.argmax())
        seen, meant = came[place], due[place]
        raise DecodeError(f"byte {place} of a payload is {seen:#04x} where {meant:#04x} is written")
