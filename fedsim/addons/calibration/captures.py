"""Messages of TCP connections in packet captures of tcpdump, Wireshark and others, read by dpkt.

A message is the payload that one end of a connection sends before the other end sends more than a
few bytes, or before a pause. The end that opened the connection is the client. A capture observes a
link somewhere between the two ends. The handshake shows its distance from each of them, by which
times are converted to those of the ends. The first message of the client begins with the SYN, as
under `model: tcp` with one connection per message.

A capture shows when a segment has passed, but not for how long. Captured behind the client's radio,
the first segment of an upload has no duration; captured before the radio, the last one has none. So
the duration of a message is that of its other segments, and a message of one segment has none.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from math import inf, nan
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any, NamedTuple

from fedsim.addons.calibration.recording import Observation
from fedsim.core.errors import DataError
from fedsim.core.extras import missing

_KEY = "log"

MAGIC = (
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
)
"""First bytes of a capture: pcap in either byte order, with micro- or nanoseconds, or pcapng."""

SMALL = 200
"""Bytes of payload up to which an answer belongs to a protocol above TCP, like HTTP/2's windows."""

PAUSE = 1.0
"""Time beyond a round trip after which further payload of one direction is a new message, s."""

_HOST = 1e-3
"""If the client is closer than this, the capture is on its machine, before its radio, s."""

_HALF = 1 << 31  # a difference of sequence numbers below it is ahead, otherwise behind
_WHOLE = 1 << 32  # sequence numbers wrap around

End = tuple[bytes, int]
"""Address and port of an end of a connection."""


class _Segment(NamedTuple):
    """A captured segment of TCP."""

    time: float
    source: End
    target: End
    flags: int
    number: int
    payload: int


@dataclass
class _Burst:
    """Payload of one direction without a pause; `first` and `last` are the sizes of segments, B."""

    up: bool
    start: float
    end: float
    size: int
    first: int
    last: int


@dataclass
class _Connection:
    """A captured connection.

    Attributes:
        client, server: the ends; the client has sent the first SYN.
        opened: the time of that SYN, s.
        accepted: the time of the answer to it, s; infinite before.
        ready: the time of the client's next segment, s; infinite before.
        bursts: the bursts of payload, in the order of their ends.
        least: by direction, the sequence number of the next byte that was not captured yet.
    """

    client: End
    server: End
    opened: float
    accepted: float = inf
    ready: float = inf
    bursts: list[_Burst] = field(default_factory=list)
    least: dict[bool, int] = field(default_factory=dict)

    def take(self, segment: _Segment) -> None:
        """Add a segment of either end."""
        up, syn = segment.source == self.client, bool(segment.flags & 2)
        if syn:
            self.least[up] = (segment.number + 1) % _WHOLE  # a SYN counts as one byte
            if not up:
                # The first answer: a retransmitted one does not move it.
                self.accepted = min(self.accepted, segment.time)
        elif up and self.accepted < inf:
            self.ready = min(self.ready, segment.time)
        # Data on the SYN (TCP Fast Open, RFC 7413) is not counted, nor anything before the
        # handshake is complete: without its round trip, no time could be converted to that of an
        # end.
        if segment.payload and not syn and up in self.least and self.ready < inf:
            end = (segment.number + segment.payload) % _WHOLE
            # Bytes that were not captured before: a retransmission adds none.
            fresh = (end - self.least[up]) % _WHOLE
            if 0 < fresh < _HALF:
                self.least[up] = end
                self._add(up, segment.time, fresh)
            elif segment.payload > 1:  # a retransmission; a single byte is a keep-alive probe
                self._add(up, segment.time, 0)

    def _add(self, up: bool, now: float, size: int) -> None:  # noqa: FBT001 - see `_Burst`
        last = self.bursts[-1] if self.bursts else None
        # A retransmission (size 0) adds no bytes, but the message is not over before it has passed.
        # It cannot begin a message.
        if last is not None and last.up == up and now - last.end < PAUSE + self.trip:
            last.end, last.size, last.last = now, last.size + size, size or last.last
        elif size:
            self.bursts.append(_Burst(up, now, now, size, size, size))

    @property
    def trip(self) -> float:
        """The round trip of the handshake, s: the sum of both sides of the capture point."""
        return self.ready - self.opened

    def messages(self) -> Iterator[tuple[_Burst, float, float]]:
        """Yield the messages at the times of their ends, with `unseen` and `handshake`.

        A small answer does not divide a message that continues within less than a round trip: the
        other end cannot have waited for the answer.
        """
        # From the client's SYN to the answer: to the server and back. From there to the client's
        # next segment: to the client and back.
        far, near = (self.accepted - self.opened) / 2, (self.ready - self.accepted) / 2
        whole = list[_Burst]()
        for burst in self.bursts:
            # The order is message, small answer, rest of the message: the rest is appended to the
            # message, and the answer stays behind it.
            inside = len(whole) > 1 and whole[-1].size <= SMALL and whole[-2].up == burst.up
            if inside and burst.start - whole[-2].end < self.trip:
                before, small = whole[-2], whole.pop()
                before.end, before.size = burst.end, before.size + burst.size
                before.last = burst.last
                whole.insert(-1, small)  # so that the message may continue once more
            else:
                whole.append(burst)
        for number, message in enumerate(sorted(whole, key=lambda burst: burst.start)):
            # The sender is `early` before the capture point, the receiver `late` after it.
            early, late = (near, far) if message.up else (far, near)
            # Only the first message, and only if it follows the handshake at once: an idle
            # connection was opened for something else.
            opening = not number and message.up and message.start - self.ready <= self.trip
            start = self.opened if opening else message.start
            whole_message = replace(message, start=start - early, end=message.end + late)
            # The radio is on the sender's side of the capture point.
            behind = message.up == (near > min(_HOST, far))
            if opening:
                yield whole_message, 0.0 if behind else message.last, nan
            else:
                yield (
                    whole_message,
                    message.first if behind else message.last,
                    near + far,
                )


def read_capture(content: bytes, path: Path, client: str) -> Iterator[Observation]:
    """Yield the messages of a capture, and a ping for the handshake of each connection.

    Args:
        content: the content of the file.
        path: the path, for errors.
        client: the client that was captured; `*` to name clients by their addresses.

    Raises:
            DataError: dpkt is not installed, the file is damaged, or it contains no handshake.
    """
    known = dict[frozenset[End], _Connection]()
    complete, seen = list[_Connection](), 0
    for segment in _segments(content, path):
        seen, ends = seen + 1, frozenset((segment.source, segment.target))
        connection = known.get(ends)
        # A SYN without ACK opens a connection: also a new one between the same ends, but not a
        # retransmitted SYN.
        # 18 is SYN and ACK, of which a first SYN has the former alone.
        if segment.flags & 18 == 2 and (
            connection is None or connection.bursts or segment.source != connection.client
        ):
            connection = _Connection(segment.source, segment.target, segment.time)
            known[ends] = connection
            complete.append(connection)
        if connection is not None:
            connection.take(segment)
    complete = [item for item in complete if item.ready < inf]
    if not complete:
        there = f"{seen} segments of TCP, but no handshake" if seen else "no segment of TCP"
        wanted = "a capture that was running when the clients connected"
        raise DataError(_KEY, f"{path}: the capture has {there}; expected {wanted}")
    first = min(item.opened for item in complete)
    for item in complete:
        name = client if client != "*" else _name(item.client[0])
        begun = item.opened - first
        yield Observation(0, name, 0, "ping", begun, begun + item.trip)
        for one, unseen, handshake in item.messages():
            kind, more = "upload" if one.up else "download", {"unseen": float(unseen)}
            span = one.start - first, one.end - first
            yield Observation(0, name, 0, kind, *span, one.size, **more, handshake=handshake)


def _name(address: bytes) -> str:
    return inet_ntop(AF_INET if len(address) == 4 else AF_INET6, address)


def _segments(content: bytes, path: Path) -> Iterator[_Segment]:
    """Yield the segments of TCP in a capture, over IPv4 or IPv6.

    Raises:
        DataError: see `read_capture`.
    """
    try:
        import dpkt
    except ImportError:
        raise DataError(_KEY, f"{path}: {missing('a capture', 'dpkt', 'pcap')}") from None
    kinds = {
        0: dpkt.loopback.Loopback,
        1: dpkt.ethernet.Ethernet,
        113: dpkt.sll.SLL,
        276: dpkt.sll2.SLL2,
    }
    try:
        reader: Any = dpkt.pcap.UniversalReader(BytesIO(content))
        link = reader.datalink()
        if link not in kinds and link not in _BARE:
            wanted = "Ethernet, Linux's cooked form, or IP"
            raise DataError(_KEY, f"{path}: got links of type {link}; expected {wanted}")
        for time, frame in reader:
            try:
                packet = kinds[link](frame).data if link in kinds else _packet(dpkt, frame)
            except (dpkt.dpkt.UnpackError, IndexError, struct.error):
                continue  # not an IP packet, or a truncated one
            if isinstance(tcp := getattr(packet, "data", None), dpkt.tcp.TCP):
                yield _segment(float(time), packet, tcp)
    except (dpkt.dpkt.Error, ValueError, OverflowError) as error:
        raise DataError(_KEY, f"{path}: the capture is damaged or cut off: {error!r}") from error


_BARE = (12, 14, 101)
"""Link types whose frames are IP packets."""


def _packet(dpkt: Any, frame: bytes) -> Any:
    return (dpkt.ip6.IP6 if frame[0] >> 4 == 6 else dpkt.ip.IP)(frame)


def _segment(time: float, packet: Any, tcp: Any) -> _Segment:
    """Return a segment; the length of its payload is known even if it was truncated."""
    # The length in the header is 0 if the network card cuts the segments (offload).
    if packet.v == 4:
        held = packet.len - 4 * packet.hl if packet.len else len(tcp)
    else:
        extensions = sum(map(len, packet.all_extension_headers))
        held = packet.plen - extensions if packet.plen else len(tcp)
    ends = (bytes(packet.src), tcp.sport), (bytes(packet.dst), tcp.dport)
    return _Segment(time, *ends, tcp.flags, tcp.seq, max(held - 4 * tcp.off, 0))
