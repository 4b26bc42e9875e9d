"""Limits: what holds one transfer back, whatever the others do."""

from collections.abc import Iterable
from math import inf

from fedsim.physics.signals import Signal


class Least:
    """The least of a number and of some signals at every moment.

    It can be looked at and waited for, but not integrated ahead: it may never let anything
    pass, and nothing short of trying would tell.
    """

    __slots__ = ("_constant", "_signals", "peak")

    def __init__(self, constant: float, signals: Iterable[Signal]) -> None:
        self._constant = constant
        self._signals = tuple(signals)
        self.peak = min(constant, *[signal.peak for signal in self._signals])

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        return min(self._constant, *[signal.at(t) for signal in self._signals])

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        return min([signal.next_change(t) for signal in self._signals])


class Scaled:
    """A signal times a factor above 0: a signal."""

    __slots__ = ("_factor", "_signal", "average", "peak")

    def __init__(self, signal: Signal, factor: float) -> None:
        self._signal = signal
        self._factor = factor
        self.average = signal.average * factor
        self.peak = signal.peak * factor

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        return self._signal.at(t) * self._factor

    def integral(self, begin: float, end: float) -> float:
        """Return the integral from `begin` to `end`."""
        return self._signal.integral(begin, end) * self._factor

    def when(self, begin: float, amount: float) -> float:
        """Return the earliest time at which `amount` has passed since `begin`."""
        return self._signal.when(begin, amount / self._factor)

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        return self._signal.next_change(t)


Rate = float | Signal
"""Constant or following a signal, bit/s."""

Limit = Rate | Least
"""What holds a transfer back, bit/s."""


def scaled(rate: Rate, factor: float) -> Rate:
    """Return a rate times a factor above 0."""
    if isinstance(rate, int | float):
        return rate * factor
    return rate if factor == 1.0 else Scaled(rate, factor)


def least(rates: Iterable[Rate]) -> Limit:
    """Return what holds back where several limits do; nothing does where there are none."""
    constant, signals = inf, list[Signal]()
    for rate in rates:
        if isinstance(rate, int | float):
            constant = min(constant, rate)
        else:
            signals.append(rate)
    if not signals:
        return constant
    if len(signals) == 1 and signals[0].peak <= constant:
        return signals[0]
    return Least(constant, signals)


def value(limit: Limit, t: float) -> float:
    """Return what a limit lets through at the time `t`, bit/s."""
    return limit if isinstance(limit, int | float) else limit.at(t)


def peak(limit: Limit) -> float:
    """Return the most that a limit ever lets through, bit/s."""
    return limit if isinstance(limit, int | float) else limit.peak
