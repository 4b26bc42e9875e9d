"""Carbon intensity of the clients' electricity: blocks, and a table of countries."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.presets import Doubt, Preset, Presettable, names_of
from fedsim.core.blocks.quantities import GramsPerKilowattHour, Hours
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import AnyPath, Block, Given, KindFirst, as_written
from fedsim.core.ports import Array
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.sources import EMBER

YEAR = 2024
"""The year of the countries' figures."""

_EMBER = "Ember, Yearly Electricity Data, CC BY 4.0"

HOURS = 0.60, 1.33
"""The 5 % and 95 % quantiles of an hour's intensity relative to the year's mean. They cover all
hours of 2022 in eight balancing areas of the United States, each relative to its own mean."""


def _country(intensity: float, name: str) -> Preset:
    """Return the preset of a country with its mean intensity, g/kWh."""
    low, high = (f"{intensity * share:.4g} g/kWh" for share in HOURS)
    return Preset(
        f"[lit] {name}, mean of {YEAR}: {_EMBER}",
        {"intensity": f"{intensity} g/kWh"},
        {"intensity": Doubt(low, high, "lit", EMBER)},
    )


COUNTRIES: Mapping[str, Preset] = {
    "AE": _country(467.51, "United Arab Emirates"),
    "AR": _country(344.83, "Argentina"),
    "AT": _country(102.62, "Austria"),
    "AU": _country(553.76, "Australia"),
    "BD": _country(694.63, "Bangladesh"),
    "BE": _country(117.58, "Belgium"),
    "BG": _country(264.21, "Bulgaria"),
    "BO": _country(468.02, "Bolivia"),
    "BR": _country(106.06, "Brazil"),
    "CA": _country(184.99, "Canada"),
    "CH": _country(36.72, "Switzerland"),
    "CL": _country(265.52, "Chile"),
    "CN": _country(557.5, "China"),
    "CO": _country(285.8, "Colombia"),
    "CR": _country(63.01, "Costa Rica"),
    "CZ": _country(413.86, "Czechia"),
    "DE": _country(342.06, "Germany"),
    "DK": _country(143.3, "Denmark"),
    "EE": _country(341.02, "Estonia"),
    "EG": _country(574.5, "Egypt"),
    "ES": _country(146.15, "Spain"),
    "FI": _country(72.25, "Finland"),
    "FR": _country(44.18, "France"),
    "GB": _country(215.79, "United Kingdom"),
    "GR": _country(319.76, "Greece"),
    "HR": _country(174.48, "Croatia"),
    "HU": _country(182.82, "Hungary"),
    "IE": _country(279.79, "Ireland"),
    "IN": _country(708.96, "India"),
    "IR": _country(648.68, "Iran"),
    "IT": _country(287.75, "Italy"),
    "JP": _country(483.73, "Japan"),
    "KE": _country(84.83, "Kenya"),
    "KR": _country(415.65, "South Korea"),
    "KZ": _country(801.79, "Kazakhstan"),
    "LT": _country(139.34, "Lithuania"),
    "LU": _country(134.62, "Luxembourg"),
    "LV": _country(136.22, "Latvia"),
    "MA": _country(577.65, "Morocco"),
    "MX": _country(483.14, "Mexico"),
    "MY": _country(604.43, "Malaysia"),
    "NG": _country(507.85, "Nigeria"),
    "NL": _country(252.7, "Netherlands"),
    "NO": _country(30.75, "Norway"),
    "NZ": _country(120.11, "New Zealand"),
    "PE": _country(263.27, "Peru"),
    "PH": _country(613.38, "Philippines"),
    "PK": _country(398.61, "Pakistan"),
    "PL": _country(614.98, "Poland"),
    "PT": _country(111.8, "Portugal"),
    "RO": _country(245.55, "Romania"),
    "RS": _country(670.8, "Serbia"),
    "RU": _country(446.17, "Russia"),
    "SA": _country(691.95, "Saudi Arabia"),
    "SE": _country(35.89, "Sweden"),
    "SG": _country(498.74, "Singapore"),
    "SI": _country(227.11, "Slovenia"),
    "SK": _country(96.49, "Slovakia"),
    "TH": _country(555.43, "Thailand"),
    "TR": _country(469.7, "Türkiye"),
    "TW": _country(635.15, "Taiwan"),
    "US": _country(383.55, "United States"),
    "UY": _country(96.7, "Uruguay"),
    "VN": _country(486.13, "Viet Nam"),
    "ZA": _country(713.9, "South Africa"),
}
"""The presets, by ISO 3166-1 alpha-2 codes.

Life-cycle emissions of a year's electricity generation, including fuels and plants, in grams of CO2
equivalents, divided by the generated electricity. Imports, transmission losses and the hour of the
day are not included. Ember, "Yearly Electricity Data",
https://ember-energy.org/data/yearly-electricity-data/, as republished in
data/output/average-intensities.json of github.com/thegreenwebfoundation/co2.js.

Their interval, `HOURS`, is for a run of about an hour at an arbitrary time of the year.
"""


# Carbon: emissions per kilowatt-hour that a client draws. Each block is its own law.
# Grams are grams of CO2 equivalents. Emissions are charged for the energy that a client draws, at
# the time when it is drawn, even if a battery stores it; see `fedsim.results.record.carbon`.


class IntensityReader(Protocol):
    """Reads an intensity from a file, as `fedsim.physics.traces.read_intensity` does."""

    def __call__(self, path: Path, *, repeat: bool) -> Steps:
        """Read a file; `repeat` is whether the signal starts again after its end."""
        ...


class Carbon(KindFirst):
    """A law of the carbon intensity of a group's electricity."""

    kind: str

    @abstractmethod
    def signal(self, read: IntensityReader) -> Constant | Steps:
        """Return the intensity from the start of the run, g/kWh; `read` reads it from a file."""


class GridCarbon(Presettable, Carbon):
    """The yearly mean of a country, by its two-letter code, or a user-defined constant."""

    presets: ClassVar[Mapping[str, Preset]] = COUNTRIES
    customs: ClassVar[tuple[str, ...]] = ("constant",)

    intensity: GramsPerKilowattHour = Field(description="emissions per kilowatt-hour")

    def signal(self, read: IntensityReader) -> Constant:
        """Return the constant intensity."""
        return Constant(self.intensity)


class HourlyCarbon(Carbon):
    """An intensity from a file: times in hours, and grams per kilowatt-hour from each time on."""

    kind: Literal["hourly"] = Field(default="hourly", description="the intensity in a file")
    path: AnyPath = Field(description="the CSV file, relative to that of the scenario")
    start: Hours = as_written("0 h", "time in the file at which the run starts")
    repeat: bool = Field(
        default=True,
        description="whether the file repeats after its end; otherwise its last intensity stays",
    )
    scale: float = Field(default=1.0, gt=0, le=1e6, description="a factor on the intensity")

    def signal(self, read: IntensityReader) -> Steps:
        """Return the intensity in the file, times the scale, from `start` on."""
        signal = read(self.path, repeat=self.repeat)
        return _from(Steps(signal.times, signal.values * self.scale, signal.period), self.start)


def _from(steps: Steps, start: float) -> Steps:
    """Return steps without the part before a time, which becomes time 0."""
    # A repeating pattern is only shifted, so that the part before the start comes again.
    if isfinite(steps.period):
        return steps.shift(start)
    later = steps.times > start
    times = np.append(0.0, steps.times[later] - start)
    return Steps(times, np.append(steps.at(start), steps.values[later]))


# Averages of an intensity over many spans at once.


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
        """The smallest intensity."""
        signal = self.signal
        return signal.value if isinstance(signal, Constant) else float(signal.values.min())

    @property
    def most(self) -> float:
        """The largest intensity."""
        return self.signal.peak

    def averages(self, begins: Array, ends: Array) -> Array:
        """Return the averages over spans; for a span of length 0, the value at that time.

        Within one step the average is exactly the value of the step. Over several steps it is a
        difference of cumulative sums, at a cost that does not depend on the number of steps.

        Args:
            begins: the starts of the spans, s, shape (n,).
            ends: the ends of the spans, s, shape (n,), none before its start.

        Returns:
            The averages, g/kWh, shape (n,).
        """
        if isinstance(self.signal, Constant):
            return np.full(len(begins), self.signal.value)
        return _averages(self.signal, begins, ends)


def _averages(steps: Steps, begins: Array, ends: Array) -> Array:
    values = steps.values
    (cycle, piece, at), (last_cycle, last, until) = _find(steps, begins), _find(steps, ends)
    # Most spans lie within one step, and need no integral.
    intensity = values[piece]
    several = np.flatnonzero((cycle != last_cycle) | (piece != last))
    if not len(several):
        return intensity
    cycle, piece, at = cycle[several], piece[several], at[several]
    last_cycle, last, until = last_cycle[several], last[several], until[several]
    edges = np.append(steps.times, steps.period)
    repeats = isfinite(steps.period)
    whole = np.diff(edges if repeats else steps.times) * (values if repeats else values[:-1])
    sums = np.append(0.0, np.cumsum(whole))  # the integral before each step, and of all steps
    between = (last_cycle - cycle) * (sums[-1] if repeats else 0.0) + sums[last] - sums[piece + 1]
    first_part = values[piece] * (edges[piece + 1] - at)
    last_part = values[last] * (until - steps.times[last])
    total = first_part + between + last_part
    # Rounding errors of times may give an average outside the range of values.
    spans = ends[several] - begins[several]
    intensity[several] = np.clip(total / spans, values.min(), values.max())
    return intensity


def _find(steps: Steps, times: Array) -> tuple[Array, NDArray[np.intp], Array]:
    """Return the cycle and the step that times fall into, and the offset in the cycle, s."""
    shifted = times + steps.offset
    cycle = np.floor(shifted / steps.period)  # 0 without repetition
    within = shifted - cycle * steps.period if isfinite(steps.period) else shifted
    piece = np.searchsorted(steps.times, within, side="right") - 1
    return cycle, np.maximum(piece, 0), within


CARBON: Registry[Carbon] = Registry(
    "carbon", (GridCarbon, HourlyCarbon), Carbon, plural="carbon", names=names_of
)
"""The kinds of carbon intensity."""

AnyCarbon = Given[Annotated[Carbon, OneOf(CARBON)] | None, Carbon | Block | None]
"""A field for a carbon intensity, or the code of a country."""
