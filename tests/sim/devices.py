"""Devices for tests, in SI units."""

from math import inf

from fedsim.physics.devices import Device


def device_of(speed: float = inf, active: float = 0.0, idle: float = 0.0) -> Device:
    """Return a device of so many operations a second, and of so many watts."""
    return Device.in_si(kind="custom", speed=speed, active=active, idle=idle)
