"""Availability: when a client is there at all. The block is the law.

A timeline is the state at time 0 and the times at which it toggles, drawn as they are asked
for.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import cos, inf, tau
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import AnyPath, Block, Given
from fedsim.blocks.quantities import Fraction, Hours, Period, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.physics.traces import read_table

Timeline = tuple[bool, Iterator[float]]
"""Whether a client is online at time 0, and the rising times at which that toggles, s."""


class PresenceLaw(Protocol):
    """When one client is there: a block, or what a file says of it."""

    @property
    def always(self) -> bool:
        """Whether it is there at all times and in all rounds."""
        ...

    @property
    def chance(self) -> float:
        """The probability of being there in a round; who picks a cohort draws."""
        ...

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client, drawn from its stream."""
        ...


class Availability(Spec):
    """A law of when clients are there. As it stands, none ever toggles."""

    kind: str

    @property
    def always(self) -> bool:
        """Whether clients are there at all times and in all rounds."""
        return False

    @property
    def chance(self) -> float:
        """The probability of being there in a round; who picks a cohort draws."""
        return 1.0

    def timeline(self, rng: np.random.Generator) -> Timeline:  # noqa: ARG002 - nothing is drawn
        """Return the timeline of one client, drawn from its stream."""
        return True, iter(())

    def among(self, read: "Reading") -> "PresenceLaw | Mapping[int, PresenceLaw]":  # noqa: ARG002
        """Return what all clients follow, or each by its number; `read` reads a file of that."""
        return self


class AlwaysAvailable(Availability):
    """Clients are there all the time."""

    kind: Literal["always"] = Field(default="always", description="all the time")

    @property
    def always(self) -> bool:
        """Yes."""
        return True


ALWAYS = AlwaysAvailable()


class BernoulliAvailability(Availability):
    """Clients are there in a round or not, each drawn for itself, round by round."""

    kind: Literal["bernoulli"] = Field(default="bernoulli", description="round by round")
    share: Share = Field(description="the probability of being there in a round")

    @property
    def chance(self) -> float:
        """The share: rounds have no times, so a timeline knows nothing of it."""
        return self.share


class MarkovAvailability(Availability):
    """Clients come and go: stays on-line and off-line are exponential.

    With an amplitude they come on-line at lambda(t) = mean (1 + a cos(2 pi (t - phase)/period)):
    most of them around the time `phase` of every day. At time 0 the state is stationary for the
    mean rates.
    """

    kind: Literal["markov"] = Field(default="markov", description="they come and go")
    on: Period = Field(description="mean stay on-line")
    off: Period = Field(description="mean stay off-line")
    amplitude: Fraction = as_written("0 %", "a: how much the rate of coming on-line swings")
    phase: Hours = as_written("0 h", "when that rate is highest, from midnight")
    period: Period = as_written("24 h", "of that swing")

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
    always: ClassVar[bool] = False
    chance: ClassVar[float] = 1.0

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

Reading = Callable[[Path], Mapping[int, Intervals]]
"""Reads when clients are there, by their numbers, from a file as `read_intervals` does."""


class IntervalAvailability(Availability):
    """Clients are there as a file says: columns client, start, end, in seconds.

    Clients without a row are never there.
    """

    kind: Literal["intervals"] = Field(default="intervals", description="as a file says")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")

    def among(self, read: Reading) -> Mapping[int, Intervals]:
        """Return what the file says, by client number."""
        return read(self.path)


AVAILABILITY: Registry[Availability] = Registry(
    "availability",
    (AlwaysAvailable, BernoulliAvailability, MarkovAvailability, IntervalAvailability),
    Availability,
    plural="availability",
)
"""The kinds of availability."""

AnyAvailability = Given[Annotated[Availability, OneOf(AVAILABILITY)], Availability | Block]
"""A field that takes one of them."""


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
