"""LoRa: checks of a fleet's end devices against the gateway of `network.lora`."""

from collections.abc import Iterator, Sequence

from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.radios.lorawan import REQUIRED_SNR, LoRaGateway, dbm, noise_dbm
from fedsim.scenario import Scenario
from fedsim.scenario.building.fleet import BuiltGroup
from fedsim.scenario.building.inputs import Findings


def check_lora(scenario: Scenario, groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register a gateway without devices, devices without a gateway, and devices out of range."""
    gateway = scenario.network.gateway_of_lora
    modems = [(group, group.radio) for group in groups if isinstance(group.radio, LoRaRadio)]
    if gateway is None:
        for group, radio in modems:
            if radio.lorawan is not None:
                text = f"{group.name} has no gateway; give network.lora, or leave this out"
                findings.add(f"{group.place}.radio.lorawan", text)
    elif not modems:
        findings.add("network.lora", "no radio of the fleet is a LoRa modem, such as lora-sf9")
    else:
        for group, radio in modems:
            for key, text in _faults(radio, gateway, group.name):
                findings.add(f"{group.place}.radio.{key}", text)


def _faults(radio: LoRaRadio, gateway: LoRaGateway, name: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that keep a device's frames from being received, with their keys."""
    device = radio.end_device
    floor = noise_dbm(radio.bandwidth, gateway.noise_figure) + REQUIRED_SNR[radio.spreading]
    if device.signal < floor:
        most = dbm(device.power) - floor
        text = (
            f'got "{device.path_loss:g} dB", but at SF{radio.spreading} the gateway receives no'
            f" frame of {name} beyond {most:.4g} dB; use less, or a larger spreading"
        )
        yield "lorawan.path_loss", text


def loses_frames(radio: object, gateway: LoRaGateway | None) -> bool:
    """Return whether a message of a radio can be lost for good at a gateway."""
    if gateway is None or not isinstance(radio, LoRaRadio):
        return False
    return radio.most_tries is not None or radio.end_device.shadowing > 0


def window_wait(radio: object, gateway: LoRaGateway | None, bits: int) -> float:
    """Return the longest wait of a downlink message for a device's receive windows, s."""
    if gateway is None or not isinstance(radio, LoRaRadio):
        return 0.0
    return radio.window_wait(bits, gateway.second_delay)
