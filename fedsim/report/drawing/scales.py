"""Scales: from figures to places on an axis, and which of them are written at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

_STEPS = (1, 2, 2.5, 5, 10)

_FEW, _MOST = 2, 6  # decades from which on powers of ten are ticks enough, and of these the most

_FAR = 300  # powers of ten; a run that diverges reaches the largest numbers there are

_SHOWN = 0.04  # of a logarithmic axis, beyond its first and its last figure


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis.

    Attributes:
        low, high: its ends.
        log: whether equal ratios are equally long.
        ticks: the figures that are written at it, and how.
        unit: of what is written, with its prefix; empty for a count.
        factor: what one of these units is.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    unit: str = ""
    factor: float = 1.0
    log: bool = False

    def shares(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return how far along the axis figures are: 0 at its low end, 1 at its high one."""
        low, high, array = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                array = np.where(array > 0, np.log10(array), np.nan)
            low, high = log10(low), log10(high)
        return np.asarray((array - low) / (high - low))

    def share(self, value: float) -> float:
        """Return how far along the axis a figure is."""
        return float(self.shares(value))

    @property
    def told(self) -> str:
        """What a script needs to read figures off the axis: ends, a unit's worth, and the unit."""
        ends = f"{'log' if self.log else 'linear'} {self.low:.9g} {self.high:.9g}"
        return f"{ends} {self.factor:g} {self.unit}".rstrip()

    @property
    def marks(self) -> list[tuple[float, str]]:
        """The ticks, by how far along the axis they are."""
        return [(self.share(value), text) for value, text in self.ticks]


def linear(low: float, high: float, unit: str = "", *, most: int = 4) -> Scale:
    """Return an axis whose ticks have one prefix, that of its end.

    Args:
        low: its beginning; it is moved where it is its end as well.
        high: its end.
        unit: of the figures; those without one are written out.
        most: ticks, but one.

    >>> linear(0, 4.1e6, "bit").ticks
    ((0.0, '0'), (2000000.0, '2'), (4000000.0, '4'))
    >>> linear(0, 4.1e6, "bit").unit
    'Mbit'
    """
    if not low < high:
        low, high = (0.0, 1.0) if low == high == 0 else (low - abs(low) / 2, low + abs(low) / 2)
    largest = max(abs(low), abs(high))
    factor, prefix = _prefix(largest) if unit else (1.0, "")
    values = _even(low, high, most)
    texts = _written([value / factor for value in values])
    return Scale(low, high, tuple(zip(values, texts, strict=True)), f"{prefix}{unit}", factor)


def logarithmic(low: float, high: float) -> Scale:
    """Return a logarithmic axis: powers of ten as ticks, and figures between where they are few.

    >>> logarithmic(1e-3, 1e3).ticks[1:3]
    ((1.0, '10⁰'), (100.0, '10²'))
    >>> [text for _, text in logarithmic(2, 30).ticks]
    ['2', '5', '10', '20']
    """
    first, last = log10(low), log10(high)
    more = _SHOWN * (last - first) or 0.3
    first, last = max(first - more, -_FAR), min(last + more, _FAR)
    ends = 10**first, 10**last
    if last - first >= _FEW:
        step = ceil((last - first) / _MOST)
        powers = [each for each in range(ceil(first), floor(last) + 1) if each % step == 0]
        ticks = [(10.0**each, f"10{_raised(each)}") for each in powers]
        return Scale(*ends, tuple(ticks), log=True)
    between = [
        digit * 10.0**each
        for each in range(floor(first), ceil(last) + 1)
        for digit in (1, 2, 5)
        if first <= log10(digit * 10.0**each) <= last
    ]
    values = between if len(between) > _FEW else [v for v in _even(*ends, 4) if v > 0]
    return Scale(*ends, tuple(zip(values, _written(values), strict=True)), log=True)


def _even(low: float, high: float, most: int) -> list[float]:
    places = MaxNLocator(most, steps=_STEPS).tick_values(low, high)
    edge = 1e-9 * (high - low)
    inside = [float(place) for place in places if low - edge <= place <= high + edge]
    return [0.0 if abs(place) < edge else place for place in inside]


def _prefix(value: float) -> tuple[float, str]:
    """Return the SI prefix of a figure, and what it stands for."""
    prefixes = EngFormatter.ENG_PREFIXES
    power = 3 * floor(log10(value) / 3 + 1e-9) if value else 0
    power = min(max(power, min(prefixes)), max(prefixes))
    return 10.0**power, prefixes[power]


def _written(values: Sequence[float]) -> list[str]:
    """Return figures with as few digits as tell them apart, all with as many decimals."""
    largest = max(map(abs, values), default=0.0)
    near = min(np.diff(sorted(values)), default=largest) * 1e-3
    if largest and not 1e-4 <= largest < 1e6:
        power = floor(log10(largest) + 1e-9)
        inside = _written([value / 10.0**power for value in values])
        return [
            "0" if not value else f"{text}·10{_raised(power)}"
            for value, text in zip(values, inside, strict=True)
        ]
    for decimals in range(12):
        texts = [f"{value:,.{decimals}f}" for value in values]
        if all(
            abs(float(text.replace(",", "")) - value) <= near
            for text, value in zip(texts, values, strict=True)
        ):
            break
    return [
        text.replace("-", "\N{MINUS SIGN}") if value else "0"
        for text, value in zip(texts, values, strict=True)
    ]


def _raised(power: int) -> str:
    """Return an exponent.

    >>> _raised(-12)
    '⁻¹²'
    """
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
