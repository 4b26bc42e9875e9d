"""Carbon: what a kilowatt-hour that a client draws has emitted. The block is the law.

Grams are those of CO2 equivalents. They are charged on the energy that a client draws, at the
time at which it draws it; see `fedsim.record.carbon`.
"""

# ruff: noqa: ARG002 - only what follows a file reads one

from abc import abstractmethod
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from fedsim.blocks.fields import as_written
from fedsim.blocks.given import AnyPath
from fedsim.blocks.listed import KindFirst
from fedsim.blocks.presets import Preset, Presettable
from fedsim.blocks.quantities import GramsPerKilowattHour, Hours
from fedsim.physics.carbon.countries import COUNTRIES
from fedsim.physics.signals import Constant, Steps


class Reading(Protocol):
    """Reads the intensity that a file says, as `fedsim.physics.traces.read_intensity` does."""

    def __call__(self, path: Path, *, repeat: bool) -> Steps:
        """Read a file; `repeat` says whether it starts again at its end."""
        ...


class Carbon(KindFirst):
    """What the electricity of a group of clients has emitted."""

    kind: str

    @abstractmethod
    def signal(self, read: Reading) -> Constant | Steps:
        """Return the intensity, g/kWh, from the beginning of the run; `read` reads a file of it."""


class GridCarbon(Presettable, Carbon):
    """The mean of a year: that of a country, by its code of two letters, or one of one's own."""

    presets: ClassVar[Mapping[str, Preset]] = COUNTRIES
    customs: ClassVar[tuple[str, ...]] = ("constant",)

    intensity: GramsPerKilowattHour = Field(description="what a kilowatt-hour emits")

    def signal(self, read: Reading) -> Constant:
        """Return the one intensity."""
        return Constant(self.intensity)


class HourlyCarbon(Carbon):
    """An intensity that follows a file: hours, and grams for a kilowatt-hour from then on."""

    kind: Literal["hourly"] = Field(default="hourly", description="as a file says")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")
    start: Hours = as_written("0 h", "the time of the file at which the run begins")
    repeat: bool = Field(
        default=True, description="whether it starts again at its end; else the last one stays"
    )
    scale: float = Field(default=1.0, gt=0, le=1e6, description="a factor on the intensity")

    def signal(self, read: Reading) -> Steps:
        """Return what the file says, times the scale, from the start on."""
        found = read(self.path, repeat=self.repeat)
        return _from(Steps(found.times, found.values * self.scale, found.period), self.start)


def _from(steps: Steps, start: float) -> Steps:
    """Return steps from some time on."""
    if isfinite(steps.period):
        return steps.shifted(start)
    later = steps.times > start
    times = np.append(0.0, steps.times[later] - start)
    return Steps(times, np.append(steps.at(start), steps.values[later]))
