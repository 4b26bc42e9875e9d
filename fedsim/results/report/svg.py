"""Elements of a drawing, as text: no script, no identifier, no colour that only one page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from markupsafe import Markup, escape
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from fedsim.core.text import visible
from fedsim.results.analysis import COLOURS, DEVICE_COLOURS

WIDE, HIGH = 10_000, 10_000
"""Of the box that curves are drawn in; it is stretched to the area that it lies on."""

_INK = {colour: f"var(--c{number})" for number, colour in enumerate(COLOURS)}
_INK |= {colour: f"var(--d{number})" for number, colour in enumerate(DEVICE_COLOURS)}
_INK |= {"#BBBBBB": "var(--rest)", "#666666": "var(--off)"}


def ink(colour: str) -> str:
    """Return a colour as the page has it, which is another one in the dark.

    >>> ink("#0072B2"), ink("#BBBBBB"), ink("#123456")
    ('var(--c0)', 'var(--rest)', '#123456')
    """
    return _INK.get(colour, colour)


def tag(name: str, *children: object, **facts: object) -> Markup:
    r"""Return an element. Text is escaped, and what would hide in it is shown.

    Args:
        name: of the element.
        children: elements and texts; None and empty ones are left out.
        facts: attributes, "_" for "-"; None and "" are left out.

    >>> print(tag("text", "a < b", class_="tick", x=0.25))
    <text class="tick" x="0.25">a &lt; b</text>
    """
    own = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _short(value))
        for key, value in facts.items()
        if value is not None and value != ""
    )
    inside = join_elements(children)
    if not inside:
        return Markup("<{}{}/>").format(name, own)
    return Markup("<{}{}>{}</{}>").format(name, own, inside, name)


def join_elements(children: Sequence[object]) -> Markup:
    """Return elements and texts in a row."""
    return Markup("").join(
        each if isinstance(each, Markup) else escape(visible(str(each)))
        for each in children
        if each is not None
    )


def percent(share: float) -> str:
    """Return a share of the width, as an attribute has it.

    >>> percent(1 / 3), percent(0.5)
    ('33.333%', '50%')
    """
    return f"{round(100 * share, 3):.7g}%"


def path(x: ArrayLike, y: ArrayLike) -> str:
    """Return a line through some points, shares of `WIDE` and `HIGH`; it breaks at what is NaN.

    >>> path([0, 0.5, 1], [1, 0.5, 0.5])
    'M0 10000l5000-5000 5000 0'
    """
    places = np.column_stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    known = np.isfinite(places).all(axis=1)
    breaks = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    parts = zip(breaks[::2].tolist(), breaks[1::2].tolist(), strict=True)
    return "".join(_piece(places[begin:end]) for begin, end in parts)


def _piece(places: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> str:
    """Return a line without a gap: where it begins, then its steps, those of nothing left out."""
    far = 20 * max(WIDE, HIGH)  # of what leaves the area, so much is enough
    whole = np.clip(np.rint(places * (WIDE, HIGH)), -far, far).astype(np.int64)
    steps = np.diff(whole, axis=0)
    steps = steps[steps.any(axis=1)]
    begin = f"M{whole[0, 0]} {whole[0, 1]}"
    if not len(steps):
        return f"{begin}h0"
    return f"{begin}l" + " ".join(f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps)


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


# Scales: from figures to places on an axis, and which of them are written at it.

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
    def ticks_json(self) -> str:
        """The data by which a script reads figures off the axis: ends, a unit's worth, the unit."""
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
    texts = _format_figures([value / factor for value in values])
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
        ticks = [(10.0**each, f"10{_superscript(each)}") for each in powers]
        return Scale(*ends, tuple(ticks), log=True)
    between = [
        digit * 10.0**each
        for each in range(floor(first), ceil(last) + 1)
        for digit in (1, 2, 5)
        if first <= log10(digit * 10.0**each) <= last
    ]
    values = between if len(between) > _FEW else [v for v in _even(*ends, 4) if v > 0]
    return Scale(*ends, tuple(zip(values, _format_figures(values), strict=True)), log=True)


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


def _format_figures(values: Sequence[float]) -> list[str]:
    """Return figures with as few digits as tell them apart, all with as many decimals."""
    largest = max(map(abs, values), default=0.0)
    near = min(np.diff(sorted(values)), default=largest) * 1e-3
    if largest and not 1e-4 <= largest < 1e6:
        power = floor(log10(largest) + 1e-9)
        inside = _format_figures([value / 10.0**power for value in values])
        return [
            "0" if not value else f"{text}·10{_superscript(power)}"
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


def _superscript(power: int) -> str:
    """Return an exponent.

    >>> _superscript(-12)
    '⁻¹²'
    """
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# The area of a figure: its axes, and what is drawn on it.
#
# An area is as wide as the page lets it, and as high as is said. What lies on it is placed by
# shares of its width, so lines stretch, while words and marks keep their size on any screen. Words
# at the axes stand beside the area, in the margin that its style leaves for them.

_LETTER = 6.6  # pixels of a letter at an axis, on average at most

_RIGHT = 18  # pixels beside an area, for the last tick's label


@dataclass(frozen=True, slots=True)
class Area:
    """What a figure is drawn on.

    Attributes:
        label: what is read out in place of the figure.
        height: of the area, pixels.
        x: the axis from left to right.
        title: of that axis, without its unit.
        y: the axis upwards; None for lanes, which have names.
        lanes: names beside the area, and how far down each stands, pixels.
        upwards: title of the axis upwards; it stands above it.
    """

    label: str
    height: int
    x: Scale
    title: str
    y: Scale | None = None
    lanes: tuple[tuple[str, float], ...] = ()
    upwards: str = ""

    @property
    def left(self) -> int:
        """How much room the words on the left take, pixels."""
        names = [text for _, text in self.y.ticks] if self.y else [name for name, _ in self.lanes]
        return int(max((_LETTER * len(name) for name in names), default=4)) + 10

    def holding(self, *content: Markup) -> Markup:
        """Return the figure, with something drawn on its area."""
        margin = f"{28 if self.upwards else 8}px {_RIGHT}px 44px {self.left}px"
        return tag(
            "svg",
            *(self._across(), self._upwards(), self._names(), *content),
            class_="area",
            role="img",
            aria_label=self.label,
            height=self.height,
            data_x=self.x.ticks_json,
            data_y=self.y.ticks_json if self.y else None,
            style=f"margin:{margin};width:calc(100% - {self.left + _RIGHT}px)",
        )

    def _across(self) -> Markup:
        parts: list[Markup] = []
        for share, text in self.x.marks:
            place = percent(share)
            parts.append(tag("line", class_="grid", x1=place, x2=place, y1="0", y2="100%"))
            parts.append(tag("text", text, class_="x", x=place, y=self.height + 16))
        unit = f", {self.x.unit}" if self.x.unit else ""
        title = tag("text", f"{self.title}{unit}", class_="x", x="50%", y=self.height + 35)
        base = tag("line", class_="base", x1="0", x2="100%", y1="100%", y2="100%")
        return join_elements([*parts, title, base])

    def _upwards(self) -> Markup:
        if self.y is None:
            return Markup("")
        parts: list[Markup] = []
        for share, text in self.y.marks:
            place = percent(1 - share)
            parts.append(tag("line", class_="grid", x1="0", x2="100%", y1=place, y2=place))
            parts.append(tag("text", text, class_="y", x=-6, y=place, dy="0.35em"))
        title = tag("text", self.upwards, x=6 - self.left, y=-12) if self.upwards else None
        base = tag("line", class_="base", x1="0", x2="0", y1="0", y2="100%")
        return join_elements([*parts, title, base])

    def _names(self) -> Markup:
        return join_elements(
            [tag("text", name, class_="y", x=-6, y=down, dy="0.35em") for name, down in self.lanes]
        )


def stretch(*content: Markup) -> Markup:
    """Return curves, in shares of `WIDE` and `HIGH`, stretched to the area they lie on."""
    return tag(
        "svg",
        *content,
        width="100%",
        height="100%",
        viewBox=f"0 0 {WIDE} {HIGH}",
        preserveAspectRatio="none",
    )
