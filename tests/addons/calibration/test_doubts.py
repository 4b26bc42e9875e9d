"""What is wrong with a recording is noted beside the constants, in the words of its user."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.addons.calibration.api import FurtherRecording, calibrate
from fedsim.addons.calibration.constants import CannotTell
from fedsim.addons.calibration.prediction import Prediction
from fedsim.core.errors import DataError
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios.channel import Framing

from .recorders import Truth, capture, csv, history, iperf3, on_wire
from .test_coverage import SIZES, fleet

TRUE = Truth()


def rows(
    takes: Callable[[int, bool, float], float], *, count: int = 96, sizes: Any = SIZES[1:]
) -> str:
    """Return messages of four clients whose times are changed, by client and direction."""
    rng, lines = np.random.default_rng(4), ["client,direction,start,end,bytes"]
    for number in range(count):
        client, up, size = number % 4, number // 4 % 2 == 0, int(rng.choice(sizes))
        plain = TRUE.latency + on_wire(size) / (TRUE.up if up else TRUE.down)
        seconds = takes(client, up, plain * rng.lognormal(0, TRUE.sigma))
        way = "up" if up else "down"
        lines.append(f"client-{client},{way},{number + 1},{number + 1 + seconds:.7f},{size}")
    return "\n".join(lines)


def notes(path: Path, text: str, clients: int = 4, **options: Any) -> list[str]:
    path.write_text(text, encoding="utf-8")
    return list(calibrate(path, fleet(clients), keep=["device.speed"], **options).notes)


def test_a_plain_recording_has_no_doubts(tmp_path: Path) -> None:
    assert notes(tmp_path / "log.csv", rows(lambda _, __, seconds: seconds)) == []


def test_a_clock_that_is_off_is_noted(tmp_path: Path) -> None:
    """24 ms at one client, then 12 ms at all of them."""
    text = rows(lambda client, up, s: s + (24e-3 if up else -24e-3) * (client == 2))
    (note,) = notes(tmp_path / "log.csv", text)
    assert note.startswith("client-2: uploads take 2")
    assert "as if the clocks of client and server differed by 2" in note
    text = rows(lambda _, up, s: s + (-12e-3 if up else 12e-3))
    (note,) = notes(tmp_path / "log.csv", text)
    assert note.startswith("fleet.0: downloads take ")
    assert "record both ends by one clock" in note


def test_a_client_unlike_its_group_is_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path / "log.csv", rows(lambda n, _, s: s * (1.5 if n == 3 else 1.0)))
    assert note.startswith("fleet.0: the messages of client-3 take ")
    assert note.endswith(
        "longer than those of its group: give it a group, or fit each client (--each)"
    )
    assert (
        notes(tmp_path / "log.csv", rows(lambda n, _, s: s * (1.5 if n == 3 else 1.0)), each=True)
        == []
    )


def test_outliers_are_noted(tmp_path: Path) -> None:
    count = iter(range(1000))
    text = rows(lambda _, __, s: s * (20.0 if next(count) == 41 else 1.0))
    found = notes(tmp_path / "log.csv", text)
    (note,) = [each for each in found if "far from" in each]
    assert note.startswith("1 of 48 upload observations are far from the others, the first of")
    assert "client-1 at 42 s" in note


def test_nearly_equal_sizes_are_noted(tmp_path: Path) -> None:
    text = rows(lambda _, __, s: s, sizes=(200_000, 280_000), count=400)
    (note,) = notes(tmp_path / "log.csv", text)
    assert "radio.latency: messages have 200,000 to 280,000 bytes, so nearly one size" in note


def test_times_of_two_clocks_may_be_none(tmp_path: Path) -> None:
    text = rows(lambda n, up, s: 0.0 if up and n == 1 else s)
    assert "12 messages took no time by their clocks, and are left out" in notes(
        tmp_path / "log.csv", text
    )


def test_headers_of_iperf3_are_stated_and_added(tmp_path: Path) -> None:
    path = tmp_path / "iperf.json"
    path.write_text(iperf3(np.random.default_rng(1), Truth(sigma=0.0)), encoding="utf-8")
    keep = ["radio.down", "radio.latency", "device.speed"]
    found = calibrate(path, fleet(4), keep=keep)
    assert found.constants[0].value == pytest.approx(TRUE.up, rel=1e-4)  # headers of a last packet
    assert "66 B of 1514 B in each packet" in found.notes[0]


def test_pings_below_a_millisecond_are_an_interval(tmp_path: Path) -> None:
    """However many there are: the latency is 0 to 0.5 ms, and so are those of two forms."""
    for count in (2, 200):
        lines = ["Reply from 10.0.0.1: bytes=32 time<1ms TTL=64"] * count
        path = tmp_path / f"ping-{count}.txt"
        path.write_text("\n".join(["Pinging h [10.0.0.1]:", *lines]), encoding="utf-8")
        keep = ["radio.up", "radio.down", "device.speed"]
        found = calibrate(path, fleet(4), keep=keep)
        (latency,) = found.constants
        assert (latency.value, latency.high) == pytest.approx((0.25e-3, 0.5e-3), rel=1e-3)
        assert latency.low < 1e-8
        assert f"{count} of {count} pings only have an upper bound" in found.notes[0]
    more = "\n".join(["PING h", *["time<1 ms", "time=1 ms", "time=1 ms"] * 5])
    path.write_text(more, encoding="utf-8")
    (latency,) = calibrate(path, fleet(4), keep=keep).constants
    assert latency.low < 0.4e-3
    assert latency.high > 0.5e-3


@pytest.mark.parametrize("links", [(5, 40), (40, 5)])
def test_a_ping_of_all_clients_is_held_against_the_nearest(
    tmp_path: Path, links: tuple[int, int]
) -> None:
    edges = [
        {"source": "server", "target": f"client-{number}", "latency": f"{latency} ms"}
        for number, latency in enumerate(links)
    ]
    scenario = fleet(2, network={"topology": "graph", "edges": edges})
    keep = ["radio.up", "radio.down", "device.speed"]
    path = tmp_path / "ping.txt"
    path.write_text("PING h\n" + "time=52 ms\ntime=48 ms\n" * 4, encoding="utf-8")
    (latency,) = calibrate(path, scenario, keep=keep).constants
    # Of the mean of both round trips, 45 ms are the links'.
    assert latency.value == pytest.approx(2.5e-3, rel=0.1)
    path.write_text("PING h\n" + "time=9 ms\n" * 4, encoding="utf-8")
    with pytest.raises(DataError, match="a ping of all clients took 9 ms, and 10 ms is the"):
        calibrate(path, scenario, keep=keep)


def test_a_rate_of_all_clients_has_the_mean_of_their_headers() -> None:
    framings = [Framing(0, 1500), Framing(66, 1514), Framing(66, 1514)]
    parts: Any = None
    prediction = Prediction(StarNetwork(), parts, framings, parts)
    bits = 8e6
    alone = [prediction.headers(client, bits) for client in range(3)]
    assert alone == [framing.bits(int(bits)) for framing in framings]
    assert prediction.headers(-1, bits) == pytest.approx(sum(alone) / 3)


def test_one_ping_shows_no_noise(tmp_path: Path) -> None:
    path = tmp_path / "ping.txt"
    path.write_text("PING h\ntime=40 ms", encoding="utf-8")
    with pytest.raises(CannotTell, match="latency, as too few observations show the noise"):
        calibrate(path, fleet(4), keep=["radio.up", "radio.down", "device.speed"])


def test_rates_of_one_size_are_as_wide_as_their_pings_leave_the_latency(tmp_path: Path) -> None:
    """With <1ms the bits of a message may take its whole time, or half a millisecond less."""
    log = tmp_path / "log.csv"
    size, takes = 2_000, 3e-3
    lines = [f"{n % 4},up,{n},{n + takes * (1 + n % 3 / 1e4):.9f},{size}" for n in range(12)]
    log.write_text("\n".join(["client,direction,start,end,bytes", *lines]), encoding="utf-8")
    ping = tmp_path / "ping.txt"
    ping.write_text("PING h\n" + "time<1ms\n" * 4, encoding="utf-8")
    keep = ["radio.down", "device.speed"]
    found = calibrate(log, fleet(4), keep=keep, further=[FurtherRecording(ping)])
    up = next(each for each in found.constants if each.key.endswith("up"))
    assert up.low == pytest.approx(on_wire(size) / takes, rel=1e-3)
    assert up.high == pytest.approx(on_wire(size) / (takes - 0.5e-3), rel=1e-3)


@pytest.mark.needs("pcap")
def test_a_capture_of_messages_of_one_segment_tells_no_rate(tmp_path: Path) -> None:
    path, slow = tmp_path / "a.pcap", Truth(1e5, 1e5, 20e-3, 0.02)
    for at_server in (True, False):
        rng = np.random.default_rng(1)
        capture(rng, slow, (300, 700, 1_200), path, at_server=at_server)
        with pytest.raises(CannotTell) as refused:
            calibrate(path, fleet(3), keep=["device.speed"])
        text = "each upload of these clients is one segment, and a capture shows when a segment has"
        assert text in str(refused.value)
        capture(rng, slow, (1_400, 5_000), path, at_server=at_server)
        found = calibrate(path, fleet(3), keep=["device.speed"])
        assert "messages of a capture have one segment" in found.notes[0]


def test_tasks_that_differ_are_noted(tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(2), ["client,kind,start,end,bytes,operations"]
    for n in range(80):
        seconds = rng.lognormal(0, 0.1) * (2.0 if n % 4 == 1 else 1.0) * (30.0 if n == 8 else 1.0)
        lines.append(f"{n % 4},compute,{n},{n + seconds:.6f},0,1e9")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = calibrate(path, fleet(4), keep=["radio.up", "radio.down", "radio.latency"])
    assert any("the tasks of 1 take" in note for note in found.notes), found.notes
    assert any("1 of 80 tasks of fleet.0 are far" in note for note in found.notes), found.notes


def test_means_over_unlike_or_unknown_clients_tell_no_speed(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(history(np.random.default_rng(1), 500.0, 0.2, 4), encoding="utf-8")
    device = {"kind": "yang-2021", "frequency": "1 GHz", "cycles_per_sample": 1e6}
    keep = ["radio.up", "radio.down", "radio.latency"]
    two = fleet(2, device)
    two["fleet"] *= 2
    with pytest.raises(CannotTell, match="over an unknown number of clients"):
        calibrate(path, two, keep=keep)
    found = calibrate(path, fleet(4, device), keep=keep)
    assert "means over the 4 clients of a round" in found.notes[0]
    sampled = fleet(8, device, participation={"kind": "uniform", "count": 4})
    assert "means over the 4 clients of a round" in calibrate(path, sampled, keep=keep).notes[0]


def test_a_recording_of_noise_alone_has_few_doubts(tmp_path: Path) -> None:
    found = [
        notes(tmp_path / "log.csv", csv(np.random.default_rng(s), TRUE, SIZES)) for s in range(9)
    ]
    assert sum(map(bool, found)) <= 1
