"""Who reads the clock: that a method did is written down, for its course may depend on it."""

from fedsim.sim.engine.calendar import Calendar


class Clocked:
    """Has the `now` of the ports.

    Args:
        calendar: the simulated time.
        looks: takes note of what the method looks at.
    """

    __slots__ = ("_calendar", "_looks")

    def __init__(self, calendar: Calendar, looks: set[str]) -> None:
        self._calendar = calendar
        self._looks = looks

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        self._looks.add("now")
        return self._calendar.now
