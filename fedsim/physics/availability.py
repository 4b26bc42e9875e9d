"""Availability: when a client is there at all. The block is the law.

A timeline is the state at time 0 and the times at which it toggles, drawn as they are asked
for.
"""

from collections.abc import Callable, Iterator, Mapping
from math import cos, tau
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.quantities import Fraction, Hours, Period, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import AnyPath, Block, Given, Spec, as_written
from fedsim.physics.formats.availability import (
    NEVER,
    Condition,
    Intervals,
    read_intervals,
    read_states,
)
from fedsim.physics.formats.fleets import read_presence

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
        """Per-round availability probability; cohort selection samples from it."""
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
        """Per-round availability probability; cohort selection samples from it."""
        return 1.0

    def timeline(self, rng: np.random.Generator) -> Timeline:  # noqa: ARG002 - nothing is drawn
        """Return the timeline of one client, drawn from its stream."""
        return True, iter(())

    def among(self, read: "AvailabilityReader") -> "PresenceLaw | Mapping[int, PresenceLaw]":  # noqa: ARG002
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


class AvailabilityReader(Protocol):
    """Reads the clients' availability, by number: by `read_intervals`, or a given function."""

    def __call__(
        self,
        path: Path,
        read: Callable[..., Mapping[int, PresenceLaw]] = read_intervals,
        **options: bool | int | str,
    ) -> Mapping[int, PresenceLaw]:
        """Return what a function makes of a file.

        Args:
            path: relative to the file of the scenario.
            read: the function; it is called with the file's path and the options.
            options: passed on unchanged.
        """
        ...


class IntervalAvailability(Availability):
    """Clients are there as a file says: columns client, start, end, in seconds.

    Clients without a row are never there.
    """

    kind: Literal["intervals"] = Field(default="intervals", description="as a file says")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return what the file says, by client number."""
        return read(self.path)


class FedScaleAvailability(Availability):
    """Clients are there as in FedScale's trace, a pickle, which starts again at its end.

    Client k is the k-th of the file, and again from the first. Lai et al., "FedScale: Benchmarking
    Model and System Performance of Federated Learning at Scale", ICML 2022. Nothing in the pickle
    is run. `fedsim fetch fedscale` gets FedScale's own, client_behave_trace.
    """

    kind: Literal["fedscale"] = Field(default="fedscale", description="FedScale's trace")
    path: AnyPath = Field(description="the pickle, relative to the file of the scenario")

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return what the file says, by client number."""
        return read(self.path, read_presence)


class FlashAvailability(Availability):
    """Clients are there while their phones are in some states, by FLASH's traces.

    Client k is the k-th user of the file, and again from the first; a trace starts again at its
    end. Time 0 is midnight. Yang et al., "Characterizing Impacts of Heterogeneity in Federated
    Learning upon Large-Scale Smartphone Data", WWW 2021. `fedsim fetch flash` gets FLASH's own.
    """

    kind: Literal["flash"] = Field(default="flash", description="FLASH's state traces")
    path: AnyPath = Field(description="the JSON file, relative to that of the scenario")
    when: tuple[Condition, ...] = Field(
        default=("idle", "charging", "wifi"),
        min_length=1,
        description="what has to hold: idle (locked), charging, wifi",
    )

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return what the file says, by client number."""
        return read(self.path, read_states, when=",".join(self.when))


AVAILABILITY: Registry[Availability] = Registry(
    "availability",
    (
        AlwaysAvailable,
        BernoulliAvailability,
        MarkovAvailability,
        IntervalAvailability,
        FedScaleAvailability,
        FlashAvailability,
    ),
    Availability,
    plural="availability",
)
"""The kinds of availability."""

AnyAvailability = Given[Annotated[Availability, OneOf(AVAILABILITY)], Availability | Block]
"""A field that takes one of them."""

__all__ = [
    "ALWAYS",
    "AVAILABILITY",
    "NEVER",
    "AlwaysAvailable",
    "AnyAvailability",
    "Availability",
    "AvailabilityReader",
    "BernoulliAvailability",
    "FedScaleAvailability",
    "FlashAvailability",
    "IntervalAvailability",
    "Intervals",
    "MarkovAvailability",
    "PresenceLaw",
    "Timeline",
    "read_intervals",
]
