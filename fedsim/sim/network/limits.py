"""Limits: what holds one transfer back, whatever the others do."""

from collections.abc import Sequence
from typing import Protocol

from fedsim.physics.signals import Signal


class Limit(Protocol):
    """What holds a transfer back, bit/s, where that varies."""

    @property
    def peak(self) -> float:
        """The largest value."""
        ...

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        ...

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        ...


class Least:
    """The least of a number and of some signals at every moment.

    It can be looked at and waited for, but not integrated ahead: it may never let anything
    pass, and nothing short of trying would tell.
    """

    __slots__ = ("_constant", "_signals", "peak")

    def __init__(self, constant: float, signals: Sequence[Signal]) -> None:
        self._constant = constant
        self._signals = tuple(signals)
        self.peak = min(constant, *[signal.peak for signal in self._signals])

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        return min(self._constant, *[signal.at(t) for signal in self._signals])

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        return min([signal.next_change(t) for signal in self._signals])


def least(most: float, signals: Sequence[Signal]) -> tuple[Limit, Signal | None]:
    """Return what holds back where a number and one signal or more do.

    Second is the same where it is one signal and no more, which can be integrated ahead.
    """
    if len(signals) == 1 and signals[0].peak <= most:
        return signals[0], signals[0]
    return Least(most, signals), None
