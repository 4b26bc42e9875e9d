"""Devices and radios: how long work and bits take, and what they cost in joules.

What is fixed is a model; what changes while the world runs is a meter. A meter counts what
is spent beyond the device's idle power, which flows whatever happens.
"""

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


class Processor:
    """Does one piece of work after the other and meters its energy.

    Attributes:
        joules: spent beyond idle power so far.
    """

    __slots__ = ("_extra", "_free_at", "_speed", "joules")

    def __init__(self, model: DeviceModel) -> None:
        self._speed = model.speed
        self._extra = model.active - model.idle
        self._free_at = 0.0
        self.joules = 0.0

    def reserve(self, now: float, operations: float) -> tuple[float, float]:
        """Return when work that is given now begins and ends."""
        begin = max(now, self._free_at)
        self._free_at = begin + operations / self._speed
        return begin, self._free_at

    def spend(self, seconds: float) -> float:
        """Meter a span of work and return its joules."""
        joules = self._extra * seconds
        self.joules += joules
        return joules

    def release(self, now: float, begin: float, end: float) -> None:
        """Give back what is left of a reservation, unless others already queue behind it."""
        if self._free_at == end:
            self._free_at = max(begin, now)


class Radio:
    """Meters the energy of a radio that may send and receive at once.

    The base power is on while anything is transferred, and is paid once: each transfer pays,
    when it ends, for all the time that is not paid yet. The sum is the exact integral of the
    power however the two directions overlap.

    Attributes:
        began: since when bits flow down, and up; may be to come; infinite while none do.
        joules: spent so far.
    """

    __slots__ = ("_paid_until", "began", "joules", "model")

    def __init__(self, model: RadioModel) -> None:
        self.model = model
        self.began = [inf, inf]
        self._paid_until = 0.0
        self.joules = 0.0

    def end(self, now: float, bits: float, up: bool) -> float:  # noqa: FBT001 - once a message
        """Note that bits have ceased to flow; meter them and return the joules."""
        # Comparisons, not min and max: this runs twice for every client in every round.
        on, other = began = self.began  # both directions' bits, if any, flow until now
        if other < on:  # noqa: PLR1730
            on = other
        if on < self._paid_until:  # noqa: PLR1730
            on = self._paid_until
        model = self.model
        joules = (model.energy_up if up else model.energy_down) * bits
        if on < now:
            joules += model.base * (now - on)
        self._paid_until = now
        began[up] = inf
        self.joules += joules
        return joules
