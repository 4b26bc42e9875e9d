"""Rounds in many worlds at once: each world is the one in which the log is replayed."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.addons.repricing.history import Original, read_history
from fedsim.addons.robustness.constants import ConstantKey
from fedsim.addons.robustness.fleets import clients_of, unplayable
from fedsim.addons.robustness.loads import Load, Loads
from fedsim.addons.robustness.recursion import Prices, _WorldsRun, prices
from fedsim.core.blocks.quantities import Rate, Seconds
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.core.ports import Array
from fedsim.physics.radios import (
    ConstantRate,
    Draw,
    PacketRadio,
    RadioStage,
    Rates,
    States,
    powers_of,
)
from fedsim.physics.signals import Signal
from fedsim.wire import HEADER_BITS
from tests.addons.repricing.prices import small
from tests.tiers import every, some

WORLD = {
    ConstantKey(("radio", "lte", "tail_time")): ("fleet.0.radio.tail_time", "s", [0.01, 0.05, 1.0]),
    ConstantKey(("radio", "lte", "promotion_time")): (
        "fleet.0.radio.promotion_time",
        "s",
        [0, 0.1, 2],
    ),
    ConstantKey(("radio", "lte", "tail_power")): ("fleet.0.radio.tail_power", "W", [0.2, 1.0, 3.0]),
    ConstantKey(("radio", "lte", "up")): ("fleet.0.radio.up", "bit/s", [1e6, 1e5, 2e7]),
    ConstantKey(("radio", "wifi", "base")): ("fleet.1.radio.base", "W", [1.0, 2.0, 0.01]),
    ConstantKey(("radio", "wifi", "latency")): ("fleet.1.radio.latency", "s", [0.5, 0.0, 0.001]),
    ConstantKey(("device", "phone-mid", "speed")): (
        "fleet.0.device.speed",
        "flop/s",
        [1e6, 1e5, 1e9],
    ),
    ConstantKey(("device", "pi-4", "active")): ("fleet.1.device.active", "W", [3.0, 9.0, 5.0]),
}
NETWORKS: dict[str, Any] = {
    "open": {},
    "narrow": {"server": {"uplink": "300 kbit/s", "downlink": "200 kbit/s", "latency": "20 ms"}},
    "narrow up": {"server": {"uplink": "7 Mbit/s"}},
}
LEAST = 1e-11


BY_STATE = {
    ConstantKey(("radio", "wifi-6", "send")): ("fleet.0.radio.send", "W", [2.0, 0.1, 1.0]),
    ConstantKey(("radio", "wifi-6", "tail_power")): (
        "fleet.0.radio.tail_power",
        "W",
        [0.2, 0.05, 1.5],
    ),
    ConstantKey(("radio", "wifi-6", "down")): ("fleet.0.radio.down", "bit/s", [1e6, 1e5, 1e9]),
    ConstantKey(("radio", "ble", "listening")): ("fleet.1.radio.listening", "%", [0.01, 0.5, 1.0]),
    ConstantKey(("radio", "ble", "receive")): ("fleet.1.radio.receive", "W", [0.01, 0.03, 0.2]),
    ConstantKey(("radio", "zigbee", "listen")): ("fleet.2.radio.listen", "W", [0.05, 0.02, 0.0]),
    ConstantKey(("radio", "zigbee", "sleep")): ("fleet.2.radio.sleep", "W", [0.05, 0.02, 0.01]),
}
"""Radios of state powers, in worlds in which one power is above another one in turn."""
STATE_FLEET = [
    {"count": 3, "device": "phone-mid", "radio": "wifi-6"},
    {"count": 1, "device": "cortex-m4", "radio": "ble"},
    {"count": 1, "device": "cortex-m4", "radio": "zigbee"},
]


def in_si(worlds: Any) -> dict[ConstantKey, Array]:
    """Return the three worlds as they are priced."""
    scale = {"GHz": 1e9}
    return {
        key: np.array(values) * scale.get(unit, 1.0) for key, (_, unit, values) in worlds.items()
    }


def priced(folder: Path, worlds: Any = WORLD, blocks: tuple[type[Spec], ...] = ()) -> Prices:
    """Price a run at its start and at each of its rounds in the three worlds."""
    original = Original.of(folder, blocks)
    scenario, tape = original.scenario, read_history(folder, len(original.samples))
    assert not unplayable(scenario)
    framings = [group.radio.packaging for group in scenario.fleet for _ in range(group.count)]
    clients = clients_of(scenario, scenario.fleet, in_si(worlds), 3)
    looks = range(len(tape.commits) + 1)
    return prices(tape, Loads(tape, framings, HEADER_BITS), clients, list(looks))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "kind", some(["chb", "fedavg", "fedgradmp", "fedsgm", "scaffold", "diana"], "chb", "fedgradmp")
)
def test_every_round_is_that_of_the_log_played_again(
    kind: str, network: str, tmp_path: Path
) -> None:
    run = fedsim.run(small(kind, rounds=6, network=NETWORKS[network]), out=tmp_path / "run")
    known = priced(run.runs[0])
    for world in range(3):
        overrides = [f"{key}={values[world]} {unit}" for key, unit, values in WORLD.values()]
        rounds = fedsim.reprice(run.folder, overrides, tmp_path / f"{world}").rounds
        np.testing.assert_allclose(known.seconds[:, world], rounds["t"], rtol=LEAST)
        joules = rounds["joules"].cumsum() + rounds["joules_after"]
        np.testing.assert_allclose(known.joules[:, world], joules, rtol=LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["open", "narrow"])
def test_on_air_connected_and_listening_are_the_simulators(network: str, tmp_path: Path) -> None:
    source = small("chb", rounds=4, fleet=STATE_FLEET, network=NETWORKS[network])
    run = fedsim.run(source, out=tmp_path / "run")
    known = priced(run.runs[0], BY_STATE)
    for world in range(3):
        overrides = [
            f"{key}={values[world] * (100 if unit == '%' else 1):g} {unit}"
            for key, unit, values in BY_STATE.values()
        ]
        rounds = fedsim.reprice(run.folder, overrides, tmp_path / f"{world}").rounds
        np.testing.assert_allclose(known.seconds[:, world], rounds["t"], rtol=LEAST)
        np.testing.assert_allclose(
            known.joules[:, world], rounds["joules"].cumsum() + rounds["joules_after"], rtol=LEAST
        )


class Stepped(Draw, PacketRadio):
    """A user's radio, whose law branches on its figures: it does not hold for columns."""

    kind: Literal["stepped"] = "stepped"
    latency: Seconds = as_written("7 ms", "one-way delay")
    speed: Rate = as_written("2 Mbit/s", "of both directions")
    deep: Seconds = as_written("20 ms", "how long it dozes before it sleeps")

    @property
    def states(self) -> States:
        doze = [RadioStage(0.2, self.deep, 0.004, name="doze")] if self.deep > 0.01 else []
        return States(
            (RadioStage(0.5, 0.03, name="awake"), *doze, RadioStage(0.0, inf, 0.05, 0.1, 2.0))
        )

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        return Rates(ConstantRate(min(self.speed, 1e6)), ConstantRate(self.speed))


STAGED_FLEET = [
    {"count": 2, "device": "cortex-m4", "radio": "nb-iot-psm"},
    {"count": 1, "device": "phone-mid", "radio": "5g-sa"},
    {"count": 1, "device": "phone-mid", "radio": {"kind": "first-order", "up": "1 Mbit/s",
                                                  "down": "1 Mbit/s", "distance": "40 m"}},
    {"count": 1, "device": "tran-2019", "radio": "stepped"},
]  # fmt: skip
STAGED = {
    ConstantKey(("radio", "nb-iot-psm", "connected")): (
        "fleet.0.radio.connected", "s", [0.4, 10.0, 2.0],
    ),
    ConstantKey(("radio", "nb-iot-psm", "paged")): ("fleet.0.radio.paged", "s", [20.0, 0.5, 4.0]),
    ConstantKey(("radio", "nb-iot-psm", "receive")): (
        "fleet.0.radio.receive", "W", [0.3, 0.1656, 0.2],
    ),
    ConstantKey(("radio", "first-order", "distance")): (
        "fleet.2.radio.distance", "m", [10.0, 100.0, 400.0],
    ),
    ConstantKey(("device", "tran-2019", "frequency")): (
        "fleet.3.device.frequency", "GHz", [1.0, 1.5, 2.0],
    ),
    ConstantKey(("radio", "stepped", "deep")): ("fleet.3.radio.deep", "s", [0.0, 0.02, 0.5]),
    ConstantKey(("radio", "stepped", "speed")): ("fleet.3.radio.speed", "bit/s", [2e6, 1e6, 5e5]),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("network", ["open", "narrow"])
def test_radios_that_pass_stages_and_users_own_are_the_simulators(
    network: str, count: int, tmp_path: Path
) -> None:
    """Messages wait until a radio listens, and it wakes from whichever stage it is in."""
    source = small(
        "fedavg",
        rounds=7,
        fleet=STAGED_FLEET,
        network=NETWORKS[network],
        participation={"kind": "uniform", "count": count},
    )
    run = fedsim.run(source, out=tmp_path / "run", blocks=[Stepped])
    known = priced(run.runs[0], STAGED, (Stepped,))
    for world in range(3):
        overrides = [f"{key}={values[world]} {unit}" for key, unit, values in STAGED.values()]
        again = fedsim.reprice(run.folder, overrides, tmp_path / f"{world}", blocks=[Stepped])
        np.testing.assert_allclose(known.seconds[:, world], again.rounds["t"], rtol=LEAST)
        joules = again.rounds["joules"].cumsum() + again.rounds["joules_after"]
        np.testing.assert_allclose(known.joules[:, world], joules, rtol=LEAST)


def test_who_is_not_asked_keeps_a_tail_and_rests(tmp_path: Path) -> None:
    source = small("fedavg", rounds=8, participation={"kind": "uniform", "count": 2})
    run = fedsim.run(source, out=tmp_path / "run")
    known = priced(run.runs[0])
    for world in range(3):
        overrides = [f"{key}={values[world]} {unit}" for key, unit, values in WORLD.values()]
        rounds = fedsim.reprice(run.folder, overrides, tmp_path / f"{world}").rounds
        np.testing.assert_allclose(known.seconds[:, world], rounds["t"], rtol=LEAST)
        joules = rounds["joules"].cumsum() + rounds["joules_after"]
        np.testing.assert_allclose(known.joules[:, world], joules, rtol=LEAST)


LARGE = "battery={capacity: 1000000 Wh, charge: 20.000002 %, self_discharge: %s}"  # 68 J are left


@pytest.mark.parametrize(
    ("battery", "fits"),
    [
        ("battery.capacity=1 Wh", True),
        ("battery.capacity=0.0002 Wh", False),
        (LARGE.replace("%s", "0 %/month"), True),
        (LARGE.replace("%s", "100 %/month"), False),  # 1.4 kW
    ],
)
def test_a_battery_that_runs_low_is_noticed(battery: str, fits: bool, tmp_path: Path) -> None:
    fleet = [
        {"count": 5, "device": "phone-mid", "radio": "lte", "battery": {"capacity": "1 Wh"}},
        {"count": 5, "device": "pi-4", "radio": "wifi"},
    ]
    run = fedsim.run(small("gd", rounds=5, fleet=fleet), out=tmp_path / "run")
    original = Original.of(run.runs[0], ())
    override = [f"fleet.0.{battery}"]
    changed = original.plan(override).variants[0].scenario
    tape = read_history(run.runs[0], 10)
    framings = [group.radio.packaging for group in changed.fleet for _ in range(group.count)]
    clients = clients_of(changed, changed.fleet, {}, 1)
    known = prices(tape, Loads(tape, framings, HEADER_BITS), clients, [5])
    assert known.fits.tolist() == [fits]
    again = fedsim.run(run.folder / "base/seed-1/scenario.yaml", overrides=override)
    low = {"depleted", "skipped", "offline"} & set(again.events["event"])
    assert bool(low) is not fits


def test_an_exchange_like_an_earlier_one_is_not_worked_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of one load take the same once they begin the same; it is rounding that differs."""
    run = fedsim.run(small("gd", rounds=40, network=NETWORKS["narrow"]), out=tmp_path / "run")
    worked_out, work_out = list[float](), _WorldsRun._compute

    def counted(play: _WorldsRun, load: Load, since: Array) -> Any:
        worked_out.append(float(play.now.max()))
        return work_out(play, load, since)

    monkeypatch.setattr(_WorldsRun, "_compute", counted)
    known = priced(run.runs[0])
    assert len(worked_out) <= 6  # of 40: radios at rest first, then rounds that alternate
    worked_out.clear()
    monkeypatch.setattr(
        _WorldsRun, "_cached_exchange", lambda *_: None
    )  # so none is like another one
    again = priced(run.runs[0])
    assert len(worked_out) == 40
    np.testing.assert_allclose(known.seconds, again.seconds, rtol=1e-13)
    np.testing.assert_allclose(known.joules, again.joules, rtol=1e-13)


CONNECTED = {
    "kind": "custom", "up": "1 Mbit/s", "down": "2 Mbit/s", "base": "90 mW", "send": "200 mW",
    "receive": "90 mW", "listen": "80 mW", "sleep": "1 mW", "listening": "10 %",
    "tail_power": "50 mW", "tail_time": "300 ms", "energy_up": "30 nJ/bit",
    "energy_down": "20 nJ/bit", "latency": "10 ms",
}  # fmt: skip


@every("radio", ["lte", "wifi", "wifi-6", "ble", "zigbee", CONNECTED])
def test_a_bit_costs_in_every_world_what_the_powers_of_its_radio_say(radio: Any) -> None:
    """Its own energy, and what the radio draws on the air beyond what it holds, for its time."""
    source = small(fleet=[{"count": 5, "device": "pi-4", "radio": radio}])
    scenario = fedsim.load(source).variants[0].scenario
    law: Any = scenario.fleet[0].radio
    clients, powers = clients_of(scenario, scenario.fleet, {}, 3), powers_of(law)
    for lanes, way, rate in ((clients.down, 0, law.down), (clients.up, 1, law.up)):
        bit = powers.per_bit[way] + powers.on_air[way] / rate
        np.testing.assert_allclose(lanes.per_bit, np.full((5, 3), bit), rtol=1e-12)
        np.testing.assert_allclose(lanes.power, np.full((5, 3), powers.held), rtol=1e-12)
