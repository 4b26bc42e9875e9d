"""Clocks: what actors read the time from and set timers by."""

from collections.abc import Callable
from typing import Any, Protocol


class Cancellable(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Make sure that it never happens; a timer that has happened stays as it is."""


class Clock(Protocol):
    """The time of a world, s since its start."""

    @property
    def now(self) -> float:
        """The current time, s."""
        ...

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """Call `callback(*args)` at a time, s, after all else that happens at that instant."""
        ...


class Clocked:
    """Provides `now`, as the ports have it.

    Args:
        calendar: the time of the world.
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
