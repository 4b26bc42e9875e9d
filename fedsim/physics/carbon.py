"""Carbon: blocks that say what the electricity of clients emits."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.presets import Preset, Presettable, names_of
from fedsim.blocks.quantities import GramsPerKilowattHour, Hours
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import AnyPath, Block, Given, KindFirst, as_written
from fedsim.physics.countries import COUNTRIES
from fedsim.physics.signals import Constant, Steps
from fedsim.ports import Array

# Carbon: what a kilowatt-hour that a client draws has emitted. The block is the law.
#
# Grams are those of CO2 equivalents. They are charged on the energy that a client draws, at the
# time at which it draws it; see `fedsim.record.carbon`.

# ruff: noqa: ARG002 - only what follows a file reads one


class IntensityReader(Protocol):
    """Reads the intensity that a file says, as `fedsim.physics.traces.read_intensity` does."""

    def __call__(self, path: Path, *, repeat: bool) -> Steps:
        """Read a file; `repeat` says whether it starts again at its end."""
        ...


class Carbon(KindFirst):
    """What the electricity of a group of clients has emitted."""

    kind: str

    @abstractmethod
    def signal(self, read: IntensityReader) -> Constant | Steps:
        """Return the intensity, g/kWh, from the beginning of the run; `read` reads a file of it."""


class GridCarbon(Presettable, Carbon):
    """The mean of a year: of a country, by its two-letter code, or user-defined."""

    presets: ClassVar[Mapping[str, Preset]] = COUNTRIES
    customs: ClassVar[tuple[str, ...]] = ("constant",)

    intensity: GramsPerKilowattHour = Field(description="what a kilowatt-hour emits")

    def signal(self, read: IntensityReader) -> Constant:
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

    def signal(self, read: IntensityReader) -> Steps:
        """Return what the file says, times the scale, from the start on."""
        found = read(self.path, repeat=self.repeat)
        return _from(Steps(found.times, found.values * self.scale, found.period), self.start)


def _from(steps: Steps, start: float) -> Steps:
    """Return steps from some time on."""
    if isfinite(steps.period):
        return steps.shift(start)
    later = steps.times > start
    times = np.append(0.0, steps.times[later] - start)
    return Steps(times, np.append(steps.at(start), steps.values[later]))


# Intensities: what electricity emits as time goes by, averaged over many spans at once.


@dataclass(frozen=True, slots=True, eq=False)
class Intensity:
    """A carbon intensity, g/kWh: a constant, or steps.

    Example:
        >>> daily = Intensity(Steps([0.0, 6.0], [100.0, 400.0], period=8.0))
        >>> daily.averages(np.array([0.0, 5.0, 7.0]), np.array([3.0, 7.0, 9.0]))
        array([100., 250., 250.])
    """

    signal: Constant | Steps

    @property
    def least(self) -> float:
        """The least intensity there ever is."""
        signal = self.signal
        return signal.value if isinstance(signal, Constant) else float(signal.values.min())

    @property
    def most(self) -> float:
        """The largest one."""
        return self.signal.peak

    def averages(self, begins: Array, ends: Array) -> Array:
        """Return the averages over spans, the intensity of the moment where one takes no time.

        Within one step an average is the step's value to the last bit; over several it is in
        closed form, whatever the number of steps between.

        Args:
            begins: of the spans, s, shape (n,).
            ends: of the same, at their begins or later.
        """
        if isinstance(self.signal, Constant):
            return np.full(len(begins), self.signal.value)
        return _averages(self.signal, begins, ends)


def _averages(steps: Steps, begins: Array, ends: Array) -> Array:
    values = steps.values
    (cycle, piece, at), (last_cycle, last, until) = _find(steps, begins), _find(steps, ends)
    found = values[piece]
    several = np.flatnonzero((cycle != last_cycle) | (piece != last))
    if not len(several):
        return found
    cycle, piece, at = cycle[several], piece[several], at[several]
    last_cycle, last, until = last_cycle[several], last[several], until[several]
    edges = np.append(steps.times, steps.period)
    repeats = isfinite(steps.period)
    whole = np.diff(edges if repeats else steps.times) * (values if repeats else values[:-1])
    sums = np.append(0.0, np.cumsum(whole))  # before each piece, and in all
    between = (last_cycle - cycle) * (sums[-1] if repeats else 0.0) + sums[last] - sums[piece + 1]
    first_part = values[piece] * (edges[piece + 1] - at)
    last_part = values[last] * (until - steps.times[last])
    total = first_part + between + last_part
    # Rounding of times may lead out of what there is.
    spans = ends[several] - begins[several]
    found[several] = np.clip(total / spans, values.min(), values.max())
    return found


def _find(steps: Steps, times: Array) -> tuple[Array, NDArray[np.intp], Array]:
    """Return the cycle and the piece that times are in, and how far into the cycle they are, s."""
    shifted = times + steps.offset
    cycle = np.floor(shifted / steps.period)  # of what does not repeat it is the first
    within = shifted - cycle * steps.period if isfinite(steps.period) else shifted
    piece = np.searchsorted(steps.times, within, side="right") - 1
    return cycle, np.maximum(piece, 0), within


CARBON: Registry[Carbon] = Registry(
    "carbon", (GridCarbon, HourlyCarbon), Carbon, plural="carbon", names=names_of
)
"""The classes that read a block of it."""

AnyCarbon = Given[Annotated[Carbon, OneOf(CARBON)] | None, Carbon | Block | None]
"""A field that takes one of them, or a country."""
