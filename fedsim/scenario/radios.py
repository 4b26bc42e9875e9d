"""Radios: how fast a client sends and receives, and what that costs."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from fedsim.scenario.presets import Preset, Presettable
from fedsim.scenario.quantities import JoulesPerBit, Rate, Seconds, Watts

_HUANG = "[lit] Huang et al., A Close Examination of 4G LTE Networks, MobiSys 2012"


def _radio(
    up: str, down: str, latency: str, energy: tuple[str, str], base: str, basis: str
) -> Preset:
    energies = {"energy_up": energy[0], "energy_down": energy[1], "base": base}
    return Preset(basis, {"up": up, "down": down, "latency": latency, **energies})


_LTE = ("438.39 mW/(Mbit/s)", "51.97 mW/(Mbit/s)")
_WIFI = ("283.17 mW/(Mbit/s)", "137.01 mW/(Mbit/s)")
_NONE = ("0 J/bit", "0 J/bit")

RADIOS: Mapping[str, Preset] = {
    "ideal": _radio("unlimited", "unlimited", "0 s", _NONE, "0 W", "sends in no time, for nothing"),
    "lte": _radio("6 Mbit/s", "13 Mbit/s", "30 ms", _LTE, "1288.04 mW", _HUANG),
    "wifi": _radio("20 Mbit/s", "30 Mbit/s", "5 ms", _WIFI, "132.86 mW", _HUANG),
    "ethernet": _radio(
        "940 Mbit/s", "940 Mbit/s", "0.5 ms", _NONE, "0.5 W", "[est] gigabit, constant power"
    ),
}
"""The presets; latency is half of the round-trip time."""


class Radio(Presettable):
    """A client's radio: linear power, `base + energy_up * up + energy_down * down`.

    Here up and down are the rates of the moment, so that a bit costs the same at any rate
    and time costs `base`. Promotion and tail states are not modelled yet.
    """

    presets: ClassVar[Mapping[str, Preset]] = RADIOS

    up: Rate = Field(description="rate from the client to the server")
    down: Rate = Field(description="rate from the server to the client")
    latency: Seconds = Field(description="one-way delay, half of the round-trip time")
    energy_up: JoulesPerBit = Field(description="energy of a bit that is sent")
    energy_down: JoulesPerBit = Field(description="energy of a bit that is received")
    base: Watts = Field(description="power while it transfers, whatever the rate")
