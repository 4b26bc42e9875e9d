"""Bars of parts, and boxes of quarters: amounts from left to right, a row each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import ArrayLike

from fedsim.results.analysis import quantity
from fedsim.results.report.svg import (
    Area,
    Scale,
    ink,
    join_elements,
    linear,
    path,
    percent,
    stretch,
    tag,
)

_ROW, _BAR = 46, 22  # pixels of a bar with its name, and of the bar

_BOX, _HEAD = 20, 24  # pixels of a box, and of the name above some of them

_SPARE = 1.04  # of an axis, beyond what is longest

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the clients that lie below the ends, the sides and the line of a box."""


def bars(
    frame: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str, label: str
) -> Markup:
    """Return a stacked bar a row, the first on top, its name and its sum above it.

    Args:
        frame: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
        unit: of the amounts.
        title: of the axis.
        label: of the figure.
    """
    sums = frame.sum(axis=1)
    scale = linear(0.0, _SPARE * float(sums.max() if len(sums) else 0.0), unit)
    area = Area(label, _ROW * len(frame) + 6, scale, title)
    rows = []
    for place, (name, amounts) in enumerate(frame.iterrows()):
        down = _ROW * place
        text = f"{name}: {quantity(float(sums.iloc[place]), unit)}"
        rows.append(tag("text", text, class_="name", x=0, y=down + 15))
        begin = 0.0
        for part, amount in amounts.items():
            if not amount > 0:
                continue
            rows.append(
                tag(
                    "rect",
                    tag("title", f"{name}\n{part}: {quantity(float(amount), unit)}"),
                    fill=ink(colours[str(part)]),
                    x=percent(scale.share(begin)),
                    y=down + 20,
                    width=percent(scale.share(float(amount))),
                    height=_BAR,
                )
            )
            begin += float(amount)
    return area.holding(tag("g", *rows, class_="bars"))


def boxes(
    rows: pd.DataFrame,
    kinds: "pd.Series[str]",
    colours: Mapping[str, str],
    unit: str,
    title: str,
    label: str,
) -> Markup:
    """Return how amounts are spread over the clients of each kind: a box of their quarters each.

    However many clients there are, the figure is as large as the kinds are many.

    Args:
        rows: amounts of each client, a column each.
        kinds: of the clients.
        colours: of the columns.
        unit: of the amounts.
        title: of the axis.
        label: of the figure.
    """
    shown = [str(column) for column in rows if (rows[column] > 0).any()]
    largest = float(rows[shown].to_numpy().max()) if shown else 0.0
    scale = linear(0.0, _SPARE * largest, unit)
    parts, down = [], 0
    groups = rows[shown].groupby(kinds.to_numpy(), sort=False)
    for kind, own in groups:
        parts.append(tag("text", f"{kind} ({len(own):,})", class_="name", x=0, y=down + 15))
        down += _HEAD
        for column in shown:
            quarters = np.quantile(own[column].to_numpy(np.float64), QUARTERS)
            text = f"{kind}\n{column}: {_describe(quarters, unit)}"
            shares = scale.shares(quarters).tolist()
            parts.append(_box(shares, down, ink(colours[column]), text, column))
            down += _BOX
        down += 6
    return Area(label, down + 4, scale, title).holding(tag("g", *parts, class_="boxes"))


def _describe(quarters: "np.ndarray[tuple[int], np.dtype[np.float64]]", unit: str) -> str:
    least, first, median, third, most = (quantity(value, unit) for value in quarters.tolist())
    return f"median {median}, half of them {first} to {third}, all {least} to {most}"


def _box(shares: list[float], down: int, colour: str, text: str, column: str) -> Markup:
    """Return a box: whiskers from end to end, the box between the sides, the line at the median."""
    least, first, median, third, most = shares
    middle = down + _BOX / 2
    whisker = {"x1": percent(least), "x2": percent(most), "y1": middle, "y2": middle}
    line = {"x1": percent(median), "x2": percent(median), "y1": down + 3, "y2": down + _BOX - 3}
    box = {"x": percent(first), "width": percent(third - first), "y": down + 4}
    return join_elements(
        [
            tag(
                "g",
                tag("title", text),
                tag("rect", class_="hit", x="0", width="100%", y=down, height=_BOX),
                tag("line", class_="whisker", stroke=colour, **whisker),
                tag("rect", fill=colour, stroke=colour, height=_BOX - 8, **box),
                tag("line", class_="median", **line),
                data_name=column,
            )
        ]
    )


# Curves, each with the band that it is the middle of.

DASHES = {
    "solid": None,
    "dash": "7 4",
    "dashdot": "7 3 2 3",
    "dot": "2 3",
    "dashdotdot": "8 2 2 2 2 2",
}
"""Dashes by what they are called: pixels drawn and left out, in turns."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve.

    Attributes:
        name: what it is of.
        colour, dash: how it looks.
        x, y: its points; NaN breaks it.
        low, high: ends of its band, if it has one.
        group: by which a reader hides it; empty where it stays.
        hidden: whether it is, before a reader chooses.
    """

    name: str
    colour: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dash: str = "solid"
    group: str = ""
    hidden: bool = False


def curves(area: Area, drawn: Sequence[Curve], levels: Sequence[float] = ()) -> Markup:
    """Return a figure of curves, the first one on top.

    Args:
        area: what they lie on; both of its axes are scales.
        drawn: the curves.
        levels: figures that a line across the area is drawn at, where they lie on it.

    Raises:
        ValueError: the area has lanes.
    """
    if area.y is None:
        raise ValueError("curves need an axis upwards")
    lines = [_curve(each, area.x, area.y) for each in reversed(drawn)]
    return area.holding(stretch(*lines), *_lines_at(area.y, levels))


def _curve(own: Curve, across: Scale, upwards: Scale) -> Markup:
    x, y = across.shares(own.x), 1 - upwards.shares(own.y)
    colour = ink(own.colour)
    band = None
    if own.low is not None and own.high is not None:
        ends = 1 - upwards.shares(own.low), 1 - upwards.shares(own.high)
        if not np.array_equal(*ends, equal_nan=True):
            band = tag("path", class_="band", fill=colour, d=_around(x, *ends))
    dash = DASHES[own.dash]
    line = tag("path", class_="line", stroke=colour, stroke_dasharray=dash, d=path(x, y))
    return tag(
        "g",
        tag("title", own.name),
        band,
        line,
        data_group=own.group,
        hidden="hidden" if own.hidden else None,
    )


def _lines_at(scale: Scale, levels: Sequence[float]) -> list[Markup]:
    """Return lines across the area at some figures."""
    shares = [1 - scale.share(level) for level in levels]
    places = [percent(share) for share in shares if 0 <= share <= 1]
    return [tag("line", class_="level", x1="0", x2="100%", y1=place, y2=place) for place in places]


def _around(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> str:
    """Return the outline of a band: there along one end and back along the other, gap by gap."""
    places, one, other = (np.asarray(each, dtype=np.float64) for each in (x, low, high))
    known = np.isfinite(places) & np.isfinite(one) & np.isfinite(other)
    borders = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), len(known)]
    parts = []
    for begin, end in pairwise(borders):
        if begin < end and known[begin]:
            there = slice(begin, end)
            way = np.concatenate([places[there], places[there][::-1]])
            parts.append(path(way, np.concatenate([one[there], other[there][::-1]])) + "z")
    return "".join(parts)


# Lanes: what each of many was doing, and when, with the moments at which something happened.

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
        rows: of each, its lane, where it begins and ends, and its description.
    """

    name: str
    colour: str
    rows: Sequence[tuple[str, float, float, str]]


@dataclass(frozen=True, slots=True)
class Moments:
    """Marks of one kind.

    Attributes:
        name, symbol, colour: what the kind is called, and how it looks.
        rows: of each, its lane, its place and its description.
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


def _span(middle: float, scale: Scale, begin: float, end: float, text: str) -> Markup:
    """Return a bar; what lasts longer than the axis ends with it."""
    end = min(end, scale.high)
    return tag(
        "rect",
        tag("title", text),
        x=percent(scale.share(begin)),
        y=middle - _SPAN / 2,
        width=percent(scale.share(end) - scale.share(begin)),
    )


def _mark(middle: float, scale: Scale, outline: str, place: float, text: str) -> Markup:
    drawn = tag("path", tag("title", text), d=outline)
    return tag("svg", drawn, class_="symbol", x=percent(scale.share(place)), y=middle)


# Graphs: nodes, and links between them as wide as what they carried.

_HALF = 235  # units from the middle of a drawing to its sides; 200 of them are a layout's 1
_ABOVE, _BELOW = 20, 36  # units beyond the highest node, and beyond the lowest and its word

_WIDTHS = 1.0, 8.0  # pixels of a link that carried nothing, and of the one that carried most

_OUTER = 0.65  # of a link, from its inner end, where the word on it stands

_SYMBOL = 4.5  # units from the middle of a symbol to its edge

Places = Mapping[str, Sequence[float]]
"""Where nodes are, from -1 to 1 in both directions."""


@dataclass(frozen=True, slots=True)
class GraphLine:
    """A line between two nodes.

    Attributes:
        ends: the nodes.
        share: of the largest load of a link; None where unknown.
        text: its description.
        word: that is written on it, if anything is.
    """

    ends: tuple[str, str]
    share: float | None
    text: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class GraphNodes:
    """Nodes of one kind.

    Attributes:
        symbol, colour, size: how they look; the size is in units.
        text: the nodes, with the description of each.
        word: that is written below each, if anything is.
    """

    symbol: str
    colour: str
    size: float
    text: Mapping[str, str]
    word: str = ""


def network(
    label: str, places: Places, links: Iterable[GraphLine], nodes: Iterable[GraphNodes]
) -> Markup:
    """Return a drawing of a graph.

    Args:
        label: what is read out in place of the drawing.
        places: of the nodes.
        links: between them.
        nodes: later ones lie on top.
    """
    links = list(links)
    lines, words = (_link(each, places) for each in links), (_word(each, places) for each in links)
    parts = [tag("g", *lines, class_="links"), tag("g", *words, class_="links")]
    for kind in nodes:
        own = [_node(kind, text, *places[node]) for node, text in kind.text.items()]
        parts.append(tag("g", *own, class_="nodes", fill=ink(kind.colour)))
    heights = [200 * float(place[1]) for place in places.values()]
    top, bottom = min(heights) - _ABOVE, max(heights) + _BELOW
    box = f"{-_HALF} {top:.0f} {2 * _HALF} {bottom - top:.0f}"
    return tag("svg", *parts, class_="graph", role="img", aria_label=label, viewBox=box)


def _link(own: GraphLine, places: Places) -> Markup:
    """Return a line, and a wide one that cannot be seen, for a pointer to find."""
    least, most = _WIDTHS
    (x1, y1), (x2, y2) = (_units(*places[end]) for end in own.ends)
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    width = least if own.share is None else least + (most - least) * own.share
    dash = "3 3" if own.share is None else None
    line = tag("line", stroke_width=round(width, 2), stroke_dasharray=dash, **ends)
    return tag("g", tag("title", own.text), line, tag("line", class_="hit", **ends))


def _word(own: GraphLine, places: Places) -> Markup | None:
    (x1, y1), (x2, y2) = (_units(*places[end]) for end in own.ends)
    # Nearer to the outer end: links of a star are close together in the middle.
    place = {"x": round(_OUTER * x1 + (1 - _OUTER) * x2, 1)}
    place["y"] = round(_OUTER * y1 + (1 - _OUTER) * y2 + 3, 1)
    return tag("text", own.word, class_="x", **place) if own.word else None


def _node(kind: GraphNodes, text: str, x: float, y: float) -> Markup:
    right, down = _units(x, y)
    scale = f"translate({right} {down}) scale({kind.size / _SYMBOL:.3g})"
    outline = tag("path", tag("title", text), d=SYMBOLS[kind.symbol], transform=scale)
    if not kind.word:
        return outline
    word = tag("text", kind.word, x=right, y=round(down + kind.size + 15, 1), class_="x")
    return tag("g", outline, word)


def _units(x: float, y: float) -> tuple[float, float]:
    return round(200 * float(x), 1), round(200 * float(y), 1)


# Icons of legends.


def bar_icon(colour: str) -> Markup:
    """Return a patch of a colour."""
    return _icon(tag("rect", width=10, height=10, fill=ink(colour)), "0 0 10 10")


def line_icon(colour: str, dash: str = "solid") -> Markup:
    """Return a piece of a line."""
    own = tag("line", x1=0, y1=5, x2=28, y2=5, stroke=ink(colour), stroke_dasharray=DASHES[dash])
    return _icon(own, "0 0 28 10", "line")


def symbol_icon(symbol: str, colour: str) -> Markup:
    """Return a mark."""
    return _icon(tag("path", d=SYMBOLS[symbol], fill=ink(colour)), "-6 -6 12 12")


def _icon(own: Markup, box: str, kind: str = "mark") -> Markup:
    return tag("svg", own, class_=kind, viewBox=box, aria_hidden="true")
