"""Transfers against Linux's own sockets: the table of measurements, its tools, and Linux itself."""

import importlib
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.results.accuracy import CLEAN, TRANSFERS
from tests.conftest import ROOT

ANALYSIS = ROOT / "analysis/reality"
CLIENT, OTHER = "10.1.0.2", "10.255.0.2"
FIRST_BYTES = 4 * 1448
"""Packets may come before their time: one for each link, and what makes up for a late kernel."""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the cases and their reference."""
    monkeypatch.syspath_prepend(str(ANALYSIS))
    return importlib.import_module("kernel")


def bound(case: Any) -> float:
    """Return the least time of the last message by any protocol: handshake, one way, payload."""
    payload = 8 * (case.bytes - FIRST_BYTES)
    floor: float = max(case.flows * payload / case.rate, payload / case.own_rate, 0.0)
    ways: float = 3 * (case.delay + min(case.own_delays))
    return floor + ways


def test_every_measurement_is_complete_and_slower_than_any_protocol_could_be(kernel: Any) -> None:
    for name, control in kernel.PLANS:
        found = kernel.read(name, control)
        assert sorted(found) == list(range(kernel.SETS[name].cases))
        for number, times in found.items():
            case = kernel.draw(kernel.SETS[name], number)
            assert len(times) == kernel.RUNS[case.loss > 0]
            assert min(times) > bound(case)


FOUND = {  # of `tcp`, held-out: median and nine of ten of the errors' sizes
    "one flow": (0.0065, 0.0245),
    "many flows, first windows fit the queue": (0.0075, 0.0205),
    "many flows, first windows overflow the queue": (0.0125, 0.215),
    "no losses": (0.0078, 0.0605),
    "no losses, measurements differ by at most 10 %": (0.0078, 0.0455),
    "random losses: median": (0.0115, 0.195),
    "random losses: 9 of 10": (0.0195, 0.205),
}

BBR = 0.03
"""The median of the sizes of Cubic's errors against BBR's times, below which it needs no model."""


@pytest.mark.slow
def test_the_model_of_windows_keeps_its_errors_and_a_check_states_them(kernel: Any) -> None:
    """The quantiles that the page states."""
    found: dict[str, list[float]] = {}
    for row, error in kernel.errors("tcp", "held-out"):
        found.setdefault(row, []).append(abs(error))
    assert found.keys() == FOUND.keys()
    for row, (median, nine) in FOUND.items():
        assert np.median(found[row]) < median
        assert np.quantile(found[row], 0.9) < nine
    stated = TRANSFERS["linux"][CLEAN]
    later = [abs(error) for row, error in kernel.errors("tcp", "held-out-2") if row == kernel.NONE]
    errors = found[kernel.NONE] + later
    assert len(errors) == stated.cases
    assert 100 * np.median(errors) == pytest.approx(stated.median, rel=0.05)
    assert 100 * np.quantile(errors, 0.9) == pytest.approx(stated.nine, rel=0.05)
    assert 100 * max(errors) == pytest.approx(stated.worst, rel=0.05)


@pytest.mark.slow
def test_bbr_s_times_are_about_those_of_cubic(kernel: Any) -> None:
    """Why there is no `variant: bbr`."""
    found = [abs(e) for row, e in kernel.errors("tcp", "held-out", "bbr") if row == kernel.NONE]
    assert np.median(found) < BBR


@pytest.mark.slow
def test_the_script_prints_the_rows_of_the_page(
    kernel: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = kernel.read

    def few(name: str, control: str = "drawn") -> dict[int, Any]:
        return {number: times for number, times in read(name, control).items() if number < 10}

    monkeypatch.setattr(kernel, "read", few)
    kernel.main([])
    head, _, *rows = capsys.readouterr().out.splitlines()
    page = (ANALYSIS / "README.md").read_text(encoding="utf-8")
    assert head in page
    for row in rows:
        name, model, kind = row.split("|")[1:4]
        assert f"|{name}|{model}|{kind}|" in page
    with pytest.raises(SystemExit, match="expected nothing, or: measure"):
        kernel.main(["measured"])


def packet(source: str, target: str, size: int) -> bytes:
    """Return the header of a packet of IPv4, and zeros."""
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 6, 0, *map(socket.inet_aton, (source, target))
    )
    return head + bytes(size - len(head))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, ...]]:
    """Return what stands in for two devices: our ends, and the relay's."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    for each in pairs:
        each[0].settimeout(20.0)
    yield pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]
    for end in (end for pair in pairs for end in pair):
        end.close()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_relay_hands_over_after_the_client_s_delay_what_it_does_not_lose(
    ends: tuple[socket.socket, ...], share: float
) -> None:
    near, far, *inner = ends
    numbers = [end.fileno() for end in inner]
    words = [*map(str, numbers), str(share), "0", "first", "1e-4", f"{CLIENT}=0.2"]
    script = ANALYSIS / "linux/relay.py"
    with subprocess.Popen([sys.executable, str(script), *words], pass_fds=numbers) as relay:
        try:
            data, answer = packet(CLIENT, OTHER, 1500), packet(OTHER, CLIENT, 60)
            begun = time.monotonic()
            near.send(packet("10.9.9.9", OTHER, 60))  # nobody's: it goes nowhere
            near.send(data)
            near.send(packet(CLIENT, OTHER, 61))
            far.send(answer)
            arrived = [far.recv(2000)] if share else [far.recv(2000), far.recv(2000)]
            assert time.monotonic() - begun > 0.2
            assert [len(each) for each in arrived] == ([61] if share else [1500, 61])
            assert near.recv(2000) == answer
        finally:
            relay.kill()


@pytest.mark.slow
def test_linux_itself_carries_a_case(kernel: Any) -> None:
    """A few messages each way over real sockets; where namespaces are not allowed, it says why."""
    namespaces = importlib.import_module("linux.namespaces")
    for direction in ("up", "down"):
        case = kernel.Case(
            variant="cubic",
            discipline="drop-tail",
            queue=100,
            loss=0.0,
            direction=direction,
            rate=10e6,
            delay=0.005,
            gateways=0,
            gateway_rate=0.0,
            bytes=60_000,
            own_rate=20e6,
            own_delays=(0.005, 0.02, 0.005),
        )
        try:
            times = kernel.by_linux(case, 0)
            with namespaces.star(namespaces.links_of(case)) as built:
                trips = kernel.round_trips(built)
        except (namespaces.Unavailable, PermissionError, FileNotFoundError) as reason:
            pytest.skip(f"network namespaces are not to be had here: {reason}")
        assert max(times) > bound(case)
        assert all(
            trip > 2 * (case.delay + own) for trip, own in zip(trips, case.own_delays, strict=True)
        )
    assert not list(Path("/run/netns").glob(f"fedsim{os.getpid()}*"))


def test_a_way_by_netem_has_each_client_s_delay_and_loses_data_in_one_direction(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands that a kernel with `netem` would be given."""
    namespaces = importlib.import_module("linux.namespaces")
    said: list[tuple[str, ...]] = []

    def note(*words: str, given: str = "") -> None:
        said.append((*words, *given.splitlines()))

    def no_relay(*_: Any) -> None:
        raise AssertionError("the kernel has netem")

    monkeypatch.setattr(namespaces, "command", note)
    monkeypatch.setattr(namespaces, "_settings", lambda _: None)
    monkeypatch.setattr(namespaces, "_relay", no_relay)
    case = kernel.Case(
        variant="cubic",
        discipline="drop-tail",
        queue=100,
        loss=0.01,
        direction="up",
        rate=8e6,
        delay=0.005,
        gateways=0,
        gateway_rate=0.0,
        bytes=60_000,
        own_rate=8e6,
        own_delays=(0.01, 0.02),
    )
    with namespaces.star(namespaces.links_of(case)):
        lines = [line for each in said for line in each]
    delays = [line for line in lines if "netem" in line and "way" not in line and line != "lo"]
    data = [line for line in delays if "loss" in line]
    assert [line.split()[3] for line in data] == ["far", "far"]  # towards the server
    assert [line.split("delay ")[1] for line in data] == [
        f"{1e6 * (0.005 + own + 2 * 1500 * 8 / 8e6):.0f}us loss 1.000000%"
        for own in case.own_delays
    ]
    matched = [line for line in lines if "u32" in line]
    assert len(matched) == 2 * 2 * 2
    assert all("match ip src" in line for line in matched if " far " in line)
    assert all("match ip dst" in line for line in matched if " near " in line)
