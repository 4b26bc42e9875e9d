"""Radios: from what a scenario says to the laws that they follow."""

from dataclasses import replace
from typing import Any

from fedsim.building.files import Files
from fedsim.building.findings import Findings
from fedsim.physics.channels import Shannon, first_order
from fedsim.physics.lora import LoRa
from fedsim.physics.loss import GilbertElliott, Independent, LossModel
from fedsim.physics.packets import Framing
from fedsim.physics.radios import RadioModel
from fedsim.physics.signals import Steps
from fedsim.scenario import FirstOrderRadio, LoRaRadio, PacketLoss, Radio, RadioSpec, ShannonRadio
from fedsim.scenario.packet_loss import GilbertElliottLoss, IndependentLoss


def radio_model(spec: RadioSpec, files: Files, findings: Findings, key: str) -> RadioModel:
    """Return a radio; what is wrong with its files is found at `key` and below."""
    match spec:
        case Radio():
            model = _followed(spec, _constant(spec), files, findings, key)
        case FirstOrderRadio():
            model = _first_order(spec)
        case ShannonRadio():
            model = _shannon(spec)
        case LoRaRadio():
            model = _lora(spec)
    if not isinstance(spec, LoRaRadio):
        model = replace(model, framing=Framing(int(spec.framing), int(spec.packet)))
    tries = None if spec.tries == "unlimited" else spec.tries
    return replace(model, idle=spec.idle, loss=loss_model(spec.loss), tries=tries)


def loss_model(spec: PacketLoss) -> LossModel | None:
    """Return how packets are lost; None where none are."""
    match spec:
        case IndependentLoss() if spec.rate > 0:
            return Independent(spec.rate)
        case GilbertElliottLoss():
            return GilbertElliott(spec.p, spec.r, spec.h, spec.k)
        case _:
            return None


def _constant(spec: Radio) -> RadioModel:
    return RadioModel(
        up=spec.up,
        down=spec.down,
        latency=spec.latency,
        energy_up=spec.energy_up,
        energy_down=spec.energy_down,
        base=spec.base,
        send=spec.send,
        receive=spec.receive,
        promotion_power=spec.promotion_power,
        promotion_time=spec.promotion_time,
        tail_power=spec.tail_power,
        tail_time=spec.tail_time,
    )


def _followed(
    spec: Radio, model: RadioModel, files: Files, findings: Findings, key: str
) -> RadioModel:
    """Return a radio whose rates follow the traces, if any, in place of its own."""
    rates: dict[str, Any] = {}
    for direction, trace in {"up": spec.up_trace, "down": spec.down_trace}.items():
        place = f"{key}.{direction}_trace"
        if trace is not None:
            with findings.at(place):
                rates[direction] = files.rate(trace)
                _check_traffic(rates[direction], findings, place)
    return replace(model, **rates)


def _check_traffic(trace: Steps, findings: Findings, key: str) -> None:
    """A rate that is zero from some time on carries what is sent then nowhere."""
    if trace.average > 0:
        return
    if trace.peak > 0:
        last = float(trace.times[-1])
        text = (
            f"the trace ends at 0 Mbit/s after {last:g} s and does not repeat, so that nothing is"
            " ever delivered after that; use repeat: true, or end it above 0"
        )
    else:
        text = "the trace has no traffic: its rate is 0 Mbit/s at all times; give another file"
    findings.add(key, text)


def _first_order(spec: FirstOrderRadio) -> RadioModel:
    up, down = first_order(spec.distance, spec.electronics, spec.amplifier)
    return RadioModel(
        up=spec.up, down=spec.down, latency=spec.latency, energy_up=up, energy_down=down
    )


def _shannon(spec: ShannonRadio) -> RadioModel:
    up = Shannon(
        bandwidth=spec.bandwidth,
        power=spec.power,
        distance=spec.distance,
        shadowing_db=spec.shadowing,
        noise_dbm_hz=spec.noise,
        efficiency_cap=spec.most,
        attenuation=spec.attenuation,
    )
    return RadioModel(
        up=up,
        down=replace(up, power=spec.server_power),
        latency=spec.latency,
        send=spec.power if spec.send is None else spec.send,
        receive=spec.receive,
    )


def _lora(spec: LoRaRadio) -> RadioModel:
    modem = LoRa(
        spreading=spec.spreading, bandwidth=spec.bandwidth, coding=spec.coding, duty=spec.duty
    )
    return RadioModel(
        up=modem,
        down=modem,
        latency=spec.latency,
        send=spec.send,
        receive=spec.receive,
        framing=Framing(modem.mac, modem.mac + modem.frame_payload),
    )
