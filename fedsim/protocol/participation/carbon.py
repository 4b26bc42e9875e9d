"""Participation by the carbon intensity of the clients' electricity: where and when it is low."""

from collections.abc import Iterable
from math import inf, nextafter
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import DurationOrNone, GramsPerKilowattHour
from fedsim.core.blocks.spec import as_written
from fedsim.core.ports import ClientId
from fedsim.protocol.participation.asynchronous import ascending
from fedsim.protocol.participation.informed import (
    Informed,
    KnownFleet,
    Moment,
    Selector,
    descending,
)


class CarbonAwareParticipation(Informed):
    """The clients whose electricity is the cleanest now; a round may wait until it is clean enough.

    The intensities are those of `fleet.N.carbon`, which operators of grids publish, so that no
    client reports them. The same clients may be sampled again and again; `draw: weighted` samples
    others, too.
    """

    kind: Literal["carbon-aware"] = Field(
        default="carbon-aware", description="clients with the cleanest electricity"
    )
    draw: Literal["cleanest", "weighted"] = Field(
        default="cleanest",
        description=(
            "the clients with the lowest intensities, ties in random order; or a sample"
            " without replacement in proportion to 1/intensity"
        ),
    )
    below: GramsPerKilowattHour | None = Field(
        default=None,
        description=(
            "a round waits until the mean intensity of the cleanest clients, as many as the"
            " cohort has, is at most this"
        ),
    )
    patience: DurationOrNone = as_written(None, "longest wait of a round; null: unlimited")

    source: ClassVar[str] = "fedsim: the lowest intensities; rounds wait below a threshold"

    @model_validator(mode="after")
    def _waits(self) -> Self:
        if self.below is None and self.patience is not None:
            raise failure(("patience", "given without below; leave it out", self.patience))
        return self

    def selector(self, fleet: KnownFleet) -> Selector:
        """Return the selector, which has no state."""
        return CarbonSelector(self, fleet)


class CarbonSelector(Selector):
    """The intensities of a fleet."""

    def __init__(self, policy: CarbonAwareParticipation, fleet: KnownFleet) -> None:
        self._policy, self._fleet = policy, fleet

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        """Return the clients by intensity."""
        grid = self._fleet.grid
        intensities = np.ones(self._fleet.count) if grid is None else grid.at(moment.now)
        if self._policy.draw == "cleanest":
            return descending(-intensities, rng)
        # Efraimidis and Spirakis 2006: a weighted order with weights 1/intensity.
        return ascending(rng.standard_exponential(len(intensities)) * intensities)

    def delay(self, now: float) -> float:
        """Return the time until the electricity is clean enough, s.

        It is `patience` if the electricity is not clean enough by then, and 0 if it never will be.
        The sum of `now` and the result is never before that instant: rounding down would begin the
        round while other clients are still the cleanest.
        """
        policy, grid = self._policy, self._fleet.grid
        if policy.below is None or grid is None:
            return 0.0
        patience = inf if policy.patience is None else policy.patience
        count = min(policy.asked or self._fleet.count, self._fleet.count)
        when, looks = now, 0
        # Intensities are steps, so it suffices to look at their changes.
        while np.partition(grid.at(when), count - 1)[:count].mean() > policy.below:
            when, looks = grid.next_change(when), looks + 1
            if when - now >= patience:
                return patience if patience < inf else 0.0
            if looks >= _MOST_CHANGES:
                return 0.0
        wait = when - now
        return wait if now + wait >= when else nextafter(wait, inf)


_MOST_CHANGES = 10_000
"""After this many changes of an intensity, we assume that it never falls below the threshold."""
