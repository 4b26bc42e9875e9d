"""Rate laws: the rate of a link, or of one direction of a radio, and the terms of a message."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.physics.signals import Signal


class Terms(NamedTuple):
    """The terms of one message.

    Attributes:
        cap: the largest rate of its bits, bit/s, in addition to the limit of the law's signal.
        share: the share of its time in which bits are on the air.
        rest: the silence of the sender after it, s.
    """

    cap: float
    share: float = 1.0
    rest: float = 0.0


class Carrier(Protocol):
    """One direction of one client's radio, which determines the terms of messages."""

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """Return the terms of a message.

        Args:
            bits: the bits of the message, its header included.
            framed: the bits of the message with the headers of its packets.
            round_number: the round in which it starts.
        """
        ...


class RateLaw(ABC):
    """The rate of a link, or of one direction of a radio for all clients with this radio.

    A user-defined law of a radio has a peak, the duration of a message, and a carrier. The other
    members are for simpler laws, and for laws that follow a trace. The law of a link only needs its
    peak and its signal.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def peak(self) -> float:
        """The largest rate, bit/s."""

    @property
    def constant(self) -> float | None:
        """The rate if it is the same for every message, bit/s; otherwise None."""
        return None

    @property
    def signal(self) -> Signal | None:
        """The signal that the rate follows during a message; None if the rate is constant."""
        return None

    @property
    def average(self) -> float:
        """The long-run rate, bit/s: the mean of a trace, otherwise the peak."""
        return self.peak if self.signal is None else self.signal.average

    def with_factor(self, factor: float) -> "RateLaw":
        """Return the law of a link whose rates are multiplied by a factor above 0."""
        if self.signal is None:
            return ConstantRate(self.peak * factor)
        return Traced(self.signal if factor == 1.0 else Scaled(self.signal, factor))

    @property
    def continuous(self) -> bool:
        """Whether a message is on the air for all of its time, without silences."""
        return True

    @abstractmethod
    def seconds(self, bits: int, framed: int) -> float:
        """Return the long-run duration of a message, with the silence after it, s.

        Args:
            bits: the bits of the message, its header included.
            framed: the bits of the message with the headers of its packets.
        """

    @abstractmethod
    def carrier(self, rng: Callable[[], np.random.Generator]) -> Carrier:
        """Return the carrier of one client.

        Args:
            rng: creates the client's random stream for this channel; only called if it is needed.
        """


class Steady:
    """A carrier with the same terms for every message."""

    __slots__ = ("_terms",)

    def __init__(self, cap: float) -> None:
        self._terms = Terms(cap)

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        """See `Carrier.terms`."""
        return self._terms


@lru_cache
def steady(cap: float) -> Steady:
    """Return a cached carrier, shared by all radios with this cap, bit/s."""
    return Steady(cap)


@dataclass(frozen=True, slots=True)
class ConstantRate(RateLaw):
    """The same rate at all times.

    Attributes:
        rate: the rate, bit/s; infinite for messages that take no time.
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

    def seconds(self, bits: int, framed: int) -> float:
        """Return the duration of a message, s."""
        return over(self.rate, framed)

    def carrier(self, rng: Callable[[], np.random.Generator]) -> Steady:
        """Return a carrier of this rate."""
        return steady(self.rate)


@dataclass(frozen=True, slots=True)
class Traced(RateLaw):
    """A rate that follows a trace.

    Attributes:
        trace: the rate over time, bit/s.
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

    def seconds(self, bits: int, framed: int) -> float:
        """Return the duration of a message at the average rate, s."""
        return over(self.trace.average, framed)

    def carrier(self, rng: Callable[[], np.random.Generator]) -> Steady:
        """Return a carrier whose only limit is the trace."""
        return steady(self.peak)


class Scaled:
    """A signal multiplied by a factor above 0."""

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
        """Return the earliest time at which the integral from `begin` reaches `amount`."""
        return self._signal.when(begin, amount / self._factor)

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        return self._signal.next_change(t)


class Rates(NamedTuple):
    """The rate laws of a radio's two directions."""

    up: RateLaw
    down: RateLaw


def over(rate: float, bits: float) -> float:
    """Return the duration of bits at a rate, s; infinite at a rate of 0."""
    return bits / rate if rate else inf
