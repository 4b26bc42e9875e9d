"""Availability: when clients are online. Each block is its own law.

A timeline is the state at time 0 and the times at which it toggles, which are drawn lazily.
"""

from collections.abc import Callable, Iterator, Mapping
from math import cos, tau
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Fraction, Hours, Period, Share
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import AnyPath, Block, Given, Spec, as_written
from fedsim.physics.formats.availability import (
    NEVER,
    Condition,
    Intervals,
    read_intervals,
    read_states,
)
from fedsim.physics.formats.fleets import read_presence

COMING = "clients come and go"

Timeline = tuple[bool, Iterator[float]]
"""Whether a client is online at time 0, and the increasing times at which that toggles, s."""


class PresenceLaw(Protocol):
    """The availability of one client: from a block, or from a file."""

    @property
    def always(self) -> bool:
        """Whether the client is online at all times and available in all rounds."""
        ...

    @property
    def chance(self) -> float:
        """Per-round availability probability; cohort selection samples from it."""
        ...

    @property
    def reaction(self) -> str:
        """The reason why availability affects a round in progress; empty if it does not.

        With such a reason a run cannot be computed in arrays. It is empty if the timeline never
        toggles.
        """
        ...

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client, drawn from its stream."""
        ...


class Availability(Spec):
    """A law of the availability of clients. By default the timeline never toggles."""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that clients come and go."""
        if not self.always:
            yield (
                "kind",
                Nature(
                    reacts=f"got {self.kind}: which clients are available when a round begins"
                    " depends on when that is",
                    simulated=f"got {self.kind}: availability is simulated only; a live client is"
                    " there while it is connected",
                ),
            )

    @property
    def always(self) -> bool:
        """Whether clients are online at all times and available in all rounds."""
        return False

    @property
    def chance(self) -> float:
        """Per-round availability probability, from which cohort selection samples."""
        return 1.0

    @property
    def reaction(self) -> str:
        """The reason why availability affects a round in progress; see `PresenceLaw`."""
        return COMING

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the timeline of one client, drawn from its stream."""
        return True, iter(())

    def among(self, read: "AvailabilityReader") -> "PresenceLaw | Mapping[int, PresenceLaw]":
        """Return the law of all clients, or one law per client number.

        Args:
            read: reads the file of the availability, if it has one.
        """
        return self


class AlwaysAvailable(Availability):
    """Clients are always online."""

    kind: Literal["always"] = Field(default="always", description="all the time")

    @property
    def always(self) -> bool:
        """True."""
        return True

    @property
    def reaction(self) -> str:
        """Empty."""
        return ""


ALWAYS = AlwaysAvailable()


class BernoulliAvailability(Availability):
    """Each client is available in a round with a given probability, independently of the others."""

    kind: Literal["bernoulli"] = Field(default="bernoulli", description="round by round")
    share: Share = Field(description="the probability of being available in a round")

    @property
    def chance(self) -> float:
        """The share. Availability is drawn round by round, so the timeline never toggles."""
        return self.share

    @property
    def reaction(self) -> str:
        """Empty: a client that was asked stays online."""
        return ""


class MarkovAvailability(Availability):
    """Clients come and go: the durations online and offline are exponential.

    With an amplitude a, offline clients come online at the rate lambda(t) = mean (1 + a cos(2 pi (t
    - phase)/period)), so most of them do so around the time `phase` of every day. The state at time
    0 is stationary for the mean rates.
    """

    kind: Literal["markov"] = Field(default="markov", description="alternately online and offline")
    on: Period = Field(description="mean duration online")
    off: Period = Field(description="mean duration offline")
    amplitude: Fraction = as_written(
        "0 %", "a, the relative amplitude of the rate of coming online"
    )
    phase: Hours = as_written("0 h", "time of day at which that rate is highest, from midnight")
    period: Period = as_written("24 h", "period of the rate")

    def rate(self, t: float) -> float:
        """Return the rate at which a client that is offline comes online, 1/s."""
        cycle = cos(tau * (t - self.phase) / self.period)
        return (1 + self.amplitude * cycle) / self.off

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return the endless timeline of one client."""
        # The share of time online if the rate were constant; the daily cycle is not taken into
        # account.
        online = bool(rng.random() * (self.on + self.off) < self.on)
        return online, self._toggles(rng, online=online)

    def _toggles(self, rng: np.random.Generator, *, online: bool) -> Iterator[float]:
        t = 0.0
        while True:
            t = t + rng.exponential(self.on) if online else self._return(t, rng)
            online = not online
            yield t

    def _return(self, t: float, rng: np.random.Generator) -> float:
        """Return the time at which a client that went offline at `t` comes online again, s.

        By thinning: candidate times at the highest rate are accepted with probability rate /
        highest (Lewis, Shedler, Naval Res. Logist. Q. 1979). This is exact for a rate that varies
        in time.
        """
        highest = (1 + self.amplitude) / self.off
        while True:
            t += rng.exponential(1 / highest)
            # Without a cycle no uniform number is drawn, since every candidate is accepted.
            if not self.amplitude or rng.random() * highest < self.rate(t):
                return t


class AvailabilityReader(Protocol):
    """Reads the availability of clients by number, with `read_intervals` or another reader."""

    def __call__(
        self,
        path: Path,
        read: Callable[..., Mapping[int, PresenceLaw]] = read_intervals,
        **options: bool | int | str,
    ) -> Mapping[int, PresenceLaw]:
        """Return the result of a reader for a file.

        Args:
            path: the path of the file, relative to that of the scenario.
            read: the reader, called with the path and the options.
            options: passed on to the reader.
        """
        ...


class IntervalAvailability(Availability):
    """Clients are online in the intervals of a file: columns client, start, end, in seconds.

    Clients without a row are never online.
    """

    kind: Literal["intervals"] = Field(
        default="intervals", description="in the intervals of a file"
    )
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return the intervals of the file by client number."""
        return read(self.path)


class FedScaleAvailability(Availability):
    """Clients follow FedScale's trace, a pickle, which starts again after its end.

    Client k follows the k-th client of the file, cyclically. Lai et al., "FedScale: Benchmarking
    Model and System Performance of Federated Learning at Scale", ICML 2022. No code in the pickle
    is executed. `fedsim fetch fedscale` downloads FedScale's own trace, client_behave_trace.
    """

    kind: Literal["fedscale"] = Field(default="fedscale", description="FedScale's trace")
    path: AnyPath = Field(description="the pickle, relative to the file of the scenario")

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return the intervals of the file by client number."""
        return read(self.path, read_presence)


class FlashAvailability(Availability):
    """Clients are online while their phones are in certain states, according to FLASH's traces.

    Client k follows the k-th user of the file, cyclically. A trace starts again after its end. Time
    0 is midnight. Yang et al., "Characterizing Impacts of Heterogeneity in Federated Learning upon
    Large-Scale Smartphone Data", WWW 2021. `fedsim fetch flash` downloads FLASH's own traces.
    """

    kind: Literal["flash"] = Field(default="flash", description="FLASH's state traces")
    path: AnyPath = Field(description="the JSON file, relative to that of the scenario")
    when: tuple[Condition, ...] = Field(
        default=("idle", "charging", "wifi"),
        min_length=1,
        description="the required states: idle (locked), charging, wifi",
    )

    def among(self, read: AvailabilityReader) -> Mapping[int, PresenceLaw]:
        """Return the intervals of the file by client number."""
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
"""A field for a block of availability."""

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
