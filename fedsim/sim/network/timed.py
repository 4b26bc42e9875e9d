"""Timed transfers: limited by their own radio alone, and the bearers of these."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fedsim.physics.signals import Signal
from fedsim.sim.engine.calendar import Calendar, Timer
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.fluid import Fluid

T = TypeVar("T")


class Transfer(Protocol):
    """Bits that flow, or have flowed."""

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`, the present or a recent one."""
        ...

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        ...


class _Timed(ABC):
    """A transfer that nothing holds up: one timer, and no more."""

    __slots__ = ("_began", "_bits", "_calendar", "_end", "_timer")

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        end: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._calendar = calendar
        self._bits = bits
        self._began = calendar.now
        self._end = end
        self._timer: Timer = calendar.at(end, finished, token)

    @abstractmethod
    def _bits_flown(self, now: float) -> float:
        """Return the bits that have passed by a time before its end."""

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`."""
        return self._bits if now >= self._end else self._bits_flown(now)

    def stop(self) -> None:
        """Break it off."""
        now = self._calendar.now
        if now < self._end:
            self._bits, self._end = self.passed(now), now
        self._timer.cancel()


class SteadyTransfer(_Timed):
    """At a constant rate."""

    __slots__ = ("_rate",)

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        rate: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._rate = rate
        end = calendar.now + bits / rate if bits else calendar.now
        super().__init__(calendar, bits, end, finished, token)

    def _bits_flown(self, now: float) -> float:
        return self._rate * (now - self._began)


class TracedTransfer(_Timed):
    """At a rate that follows a trace."""

    __slots__ = ("_rate",)

    def __init__(
        self,
        calendar: Calendar,
        bits: float,
        rate: Signal,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._rate = rate
        super().__init__(calendar, bits, rate.when(calendar.now, bits), finished, token)

    def _bits_flown(self, now: float) -> float:
        return self._rate.integral(self._began, now)


class OpenBearer:
    """Only the radio limits a message, at a rate that is known when it starts."""

    open = True

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    def start(
        self, bits: float, cap: float, finished: Callable[[T], None], token: T
    ) -> SteadyTransfer:
        """See `Bearer.start`."""
        return SteadyTransfer(self._calendar, bits, cap, finished, token)


class TracedBearer:
    """The same at a rate that follows a trace, without a rate callback."""

    open = True

    def __init__(self, calendar: Calendar, signal: Signal) -> None:
        self._calendar = calendar
        self._signal = signal

    def start(
        self,
        bits: float,
        cap: float,  # noqa: ARG002 - the trace is all that holds it up
        finished: Callable[[T], None],
        token: T,
    ) -> TracedTransfer:
        """See `Bearer.start`."""
        return TracedTransfer(self._calendar, bits, self._signal, finished, token)


class WatchedBearer:
    """The same with a callback for changes of the rate."""

    open = True

    def __init__(self, fluid: Fluid, signal: Signal, changed: Changed) -> None:
        self._fluid = fluid
        self._signal = signal
        self._path = fluid.path(())
        self._changed = changed

    def start(self, bits: float, cap: float, finished: Callable[[T], None], token: T) -> Transfer:
        """See `Bearer.start`."""
        fluid = self._fluid
        return fluid.add(self._path, bits, cap, finished, token, self._changed, self._signal)
