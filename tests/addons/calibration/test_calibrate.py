"""Known constants are recovered from simulated runs; what a log cannot tell is named."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.addons.calibration.api import FurtherRecording, calibrate
from fedsim.addons.calibration.constants import CannotTell
from fedsim.addons.calibration.likelihood import fit_speed
from fedsim.core.errors import DataError
from fedsim.scenario import load

PROBLEM = {
    "loss": {"kind": "squared", "l2": 0.01},
    "data": {"kind": "shifted-mean", "clients": 4, "rows": 15, "features": 400},
    "split": {"kind": "iid", "clients": 4},
}
SLOW = {"kind": "pi-4", "speed": "3 Mflop/s", "slowdown": {"kind": "lognormal", "sigma": 0.2}}
FAST = {"kind": "pi-4", "speed": "9 Mflop/s"}
RADIOS = (
    {"kind": "wifi", "up": "3 Mbit/s", "down": "8 Mbit/s", "latency": "7 ms"},
    {"kind": "lte", "up": "1 Mbit/s", "down": "2 Mbit/s", "latency": "30 ms"},
)
FLEET = tuple(
    {"count": 2, "device": device, "radio": radio}
    for device, radio in zip((SLOW, FAST), RADIOS, strict=True)
)
GUESS = (
    {"count": 2, "device": "pi-4", "radio": "wifi"},
    {"count": 2, "device": "pi-4", "radio": "lte"},
)
TRUE = {
    "fleet.0.radio.up": 3e6,
    "fleet.0.radio.down": 8e6,
    "fleet.0.radio.latency": 7e-3,
    "fleet.1.radio.up": 1e6,
    "fleet.1.radio.down": 2e6,
    "fleet.1.radio.latency": 30e-3,
}


def scenario(fleet: Any = FLEET, *, sparse: bool = True, **keys: Any) -> dict[str, Any]:
    """Return a study of a dense and a sparse method, whose messages differ in size."""
    variant = {
        "wire": {
            way: {"compressor": {"kind": "top-k", "fraction": share}}
            for way, share in (("up", 0.25), ("down", 0.5))
        }
    }
    return {
        "problem": PROBLEM,
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": list(fleet),
        "stop": {"rounds": 8},
        "variants": {"dense": {}, **({"sparse": variant} if sparse else {})},
        **keys,
    }


def values(found: Any) -> Mapping[str, float]:
    return {each.key: each.value for each in found.constants}


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "study"
    fedsim.run(scenario(), out=out)
    return out


def test_constants_of_a_simulated_run_are_recovered(log: Path) -> None:
    found = calibrate(log, scenario(GUESS))
    known = values(found)
    for key, value in TRUE.items():
        assert known[key] == pytest.approx(value, rel=1e-5)
    assert known["fleet.1.device.speed"] == pytest.approx(9e6, rel=1e-9)
    assert known["fleet.1.device.slowdown.sigma"] == pytest.approx(0, abs=1e-9)
    by_key = {each.key: each for each in found.constants}
    speed = by_key["fleet.0.device.speed"]
    assert speed.observations == 2 * 2 * 8
    assert speed.low < speed.value < speed.high
    assert speed.value == pytest.approx(3e6, rel=0.15)
    assert set(found.noise) == {"download", "upload"}


@pytest.mark.parametrize(
    "model", ["fluid", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lv08", "tcp"))]
)
def test_a_shared_link_is_fitted_under_every_model_of_flows(tmp_path: Path, model: str) -> None:
    """Transfers over one link slow each other down, which the fit replays."""
    network = {"model": model, "server": {"uplink": "2.5 Mbit/s", "latency": "3 ms"}}
    large = {**PROBLEM, "data": {**PROBLEM["data"], "features": 4000}}
    study = scenario(network=network, stop={"rounds": 3}, problem=large)
    fedsim.run(study, out=tmp_path / "study")
    guess = {"model": model, "server": {"uplink": "7 Mbit/s", "latency": "3 ms"}}
    first = {**GUESS[0], "radio": {"kind": "wifi", "up": "3 Mbit/s"}}
    found = calibrate(
        tmp_path / "study",
        scenario([first, GUESS[1]], network=guess),
        fit=["network.server.uplink"],
        keep=["fleet.0.radio.up"],
    )
    known = values(found)
    assert known["network.server.uplink"] == pytest.approx(2.5e6, rel=1e-4)
    for key in ("fleet.1.radio.up", "fleet.0.radio.down", "fleet.1.radio.latency"):
        assert known[key] == pytest.approx(TRUE[key], rel=1e-4)
    assert "fleet.0.radio.up" not in known


def test_a_calibrated_fleet_runs_and_takes_as_long(log: Path, tmp_path: Path) -> None:
    """The file that is written is a scenario; without spread its times are those of the log."""
    found = calibrate(log, scenario(GUESS), keep=["device.slowdown.sigma"])
    found.write(scenario(GUESS), tmp_path / "calibrated.yaml")
    plan = load(tmp_path / "calibrated.yaml")
    group = plan.variants[0].scenario.fleet[1]
    assert group.radio.up == pytest.approx(1e6, rel=1e-5)  # type: ignore[attr-defined]
    assert set(group.intervals) >= {"radio.up", "radio.down", "radio.latency"}
    again = fedsim.run(tmp_path / "calibrated.yaml", overrides=["variants={}"], out=tmp_path / "r")
    before = fedsim.open(log).events
    slow = before[(before["variant"] == "dense") & (before["event"] == "send")]
    times = [
        each[(each["node"] == "client-3") & (each["round"] == 1)]["t"].iloc[0]
        for each in (slow, again.events[again.events["event"] == "send"])
    ]
    assert times[1] == pytest.approx(times[0], rel=1e-4)


def test_each_client_may_have_constants_of_its_own(log: Path) -> None:
    found = calibrate(log, scenario(GUESS), each=True)
    known = values(found)
    ups = [known[f"fleet.{number}.radio.up"] for number in range(4)]
    assert ups == pytest.approx([3e6, 3e6, 1e6, 1e6], rel=1e-5)
    assert [block["count"] for block in found.blocks()] == [1] * 4


def test_messages_of_one_size_tell_rate_and_latency_only_with_a_ping(
    log: Path, tmp_path: Path
) -> None:
    with pytest.raises(CannotTell) as refused:
        calibrate(log / "dense", scenario(GUESS))
    text = str(refused.value)
    assert "fleet.0.radio.up, fleet.0.radio.down, fleet.0.radio.latency" in text
    assert "all messages have one size, 1,625 bytes up and 1,625 bytes down" in text
    assert text.endswith("--keep fleet.0.radio.latency --keep fleet.1.radio.latency")
    lines = [f"64 bytes from h: icmp_seq={n} ttl=64 time={{}} ms" for n in range(3)]
    further = []
    for client, trip in ((0, 14), (1, 14), (2, 60), (3, 60)):
        path = tmp_path / f"ping-{client}.txt"
        path.write_text("PING h\n" + "\n".join(lines).format(*[trip] * 3), encoding="utf-8")
        further.append(FurtherRecording.of(f"client-{client}={path}"))
    found = calibrate(log / "dense", scenario(GUESS), further=further)
    known = values(found)
    for key, value in TRUE.items():
        assert known[key] == pytest.approx(value, rel=1e-3)
    kept = scenario([{**one, "radio": {**RADIOS[n], "up": "9 Mbit/s"}} for n, one in
                     enumerate(GUESS)])  # fmt: skip
    known = values(calibrate(log / "dense", kept, keep=["radio.latency"]))
    assert known["fleet.0.radio.up"] == pytest.approx(3e6, rel=1e-3)
    assert "fleet.0.radio.latency" not in known


def test_what_a_recording_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = ["client,start,end,bytes", *(f"{n % 4},{n},{n + 0.1 + n / 100},{999 * n}" for n in
                                        range(1, 9))]  # fmt: skip
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(CannotTell) as refused:
        calibrate(path, scenario(GUESS))
    text = str(refused.value)
    assert "fleet.0.device.speed and fleet.1.device.speed, as it has no work" in text
    assert "fleet.0.radio.down and fleet.1.radio.down, as it has no download" in text
    keep = ["radio.down", "device.speed"]
    known = values(calibrate(path, scenario(GUESS), keep=keep))
    assert set(known) == {f"fleet.{n}.radio.{name}" for n in (0, 1) for name in ("up", "latency")}


def test_links_that_are_slower_than_the_recording_are_refused(log: Path) -> None:
    network = {"server": {"latency": "1 s"}}
    with pytest.raises(DataError, match=r"such as network\.server\.latency: 0 s"):
        calibrate(log, scenario(GUESS, network=network))


@pytest.mark.slow
def test_a_link_that_is_never_full_is_not_told(log: Path) -> None:
    network = {"server": {"uplink": "1 Gbit/s"}}
    with pytest.raises(CannotTell, match=r"network\.server\.uplink, as a faster link"):
        calibrate(log, scenario(GUESS, network=network), fit=["network.server.uplink"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keep": ["radio.upp"]}, "did you mean 'radio.up'"),
        ({"fit": ["network.server.up"]}, "expected network.server.uplink or network.server.down"),
        ({"rounds": (20, 30)}, "has rounds 1 to 8"),
    ],
)
def test_options_without_a_meaning_are_refused(log: Path, changes: Any, words: str) -> None:
    with pytest.raises(DataError) as refused:
        calibrate(log, scenario(GUESS), **changes)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        ([], "the scenario has no fleet"),
        ([{"count": 4, "device": "phone", "radio": "wifi"}], "whose speed is drawn"),
        ([{"count": 4, "device": "pi-4", "radio": "lora-sf7"}], "whose rate is not constant"),
    ],
)
def test_fleets_without_such_constants_are_refused(log: Path, fleet: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        calibrate(log, scenario(fleet))


def test_a_recording_of_other_clients_is_refused(log: Path) -> None:
    problem = {**PROBLEM, "split": {"kind": "iid", "clients": 3}}
    few = scenario([{**GUESS[0], "count": 3}], problem=problem)
    with pytest.raises(DataError, match="expected a fleet of 4 or more"):
        calibrate(log, few)
    problem = {**PROBLEM, "split": {"kind": "iid", "clients": 5}}
    more = scenario([*GUESS, {**GUESS[0], "count": 1}], problem=problem)
    with pytest.raises(DataError, match=r"fleet\.2: the recording has no client"):
        calibrate(log, more)


def test_intervals_of_speeds_cover_nine_in_ten() -> None:
    """Exact by Student's t and chi-square: 4,000 draws leave 0.5 % of standard error."""
    rng, count = np.random.default_rng(1), 4000
    amounts = np.array([1e6, 2e6, 3e6, 4e6])
    covered = np.zeros(2)
    for _ in range(count):
        found = fit_speed(amounts, amounts / 5e5 * rng.lognormal(0.0, 0.3, 4))
        covered[0] += found.speed[1] < 5e5 < found.speed[2]
        covered[1] += found.sigma[1] < 0.3 < found.sigma[2]
    assert covered / count == pytest.approx([0.9, 0.9], abs=0.02)


@pytest.mark.slow
def test_constants_are_recovered_over_seeds(tmp_path: Path) -> None:
    """The spread of tasks is random: over seeds the speeds scatter about the true one."""
    found = []
    for seed in range(1, 13):
        out = tmp_path / str(seed)
        fedsim.run(scenario(seed=seed), out=out)
        known = {each.key: each for each in calibrate(out, scenario(GUESS)).constants}
        found.append(known["fleet.0.device.speed"])
        assert known["fleet.0.radio.up"].value == pytest.approx(3e6, rel=1e-4)
    logs = np.log([each.value / 3e6 for each in found])
    assert abs(logs.mean()) < 3 * 0.2 / np.sqrt(32 * len(found))
    assert sum(each.low < 3e6 < each.high for each in found) >= 8


def test_a_latency_at_its_bound_is_written_as_none(log: Path) -> None:
    """A search ends a little above 0, at what no scenario may state."""
    found = calibrate(log, scenario(GUESS))
    nearly = [
        replace(each, value=2e-26, low=0.0) if each.key.endswith("latency") else each
        for each in found.constants
    ]
    blocks = replace(found, constants=tuple(nearly)).blocks()
    assert float(load(scenario(blocks)).variants[0].scenario.fleet[0].radio.latency) == 0.0
