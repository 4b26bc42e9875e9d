"""Processors: metered, one piece of work after another."""

from fedsim.physics.devices import DeviceLaw
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, Supply

Span = tuple[float, float]
"""The begin and the end of a piece of work, s."""


class Processor:
    """Executes one piece of work after another and meters its energy.

    Attributes:
        device: the device law.
        joules: the energy beyond idle power so far.
    """

    __slots__ = (
        "_calendar",
        "_dropped",
        "_extra",
        "_free_at",
        "_gaps",
        "_running",
        "_supply",
        "device",
        "joules",
    )

    def __init__(self, device: DeviceLaw, calendar: Calendar, supply: Supply | None = None) -> None:
        self.device = device
        self._extra = device.working() - device.idle
        self._free_at = 0.0
        # Reservations that were released while others were queued behind them: begin by end.
        self._gaps: dict[float, float] | None = None
        # The rest is used only with a battery.
        self._running: Span | None = None
        self._dropped: list[Span] | None = None  # released before they began
        self._calendar = calendar
        self._supply = supply
        self.joules = 0.0

    def reserve(self, now: float, seconds: float) -> Span:
        """Return the begin and the end of work that is submitted now, s."""
        begin = self._free_at
        if begin < now:  # noqa: PLR1730 - a comparison, not max: this runs in every client-round
            begin = now
        self._free_at = end = begin + seconds
        if self._supply is not None and end > begin:
            if begin > now:
                self._calendar.call(begin, self._begin, (begin, end))
            else:
                self._begin((begin, end))
        return begin, end

    @property
    def watts(self) -> float:
        """The power of work beyond idle power, W."""
        return self._extra

    def spend(self, seconds: float) -> float:
        """Meter a span of work; return its energy, J."""
        joules = self._extra * seconds
        self.joules += joules
        if self._supply is not None and not self._is_working(self._calendar.now):
            self._supply.book(Part.PROCESSOR, self.joules, self._extra)
        return joules

    def _is_working(self, now: float) -> bool:
        """Return whether a piece of work is in progress; it is metered at its end."""
        return self._running is not None and self._running[0] < now < self._running[1]

    def release(self, now: float, begin: float, end: float) -> None:
        """Release the rest of a reservation. Queued reservations keep their times.

        The time becomes free once these are released, too.
        """
        gaps = self._gaps or {}
        gaps[end] = begin
        # Gaps at the end of the schedule free the processor, one after the other.
        while self._free_at in gaps:
            self._free_at = gaps.pop(self._free_at)
        self._free_at = max(self._free_at, now)
        self._gaps = gaps if gaps and self._free_at > now else None
        if self._running == (begin, end):
            self._end((begin, end))
        elif now < begin < end and self._supply is not None:
            self._dropped = [*(self._dropped or ()), (begin, end)]

    def _begin(self, span: Span) -> None:
        """Add the load of a piece of work to the battery, if any."""
        if self._dropped and span in self._dropped:
            self._dropped.remove(span)
        elif self._supply is not None:
            self._running = span
            self._supply.set(Part.PROCESSOR, self._extra)
            self._calendar.call(span[1], self._end, span)

    def _end(self, span: Span) -> None:
        """Remove the load of a piece of work, unless the next one has begun already."""
        if self._running == span and self._supply is not None:
            self._running = None
            self._supply.set(Part.PROCESSOR, 0.0)
