"""Icons of legends."""

from markupsafe import Markup

from fedsim.report.drawing.curves import DASHES
from fedsim.report.drawing.lanes import SYMBOLS
from fedsim.report.drawing.svg import ink, tag


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
