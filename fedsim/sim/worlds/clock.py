"""Clocks: actors read the time from them, and set timers."""

from collections.abc import Callable
from typing import Any, Protocol


class Cancellable(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Prevent the callback; a timer that has expired stays as it is."""


class Clock(Protocol):
    """The time of a world, s since its start."""

    @property
    def now(self) -> float:
        """The current time, s."""
        ...

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """Call `callback(*args)` at a time, s, after all other events of that instant."""
        ...


class Clocked:
    """Provides `now`, as declared by the ports.

    Args:
        calendar: the clock of the world.
        looks: the set to which the names of what the method reads are added.
    """

    __slots__ = ("_calendar", "_looks")

    def __init__(self, calendar: Clock, looks: set[str]) -> None:
        self._calendar = calendar
        self._looks = looks

    @property
    def now(self) -> float:
        """Seconds since the start."""
        self._looks.add("now")
        return self._calendar.now
