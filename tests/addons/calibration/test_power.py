"""Powers are recovered from meters: those of a simulated run by its ledger, and drawn ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import fedsim
from fedsim.addons.calibration.api import Calibration, PowerFile, calibrate
from fedsim.addons.calibration.meters import PowerLog, read_power
from fedsim.addons.calibration.powers import Metered, fit_powers
from fedsim.addons.calibration.recording import Observation, as_table
from fedsim.addons.calibration.timeline import timeline
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.physics.radios import Radio
from fedsim.scenario import Group, load
from tests.addons.calibration.test_calibrate import scenario

DEVICE = {
    "kind": "pi-4",
    "speed": "0.3 Mflop/s",
    "idle": "2.7 W",
    "active": "6.1 W",
    "slowdown": {"kind": "lognormal", "sigma": 0.4},
}
RADIO = {
    "kind": "umts",
    "up": "0.1 Mbit/s",
    "down": "0.3 Mbit/s",
    "energy_up": "0.4 uJ/bit",
    "energy_down": "0.2 uJ/bit",
    "base": "0.5 W",
    "tail_power": "0.6 W",
    "tail_time": "30 ms",
    "promotion_time": "0 s",
}
TRUE = {
    "fleet.0.device.idle": 2.7,
    "fleet.0.device.active": 6.1,
    "fleet.0.radio.tail_power": 0.6,
}
GUESS = {
    "count": 4,
    "device": {"kind": "pi-4", "speed": DEVICE["speed"]},
    "radio": RADIO
    | {"energy_up": "1 uJ/bit", "energy_down": "1 uJ/bit", "base": "0.5 W", "tail_power": "1 W"},
}
KEPT = ["radio.up", "radio.down", "radio.latency", "device.speed", "device.slowdown.sigma"]
AHEAD = 321.5
"""What the meter's clock shows more than that of the recording, s."""


def study(**keys: Any) -> dict[str, Any]:
    """Return a scenario of one variant; messages of both directions have one size each."""
    fleet = [{"count": 4, "device": DEVICE, "radio": RADIO}]
    return scenario(fleet, sparse=False, variants={"dense": {}}, stop={"rounds": 30}, **keys)


@pytest.fixture(scope="module", name="runs")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "study"
    fedsim.run(study(), out=out)
    return out


def ledger(runs: Path, client: str, step: float) -> PowerLog:
    """Return what an exact meter would show: the joules in the run's log, spread over their rows.

    Idle power is none of the rows' energy.
    """
    events = fedsim.open(runs).events
    rows = events[(events["node"] == client) & (events["joules"] > 0)]
    ends = rows["t"].to_numpy(float)
    begins, joules = ends - rows["duration"].to_numpy(float), rows["joules"].to_numpy(float)
    edges = np.arange(0.0, ends.max() + step, step)
    shares = np.clip((edges[:, None] - begins) / (ends - begins), 0.0, 1.0)
    energies = np.diff(shares @ joules) + 2.7 * step
    return PowerLog(edges[:-1] + AHEAD, edges[1:] + AHEAD, energies)


def write_watts(log: PowerLog, path: Path) -> Path:
    """Write a log as a meter does that shows power."""
    watts = log.joules / (log.end - log.begin)
    rows = [(log.begin[0], watts[0]), *zip(log.end, watts, strict=True)]
    path.write_text("time_s,power_mW\n" + "".join(f"{t:.9f},{1e3 * w:.9f}\n" for t, w in rows))
    return path


@pytest.fixture(scope="module", name="meter")
def _meter(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("meters") / "meter.csv"
    return write_watts(ledger(runs, "client-1", 0.05), place)


def calibrated(runs: Path, *meters: PowerFile, keep: list[str] | None = None) -> Calibration:
    return calibrate(runs, study() | {"fleet": [GUESS]}, power=meters, keep=[*KEPT, *(keep or [])])


def values(found: Calibration) -> Mapping[str, float]:
    return {each.key: each.value for each in found.constants}


def test_the_powers_of_a_simulated_run_are_recovered_from_its_ledger(
    runs: Path, meter: Path
) -> None:
    found = calibrated(runs, PowerFile(meter, "client-1"))
    known = values(found)
    for key, value in TRUE.items():
        assert known[key] == pytest.approx(value, rel=2e-3), key
    # With one rate, base and energy per bit are one power; base stays, and is the true one here.
    assert "fleet.0.radio.base" not in known
    assert known["fleet.0.radio.energy_up"] == pytest.approx(0.4e-6, rel=0.02)
    assert known["fleet.0.radio.energy_down"] == pytest.approx(0.2e-6, rel=0.02)
    assert any("does not show radio.base" in note for note in found.notes)
    assert any(f"{AHEAD:.4g} s ahead" in note for note in found.notes)
    (halves,) = [note for note in found.notes if "first half" in note]
    assert float(halves.split("off by ")[1].split()[0]) < 0.5


def test_the_clock_of_the_meter_does_not_matter(runs: Path, meter: Path, tmp_path: Path) -> None:
    log, wanted = read_power(meter), values(calibrated(runs, PowerFile(meter, "client-1")))
    for ahead in (-1000.25, 86400.125):
        begin, end = log.begin - AHEAD + ahead, log.end - AHEAD + ahead
        moved = write_watts(PowerLog(begin, end, log.joules), tmp_path / "moved.csv")
        known = values(calibrated(runs, PowerFile(moved, "client-1")))
        for key, value in wanted.items():
            assert known[key] == pytest.approx(value, rel=2e-3), key


def test_clients_of_a_group_share_their_powers(runs: Path, meter: Path, tmp_path: Path) -> None:
    other = write_watts(ledger(runs, "client-0", 0.08), tmp_path / "other.csv")
    found = calibrated(runs, PowerFile(meter, "client-1"), PowerFile(other, "0"))
    for key, value in TRUE.items():
        assert values(found)[key] == pytest.approx(value, rel=2e-3), key


def test_the_calibrated_scenario_has_powers_and_intervals(runs: Path, tmp_path: Path) -> None:
    log = ledger(runs, "client-1", 0.05)
    errors = np.random.default_rng(3).normal(1.0, 0.01, len(log.joules))
    meter = write_watts(log._replace(joules=log.joules * errors), tmp_path / "meter.csv")
    found = calibrated(runs, PowerFile(meter, "client-1"), keep=["radio.energy_up"])
    place = tmp_path / "calibrated.yaml"
    found.write(study() | {"fleet": [GUESS]}, place)
    (group,) = load(place).variants[0].scenario.fleet
    assert group.device.idle == pytest.approx(2.7, rel=0.01)
    assert isinstance(group.radio, Radio)
    assert group.radio.energy_up == 1e-6
    assert {"device.idle", "device.active", "radio.energy_down"} <= set(group.intervals)


# Every format has the same energies.

SECONDS = np.array([0.0, 1.0, 2.0, 3.5, 5.0])
WATTS = np.array([2.0, 4.0, 3.0, 2.0, 6.0])


def _csv(head: str, *columns: Array) -> str:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return head + "\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)


TOTALS = np.append(0.0, np.cumsum(WATTS[1:] * np.diff(SECONDS)))
PERF = "".join(
    f"     {end:.9f}              {joules / 2:.2f} Joules power/energy-{domain}/\n"
    for end, joules in zip(SECONDS[1:], np.diff(TOTALS), strict=True)
    for domain in ("pkg", "ram")
)
FORMATS = {
    "watts": _csv("seconds,W", SECONDS, WATTS),
    "milliwatts": _csv("Time (ms),Main Avg Power (mW)", 1e3 * SECONDS, 1e3 * WATTS),
    "ina219": _csv("timestamp,bus_voltage_V,current_mA", SECONDS, 5 + 0 * WATTS, 200 * WATTS),
    "joules": _csv("time_s,energy_J", SECONDS, TOTALS),
    "microamperes": _csv(
        "Timestamp(ms),Voltage (mV),Current(uA)", 1e3 * SECONDS, 5e3 + 0 * WATTS, 2e5 * WATTS
    ),
    "rapl": _csv("time_s,energy_uj", SECONDS, 1e6 * TOTALS),
    "plug": _csv("time,apower_W,voltage", 1.7e9 + SECONDS, WATTS, 230 + 0 * WATTS),
    "nvidia-smi": "timestamp, power.draw [W]\n"
    + "".join(
        f"2023/08/30 08:44:{second:06.3f}, {power:.2f} W\n"
        for second, power in zip(SECONDS, WATTS, strict=True)
    ),
    "codecarbon": "timestamp,project_name,duration,emissions,cpu_power,energy_consumed\n"
    + "".join(
        f"2024-07-19T15:57:43,own,{second},1e-4,42.5,{total / 3.6e6}\n"
        for second, total in zip(SECONDS[1:], TOTALS[1:], strict=True)
    ),
    "powercap": "time_s,energy_uj,max_energy_range_uj\n"
    + "".join(
        f"{second},{(9_000_000 + round(1e6 * total)) % 10_000_001},10000000\n"
        for second, total in zip(SECONDS, TOTALS, strict=True)
    ),
    "zeus": "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n"
    + "".join(
        f"{1.7e9 + begin},round,{lasts},{0.25 * lasts * power},{0.75 * lasts * power}\n"
        for begin, lasts, power in zip(SECONDS[:-1], np.diff(SECONDS), WATTS[1:], strict=True)
    ),
    "tasmota": "".join(
        f'tele/plug/SENSOR {{"Time":"2018-01-17T18:59:{second:04.1f}",'
        f'"ENERGY":{{"Total":1.956,"Power":{power:g},"Voltage":231}}}}\n'
        for second, power in zip(SECONDS, WATTS, strict=True)
    ),
    "perf": "# started on Mon\n\n#  time  counts unit events\n" + PERF,
    "perf -x,": PERF.replace(" Joules ", ",Joules,").replace("              ", ","),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_the_same_energies(name: str, tmp_path: Path) -> None:
    place = tmp_path / "log.csv"
    place.write_text(FORMATS[name])
    log = read_power(place)
    np.testing.assert_allclose(log.joules, WATTS[1:] * np.diff(SECONDS), rtol=1e-6)
    np.testing.assert_allclose(log.end - log.begin, np.diff(SECONDS), rtol=1e-6)


def test_a_pause_of_the_meter_is_no_energy_and_a_time_that_stands_twice_loses_none(
    tmp_path: Path,
) -> None:
    place = tmp_path / "log.csv"
    place.write_text(_csv("seconds,W", np.array([0.0, 1.0, 2.0, 90.0, 91.0]), np.full(5, 3.0)))
    np.testing.assert_array_equal(read_power(place).joules, [3.0, 3.0, 3.0])
    place.write_text(
        _csv("seconds,energy_J", np.array([0.0, 1.0, 1.0, 2.0]), np.array([0, 1, 4, 6]))
    )
    np.testing.assert_array_equal(read_power(place).joules, [1.0, 5.0])


# What cannot be used is refused by name.

WRONG = {
    "power_W\n1\n": "does not say which column is seconds",
    "": "expected CSV with a time and a power",
    "seconds,W\n0,1\n2,1\n1,1\n": "line 4: times must not decrease",
    "seconds,W\n0,1\n1,-2\n": "a power must be 0 or more",
    "seconds,energy_J\n0,5\n1,4\n": "a running total of energy must not fall",
    "time,power\n0,1\n1,1\n": "power has no unit; expected one, such as power_mW or power_W",
    "time,voltage,current\n0,5,1\n1,5,1\n": "units in the header",
    "seconds,W\n0,1\n0,1\n": "expected 2 or more",
    "seconds,power_V\n0,1\n1,1\n": "give a power in a unit such as W",
    "duration,emissions,energy_consumed\n1,2\n": "line 2: expected 3 cells",
    "time_s,energy_uj,max_energy_range_uj\n0,1.5,9\n": "line 2: expected energies in whole",
    "start_time,window_name,elapsed_time,gpu0_energy\n0,a,x,1\n": "line 2: expected seconds and",
    "start_time,window_name,elapsed_time,gpu0_energy\n0,a,2,1\n1,b,2,1\n": "window 2 begins at 1.0",
    '{"Time":"2018-01-17T18:59:50"}\n': "line 1: expected JSON with Time and ENERGY.Power",
    "1.0 2.00 Joules power/energy-pkg/\nnonsense\n": "line 2: expected a time and Joules",
    "1.0 2.0 Joules power/energy-pkg/\n0.5 2.0 Joules power/energy-pkg/\n": "times must increase",
}


@pytest.mark.parametrize("text", WRONG)
def test_logs_that_cannot_be_read_are_refused(text: str, tmp_path: Path) -> None:
    place = tmp_path / "log.csv"
    place.write_text(text)
    with pytest.raises(DataError) as caught:
        read_power(place)
    assert WRONG[text] in str(caught.value)


def test_a_log_of_another_device_does_not_follow_the_recording(runs: Path, tmp_path: Path) -> None:
    log = ledger(runs, "client-1", 0.05)
    noise = np.random.default_rng(4).uniform(0.1, 0.4, len(log.joules))
    place = write_watts(log._replace(joules=noise), tmp_path / "noise.csv")
    with pytest.raises(DataError, match="does not follow what the recording says"):
        calibrated(runs, PowerFile(place, "client-1"))


def test_a_log_of_few_intervals_is_refused(runs: Path, tmp_path: Path) -> None:
    place = write_watts(ledger(runs, "client-1", 0.6), tmp_path / "coarse.csv")
    with pytest.raises(DataError, match="intervals within the recording; expected 50 or more"):
        calibrated(runs, PowerFile(place, "client-1"))


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("phone", "got the client 'phone'; expected CLIENT="),
        ("", "got no client; expected CLIENT="),
    ],
)
def test_a_client_that_was_not_recorded_is_refused(
    runs: Path, meter: Path, client: str, text: str
) -> None:
    with pytest.raises(DataError) as caught:
        calibrated(runs, PowerFile(meter, client))
    assert text in str(caught.value)
    assert "client-0, client-1, client-2 or client-3" in str(caught.value)


def test_runs_of_several_seeds_have_no_one_power_log(meter: Path, tmp_path: Path) -> None:
    fedsim.run(study(seeds=2) | {"stop": {"rounds": 2}}, out=tmp_path / "runs")
    with pytest.raises(DataError, match="2 runs of client-1; expected one"):
        calibrated(tmp_path / "runs", PowerFile(meter, "client-1"))


def test_a_meter_of_the_processor_alone_is_refused(runs: Path, meter: Path) -> None:
    listening = GUESS | {"radio": {**RADIO, "listen": "9 W"}}
    with pytest.raises(DataError, match="at rest, their radio alone 9 W by the scenario"):
        calibrate(
            runs,
            study() | {"fleet": [listening]},
            power=[PowerFile(meter, "client-1")],
            keep=KEPT,
        )


def test_a_staged_radio_is_refused(runs: Path, meter: Path) -> None:
    staged = GUESS | {"radio": "lte-drx"}
    with pytest.raises(DataError, match="expected a"):
        calibrate(
            runs, study() | {"fleet": [staged]}, power=[PowerFile(meter, "client-1")], keep=KEPT
        )


def test_of_of_the_command_line() -> None:
    assert PowerFile.of("client-3=a.csv") == PowerFile(Path("a.csv"), "client-3")
    assert PowerFile.of("a.csv") == PowerFile(Path("a.csv"))


# Intervals contain the true powers as often as they should, where errors depend on each other.

POWERS = {
    "device.idle": 2.9,
    "device.active": 7.3,
    "radio.base": 0.3,
    "radio.energy_up": 2e-7,
    "radio.energy_down": 1e-7,
    "radio.tail_power": 0.2,
}


def drawn(seed: int, group: Group) -> Metered:
    """Return a drawn activity, and a log whose errors are correlated over some seconds."""
    rng = np.random.default_rng(seed)
    now, rows = 3.0, list[Observation]()
    spans: tuple[tuple[str, float, float], ...] = (
        ("download", 2.0, 5e5),
        ("compute", 4.0, 0.0),
        ("upload", 3.0, 3e5),
    )
    for number in range(40):
        for kind, longest, rate in spans:
            length = rng.uniform(0.2, longest)
            size = length * rate * rng.uniform(0.5, 2.0)
            rows.append(Observation(0, "client-0", number + 1, kind, now, now + length, size))
            now += length
        now += rng.uniform(0.0, 3.0)
    radio = group.radio
    assert isinstance(radio, Radio)
    states = timeline(as_table(rows), radio)
    edges = np.arange(-20.0, now + 20.0)
    # Rest, work, message, bits up, bits down, tail, promotion.
    true = np.array([2.9, 4.4, 0.3, 2e-7, 1e-7, 0.2, 0.0])
    errors = np.zeros(len(edges) - 1)
    for place in range(1, len(errors)):
        errors[place] = 0.8 * errors[place - 1] + rng.normal(scale=0.06)
    joules = states.amounts(edges[:-1], edges[1:]) @ true + errors
    return Metered("client-0", states, PowerLog(edges[:-1] + 77.3, edges[1:] + 77.3, joules))


@pytest.mark.slow
def test_intervals_contain_the_true_powers_as_often_as_they_say() -> None:
    group = Group.model_validate(
        {"count": 1, "device": "pi-4", "radio": {"kind": "wifi", "promotion_time": "0 s"}}
    )
    count, inside = 200, dict.fromkeys(POWERS, 0)
    for seed in range(count):
        constants, _ = fit_powers(0, group, [drawn(seed, group)])
        for each in constants:
            key = each.key.removeprefix("fleet.0.")
            inside[key] += each.low <= POWERS[key] <= each.high
    least = int(binom.ppf(1e-3, count, 0.85))
    assert min(inside.values()) >= least, inside


def test_no_word_of_the_table_of_what_is_fitted_is_missing() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/calibrating.md").read_text(encoding="utf-8")
    for name in ("device.idle", "device.active", "energy_up", "send", "base", "tail_power"):
        assert name in page
