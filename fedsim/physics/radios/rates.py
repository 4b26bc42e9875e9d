"""Rate laws: how fast a link or one direction of a radio is, and how it takes a message."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.physics.signals import Signal


class Terms(NamedTuple):
    """What a message meets.

    Attributes:
        cap: the fastest its bits may flow, bit/s, within what the law's signal says, if any.
        share: of the time in which they flow, how much is on the air.
        rest: how long the sender keeps silent afterwards, s.
    """

    cap: float
    share: float = 1.0
    rest: float = 0.0


class Carrier(Protocol):
    """One direction of one client's radio: says on what terms a message travels."""

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """Return the terms.

        Args:
            bits: of the message, its header included.
            framed: the same and the framing.
            round_number: the round in which it starts.
        """
        ...


class RateLaw(ABC):
    """How fast one direction of a radio is, for every client that has it; or what a link carries.

    A user-defined law has a peak, the time that a message takes, and a carrier; the rest is for
    laws that are simpler than that, or follow a trace. A link's law needs only its peak and its
    signal.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def peak(self) -> float:
        """The fastest that it can be, bit/s."""

    @property
    def constant(self) -> float | None:
        """The rate of every message where that is always the same, bit/s; else None."""
        return None

    @property
    def signal(self) -> Signal | None:
        """The signal that the rate follows during a message; None if the rate is constant."""
        return None

    @property
    def average(self) -> float:
        """What it bounds messages to in the long run, bit/s: a trace's mean, else the fastest."""
        return self.peak if self.signal is None else self.signal.average

    def with_factor(self, factor: float) -> "RateLaw":
        """Return the law of a link that bounds messages to so many times as much; above 0."""
        if self.signal is None:
            return ConstantRate(self.peak * factor)
        return Traced(self.signal if factor == 1.0 else Scaled(self.signal, factor))

    @property
    def continuous(self) -> bool:
        """Whether it is on the air all the time in which bits flow, and owes no silence."""
        return True

    @abstractmethod
    def seconds(self, bits: int, framed: int) -> float:
        """Return how long a message takes in the long run, with the silence it owes, s.

        Args:
            bits: of the message, its header included.
            framed: the same and the framing.
        """

    @abstractmethod
    def carrier(self, rng: Callable[[], np.random.Generator]) -> Carrier:
        """Return the carrier of one client.

        Args:
            rng: makes the client's stream for this channel, where something is drawn.
        """


class Steady:
    """The same terms for every message."""

    __slots__ = ("_terms",)

    def __init__(self, cap: float) -> None:
        self._terms = Terms(cap)

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:  # noqa: ARG002
        """See `Carrier.terms`."""
        return self._terms


@lru_cache
def steady(cap: float) -> Steady:
    """Return what has a cap for all messages, for all radios of that cap."""
    return Steady(cap)


@dataclass(frozen=True, slots=True)
class ConstantRate(RateLaw):
    """The same rate at all times.

    Attributes:
        rate: bit/s; infinite where a message takes no time.
    """

    rate: float

    @property
    def peak(self) -> float:
        """The rate."""
        return self.rate

    @property
    def constant(self) -> float:
        """The rate."""
        return self.rate

    def seconds(self, bits: int, framed: int) -> float:  # noqa: ARG002 - whatever the framing
        """Return how long so many bits take, s."""
        return over(self.rate, framed)

    def carrier(self, rng: Callable[[], np.random.Generator]) -> Steady:  # noqa: ARG002
        """Return a carrier of this rate."""
        return steady(self.rate)


@dataclass(frozen=True, slots=True)
class Traced(RateLaw):
    """A rate that follows a trace.

    Attributes:
        trace: bit/s.
    """

    trace: Signal

    @property
    def signal(self) -> Signal:
        """The trace."""
        return self.trace

    @property
    def peak(self) -> float:
        """The largest rate of the trace."""
        return self.trace.peak

    def seconds(self, bits: int, framed: int) -> float:  # noqa: ARG002 - whatever the framing
        """Return how long so many bits take at the average rate, s."""
        return over(self.trace.average, framed)

    def carrier(self, rng: Callable[[], np.random.Generator]) -> Steady:  # noqa: ARG002
        """Return a carrier on which nothing but the trace holds a message up."""
        return steady(self.peak)


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


class Rates(NamedTuple):
    """The laws of a radio's two directions."""

    up: RateLaw
    down: RateLaw


def over(rate: float, bits: float) -> float:
    """Return how long bits take at a rate, s; infinite where there is none."""
    return bits / rate if rate else inf
