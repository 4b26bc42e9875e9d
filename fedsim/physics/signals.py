"""Time-varying quantities: a rate, a capacity, the power of a charger.

A constant and a trace are interchangeable. Integrals are exact, and so are their inverses: the time
at which an integral reaches an amount. The unit of an integral is that of the values, times
seconds.
"""

from copy import copy
from dataclasses import dataclass
from math import floor, inf, isfinite, nextafter
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from fedsim.core.ports import Array


class Signal(Protocol):
    """A value of at least 0 at every time t >= 0 s: piecewise constant and right-continuous."""

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        ...

    def integral(self, begin: float, end: float) -> float:
        """Return the integral from `begin` to `end`, begin <= end."""
        ...

    def when(self, begin: float, amount: float) -> float:
        """Return the earliest t >= begin with integral(begin, t) >= amount; inf if never."""
        ...

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may change; inf if there is none."""
        ...

    @property
    def average(self) -> float:
        """The long-run mean: that of a period, or the last value."""
        ...

    @property
    def peak(self) -> float:
        """The largest value."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value at all times.

    >>> Constant(2.0).integral(1.0, 4.0), Constant(2.0).when(1.0, 6.0)
    (6.0, 4.0)

    Raises:
        ValueError: the value is negative or not finite.
    """

    value: float

    def __post_init__(self) -> None:
        if not 0 <= self.value < inf:
            raise ValueError(f"got {self.value}; a signal must be finite and at least 0")

    def at(self, t: float) -> float:
        """Return the value."""
        return self.value

    def integral(self, begin: float, end: float) -> float:
        """Return the value times the duration."""
        return self.value * (end - begin)

    def when(self, begin: float, amount: float) -> float:
        """Return the time at which the integral from `begin` reaches `amount`."""
        if amount <= 0:
            return begin
        return begin + amount / self.value if self.value else inf

    def next_change(self, t: float) -> float:
        """Return inf."""
        return inf

    @property
    def average(self) -> float:
        """The value."""
        return self.value

    @property
    def peak(self) -> float:
        """The value."""
        return self.value


class Steps:
    """Constant pieces: the value is values[i] on [times[i], times[i+1]).

    With a finite period the pattern repeats; otherwise the last value stays. Neighbouring pieces of
    equal value are merged. A time is found by binary search, and the integral of whole cycles is a
    product. So any evaluation costs O(log n), however many periods ahead.

    All start times of pieces are computed by one function (`_begin`) and compared as floats.
    Otherwise rounding could end a piece before the next one begins, and a loop over `next_change`
    would not advance.

    >>> Steps([0, 1], [2, 0], period=4).when(0.5, 6.0)
    12.5

    Attributes:
        times: the starts of the pieces of the pattern, s, shape (n,).
        values: the values of the pieces, shape (n,).
        period: the period, s; inf if the pattern does not repeat.
        offset: the time in the pattern at which the signal starts, s.
        average: the long-run mean.
        peak: the largest value.
    """

    __slots__ = ("_seamless", "_sums", "average", "offset", "peak", "period", "times", "values")

    def __init__(self, times: ArrayLike, values: ArrayLike, period: float = inf) -> None:
        """Create a signal from pieces in the order of time.

        Args:
            times: the starts of the pieces, s, shape (n,).
            values: the values of the pieces, shape (n,).
            period: the period, s; inf for no repetition.

        Raises:
            ValueError: times do not increase from 0, a value is negative or not finite, or the
                period ends before the last piece begins.
        """
        begins, heights = _check(times, values, period)
        # Pieces that keep the value before them are merged, so that every start is a change.
        kept = np.append(True, np.diff(heights) != 0) & (begins < period)
        self.times, self.values, self.period = begins[kept], heights[kept], float(period)
        self.times.flags.writeable = self.values.flags.writeable = (
            False  # shifted signals share these arrays
        )
        self.offset = 0.0
        last = float(self.values[-1])
        # The last piece of a pattern that does not repeat has no end. Its amount is infinite, or 0
        # for a value of 0, where the product would be NaN.
        amounts = self.values * np.diff(self.times, append=self.period if last else self.times[-1])
        self._sums: Array = np.append(
            0.0, np.cumsum(amounts)
        )  # the integral before each piece; total
        self._seamless = last == self.values[0]
        self.average = float(self._sums[-1]) / self.period if isfinite(self.period) else last
        self.peak = float(self.values.max())

    def shift(self, offset: float) -> Self:
        """Return the signal that starts `offset` seconds into this one; the arrays are shared.

        Raises:
            ValueError: the pattern does not repeat.
        """
        if not isfinite(self.period):
            raise ValueError("only a repeating pattern can be shifted; this one does not repeat")
        twin = copy(self)
        twin.offset = (self.offset + offset) % self.period
        return twin

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        return self.values.item(self._find(t)[1])

    def integral(self, begin: float, end: float) -> float:
        """Return the integral from `begin` to `end`."""
        cycle, piece = self._find(begin)
        edge = self._begin(cycle, piece + 1)
        if end <= edge:
            return self.values.item(piece) * (end - begin)
        last_cycle, last = self._find(end)
        sums, values = self._sums.item, self.values.item
        whole = (last_cycle - cycle) * sums(-1) if last_cycle > cycle else 0.0
        first_part = values(piece) * (edge - begin)
        last_part = values(last) * (end - self._begin(last_cycle, last))
        return first_part + (whole + (sums(last) - sums(piece + 1))) + last_part

    def when(self, begin: float, amount: float) -> float:
        """Return the earliest time at which the integral from `begin` reaches `amount`."""
        if amount <= 0:
            return begin
        cycle, piece = self._find(begin)
        value, edge = self.values.item(piece), self._begin(cycle, piece + 1)
        passed = value * (edge - begin) if value else 0.0
        if amount <= passed:
            return min(begin + amount / value, edge)
        before = self._sums.item(piece + 1)
        # More than 0 is left, however little: the current piece did not supply all of the amount.
        # Without the smallest step, rounding could find the current piece again.
        return self._reach(cycle, max(before + (amount - passed), nextafter(before, inf)))

    def _reach(self, cycle: int, goal: float) -> float:
        """Return the time at which the integral since the start of a cycle reaches `goal` > 0."""
        total = self._sums.item(-1)
        if goal > total:
            if not (total and isfinite(self.period)):
                return inf
            turns = floor(goal / total)
            goal -= turns * total
            if goal <= 0:  # reached at the end of a cycle, not at the start of the next
                turns, goal = turns - 1, total
            cycle += turns
        piece = int(self._sums.searchsorted(goal)) - 1
        rest = (goal - self._sums.item(piece)) / self.values.item(piece)
        return min(self._begin(cycle, piece) + rest, self._begin(cycle, piece + 1))

    def next_change(self, t: float) -> float:
        """Return the start of the next piece."""
        cycle, piece = self._find(t)
        if len(self.times) == 1:
            return inf
        # The last piece and the first one of the next cycle have the same value: no change.
        if self._seamless and piece + 1 == len(self.times) and isfinite(self.period):
            return self._begin(cycle + 1, 1)
        return self._begin(cycle, piece + 1)

    def _begin(self, cycle: int, piece: int) -> float:
        """Return the start of a piece in a cycle, s; all comparisons of times use this function."""
        if piece == len(self.times):
            cycle, piece = cycle + 1, 0
        if cycle == 0:
            return self.times.item(piece) - self.offset
        return cycle * self.period - self.offset + self.times.item(piece)

    def _find(self, t: float) -> tuple[int, int]:
        """Return the cycle and the piece that contain `t`."""
        cycle = floor((t + self.offset) / self.period)
        while self._begin(cycle + 1, 0) <= t:  # by rounding, the division may be off by one
            cycle += 1
        while self._begin(cycle, 0) > t:
            cycle -= 1
        within = t - self._begin(cycle, 0)
        piece = max(int(self.times.searchsorted(within, side="right")) - 1, 0)
        while self._begin(cycle, piece) > t:
            piece -= 1
        while piece + 1 < len(self.times) and self._begin(cycle, piece + 1) <= t:
            piece += 1
        return cycle, piece

    def __repr__(self) -> str:
        return f"Steps({len(self.times)} pieces, period={self.period}, offset={self.offset})"


def _check(times: ArrayLike, values: ArrayLike, period: float) -> tuple[Array, Array]:
    begins, heights = np.array(times, dtype=np.float64), np.array(values, dtype=np.float64)
    if begins.ndim != 1 or begins.shape != heights.shape or not begins.size:
        raise ValueError(
            f"got times of shape {begins.shape} and values of shape {heights.shape}; expected a "
            "value for every time, and at least one"
        )
    if begins[0] != 0:
        raise ValueError(f"got the first time {begins[0]}; expected 0")
    rises = np.append(True, (begins[1:] > begins[:-1]) & np.isfinite(begins[1:]))
    if not rises.all():
        at = int(np.argmin(rises))
        raise ValueError(f"got the time {begins[at]} after {begins[at - 1]}; times must increase")
    sound = np.isfinite(heights) & (heights >= 0)
    if not sound.all():
        raise ValueError(
            f"got the value {heights[int(np.argmin(sound))]}; expected finite ones >= 0"
        )
    if not (period >= begins[-1] and period > 0):
        raise ValueError(f"got the period {period}; expected at least the last time, {begins[-1]}")
    return begins, heights
