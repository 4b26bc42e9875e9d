"""Graphs: nodes, and links between them as wide as what they carried."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedsim.report.drawing.lanes import SYMBOLS
from fedsim.report.drawing.svg import ink, tag

_HALF = 235  # units from the middle of a drawing to its sides; 200 of them are a layout's 1
_ABOVE, _BELOW = 20, 36  # units beyond the highest node, and beyond the lowest and its word

_WIDTHS = 1.0, 8.0  # pixels of a link that carried nothing, and of the one that carried most

_SYMBOL = 4.5  # units from the middle of a symbol to its edge

Places = Mapping[str, Sequence[float]]
"""Where nodes are, from -1 to 1 in both directions."""


@dataclass(frozen=True, slots=True)
class Link:
    """A line between two nodes.

    Attributes:
        ends: the nodes.
        share: of what the link that carried most did; None where nobody knows.
        told: what there is to be told of it.
        word: that is written on it, if anything is.
    """

    ends: tuple[str, str]
    share: float | None
    told: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of one kind.

    Attributes:
        symbol, colour, size: how they look; the size is in units.
        told: the nodes, and what there is to be told of each.
        word: that is written below each, if anything is.
    """

    symbol: str
    colour: str
    size: float
    told: Mapping[str, str]
    word: str = ""


def network(label: str, places: Places, links: Iterable[Link], nodes: Iterable[Nodes]) -> Markup:
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
        own = [_node(kind, text, *places[node]) for node, text in kind.told.items()]
        parts.append(tag("g", *own, class_="nodes", fill=ink(kind.colour)))
    heights = [200 * float(place[1]) for place in places.values()]
    top, bottom = min(heights) - _ABOVE, max(heights) + _BELOW
    box = f"{-_HALF} {top:.0f} {2 * _HALF} {bottom - top:.0f}"
    return tag("svg", *parts, class_="graph", role="img", aria_label=label, viewBox=box)


def _link(own: Link, places: Places) -> Markup:
    """Return a line, and a wide one that cannot be seen, for a pointer to find."""
    least, most = _WIDTHS
    (x1, y1), (x2, y2) = (_units(*places[end]) for end in own.ends)
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    width = least if own.share is None else least + (most - least) * own.share
    dash = "3 3" if own.share is None else None
    line = tag("line", stroke_width=round(width, 2), stroke_dasharray=dash, **ends)
    return tag("g", tag("title", own.told), line, tag("line", class_="hit", **ends))


def _word(own: Link, places: Places) -> Markup | None:
    (x1, y1), (x2, y2) = (_units(*places[end]) for end in own.ends)
    middle = {"x": round((x1 + x2) / 2, 1), "y": round((y1 + y2) / 2 + 3, 1)}
    return tag("text", own.word, class_="x", **middle) if own.word else None


def _node(kind: Nodes, told: str, x: float, y: float) -> Markup:
    right, down = _units(x, y)
    scale = f"translate({right} {down}) scale({kind.size / _SYMBOL:.3g})"
    outline = tag("path", tag("title", told), d=SYMBOLS[kind.symbol], transform=scale)
    if not kind.word:
        return outline
    word = tag("text", kind.word, x=right, y=round(down + kind.size + 15, 1), class_="x")
    return tag("g", outline, word)


def _units(x: float, y: float) -> tuple[float, float]:
    return round(200 * float(x), 1), round(200 * float(y), 1)
