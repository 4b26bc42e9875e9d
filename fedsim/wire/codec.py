"""The codec of whole messages: a header, then the payloads one after the other.

The header is the same 15 bytes for every message, little-endian: version (1), message
type (2), sender (4, signed: the server is -1), round (4), payload length (4).
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.errors import DecodeError
from fedsim.wire.formats import ValueFormat
from fedsim.wire.indices import IndexCode
from fedsim.wire.payloads import Dense, Empty, Encodable, Scalar, Sparse

VERSION = 1
_HEADER = struct.Struct("<BHiII")
HEADER_BITS = 8 * _HEADER.size
"""The bits of the header that stands in front of every message, beacons included."""

_FORMATS = {value_format.code: value_format for value_format in ValueFormat}
_LARGEST_RANK = 8


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
    match payload:
        case Empty():
            return b""
        case Dense(values=values, format=form):
            shape = struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)
            return _tag(payload.kind, form) + shape + form.encode(values)
        case Scalar(values=values, format=form):
            return _tag(payload.kind, form) + form.encode(values)
        case Sparse(indices=indices, entries=entries, dimension=dimension, format=form):
            code = payload.code
            sizes = struct.pack("<BII", code.value, dimension, indices.size)
            where = code.encode(indices, dimension)
            return _tag(payload.kind, form) + sizes + where + form.encode(entries)


def decode(data: bytes) -> Encodable:
    """Read one payload that fills `data` exactly.

    Raises:
        DecodeError: `data` is not the encoding of any payload.
    """
    payload, rest = _take(memoryview(data))
    if rest:
        raise DecodeError(f"{len(rest)} bytes are left over after the payload")
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
    rest = memoryview(data)[_HEADER.size :]
    if header.length != len(rest):
        raise DecodeError(f"the header announces {header.length} bytes, {len(rest)} follow")
    payloads = []
    while rest:
        payload, rest = _take(rest)
        payloads.append(payload)
    return header, payloads


def _tag(kind: int, form: ValueFormat) -> bytes:
    return bytes([kind << 4 | form.code])


def _take(data: memoryview) -> tuple[Encodable, memoryview]:
    """Read the payload at the front of `data`; return it and what follows it."""
    if not data:
        return Empty(), data
    kind, form = data[0] >> 4, _FORMATS.get(data[0] & 15)
    reader = _READERS.get(kind)
    if form is None or reader is None:
        raise DecodeError(f"no payload starts with byte {data[0]:#04x}")
    return reader(data[1:], form)


def _split(data: memoryview, length: int) -> tuple[bytes, memoryview]:
    """Cut `length` bytes off the front, before anything of that size is allocated."""
    if length > len(data):
        raise DecodeError(f"{length} bytes are announced, {len(data)} follow")
    return bytes(data[:length]), data[length:]


def _take_dense(data: memoryview, form: ValueFormat) -> tuple[Dense, memoryview]:
    head, data = _split(data, 1)
    rank = head[0]
    if rank > _LARGEST_RANK:
        raise DecodeError(f"an array of {rank} dimensions; at most {_LARGEST_RANK}")
    head, data = _split(data, 4 * rank)
    shape = struct.unpack(f"<{rank}I", head)
    size = 1
    for extent in shape:
        size *= extent
    body, data = _split(data, size * form.size)
    try:
        values = form.decode(body).reshape(shape)
    except ValueError as error:  # an empty array may still announce extents beyond any array
        raise DecodeError(f"no array has the shape {shape}") from error
    return Dense(values, form), data


def _take_scalar(data: memoryview, form: ValueFormat) -> tuple[Scalar, memoryview]:
    body, data = _split(data, form.size)
    return Scalar(form.decode(body).reshape(()), form), data


def _take_sparse(data: memoryview, form: ValueFormat) -> tuple[Sparse, memoryview]:
    head, data = _split(data, 9)
    number, dimension, count = struct.unpack("<BII", head)
    if number not in {code.value for code in IndexCode} or count > dimension:
        raise DecodeError(f"no index code {number} of {count} out of {dimension}")
    code = IndexCode(number)
    where, data = _split(data, code.size(count, dimension))
    body, data = _split(data, count * form.size)
    indices = code.decode(where, count, dimension)
    return Sparse(np.asarray(indices), form.decode(body), dimension, form), data


_READERS: dict[int, Callable[[memoryview, ValueFormat], tuple[Encodable, memoryview]]] = {
    Dense.kind: _take_dense,
    Sparse.kind: _take_sparse,
    Scalar.kind: _take_scalar,
}
