"""Radios: how long bits take, and what they cost in joules."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class RadioModel:
    """A radio with linear power: P = base + energy_up * up rate + energy_down * down rate.

    Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE
    Networks", MobiSys 2012; 1 mW per Mbit/s is 1 nJ per bit.

    Attributes:
        up, down: rates, bit/s.
        latency: one way, s.
        energy_up, energy_down: J/bit.
        base: power while anything is transferred, W.
    """

    up: float = inf
    down: float = inf
    latency: float = 0.0
    energy_up: float = 0.0
    energy_down: float = 0.0
    base: float = 0.0
