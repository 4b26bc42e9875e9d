"""The picture of the house: its packages, each above all that it imports, and the way of the data.

`house()` returns it as SVG, for a light or a dark page. Its rows are the layers in pyproject.toml,
and its boxes the folders of fedsim.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Box(NamedTuple):
    """A package: its row from the top, its left edge and width in hundredths, its subject."""

    row: int
    left: int
    width: int
    text: str


PACKAGES = {
    "addons": Box(0, 0, 100, "networks, worlds, answers about runs, bridges to other libraries"),
    "cli": Box(1, 0, 100, "the commands, and what they print"),
    "running": Box(2, 0, 100, "one run, a campaign of runs, processes"),
    "scenario": Box(3, 0, 100, "reads what the user writes, and makes live objects of it"),
    "algorithms": Box(4, 0, 47, "one file a family of methods"),
    "sim": Box(4, 51, 49, "the virtual world"),
    "problems": Box(5, 0, 47, "losses, data, splits; evaluators of work"),
    "protocol": Box(5, 51, 24, "rounds, without a clock"),
    "wire": Box(6, 0, 22, "payloads, compressors"),
    "physics": Box(6, 25, 22, "radios, batteries, links"),
    "results": Box(6, 51, 49, "the log; tables, figures and pages of it"),
    "core": Box(
        7, 0, 100, "errors, units, registries, streams; what an algorithm sees: Server, Client"
    ),
}
"""Every package of fedsim."""

TOP, MIDDLE, BOTTOM = 0.0, 0.5, 1.0
"""Heights within a box, as a share of it."""

WAY = (
    ((87, 3, BOTTOM), (87, 4, TOP)),  # scenario -> sim
    ((87, 4, BOTTOM), (87, 6, TOP)),  # sim -> results
)
"""The way of the data: arrows through points, each at hundredths from the left, in a row."""

_STEP, _HEIGHT, _SCALE = 62, 46, 9.4
_STYLE = (
    ".house{color:#222}@media(prefers-color-scheme:dark){.house{color:#ddd}}"
    ".house rect{fill:none;stroke:currentColor;stroke-opacity:.45}"
    ".house text{fill:currentColor;text-anchor:middle}"
    ".house .name{font:600 15px monospace}.house .what{font:12px sans-serif;opacity:.8}"
    ".house path{fill:none;stroke:#1f77b4;stroke-width:2.5}.house marker path{fill:#1f77b4}"
)


def house() -> str:
    """Return the picture, a file of SVG."""
    boxes = "".join(_box(name, box) for name, box in PACKAGES.items())
    arrows = "".join(f'<path marker-end="url(#tip)" d="{_drawn(way)}"/>' for way in WAY)
    tip = (
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="5" markerHeight="5"'
        ' orient="auto"><path d="M 0,0 L 10,5 L 0,10 z"/></marker>'
    )
    width, height = 100 * _SCALE + 4, max(box.row for box in PACKAGES.values()) * _STEP + _HEIGHT
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="house" role="img"'
        f' viewBox="-2 -2 {width:g} {height + 4}" width="{width:g}" height="{height + 4}">'
        f"<title>The packages of fedsim</title><style>{_STYLE}</style>"
        f"<defs>{tip}</defs>{boxes}{arrows}</svg>\n"
    )


def _box(name: str, box: Box) -> str:
    left, top, width = box.left * _SCALE, box.row * _STEP, box.width * _SCALE
    middle = left + width / 2
    return (
        f'<rect x="{left:g}" y="{top}" width="{width:g}" height="{_HEIGHT}" rx="5"/>'
        f'<text class="name" x="{middle:g}" y="{top + 19}">{name}</text>'
        f'<text class="what" x="{middle:g}" y="{top + 36}">{escape(box.text)}</text>'
    )


def _drawn(way: Sequence[tuple[int, int, float]]) -> str:
    """Return an arrow as the points of a path."""
    points = [f"{x * _SCALE:g},{row * _STEP + share * _HEIGHT:g}" for x, row, share in way]
    return "M " + " L ".join(points)
