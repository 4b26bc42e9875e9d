"""Captures of packets: the messages of connections, at the times of their ends."""

import struct
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fedsim
from fedsim.addons.calibration.api import calibrate
from fedsim.addons.calibration.readers import read_recording
from fedsim.core.errors import DataError

from .test_calibrate import scenario

dpkt = pytest.importorskip("dpkt")

CLIENT, SERVER = b"\x0a\x01\x00\x02", b"\x0a\xff\x00\x02"
SYN, ACK = 2, 16
SEGMENT = 1448


class Seen(NamedTuple):
    """A segment, as a capture sees it."""

    time: float
    up: bool
    flags: int
    number: int
    size: int = 0


def connection(near: float, far: float, start: float = 1.0) -> list[Seen]:
    """Return a handshake, captured between the ends: `near` from the client, s, and `far`."""
    return [
        Seen(start + near, True, SYN, 100),
        Seen(start + near + 2 * far, False, SYN | ACK, 900),
        Seen(start + 3 * near + 2 * far, True, ACK, 101),
    ]


def message(up: bool, begin: float, rate: float, size: int, number: int) -> Iterator[Seen]:
    """Yield the segments of a message, the first bit of which passes at `begin`, s."""
    for place in range(0, size, SEGMENT):
        own = min(SEGMENT, size - place)
        yield Seen(begin + 8 * (place + own) / rate, up, ACK, number + place, own)


def frame(seen: Seen, port: int = 5000, client: bytes = CLIENT, snap: int = 10**6) -> bytes:
    """Return a frame of Ethernet, cut after some bytes."""
    ends = ((client, port), (SERVER, 80))
    (source, sport), (target, dport) = ends if seen.up else ends[::-1]
    tcp = dpkt.tcp.TCP(
        sport=sport, dport=dport, seq=seen.number % 2**32, flags=seen.flags, data=bytes(seen.size)
    )
    ip = dpkt.ip.IP(src=source, dst=target, p=6, data=tcp)
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(data=ip, type=0x0800))[:snap]


def write(
    path: Path, frames: Sequence[tuple[float, bytes]], *, form: Any = None, link: int = 1
) -> Path:
    stream = BytesIO()
    writer = (form or dpkt.pcap.Writer)(stream, linktype=link)
    for time, each in sorted(frames, key=lambda one: one[0]):
        writer.writepkt(each, ts=time)
    path.write_bytes(stream.getvalue())
    return path


def capture(path: Path, seen: Sequence[Seen], **options: Any) -> Path:
    return write(path, [(each.time, frame(each, **options)) for each in seen])


@pytest.mark.parametrize(("near", "far"), [(0.0, 0.05), (0.05, 0.0), (0.02, 0.03)])
def test_times_are_those_of_the_ends_wherever_the_capture_was(
    tmp_path: Path, near: float, far: float
) -> None:
    """The client sends 14,480 bytes at 1.1, when it is connected; the server answers with 2,896."""
    up = message(True, 1.1 + near, 8e6, 14_480, 101)
    done = 1.1 + 0.01448 + near + far
    down = message(False, done + far, 8e6, 2_896, 901)
    read = read_recording(capture(tmp_path / "a.pcap", [*connection(near, far), *up, *down]))
    assert read["kind"].tolist() == ["ping", "upload", "download"]
    assert set(read["client"]) == {"10.1.0.2"}
    assert read["bytes"].tolist() == [0, 14_480, 2_896]
    begins, ends = read["start"] - read["start"][1], read["end"] - read["start"][1]
    way = near + far
    assert read["end"][0] - read["start"][0] == pytest.approx(2 * way, abs=1e-5)
    assert (ends[1]) == pytest.approx(0.1 + 0.01448 + way, abs=1e-5)  # from the SYN
    assert begins[2] == pytest.approx(ends[1] + 8 * SEGMENT / 8e6, abs=1e-5)
    assert ends[2] - ends[1] == pytest.approx(2896 * 8 / 8e6 + way, abs=1e-5)


def test_a_small_answer_within_a_message_does_not_divide_it(tmp_path: Path) -> None:
    """As windows of HTTP/2 do; what comes a round trip later is another message."""
    first = list(message(False, 2.0, 8e6, 28_960, 901))
    update = Seen(first[5].time + 1e-4, True, ACK, 101, 30)
    answer = Seen(first[-1].time + 1e-4, True, ACK, 131, 60)
    second = message(False, first[-1].time + 0.11, 8e6, 28_960, 901 + 28_960)
    seen = [*connection(0, 0.05), *first, update, answer, *second]
    read = read_recording(capture(tmp_path / "a.pcap", seen))
    assert read["kind"].tolist() == ["ping", "download", "upload", "upload", "download"]
    assert read["bytes"].tolist()[1:] == [28_960, 30, 60, 28_960]


def test_bytes_count_once_and_numbers_may_pass_their_end(tmp_path: Path) -> None:
    start = 2**32 - 5 * SEGMENT
    handshake = [each._replace(number=start - 1) for each in connection(0, 0.05)[:1]]
    handshake += [each._replace(number=start) for each in connection(0, 0.05)[1:]]
    sent = list(message(True, 1.15, 8e6, 10 * SEGMENT, start))
    again = sent[3]._replace(time=sent[-1].time + 0.3)
    probe = sent[9]._replace(time=9.0, number=start + 10 * SEGMENT - 1, size=1)
    read = read_recording(capture(tmp_path / "a.pcap", [*handshake, *sent, again, probe]))
    assert read["bytes"].tolist() == [0, 10 * SEGMENT]
    assert read["end"][1] - read["start"][1] == pytest.approx(again.time - 1.0 + 0.05, abs=1e-5)


def test_forms_of_captures(tmp_path: Path) -> None:
    """Cut to headers, as pcapng, without frames, over IPv6, and with what is no TCP."""
    seen = [*connection(0.01, 0.02), *message(True, 1.07, 8e6, 9_000, 101)]
    whole = read_recording(capture(tmp_path / "a.pcap", seen))
    assert whole["bytes"].tolist() == [0, 9_000]
    assert read_recording(capture(tmp_path / "b.pcap", seen, snap=60)).equals(whole)
    frames = [(each.time, frame(each)) for each in seen]
    others = [(1.0, b""), (1.01, b"\x45"), (1.02, bytes(14) + b"\x46\xff"), (1.03, bytes(60))]
    ng = write(tmp_path / "c.pcapng", [*frames, *others], form=dpkt.pcapng.Writer)
    assert read_recording(ng).equals(whole)
    bare = write(tmp_path / "d.pcap", [(time, each[14:]) for time, each in frames], link=101)
    assert read_recording(bare).equals(whole)
    six = list[tuple[float, bytes]]()
    for time, each in frames:
        tcp = dpkt.ethernet.Ethernet(each).data.data
        up = tcp.sport == 5000
        ends = {"src": bytes(15) + bytes([2 - up]), "dst": bytes(15) + bytes([1 + up])}
        six.append((time, bytes(dpkt.ip6.IP6(**ends, nxt=6, plen=len(tcp), data=tcp))))
    read = read_recording(write(tmp_path / "e.pcap", six, link=101))
    assert read.drop(columns="client").equals(whole.drop(columns="client"))
    assert set(read["client"]) == {"::1"}
    assert set(read_recording(tmp_path / "e.pcap", client="client-1")["client"]) == {"client-1"}


def test_a_fleet_is_calibrated_by_a_capture(tmp_path: Path) -> None:
    """Two clients of known links, each message over a connection of its own: 1.5 round trips."""
    frames = list[tuple[float, bytes]]()
    for number in range(20):
        client, size, start = number % 2, 20_000 * (1 + number % 5), 1.0 + number
        rate, trip, address = (4e6, 0.03, CLIENT) if client else (2e6, 0.08, CLIENT[:3] + b"\x01")
        sent = message(True, start + 1.5 * trip, rate, size, 101)
        seen = [*connection(trip / 2, 0.0, start), *sent]  # captured at the server
        frames += [(each.time, frame(each, 5000 + number, address)) for each in seen]
    given = scenario([{"count": 1, "radio": {"kind": "wifi", "framing": "0 B"}}] * 2)
    given["problem"] = {**given["problem"], "split": {"kind": "contiguous", "clients": 2}}
    keep = ["radio.down", "device.speed", "device.slowdown.sigma"]
    found = calibrate(write(tmp_path / "a.pcap", frames), given, keep=keep)
    known = {each.key: each.value for each in found.constants}
    assert known["fleet.0.radio.up"] == pytest.approx(2e6, rel=1e-3)
    assert known["fleet.1.radio.up"] == pytest.approx(4e6, rel=1e-3)
    assert known["fleet.0.radio.latency"] == pytest.approx(0.12, rel=1e-3)
    assert known["fleet.1.radio.latency"] == pytest.approx(0.045, rel=1e-3)


HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD, "the capture has no segment of TCP; expected"),
        (HEAD[:20], "the capture is damaged or cut off"),
        (HEAD[:-4] + struct.pack("<I", 105), "got links of type 105; expected Ethernet, Linux's"),
    ],
)
def test_captures_that_tell_nothing_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_recording(path)
    assert f"{path}: " in str(refused.value)
    assert words in str(refused.value)


def test_connections_that_were_open_before_are_named(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", list(message(True, 1.0, 8e6, 9_000, 101)))
    with pytest.raises(DataError, match="7 segments of TCP, but no handshake; expected a capture"):
        read_recording(path)


def test_without_dpkt_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dpkt", None)
    path = capture(tmp_path / "a.pcap", connection(0, 0.1))
    with pytest.raises(DataError) as refused:
        read_recording(path)
    assert fedsim.core.extras.missing("a capture", "dpkt", "pcap") in str(refused.value)
