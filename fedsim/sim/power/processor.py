"""Processors: one piece of work after the other, metered."""

from fedsim.physics.devices import DeviceModel
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, Supply


class Processor:
    """Does one piece of work after the other and meters its energy.

    Attributes:
        model: its device.
        joules: spent beyond idle power so far.
    """

    __slots__ = ("_calendar", "_extra", "_free_at", "_supply", "joules", "model")

    def __init__(
        self, model: DeviceModel, calendar: Calendar, supply: Supply | None = None
    ) -> None:
        self.model = model
        self._extra = model.active - model.idle
        self._free_at = 0.0
        self._calendar = calendar
        self._supply = supply
        self.joules = 0.0

    def reserve(self, now: float, seconds: float) -> tuple[float, float]:
        """Return when work that is given now and takes so long begins and ends."""
        begin = max(now, self._free_at)
        self._free_at = end = begin + seconds
        if self._supply is not None and end > now:
            self._supply.set(Part.PROCESSOR, self._extra)
            self._calendar.call(end, self._rest, None)
        return begin, end

    def spend(self, seconds: float) -> float:
        """Meter a span of work and return its joules."""
        joules = self._extra * seconds
        self.joules += joules
        return joules

    def release(self, now: float, begin: float, end: float) -> None:
        """Give back what is left of a reservation, unless others already queue behind it."""
        if self._free_at == end:
            self._free_at = max(begin, now)
            self._rest(None)

    def _rest(self, _: None) -> None:
        """Tell the battery, unless there is more to do."""
        if self._supply is not None and self._calendar.now >= self._free_at:
            self._supply.set(Part.PROCESSOR, 0.0)
