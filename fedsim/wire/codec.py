"""The codec of whole messages: a header, then the payloads one after the other.

The header is the same 15 bytes for every message, little-endian: version (1), message
type (2), sender (4, signed: the server is -1), round (4), payload length (4).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.errors import DecodeError
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import PAYLOADS, Empty, Encodable
from fedsim.wire.reader import Reader

VERSION = 1
_HEADER = struct.Struct("<BHiII")
HEADER_BITS = 8 * _HEADER.size
"""The bits of the header that stands in front of every message, beacons included."""


def _first(kind: int, form: ValueFormat) -> int:
    """Return the byte that a payload starts with."""
    return kind << 4 | form.code


_READERS = {
    _first(payload.kind, form): (payload, form) for payload in PAYLOADS for form in payload.formats
}


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in front of every message.

    Attributes:
        message_type: the number of the message's class, as the two ends agreed on.
        sender: the client's number; -1 for the server.
        round_number: the round it belongs to.
        length: the bytes of payload that follow.
    """

    message_type: int
    sender: int
    round_number: int
    length: int


def encode(payload: Encodable) -> bytes:
    """Write one payload."""
    if isinstance(payload, Empty):
        return b""
    return bytes([_first(payload.kind, payload.format)]) + payload.body()


def decode(data: bytes) -> Encodable:
    """Read one payload that fills `data` exactly.

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
    payloads: Sequence[Encodable],
    *,
    message_type: int,
    sender: int,
    round_number: int,
) -> bytes:
    """Write a message: the header, then its payloads."""
    body = b"".join(encode(payload) for payload in payloads)
    return _HEADER.pack(VERSION, message_type, sender, round_number, len(body)) + body


def decode_message(data: bytes) -> tuple[Header, list[Encodable]]:
    """Read a message that fills `data` exactly.

    Raises:
        DecodeError: `data` is not the encoding of any message.
    """
    if len(data) < _HEADER.size:
        raise DecodeError(f"a header has {_HEADER.size} bytes, seen {len(data)}")
    version, *fields = _HEADER.unpack_from(data)
    header = Header(*fields)
    if version != VERSION:
        raise DecodeError(f"version {version} is not known, only {VERSION}")
    reader = Reader(memoryview(data)[_HEADER.size :])
    if 8 * header.length != reader.left:
        raise DecodeError(f"the header announces {header.length} bytes, {reader.left // 8} follow")
    payloads = []
    while reader.left:
        payloads.append(_next(reader))
    return header, payloads


def _next(reader: Reader) -> Encodable:
    """Read the payload that comes next."""
    first = reader.byte()
    if first not in _READERS:
        raise DecodeError(f"no payload starts with byte {first:#04x}")
    payload, form = _READERS[first]
    return payload.read(reader, form)
