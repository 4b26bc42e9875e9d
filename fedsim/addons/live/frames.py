"""Frames: the units of bytes that two endpoints exchange over a connection.

A frame is the length of its body (4 bytes, little-endian), its kind (1 byte) and the body. A
message of the method is the body of one frame, exactly as `fedsim.wire.codec` encodes it; all other
kinds serve the connection, and are not part of a run's bits. The reader refuses a body longer than
its limit as soon as the length is there, so that memory is bounded by that limit.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from math import isnan
from typing import NamedTuple

from fedsim.core.errors import FrameError

_FRONT = struct.Struct("<IB")
FRONT_BYTES = _FRONT.size
"""The bytes of a frame before its body."""


class Kind(IntEnum):
    """The kinds of frames, in the order of their first use in a connection."""

    HELLO = 1
    """Client: its protocol version, its number, and a nonce."""
    CHALLENGE = 2
    """Server: a nonce, and whether the client has to prove a token."""
    PROOF = 3
    """Client: the digest of its scenario, and the proof of the token."""
    WELCOME = 4
    """Server: its own proof, and the run that begins."""
    REFUSED = 5
    """Server: the reason for refusing a client; the connection is closed."""
    READY = 6
    """Client: it has built its part; the hash of the clients' losses."""
    MESSAGE = 7
    """Either: a message of the method."""
    REPORT = 8
    """Client: its work on a message, sent before the reply."""
    BEAT = 9
    """Either: a heartbeat."""
    FAILED = 10
    """Client: its handler has failed."""
    END = 11
    """Server: the run has ended, and whether another one follows."""


_KINDS = {int(kind): kind for kind in Kind}


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return _FRONT.pack(len(body), kind) + body


class FrameReader:
    """Cuts a stream of bytes into frames.

    Args:
        limit: the largest accepted length of a body, bytes.

    Attributes:
        limit: see above; it may be changed between frames.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Add bytes that have arrived; yield the frames that are complete.

        Raises:
            FrameError: a kind is unknown, or a body is longer than the limit.
        """
        # Data nearly always ends with a complete frame: then only bodies are copied.
        held: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            held = self._buffer
        start = 0
        try:
            while len(held) - start >= FRONT_BYTES:
                length, number = _FRONT.unpack_from(held, start)
                if length > self.limit:
                    text = f"a frame announces {length} bytes; at most {self.limit} are accepted"
                    raise FrameError(text)
                if number not in _KINDS:
                    raise FrameError(f"no frame has the kind {number}; kinds are 1 to {Kind.END}")
                end = start + FRONT_BYTES + length
                if end > len(held):
                    break
                body = bytes(held[start + FRONT_BYTES : end])
                start = end
                yield _KINDS[number], body
        finally:
            # In `finally`: the caller may stop in the middle, and what was not yielded has to stay.
            if held is self._buffer:
                del self._buffer[:start]
            else:
                self._buffer += held[start:]


# Reports: the work of a client on a message.

_REPORT = struct.Struct("<IBddB")
_SPAN = struct.Struct("<ddIddd")
_MOST_SPANS = 255

_SILENT, _READS_CLOCK, _READS_BATTERY = 1, 2, 4
_LOOKS = tuple(map(frozenset[str], ((), ("now",), ("battery",), ("now", "battery"))))


class WorkSpan(NamedTuple):
    """Work that a client has done, by its own clock.

    Attributes:
        began, ended: when, s.
        pieces: the number of equal parts.
        operations, samples: of each part; see `fedsim.core.ports.Work`.
        joules: measured for all parts; NaN without a meter.
    """

    began: float
    ended: float
    pieces: int
    operations: float
    samples: float
    joules: float

    def since(self, begin: float) -> "WorkSpan":
        """Return the span without its part before a time; its amounts stay."""
        return self if self.began >= begin else self._replace(began=min(begin, self.ended))


class Report(NamedTuple):
    """The work of a client on one message, by its own clock.

    Attributes:
        exchange: the number of the exchange that the message opened.
        received: when the last byte of the message arrived, s.
        sent: when the reply was written, s.
        silent: whether the client had nothing worth sending.
        looks: the ports that the method has read so far: "battery", "now".
        spans: the work done.
    """

    exchange: int
    received: float
    sent: float
    silent: bool
    looks: frozenset[str]
    spans: tuple[WorkSpan, ...]

    def encode(self) -> bytes:
        """Return the body of a frame, with work merged into at most `MOST_PIECES` pieces."""
        flags = _SILENT * self.silent
        flags |= _READS_CLOCK * ("now" in self.looks) | _READS_BATTERY * ("battery" in self.looks)
        spans = _fitting([each.since(self.received) for each in self.spans])
        front = _REPORT.pack(self.exchange, flags, self.received, self.sent, len(spans))
        return front + b"".join([_SPAN.pack(*each) for each in spans])

    @classmethod
    def decode(cls, body: bytes) -> "Report":
        """Return the report in the body of a frame.

        Raises:
            FrameError: it is not a report, or has impossible times or amounts.
        """
        if len(body) < _REPORT.size:
            raise FrameError(f"a report has at least {_REPORT.size} bytes, got {len(body)}")
        exchange, flags, received, sent, count = _REPORT.unpack_from(body)
        # The length is checked before the spans are read, so a count cannot exceed what was sent.
        if len(body) != _REPORT.size + count * _SPAN.size or flags > 7:
            raise FrameError(f"{len(body)} bytes with flags {flags} are no report of {count} spans")
        spans = tuple([WorkSpan(*each) for each in _SPAN.iter_unpack(body[_REPORT.size :])])
        if not is_past(received, sent):
            times = f"received at {received:g} s, answered at {sent:g} s"
            raise FrameError(f"a report has impossible times: {times}")
        for each in spans:
            # Written so that NaN, with which every comparison is false, is refused.
            if not (received <= each.began and each.ended <= sent and _is_possible(each)):
                raise FrameError(f"a report has an impossible span: {each}")
        if (pieces := sum(each.pieces for each in spans)) > MOST_PIECES:
            raise FrameError(f"a report has {pieces} pieces of work; at most {MOST_PIECES} go")
        looks = _LOOKS[flags // _READS_CLOCK]
        return cls(exchange, received, sent, bool(flags & _SILENT), looks, spans)


MOST_PIECES = 1 << 12
"""The largest number of pieces of work in a report; each piece becomes a row of the log."""

_LONGEST_TIME, _MOST_AMOUNT = 1e10, 1e18
"""Bounds of a clock, s, and of operations, samples and joules of a piece: far above those of any
client, but small enough that sums stay finite."""


def is_past(first: float, second: float) -> bool:
    """Return whether two times of a client's clock are possible, and in this order."""
    return -_LONGEST_TIME < first <= second < _LONGEST_TIME


def _is_possible(span: WorkSpan) -> bool:
    began, ended, pieces, operations, samples, joules = span
    amounts = operations, samples, 0.0 if isnan(joules) else joules
    known = all(0 <= amount < _MOST_AMOUNT for amount in amounts)
    return began <= ended and known and pieces >= 1


def _fitting(spans: Sequence[WorkSpan]) -> Sequence[WorkSpan]:
    """Return spans within the limits of a report: joined or with fewer pieces, with equal sums."""
    if len(spans) > _MOST_SPANS:
        early = len(spans) - _MOST_SPANS + 1
        # The earliest are joined: later ones are nearer to the reply, and their times matter more.
        spans = [_joined(spans[:early]), *spans[early:]]
    pieces, room = sum(each.pieces for each in spans), MOST_PIECES - len(spans)
    if pieces <= MOST_PIECES:
        return spans
    # Each span keeps one piece at least, and the rest of the room is divided in proportion; the sum
    # never exceeds the limit.
    return [_in_pieces(each, 1 + each.pieces * room // pieces) for each in spans]


def _joined(spans: Sequence[WorkSpan]) -> WorkSpan:
    return WorkSpan(
        spans[0].began,
        max(each.ended for each in spans),
        1,
        sum(each.pieces * each.operations for each in spans),
        sum(each.pieces * each.samples for each in spans),
        sum(each.joules for each in spans),
    )


def _in_pieces(span: WorkSpan, pieces: int) -> WorkSpan:
    share = span.pieces / pieces
    operations, samples = span.operations * share, span.samples * share
    return span._replace(pieces=pieces, operations=operations, samples=samples)


# Bounds on what a peer may send.

LONGEST_REPORT = 1 << 14
"""The limit of a report's body, bytes."""

_ROOM, _VECTORS = 1 << 20, 8


def longest_message(dimension: int) -> int:
    """Return the limit of the body of a message, bytes.

    It has room for eight vectors of the model's length in float64, and for 1 MiB of anything else.

    >>> longest_message(1_000_000)
    65048576
    """
    return _ROOM + _VECTORS * 8 * dimension


def largest_vector(dimension: int) -> int:
    """Return the largest dimension of a vector in a message, for a model of some dimension.

    A sparse vector may be far longer than its encoding, so the length of a frame does not bound it.

    >>> largest_vector(1_000_000)
    8065536
    """
    return (1 << 16) + _VECTORS * dimension
