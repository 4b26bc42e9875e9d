"""Devices: their blocks, which say how long work takes, and what it costs in joules."""

from typing import Annotated

from fedsim.blocks.choice import OneOf
from fedsim.blocks.given import Block, Given
from fedsim.blocks.presets import names_of
from fedsim.blocks.registry import Registry
from fedsim.physics.devices.base import DeviceLaw
from fedsim.physics.devices.device import Device
from fedsim.physics.devices.phone import Phone
from fedsim.physics.devices.presets import DEVICES

DEVICE_KINDS: Registry[DeviceLaw] = Registry(
    "device", (Device, Phone), DeviceLaw, title="device kinds", names=names_of
)
"""The classes that read a device's block."""

AnyDevice = Given[Annotated[DeviceLaw, OneOf(DEVICE_KINDS)], DeviceLaw | Block]
"""A field that takes one of them, or the name of a preset."""

__all__ = ["DEVICES", "DEVICE_KINDS", "AnyDevice", "Device", "DeviceLaw", "Phone"]
