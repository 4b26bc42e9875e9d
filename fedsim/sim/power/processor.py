"""Processors: one piece of work after the other, metered."""

from fedsim.physics.devices import DeviceModel


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
