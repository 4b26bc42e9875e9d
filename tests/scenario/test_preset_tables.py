"""The figures of every preset, against the tables that they were specified by."""

from math import inf

import pytest

from fedsim.physics.devices import DEVICES, Device
from fedsim.physics.radios import LORA, RADIOS, LoRaRadio, Radio
from tests.tiers import every

# name: Gflop/s; W active, idle; Wh (None: mains); tags of the basis.
DEVICE_TABLE: dict[str, tuple[float, float, float, float | None, str]] = {
    "cortex-m4": (0.02, 0.042, 2e-5, 1.1, "[meas]"),
    "cortex-m7": (0.08, 0.125, 5e-4, 3.7, "[meas]"),
    "pi-zero-2w": (5.1, 2.1, 0.6, 10, "[meas]"),
    "pi-4": (11.9, 7.2, 2.3, 18.5, "[meas]"),
    "pi-5": (30, 11, 3, 18.5, "[meas]"),
    "jetson-nano": (80, 10, 1.5, None, "[est]"),
    "jetson-tx2": (220, 15, 3, None, "[est]"),
    "xavier-nx": (280, 15, 4, None, "[est]"),
    "orin-nano": (400, 15, 4.5, None, "[est]"),
    "phone-low": (4, 3.6, 0.3, 11, "[est]"),
    "phone-mid": (10, 4.5, 0.35, 15, "[est]"),
    "phone-high": (20, 5.5, 0.4, 18, "[est]"),
    "laptop-n100": (60, 25, 6, 50, "[meas]"),
}

# name: Mbit/s up, down; RTT ms; bytes of framing, of a packet.
LINK_TABLE: dict[str, tuple[float, float, float, int, int]] = {
    "ble": (0.7, 0.7, 30, 17, 244),
    "ble-5": (1.2, 1.2, 30, 17, 244),
    "zigbee": (0.1, 0.1, 20, 27, 127),
    "nb-iot": (0.03, 0.025, 1500, 40, 1500),
    "umts": (0.94, 2.0, 120, 40, 1500),
    "lte": (6, 13, 60, 60, 1500),
    "lte-2020": (20, 40, 50, 60, 1500),
    "5g-low": (40, 100, 40, 60, 1500),
    "5g-mmwave": (130, 800, 20, 60, 1500),
    "wifi": (20, 30, 10, 66, 1514),
    "wifi-6": (200, 300, 6, 66, 1514),
    "ethernet": (940, 940, 1, 66, 1514),
}

# name: mW per Mbit/s up, down; mW of base; tail mW, s; promotion mW, s; tag.
POWER_TABLE: dict[str, tuple[float, float, float, float, float, float, float, str]] = {
    "umts": (868.98, 122.12, 817.88, 804, 8.1, 659, 0.58, "[lit]"),
    "lte": (438.39, 51.97, 1288.04, 1060, 11.6, 1211, 0.26, "[lit]"),
    "lte-2020": (76.7, 11.5, 1000, 1000, 10, 0, 0, "[meas]"),
    "5g-low": (32.2, 11.5, 1200, 1200, 10, 0, 0, "[meas]"),
    "5g-mmwave": (8.9, 1.73, 3000, 3000, 10, 0, 0, "[meas]"),
    "wifi": (283.17, 137.01, 132.86, 119, 0.24, 124, 0.08, "[lit]"),
    "ethernet": (0, 0, 500, 0, 0, 0, 0, "[est]"),
}

# name: mW while it sends, receives, is idle.
STATE_TABLE: dict[str, tuple[float, float, float]] = {
    "ble": (14.4, 13.8, 0),
    "ble-5": (19.2, 18.8, 0),
    "zigbee": (52, 56, 0),
    "nb-iot": (792, 166, 22),
    "wifi-6": (1740, 363, 0),
}

# LoRa: the largest payloads of EU868 belong to the modem; here 1 % duty, 2 s RTT, 92/37 mW.
LORA_TABLE = {f"lora-sf{factor}": factor for factor in (7, 8, 9, 10, 11, 12)}

CYCLES = ("yang-2021", "tran-2019")


def close(value: float | None, wanted: float) -> bool:
    return value is not None and value == pytest.approx(wanted, rel=1e-12, abs=1e-30)


def test_every_preset_is_in_a_table() -> None:
    assert set(DEVICES) == {"ideal", *DEVICE_TABLE, *CYCLES}
    assert set(RADIOS) == {"ideal", *LINK_TABLE}
    assert set(LINK_TABLE) == {*POWER_TABLE, *STATE_TABLE}
    assert set(LORA) == set(LORA_TABLE)


@every("name", DEVICE_TABLE)
def test_the_figures_of_a_device(name: str) -> None:
    gigaflops, active, idle, hours, tag = DEVICE_TABLE[name]
    device = Device.model_validate(name)
    assert close(device.speed, gigaflops * 1e9)
    assert close(device.active, active)
    assert close(device.idle, idle)
    assert device.battery == (inf if hours is None else pytest.approx(hours * 3600))
    assert DEVICES[name].basis.startswith(tag)
    assert (device.kappa, device.cycles_per_sample, device.frequency) == (None, None, None)


@pytest.mark.parametrize("name", CYCLES)
def test_the_devices_of_the_literature(name: str) -> None:
    device = Device.model_validate(name)
    assert (device.kappa, device.cycles_per_sample, device.frequency) == (1e-28, 2e4, 2e9)
    assert (device.speed, device.active, device.idle, device.battery) == (None, None, 0, inf)
    assert DEVICES[name].basis.startswith("[lit]")


@every("name", LINK_TABLE)
def test_the_rates_and_packets_of_a_radio(name: str) -> None:
    up, down, round_trip, framing, packet = LINK_TABLE[name]
    radio = Radio.model_validate(name)
    assert close(radio.up, up * 1e6)
    assert close(radio.down, down * 1e6)
    assert close(2 * radio.latency, round_trip * 1e-3)
    assert (radio.framing, radio.packet) == (framing, packet)
    assert (radio.up_trace, radio.down_trace, radio.tries) == (None, None, "unlimited")
    assert radio.loss.kind == "none"


@every("name", POWER_TABLE)
def test_the_power_of_a_radio_of_linear_power(name: str) -> None:
    up, down, base, tail, tail_time, promotion, promotion_time, tag = POWER_TABLE[name]
    radio = Radio.model_validate(name)
    assert close(radio.energy_up, up * 1e-9)
    assert close(radio.energy_down, down * 1e-9)
    assert close(radio.base, base * 1e-3)
    assert close(radio.tail_power, tail * 1e-3)
    assert close(radio.tail_time, tail_time)
    assert close(radio.promotion_power, promotion * 1e-3)
    assert close(radio.promotion_time, promotion_time)
    assert (radio.send, radio.receive, radio.idle) == (0, 0, 0)
    assert RADIOS[name].basis.startswith(tag)


@every("name", STATE_TABLE)
def test_the_power_of_a_radio_of_states(name: str) -> None:
    radio = Radio.model_validate(name)
    powers = (radio.send, radio.receive, radio.idle)
    assert all(close(seen, mw * 1e-3) for seen, mw in zip(powers, STATE_TABLE[name], strict=True))
    assert (radio.energy_up, radio.energy_down, radio.base) == (0, 0, 0)
    assert (radio.tail_time, radio.promotion_time) == (0.24 if name == "wifi-6" else 0, 0)


@every("name", LORA_TABLE)
def test_the_figures_of_lora(name: str) -> None:
    radio = LoRaRadio.model_validate(name)
    assert radio.spreading == LORA_TABLE[name]
    assert (radio.bandwidth, radio.coding, radio.duty) == (125e3, 1, 0.01)
    assert (radio.latency, radio.idle) == (1.0, 0.0)
    assert close(radio.send, 0.092)
    assert close(radio.receive, 0.037)
