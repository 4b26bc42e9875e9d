"""Availability: when a client is there at all."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Fraction, Hours, Period, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec


class AlwaysAvailable(Spec):
    """Clients are there all the time."""

    kind: Literal["always"] = Field(default="always", description="all the time")


class BernoulliAvailability(Spec):
    """Clients are there in a round or not, each drawn for itself, round by round."""

    kind: Literal["bernoulli"] = Field(default="bernoulli", description="round by round")
    share: Share = Field(description="the probability of being there in a round")


class MarkovAvailability(Spec):
    """Clients come and go: stays on-line and off-line are exponential.

    With an amplitude they come on-line at lambda(t) = mean (1 + a cos(2 pi (t - phase)/period)).
    """

    kind: Literal["markov"] = Field(default="markov", description="they come and go")
    on: Period = Field(description="mean stay on-line")
    off: Period = Field(description="mean stay off-line")
    amplitude: Fraction = as_written("0 %", "a: how much the rate of coming on-line swings")
    phase: Hours = as_written("0 h", "when that rate is highest, from midnight")
    period: Period = as_written("24 h", "of that swing")


class IntervalAvailability(Spec):
    """Clients are there as a file says: columns client, start, end, in seconds.

    Clients without a row are never there.
    """

    kind: Literal["intervals"] = Field(default="intervals", description="as a file says")
    path: Path = Field(description="the CSV file, relative to that of the scenario")


Availability = AlwaysAvailable | BernoulliAvailability | MarkovAvailability | IntervalAvailability
AVAILABILITY: Registry[Spec] = Registry(
    "availability",
    (AlwaysAvailable, BernoulliAvailability, MarkovAvailability, IntervalAvailability),
    plural="availability",
)
"""The kinds of availability."""

AnyAvailability = Annotated[Availability, OneOf(AVAILABILITY)]
"""A field that takes one of them."""
