"""Intervals of 90 % contain the true constants of 200 drawn recordings about 180 times."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fedsim.addons.calibration.api import FurtherRecording, calibrate
from fedsim.addons.calibration.constants import CannotTell

from . import recorders
from .recorders import Truth

DRAWS = 200
LEAST, MOST = (int(binom.ppf(each, DRAWS, 0.9)) for each in (0.001, 0.999))
TRUE = Truth()
SIZES = (2_000, 20_000, 200_000, 600_000)
RADIO = {
    "fleet.0.radio.up": TRUE.up,
    "fleet.0.radio.down": TRUE.down,
    "fleet.0.radio.latency": TRUE.latency,
}


def fleet(count: int, device: Any = "pi-4", **keys: Any) -> dict[str, Any]:
    """Return a scenario of clients with wrong constants, and the headers of the recordings."""
    radio = {"kind": "wifi", "framing": "66 B", "packet": "1514 B"}
    return {
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "sklearn", "name": "diabetes"},
            "split": {"kind": "iid"},
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.1},
        "fleet": [{"count": count, "device": device, "radio": radio}],
        "stop": {"rounds": 2},
        **keys,
    }


Record = Callable[[np.random.Generator, Path], None]


def covered(
    folder: Path,
    record: Record,
    scenario: Mapping[str, Any],
    truth: Mapping[str, float],
    *,
    name: str = "log",
    further: bool = False,
    draws: int = DRAWS,
) -> dict[str, int]:
    """Return how many intervals contain the truth, by constant; others are kept."""
    known = ("up", "down", "latency")
    fitted = {key.rpartition(".")[2] for key in truth}
    keep = [f"radio.{each}" for each in known if each not in fitted]
    keep += [] if any("device" in key for key in truth) else ["device.speed"]
    inside, path = dict.fromkeys(truth, 0), folder / name
    more = [FurtherRecording(folder / "ping.txt")] if further else []
    for seed in range(draws):
        record(np.random.default_rng([9, seed]), path)
        found = calibrate(path, dict(scenario), keep=keep, further=more)
        for each in found.constants:
            inside[each.key] += each.low <= truth[each.key] <= each.high
    return inside


def check(inside: Mapping[str, int]) -> None:
    assert all(LEAST <= count <= MOST for count in inside.values()), inside


def written(draw: Callable[[np.random.Generator], str]) -> Record:
    def record(rng: np.random.Generator, path: Path) -> None:
        path.write_text(draw(rng), encoding="utf-8")

    return record


@pytest.mark.slow
def test_messages_of_several_sizes(tmp_path: Path) -> None:
    record = written(lambda rng: recorders.csv(rng, TRUE, SIZES))
    check(covered(tmp_path, record, fleet(4), RADIO))


@pytest.mark.slow
def test_messages_of_one_size_with_pings(tmp_path: Path) -> None:
    def record(rng: np.random.Generator, path: Path) -> None:
        path.write_text(recorders.csv(rng, TRUE, [20_000]), encoding="utf-8")
        (path.parent / "ping.txt").write_text(recorders.ping(rng, TRUE), encoding="utf-8")

    check(covered(tmp_path, record, fleet(4), RADIO, further=True))


@pytest.mark.slow
def test_pings(tmp_path: Path) -> None:
    record = written(lambda rng: recorders.ping(rng, TRUE))
    check(covered(tmp_path, record, fleet(4), {"fleet.0.radio.latency": TRUE.latency}))


@pytest.mark.slow
def test_iperf3(tmp_path: Path) -> None:
    record = written(lambda rng: recorders.iperf3(rng, TRUE))
    check(covered(tmp_path, record, fleet(4), {"fleet.0.radio.up": TRUE.up}))


@pytest.mark.slow
def test_mahimahi(tmp_path: Path) -> None:
    record = written(lambda rng: recorders.mahimahi(rng, TRUE))
    truth = {"fleet.0.radio.down": TRUE.down}
    check(covered(tmp_path, record, fleet(4), truth, name="trace.down"))


@pytest.mark.slow
@pytest.mark.needs("pcap")
@pytest.mark.parametrize("at_server", [True, False])
def test_captures(tmp_path: Path, *, at_server: bool) -> None:
    def record(rng: np.random.Generator, path: Path) -> None:
        recorders.capture(rng, TRUE, (2_000, 20_000, 60_000), path, at_server=at_server)

    check(covered(tmp_path, record, fleet(3), RADIO))


@pytest.mark.slow
@pytest.mark.needs("pcap")
def test_captures_of_few_segments_over_slow_radios(tmp_path: Path) -> None:
    """A message of 1,400 bytes is one segment, and left out; 5,000 bytes are four."""
    slow = Truth(1e5, 1e5, 20e-3, 0.02)

    def record(rng: np.random.Generator, path: Path) -> None:
        recorders.capture(rng, slow, (1_400, 5_000, 14_480), path, at_server=True)

    truth = dict(zip(RADIO, (slow.up, slow.down, slow.latency), strict=True))
    check(covered(tmp_path, record, fleet(3), truth))


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 30])
def test_means_of_flower(tmp_path: Path, clients: int) -> None:
    """The spread of one client's tasks, though a History has the means over all of a round."""
    record = written(lambda rng: recorders.history(rng, 500.0, 0.2, clients))
    device = {"kind": "yang-2021", "frequency": "1 GHz", "cycles_per_sample": 1e6}
    truth = {"fleet.0.device.frequency": 500e6, "fleet.0.device.slowdown.sigma": 0.2}
    check(covered(tmp_path, record, fleet(clients, device), truth))


@pytest.mark.slow
def test_a_slower_radio_and_its_link_are_both_told(tmp_path: Path) -> None:
    path, inside = tmp_path / "log.csv", dict.fromkeys((*RADIO, "network.server.uplink"), 0)
    truth = dict(zip(inside, (3e6, TRUE.down, TRUE.latency, 5e6), strict=True))
    scenario = fleet(4, network={"server": {"uplink": "9 Mbit/s", "latency": "0 s"}})
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        text = recorders.shared(rng, Truth(up=3e6), 5e6, (20_000, 60_000, 200_000))
        path.write_text(text, encoding="utf-8")
        found = calibrate(path, scenario, keep=["device.speed"], fit=["network.server.uplink"])
        for each in found.constants:
            inside[each.key] += each.low <= truth[each.key] <= each.high
    assert all(count >= binom.ppf(0.001, 40, 0.9) for count in inside.values()), inside


@pytest.mark.slow
def test_a_radio_behind_a_slower_link_is_not_identifiable(tmp_path: Path) -> None:
    """A rate without an upper end passes for bounded by chance alone, in a hundredth of draws."""
    path, reported = tmp_path / "log.csv", 0
    network = {"server": {"uplink": "9 Mbit/s", "latency": "0 s"}}
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        text = recorders.shared(rng, Truth(up=30e6), 5e6, (20_000, 60_000, 200_000))
        path.write_text(text, encoding="utf-8")
        scenario = fleet(4, network=network)
        with suppress(CannotTell):
            calibrate(path, scenario, keep=["device.speed"], fit=["network.server.uplink"])
            reported += 1
    with pytest.raises(CannotTell, match=r"fleet\.0\.radio\.up, .* is not identifiable"):
        calibrate(path, scenario, keep=["device.speed"], fit=["network.server.uplink"])
    assert reported <= binom.ppf(0.999, 40, 0.01)
