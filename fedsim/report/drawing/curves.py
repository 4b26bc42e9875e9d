"""Curves, each with the band that it is the middle of."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from fedsim.report.drawing.area import Area, stretched
from fedsim.report.drawing.scales import Scale
from fedsim.report.drawing.svg import ink, path, percent, tag

DASHES = {"solid": None, "dash": "7 4", "dashdot": "7 3 2 3", "dot": "2 3"}
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
    return area.holding(stretched(*lines), *_lines_at(area.y, levels))


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
