"""Availability: when a client is online.

A timeline is the state at time 0 and the times at which it toggles, drawn as they are asked
for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import cos, inf, tau
from pathlib import Path
from typing import Protocol

import numpy as np

from fedsim.physics.traces import read_table

Timeline = tuple[bool, Iterator[float]]
"""Whether a client is online at time 0, and the rising times at which that toggles, s."""


class Availability(Protocol):
    """A law of when a client is online."""

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client, drawn from its stream."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """Never offline."""

    def timeline(self, rng: np.random.Generator) -> Timeline:  # noqa: ARG002 - nothing is drawn
        """Return a timeline without an event."""
        return True, iter(())


ALWAYS = Always()


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """There in a round with a probability, whatever it was in other rounds.

    Rounds have no times, so the timeline knows nothing of it: who picks a cohort draws.

    Attributes:
        share: the probability.

    Raises:
        ValueError: it is not above 0 and at most 1.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share is above 0 and at most 1; seen {self.share}")

    def timeline(self, rng: np.random.Generator) -> Timeline:  # noqa: ARG002 - rounds are drawn
        """Return a timeline without an event."""
        return True, iter(())


@dataclass(frozen=True, slots=True)
class Markov:
    """Online and offline by turns, for exponential times.

    With a daily cycle, a client offline comes online at the rate
    (1 + a cos(2 pi (t - phase) / period)) / off: most of them around the time `phase` of
    every day. At time 0 the state is stationary for the mean rates.

    Attributes:
        on: mean stay online, s.
        off: mean stay offline where the rate has no cycle, s.
        amplitude: a, 0 to 1.
        phase: s.
        period: s.

    Raises:
        ValueError: a value is outside its range.
    """

    on: float
    off: float
    amplitude: float = 0.0
    phase: float = 0.0
    period: float = 86400.0

    def __post_init__(self) -> None:
        for name in ("on", "off", "period"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"{name} is above 0 and finite; seen {getattr(self, name)}")
        if not 0 <= self.amplitude <= 1:
            raise ValueError(f"amplitude is 0 to 1; seen {self.amplitude}")

    def rate(self, t: float) -> float:
        """Return the rate at which a client that is offline comes online, 1/s."""
        cycle = cos(tau * (t - self.phase) / self.period)
        return (1 + self.amplitude * cycle) / self.off

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client, without an end."""
        online = bool(rng.random() * (self.on + self.off) < self.on)
        return online, self._toggles(rng, online=online)

    def _toggles(self, rng: np.random.Generator, *, online: bool) -> Iterator[float]:
        t = 0.0
        while True:
            t = t + rng.exponential(self.on) if online else self._return(t, rng)
            online = not online
            yield t

    def _return(self, t: float, rng: np.random.Generator) -> float:
        """Return when a client comes online that went offline at `t`.

        By thinning: arrivals at the highest rate are taken with probability rate / highest
        (Lewis, Shedler, Naval Res. Logist. Q. 1979).
        """
        highest = (1 + self.amplitude) / self.off
        while True:
            t += rng.exponential(1 / highest)
            if not self.amplitude or rng.random() * highest < self.rate(t):
                return t


@dataclass(frozen=True, slots=True)
class Intervals:
    """Online from begins[i] to ends[i], offline between and after.

    Attributes:
        begins, ends: rising, s; the last end may be infinite.

    Raises:
        ValueError: intervals are reversed, overlap, or begin before 0.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = [edge for pair in zip(self.begins, self.ends, strict=True) for edge in pair]
        if not all(begin < end for begin, end in zip(self.begins, self.ends, strict=True)):
            raise ValueError("every interval ends after it begins")
        if edges != sorted(edges) or (edges and edges[0] < 0):
            raise ValueError("intervals follow each other from 0 on, without an overlap")

    def timeline(self, rng: np.random.Generator) -> Timeline:  # noqa: ARG002 - nothing is drawn
        """Return the edges; where one interval ends as the next begins, nothing happens."""
        edges = set(self.begins) ^ set(self.ends)
        online = 0.0 in self.begins
        return online, iter(sorted(edges - {0.0, inf}))


NEVER = Intervals((), ())


def read_intervals(path: Path) -> Mapping[int, Intervals]:
    """Read when clients are online: CSV with columns client, start, end, in seconds.

    Rows come in any order; clients without one are never online. A start or an end counts
    from the beginning of the run; an end of "inf" is never.

    Returns:
        The intervals of each client that has some, by client number.

    Raises:
        DataError: the file cannot be read, a line is malformed, or intervals of one client
            overlap; the text names the lines.
    """
    table = read_table(path, ("client", "start", "end"), "intervals")
    client, start, end = table.columns
    numbered = (client >= 0) & (client < 2**53) & (client == np.floor(client))
    table.refuse(~numbered, "a client is a whole number of at least 0")
    table.refuse(~((start >= 0) & (start < inf)), "a start is a number of seconds of at least 0")
    table.refuse(~(end > start), "an interval ends after it starts")
    order = np.lexsort((start, client))
    same = client[order[1:]] == client[order[:-1]]
    overlaps = same & (start[order[1:]] < end[order[:-1]])
    if overlaps.any():
        at = int(np.argmax(overlaps))
        before, after = order[at : at + 2]
        table.fail(after, f"it begins before the interval of line {table.numbers[before]} ends")
    first = np.flatnonzero(np.diff(client[order], prepend=-1.0))
    return {
        int(client[rows[0]]): Intervals(tuple(start[rows].tolist()), tuple(end[rows].tolist()))
        for rows in np.split(order, first[1:])
    }
