"""A mode sets all that it implies: timers of TCP, listening and latency of LoRa's classes."""

from typing import Any

import pytest

import fedsim
from fedsim.addons.repricing import reprice
from fedsim.core.blocks.modes import Moded
from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.tcp import Tcp
from tests.scenario.building.test_lora import with_radio
from tests.tiers import every


def modem(device_class: str, **radio: Any) -> LoRaRadio:
    device = {"device_class": device_class}
    return LoRaRadio.model_validate({"kind": "lora-sf9", "lorawan": device, **radio})


def stack(name: str, **tcp: Any) -> Tcp:
    return Tcp.model_validate({"stack": name, **tcp})


@pytest.mark.parametrize(
    ("name", "min_rto", "delayed_ack"), [("linux", 0.2, 0.04), ("ns-3", 1.0, 0.2)]
)
def test_a_stack_of_tcp_has_its_own_timers(name: str, min_rto: float, delayed_ack: float) -> None:
    own = stack(name)
    assert (own.min_rto, own.delayed_ack) == (min_rto, delayed_ack)
    assert Tcp().min_rto == 0.2
    assert stack(name, min_rto="300 ms").min_rto == 0.3
    assert stack(name, min_rto="300 ms").delayed_ack == delayed_ack


@pytest.mark.parametrize(
    ("device_class", "listening", "latency", "watts"),
    [("a", 0.0, 0.0, 5e-6), ("b", 0.03, 1.0, 0.03 * 37e-3 + 0.97 * 5e-6), ("c", 1.0, 0.0, 37e-3)],
)
def test_a_class_of_lorawan_has_its_listening_and_latency(
    device_class: str, listening: float, latency: float, watts: float
) -> None:
    own = modem(device_class)
    assert (own.listening, own.latency) == (listening, latency)
    assert own.waiting == pytest.approx(watts)
    assert modem(device_class, latency="2 s").latency == 2.0
    assert modem(device_class, latency="2 s").listening == listening


def test_a_radio_without_a_class_is_of_class_b() -> None:
    plain = LoRaRadio.model_validate("lora-sf9")
    assert (plain.listening, plain.latency) == (modem("b").listening, modem("b").latency)
    assert "lorawan" not in plain.model_dump(mode="json")


@every(
    "block",
    [
        *(stack(name, **own) for name in ("linux", "ns-3") for own in ({}, {"min_rto": "300 ms"})),
        *(modem(name, **own) for name in "abc" for own in ({}, {"latency": "2 s"})),
    ],
)
def test_what_a_mode_sets_is_not_written_and_read_back(block: Moded) -> None:
    written = block.model_dump(mode="json")
    implied = block.implied(written)
    assert implied
    left = {key: written[key] for key in implied if key in written}
    assert set(left) <= {"min_rto", "latency"}
    assert all(value in ("300 ms", "2 s") for value in left.values())
    assert type(block).model_validate(written) == block


def test_another_mode_of_a_stored_run_sets_its_own_values(tmp_path: Any) -> None:
    made = with_radio({"kind": "lora-sf7", "lorawan": {"device_class": "b"}}, {"lora": {}})
    always = ["fleet.0.radio.lorawan.device_class=c"]
    result = fedsim.run(made, out=tmp_path / "runs")
    again = reprice(result.runs[0], always, out=tmp_path / "again")
    fresh = fedsim.run(made, overrides=always, out=tmp_path / "fresh")
    assert again.clients["joules"].tolist() == fresh.clients["joules"].tolist()
    assert again.clients["idle_joules"].iloc[0] > 20 * result.clients["idle_joules"].iloc[0]
    assert again.rounds["t"].tolist() == fresh.rounds["t"].tolist()
