"""Lanes: what each of many was doing, and when, with the moments at which something happened."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedsim.report.drawing.area import Area
from fedsim.report.drawing.scales import Scale
from fedsim.report.drawing.svg import ink, percent, tag

_LANE, _SPAN = 24, 16  # pixels of a lane, and of what is drawn in it

SYMBOLS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-4-4h8v8h-8z",
    "diamond": "M0-5 5 0 0 5-5 0z",
    "cross": "M-4-2-2-4 0-2 2-4 4-2 2 0 4 2 2 4 0 2-2 4-4 2-2 0z",
    "triangle": "M0-5 5 4h-10z",
    "star": "M0-6 1.5-2 6-2 2.4.8 3.8 5 0 2.4-3.8 5-2.4.8-6-2-1.5-2z",
}
"""Outlines of marks, around the place that they mark."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Bars of one kind.

    Attributes:
        name, colour: what the kind is called, and how it looks.
        rows: of each, its lane, where it begins and ends, and what is to be told of it.
    """

    name: str
    colour: str
    rows: Sequence[tuple[str, float, float, str]]


@dataclass(frozen=True, slots=True)
class Moments:
    """Marks of one kind.

    Attributes:
        name, symbol, colour: what the kind is called, and how it looks.
        rows: of each, its lane, its place and what is to be told of it.
    """

    name: str
    symbol: str
    colour: str
    rows: Sequence[tuple[str, float, str]]


def lanes(
    names: Sequence[str],
    scale: Scale,
    title: str,
    label: str,
    kinds: Sequence[Spans | Moments],
) -> Markup:
    """Return a figure of lanes, the first one on top; later kinds lie on earlier ones.

    Args:
        names: of the lanes.
        scale: the axis from left to right.
        title: of that axis.
        label: of the figure.
        kinds: what is in the lanes.
    """
    downs = {name: _LANE * place + _LANE / 2 for place, name in enumerate(names)}
    area = Area(label, max(_LANE * len(names), _LANE), scale, title, lanes=tuple(downs.items()))
    parts = []
    for kind in kinds:
        if isinstance(kind, Spans):
            own = [_span(downs[lane], scale, *row) for lane, *row in kind.rows]  # type: ignore[arg-type]
            parts.append(_group("spans", kind, own))
        else:
            outline = SYMBOLS[kind.symbol]
            marks = [_mark(downs[lane], scale, outline, *row) for lane, *row in kind.rows]  # type: ignore[arg-type]
            parts.append(_group("moments", kind, marks))
    return area.holding(*parts)


def _group(name: str, kind: Spans | Moments, parts: Sequence[Markup]) -> Markup:
    style = f"--own:{ink(kind.colour)};--high:{_SPAN}px"
    return tag("g", *parts, class_=name, data_name=kind.name, style=style)


def _span(middle: float, scale: Scale, begin: float, end: float, told: str) -> Markup:
    """Return a bar; what lasts longer than the axis ends with it."""
    end = min(end, scale.high)
    return tag(
        "rect",
        tag("title", told),
        x=percent(scale.share(begin)),
        y=middle - _SPAN / 2,
        width=percent(scale.share(end) - scale.share(begin)),
    )


def _mark(middle: float, scale: Scale, outline: str, place: float, told: str) -> Markup:
    drawn = tag("path", tag("title", told), d=outline)
    return tag("svg", drawn, class_="symbol", x=percent(scale.share(place)), y=middle)
