"""Processors: one piece of work after the other, metered."""

from fedsim.physics.devices import DeviceLaw
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, Supply

Span = tuple[float, float]
"""When a piece of work begins and ends, s."""


class Processor:
    """Does one piece of work after the other and meters its energy.

    Attributes:
        device: its law.
        joules: spent beyond idle power so far.
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
        # Given back though others queue, if anything ever was: their ends, begins.
        self._gaps: dict[float, float] | None = None
        self._running: Span | None = None  # what follows is for the battery only
        self._dropped: list[Span] | None = None  # given back before they began, alike
        self._calendar = calendar
        self._supply = supply
        self.joules = 0.0

    def reserve(self, now: float, seconds: float) -> Span:
        """Return when work that is given now and takes so long begins and ends."""
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

    def spend(self, seconds: float) -> float:
        """Meter a span of work and return its joules."""
        joules = self._extra * seconds
        self.joules += joules
        if self._supply is not None and not self._is_working(self._calendar.now):
            self._supply.book(Part.PROCESSOR, self.joules, self._extra)
        return joules

    def _is_working(self, now: float) -> bool:
        """Return whether a piece of work is in progress, which is metered when it ends."""
        return self._running is not None and self._running[0] < now < self._running[1]

    def release(self, now: float, begin: float, end: float) -> None:
        """Release the rest of a reservation; queued reservations stay where they are.

        Once they are gone, too, the time is free.
        """
        gaps = self._gaps or {}
        gaps[end] = begin
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
        """Remove that load, unless the next piece of work has begun already."""
        if self._running == span and self._supply is not None:
            self._running = None
            self._supply.set(Part.PROCESSOR, 0.0)
