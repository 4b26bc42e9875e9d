"""Figures of a page: what `fedsim.results.analysis` draws, with a legend and a note around it."""

import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from textwrap import fill
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib import rc_context, rcParamsDefault
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import LogFormatter
from matplotlib.transforms import Transform

from fedsim.results.analysis.plots.amounts import BARS
from fedsim.results.analysis.plots.canvas import figure_of
from fedsim.results.report.components import PageTable
from fedsim.results.report.inline import inline
from fedsim.results.report.templating import ink


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure.

    Attributes:
        drawing: an SVG.
        note: what stands below it.
        keys: what stands above it, of what is drawn.
        table: the figures behind it, which a reader opens; None for none.
    """

    drawing: Markup
    note: str = ""
    keys: tuple["LegendKey", ...] = ()
    table: PageTable | None = None


@dataclass(frozen=True, slots=True)
class LegendKey:
    """A line of a legend: a name, and what is called so.

    Attributes:
        name: what is read.
        icon: an SVG.
    """

    name: str
    icon: Markup


_STYLE: Mapping[Any, Any] = {
    "svg.fonttype": "none",  # words are words, in the letters of the page
    "svg.hashsalt": "fedsim",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, and is wider than others
    "font.size": 10.0,  # points: 13 pixels
    "axes.edgecolor": "#666666",
    "hatch.linewidth": 0.0,
}


@contextmanager
def page_style() -> Iterator[None]:
    """Draw as a page has it within the block, whatever settings of matplotlib the user has."""
    kept = "backend", "interactive"  # how the user looks at figures, and not how these look
    usual: dict[Any, Any] = {
        name: value for name, value in rcParamsDefault.items() if not name.startswith(kept)
    }
    with rc_context({**usual, **_STYLE}):
        yield


def many(clients: pd.DataFrame) -> str:
    """Return what is said of the boxes of many clients; nothing of few, who have bars."""
    count = clients["client"].nunique()
    return (
        f"{count:,} clients: of each kind the line is the median, the box holds the middle half "
        "of its clients, and whiskers reach from the least to the most"
    ) * (count > BARS)


_SIDE, _TOP, _BELOW = 0.18, 0.12, 0.48  # inches beside, above and below an area

_GAP, _LETTER, _TITLE = 0.07, 0.083, 0.27
"""Inches between an area and its words, of a letter, and of the title beside it."""

_LONGEST = 26  # letters of a line at an axis

BAR, BOX = 0.3, 0.2
"""Inches of a row of bars, and of boxes."""


def draw(
    name: str,
    label: str,
    plot: Callable[[Axes], object],
    note: str = "",
    *,
    size: tuple[float, float] = (4.2, 2.6),
    row: float = 0.0,
    hidden: Container[str] = (),
) -> PageFigure:
    """Return a figure for the page; its legend is what the plot has named in the axes.

    Args:
        name: of the figure, letters, figures and hyphens; no other one on the page has it.
        label: what is read out in place of the figure.
        plot: draws into the axes that it is given.
        note: what stands below the figure.
        size: width and height, inches.
        row: inches of each row where the figure has rows; its height follows from them then.
        hidden: gids of what a reader sees only when asking for it.
    """
    figure = Figure(figsize=size)
    axis: Axes = figure.subplots()
    axis.spines[["top", "right"]].set_visible(False)
    plot(axis)
    keys = tuple(_keys(axis))
    _fit(axis, row)
    return PageFigure(inline(figure, name, label, hidden), note, keys)


def _fit(axis: Axes, row: float) -> None:
    """Give an area the room that its words leave, and take off what a page has no use for."""
    figure = figure_of(axis)
    for patch in (figure.patch, axis.patch):
        patch.set_visible(False)
    for each in axis.patches:
        each.set_hatch("")
    if not axis.axison:
        figure.subplots_adjust(0, 0, 1, 1)
        return
    wide, high = figure.get_size_inches().tolist()
    if row:
        low, top = axis.get_ylim()
        high = row * abs(top - low) + _TOP + _BELOW
        figure.set_figheight(high)
    (across, below), (upwards, beside) = (_ticks(each) for each in (axis.xaxis, axis.yaxis))
    beside = [fill(name, _LONGEST) for name in beside]
    longest = max((len(line) for name in beside for line in name.splitlines()), default=0)
    left = _GAP + _LETTER * longest + (_TITLE if axis.get_ylabel() else 0.1)
    room = wide - left - _SIDE, high - _TOP - _BELOW
    ends = {"left": left / wide, "right": (left + room[0]) / wide}
    figure.subplots_adjust(bottom=_BELOW / high, top=1 - _TOP / high, **ends)
    along, up = axis.get_xaxis_transform(), axis.get_yaxis_transform()
    _rule(axis, [[(place, 0.0), (place, 1.0)] for place in across], along)
    if not row:
        _rule(axis, [[(0.0, place), (1.0, place)] for place in upwards], up)
    style: dict[str, Any] = {"ha": "center", "va": "top"}
    for place, text in zip(across, below, strict=True):
        axis.text(place, -_GAP / room[1], text, transform=along, **style)
    title = -(_GAP + 0.18) / room[1]
    axis.text(0.5, title, axis.get_xlabel(), transform=axis.transAxes, **style)
    for place, text in zip(upwards, beside, strict=True):
        said: dict[str, Any] = {"ha": "right", "va": "center", "linespacing": 0.9}
        axis.text(-_GAP / room[0], place, text, transform=up, **said)
    turned: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "ha": "center"}
    title = (_TITLE - 0.08 - left) / room[0]
    axis.text(title, 0.5, axis.get_ylabel(), transform=axis.transAxes, va="bottom", **turned)


# Ticks of matplotlib are five artists each, and take most of the time of a small figure. A page
# has one path for the lines of an axis, and a word for each.


def _ticks(axis: Axis) -> tuple[list[float], list[str]]:
    """Return where an axis has ticks, and what is written at them; hide what matplotlib has."""
    scale, every = axis.get_transform(), axis.get_majorticklocs()
    low, high = sorted(scale.transform(axis.get_view_interval()))
    edge = 1e-9 * (high - low)
    drawn = scale.transform(every)
    places = every[(low - edge <= drawn) & (drawn <= high + edge)].tolist()
    formatter = axis.get_major_formatter()
    axis.set_visible(False)
    if isinstance(formatter, LogFormatter):  # it would write mathematics
        return places, [power_of_ten(place) for place in places]
    texts = formatter.format_ticks(places)
    offset = formatter.get_offset()
    if offset:
        axis.set_label_text(f"{axis.get_label_text()} ({offset})")
    return places, texts


def _rule(axis: Axes, lines: list[list[tuple[float, float]]], where: Transform) -> None:
    """Draw the lines of a grid."""
    if lines:
        codes = [Path.MOVETO, Path.LINETO] * len(lines)
        grid = Path([end for line in lines for end in line], codes)
        style: dict[str, Any] = {"edgecolor": "#b0b0b0", "alpha": 0.3, "linewidth": 0.8}
        drawn: PathPatch = PathPatch(grid, fill=False, transform=where, zorder=0.5, **style)
        axis.add_artist(drawn)
        drawn.set_clip_on(False)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(value: float) -> str:
    """Return a figure as a power of ten, with as many digits before it as it needs.

    >>> power_of_ten(1e-12), power_of_ten(1000.0), power_of_ten(5e6)
    ('10⁻¹²', '10³', '5·10⁶')
    """
    digits, _, power = f"{value:.3e}".partition("e")
    digits = digits.rstrip("0").rstrip(".")
    return f"{digits}·10"[2 * (digits == "1") :] + str(int(power)).translate(_RAISED)


def _keys(axis: Axes) -> Iterator[LegendKey]:
    """Yield what the legend of some axes has, and take that off."""
    legend = axis.get_legend()
    if legend is None:
        return
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if handle is not None:
            yield LegendKey(text.get_text().replace(r"\$", "$").strip(), _icon(handle))
    legend.remove()


def renamed(figure: PageFigure, before: str) -> PageFigure:
    """Return a figure for a second place on the page, where its names begin with another word."""
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\1{before}-", str(figure.drawing))
    return replace(figure, drawing=Markup(drawing))  # noqa: S704 - as before, with longer names


def _icon(handle: Artist) -> Markup:
    """Return what a key of a legend looks like."""
    if isinstance(handle, Patch):
        return swatch(to_hex(handle.get_facecolor()))
    if not isinstance(handle, Line2D):
        raise TypeError(f"a legend has a {type(handle).__name__}")
    names = ("color", "linestyle", "linewidth", "marker", "markersize", "markeredgecolor")
    return line_icon(**{name: getattr(handle, f"get_{name}")() for name in names})


def swatch(colour: str) -> Markup:
    """Return a patch of a colour."""
    before = Markup('<svg class="mark" viewBox="0 0 10 10" aria-hidden="true">')
    return before + Markup('<rect width="10" height="10" fill="{}"/></svg>').format(ink(colour))


@lru_cache(maxsize=256)
def line_icon(**style: object) -> Markup:
    """Return a piece of a line with one of its marks, of a style that `Line2D` takes."""
    wide = 0.18 if style.get("linestyle") == "None" else 0.4
    with page_style():
        figure = Figure(figsize=(wide, 0.15))
        figure.patch.set_visible(False)
        ends: dict[str, Any] = {"transform": figure.transFigure, "markevery": [1]}
        figure.add_artist(Line2D([0.04, 0.5, 0.96], [0.5] * 3, **ends, **style))  # type: ignore[arg-type]  # settings by name
        return inline(figure, "key")
