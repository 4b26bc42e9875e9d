"""Groups become models: the figures of devices and radios."""

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.physics.availability import ALWAYS
from fedsim.physics.devices import Device
from fedsim.physics.packet_loss import NoLoss
from fedsim.physics.radios import ConstantRate, LoRa, Rates, Shannon
from fedsim.physics.radios.base import NO_DRAW
from fedsim.physics.radios.channel import NONE
from fedsim.sim.members import ClientConfig
from tests.physics.losses import GilbertElliott, Independent
from tests.scenario.building.plans import group, job


def members(folder: Path, **changes: Any) -> list[ClientConfig]:
    return list(job(folder, fleet=group(**changes)).setup.fleet)


def device(folder: Path, block: Any) -> Any:
    return members(folder, device=block)[0].device


def radio(folder: Path, block: Any) -> Any:
    return members(folder, radio=block)[0].radio


def rates(folder: Path, block: Any) -> Rates:
    return members(folder, radio=block)[0].rates


def test_an_ideal_fleet_is_what_a_scenario_without_one_has(tmp_path: Path) -> None:
    split = {"kind": "contiguous", "clients": 3}
    built = job(tmp_path, fleet=[], problem=PROBLEM | {"split": split})
    assert [member.device for member in built.setup.fleet] == [Device.model_validate("ideal")] * 3
    assert [member.rates for member in built.setup.fleet] == [
        Rates(ConstantRate(inf), ConstantRate(inf))
    ] * 3
    nothing = NO_DRAW.model_dump()
    for member in built.setup.fleet:
        assert member.radio.draw.model_dump(include=set(nothing)) == nothing
    assert {member.availability for member in built.setup.fleet} == {ALWAYS}


PROBLEM: dict[str, Any] = {
    "loss": {"kind": "squared", "l2": 1.0},
    "data": {"kind": "sklearn", "name": "diabetes"},
}


def test_clients_of_a_group_share_their_models_and_carry_its_number(tmp_path: Path) -> None:
    fleet = [{"count": 2, "device": "pi-4"}, {"count": 3, "device": "pi-5", "radio": "wifi"}]
    built = job(tmp_path, fleet=fleet)
    assert built.members == (0, 0, 1, 1, 1)
    assert [member.group for member in built.setup.fleet] == [0, 0, 1, 1, 1]
    assert [group.name for group in built.deployment.groups] == [
        "pi-4 over ideal",
        "pi-5 over wifi",
    ]
    first, second = built.setup.fleet[2:4]
    assert first.radio is second.radio
    assert first.oracle is not second.oracle


def test_a_device_takes_operations_over_speed(tmp_path: Path) -> None:
    model = device(tmp_path, "phone-mid")
    assert model.seconds(2e10, 5) == 2.0
    assert (model.working(), model.idle, model.slowdown.drawn) == (4.5, 0.35, False)


def test_a_device_of_cycles_spends_kappa_cycles_f_squared(tmp_path: Path) -> None:
    model = device(tmp_path, {"kind": "yang-2021", "frequency": "1 GHz"})
    seconds = model.seconds(1e99, samples=300)
    cycles = 2e4 * 300
    assert seconds == pytest.approx(cycles / 1e9)
    assert (model.working() - model.idle) * seconds == pytest.approx(1e-28 * cycles * 1e18)
    assert model.idle == 0
    rested = device(tmp_path, {"kind": "yang-2021", "idle": "2 W"})
    assert rested.working() - rested.idle == pytest.approx(1e-28 * 8e27)


@pytest.mark.parametrize(
    ("block", "least", "median"),
    [
        ({"kind": "lognormal", "sigma": 0.5}, 0.0, 1.0),
        ({"kind": "shifted-exponential", "shift": 2, "rate": 4}, 2.0, 2 + np.log(2) / 4),
    ],
)
def test_a_slowdown_is_drawn(
    tmp_path: Path, block: dict[str, Any], least: float, median: float
) -> None:
    model = device(tmp_path, {"kind": "pi-4", "slowdown": block})
    assert model.slowdown.drawn
    rng = np.random.default_rng(1)
    factors = [model.slowdown.draw(rng) for _ in range(4000)]
    assert min(factors) >= least
    assert np.median(factors) == pytest.approx(median, rel=0.05)


def test_a_cellular_radio_has_its_states_and_framing(tmp_path: Path) -> None:
    model = radio(tmp_path, "lte")
    assert rates(tmp_path, "lte") == (ConstantRate(6e6), ConstantRate(13e6))
    assert model.latency == 0.03
    assert (model.energy_up, model.base) == (438.39e-9, 1.28804)
    assert (model.promotion_power, model.promotion_time) == (1.211, 0.26)
    assert (model.tail_power, model.tail_time) == (1.06, 11.6)
    assert model.packaging.bits(8 * 1440) == 8 * 60
    assert (model.loss, model.most_tries) == (NoLoss(), None)


def test_a_radio_of_states_draws_while_its_direction_is_busy(tmp_path: Path) -> None:
    model = radio(tmp_path, "nb-iot")
    assert (model.send, model.receive, model.idle, model.base) == (0.792, 0.166, 0.022, 0)


def test_the_ideal_radio_has_no_framing(tmp_path: Path) -> None:
    assert radio(tmp_path, "ideal").packaging == NONE


def test_lora_has_its_time_on_air_both_ways(tmp_path: Path) -> None:
    block = {"kind": "lora-sf12", "duty": "10 %"}
    up, down = rates(tmp_path, block)
    assert up == down == LoRa(spreading=12, duty=0.1)
    assert isinstance(up, LoRa)
    assert up.airtime(51 + 13) == pytest.approx(2.79, abs=0.005)
    model = radio(tmp_path, block)
    assert (model.draw.send, model.draw.receive, model.latency) == (0.092, 0.037, 1.0)


SHANNON = {
    "kind": "shannon",
    "bandwidth": "1 MHz",
    "power": "10 mW",
    "server_power": "1 W",
    "distance": "1 km",
    "shadowing": "0 dB",
    "most": "unlimited",
}


def test_a_shannon_link_is_stronger_down(tmp_path: Path) -> None:
    up, down = rates(tmp_path, SHANNON)
    assert isinstance(up, Shannon)
    assert isinstance(down, Shannon)
    signal, noise = 10 ** (-12.81), 10 ** (-17.4) * 1e-3 * 1e6
    assert up.rate(1.0) == pytest.approx(1e6 * np.log2(1 + 0.01 * signal / noise))
    assert down.mean_snr() == pytest.approx(100 * up.mean_snr())
    draw = radio(tmp_path, SHANNON).draw
    assert (draw.send, draw.receive) == (0.01, 0)
    assert radio(tmp_path, SHANNON | {"send": "2 W"}).draw.send == 2.0


def test_a_first_order_radio_pays_by_the_distance(tmp_path: Path) -> None:
    block = {"kind": "first-order", "distance": "50 m", "up": "2 Mbit/s", "down": "1 Mbit/s"}
    assert rates(tmp_path, block) == (ConstantRate(2e6), ConstantRate(1e6))
    model = radio(tmp_path, block).draw
    assert model.energy_up == pytest.approx(50e-9 + 100e-12 * 2500)
    assert model.energy_down == pytest.approx(50e-9)


def test_loss_and_tries(tmp_path: Path) -> None:
    burst = {"kind": "gilbert-elliott", "p": "1 %", "r": "20 %", "h": "10 %"}
    lossy = radio(tmp_path, {"kind": "wifi", "loss": burst})
    assert (lossy.loss, lossy.most_tries) == (GilbertElliott(0.01, 0.2, 0.1, 1.0), None)
    rate = {"kind": "independent", "rate": "5 %"}
    quorum = {"kind": "full", "quorum": "50 %"}
    fleet = group(radio={"kind": "lora-sf7", "loss": rate, "tries": 3})
    member = job(tmp_path, fleet=fleet, participation=quorum).setup.fleet[0]
    assert (member.radio.loss, member.radio.most_tries) == (Independent(0.05), 3)
    assert radio(tmp_path, {"kind": "wifi", "loss": rate | {"rate": "0 %"}}).loss.mean == 0
