"""Devices: how long work takes, and what it costs in joules."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A processor.

    Attributes:
        speed: effective floating-point operations per second.
        active: power while it computes, W.
        idle: power all the time, W.
    """

    speed: float = inf
    active: float = 0.0
    idle: float = 0.0
