"""Drawings: figures as SVG that need no script, in the colours and the width of the page."""

from fedsim.report.drawing.area import Area
from fedsim.report.drawing.bars import bars, boxes
from fedsim.report.drawing.curves import DASHES, Curve, curves
from fedsim.report.drawing.graphs import Link, Nodes, network
from fedsim.report.drawing.keys import bar_icon, line_icon, symbol_icon
from fedsim.report.drawing.lanes import SYMBOLS, Moments, Spans, lanes
from fedsim.report.drawing.scales import Scale, linear, logarithmic
from fedsim.report.drawing.svg import ink, tag

__all__ = [
    "DASHES",
    "SYMBOLS",
    "Area",
    "Curve",
    "Link",
    "Moments",
    "Nodes",
    "Scale",
    "Spans",
    "bar_icon",
    "bars",
    "boxes",
    "curves",
    "ink",
    "lanes",
    "line_icon",
    "linear",
    "logarithmic",
    "network",
    "symbol_icon",
    "tag",
]
