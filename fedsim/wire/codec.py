"""The codec of whole messages: a header, followed by the payloads.

The header is the same 19 bytes for every message, little-endian: version (1), message
type (2), sender (4, signed: the server is -1), round (4), exchange (4), payload length (4). The
exchange number assigns a reply to its request, also if a round has several exchanges.

The encoding is canonical: every message has exactly one encoding. The decoder encodes each payload
again and compares the result with the input, so that a longer index code or a NaN with another bit
pattern is rejected, even if the reader of a payload has no check for it.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from fedsim.core.errors import DecodeError
from fedsim.core.ports import SERVER, Noted, Payload
from fedsim.wire.bitstream import LARGEST_DIMENSION, Reader
from fedsim.wire.payloads import PAYLOADS, Dense, Empty, Encodable, Update
from fedsim.wire.payloads.base import first_byte

VERSION = 2
_HEADER = struct.Struct("<BHiIII")
HEADER_BITS = 8 * _HEADER.size
"""The length of the header of every message, beacons included, in bits."""


_READERS = {
    first_byte(payload.kind, form): (payload, form)
    for payload in PAYLOADS
    for form in payload.formats
}

Sent = Encodable | Update
"""Payloads with an encoding: self-contained ones, and changes of the receiver's state."""


class Header(NamedTuple):
    """The header of a message.

    Attributes:
        message_type: the number of the message's class among those of the method.
        sender: the number of the client; -1 for the server.
        round_number: the round of the message.
        exchange: the number of the exchange that the message opens or answers.
        length: the length of the payloads, in bytes.
    """

    message_type: int
    sender: int
    round_number: int
    exchange: int
    length: int


def encode(payload: Payload) -> bytes:
    """Encode one payload, without the notes of its sender.

    Args:
        payload: the payload of a message; its `values` are as decoded.

    Raises:
        TypeError: the payload's class has no encoding.

    Example:
        >>> from fedsim.wire import Dense, ValueFormat
        >>> len(encode(Dense.of(np.zeros(10), ValueFormat.FLOAT32)))
        46
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
    """Decode one payload that fills `data` exactly, as `encode` writes it.

    Memory and time are at most proportional to the length of `data`. The `values` of the result may
    be far longer: a sparse vector of `LARGEST_DIMENSION` coordinates can take a few bytes.

    Args:
        data: one byte for kind and format, and the body.

    Raises:
        DecodeError: `data` is not the encoding of any payload.

    Example:
        >>> from fedsim.wire import Dense, ValueFormat
        >>> sent = encode(Dense.of(np.array([0.5, 2.0]), ValueFormat.FLOAT32))
        >>> decode(sent).values
        array([0.5, 2. ])
    """
    if not data:
        return Empty()
    reader = Reader(data)
    payload = _next(reader)
    if reader.left:
        raise DecodeError(f"{reader.left // 8} bytes remain after the payload")
    return payload


def encode_message(
    payloads: Sequence[Payload],
    *,
    message_type: int,
    sender: int,
    round_number: int,
    exchange: int,
) -> bytes:
    """Encode a message: the header, then its payloads.

    Raises:
        ValueError: the sender is neither a client nor the server.
    """
    if sender < SERVER:
        raise ValueError(_no_sender(sender))
    body = b"".join(encode(payload) for payload in payloads)
    front = _HEADER.pack(VERSION, message_type, sender, round_number, exchange, len(body))
    return front + body


def decode_message(
    data: bytes, largest: int = LARGEST_DIMENSION, most: int | None = None
) -> tuple[Header, list[Sent]]:
    """Decode a message that fills `data` exactly, as `encode_message` writes it.

    Args:
        data: the bytes.
        largest: the largest accepted dimension of a vector.
        most: the largest accepted number of payloads; None for any.

    Raises:
        DecodeError: `data` is not the encoding of any message.
    """
    if len(data) < _HEADER.size:
        raise DecodeError(f"a header has {_HEADER.size} bytes, got {len(data)}")
    version, *fields = _HEADER.unpack_from(data)
    header = Header._make(fields)
    if version != VERSION:
        raise DecodeError(f"version {version} is not known, only {VERSION}")
    if header.sender < SERVER:
        raise DecodeError(_no_sender(header.sender))
    reader = Reader(memoryview(data)[_HEADER.size :], largest)
    if 8 * header.length != reader.left:
        raise DecodeError(f"the header announces {header.length} bytes, {reader.left // 8} follow")
    payloads = list[Sent]()
    while reader.left:
        if len(payloads) == most:
            raise DecodeError(f"a message of more than {most} payloads")
        payloads.append(_next(reader))
    return header, payloads


def _no_sender(number: int) -> str:
    return f"no sender has the number {number}; clients count from 0, and the server is {SERVER}"


def _next(reader: Reader) -> Sent:
    """Read the next payload or update."""
    before = reader.left
    first = reader.byte()
    if first >> 4 != Update.kind:
        return _payload(reader, first, before)
    if not reader.left:
        raise DecodeError("an update of nothing")
    return Update(_payload(reader, reader.byte(), before - 8), first & 15)


def _payload(reader: Reader, first: int, before: int) -> Encodable:
    """Read the rest of a payload.

    Args:
        reader: at the byte after `first`.
        first: the first byte of the payload.
        before: the number of bits that remained before that byte.
    """
    if first not in _READERS:
        raise DecodeError(f"no payload starts with byte {first:#04x}")
    kind, form = _READERS[first]
    payload = kind.read(reader, form)
    # The canonical form is enforced here, once for all payloads. It costs one encoding for each
    # decoding, only in runs that send real bytes; of a whole vector there is no other form.
    if isinstance(payload, Dense) and payload.canonical:
        return payload
    _check_written(reader.last((before - reader.left) // 8), encode(payload))
    return payload


def _check_written(came: bytes, due: bytes) -> None:
    """Check that the received bytes are the canonical encoding of the payload.

    Raises:
        DecodeError: they differ in length or in a byte.
    """
    if len(came) != len(due):
        raise DecodeError(f"a payload of {len(came)} bytes whose encoding has {len(due)}")
    if came != due:
        differs = np.frombuffer(came, np.uint8) != np.frombuffer(due, np.uint8)
        place = int(differs.argmax())
        seen, meant = came[place], due[place]
        raise DecodeError(f"byte {place} of a payload is {seen:#04x}, expected {meant:#04x}")
