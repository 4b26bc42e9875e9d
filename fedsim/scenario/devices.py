"""Devices: how fast a client computes, and what that costs."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from fedsim.scenario.presets import Preset, Presettable
from fedsim.scenario.quantities import Speed, Watts

_HPL = "[meas] High-Performance Linpack on the board, power at its supply"
_PHONE = "[est] effective training speed and power of phones of its class"


def _device(speed: str, active: str, idle: str, basis: str) -> Preset:
    return Preset(basis, {"speed": speed, "active": active, "idle": idle})


DEVICES: Mapping[str, Preset] = {
    "ideal": _device("unlimited", "0 W", "0 W", "computes in no time, for nothing"),
    "pi-4": _device("11.9 Gflop/s", "7.2 W", "2.3 W", _HPL),
    "pi-5": _device("30 Gflop/s", "11 W", "3 W", _HPL),
    "phone-low": _device("4 Gflop/s", "3.6 W", "0.3 W", _PHONE),
    "phone-mid": _device("10 Gflop/s", "4.5 W", "0.35 W", _PHONE),
    "phone-high": _device("20 Gflop/s", "5.5 W", "0.4 W", _PHONE),
}
"""The presets; speed is what training reaches, not what the data sheet promises."""


class Device(Presettable):
    """A client's processor: `operations / speed` seconds a task.

    Its energy is idle power for all the time that it is on, and the difference of active
    and idle power for the time that it is busy.
    """

    presets: ClassVar[Mapping[str, Preset]] = DEVICES

    speed: Speed = Field(description="floating-point operations per second that training reaches")
    active: Watts = Field(description="power while it computes")
    idle: Watts = Field(description="power while it does not")
