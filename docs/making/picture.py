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
    "cli": Box(0, 0, 100, "the commands, and what they print"),
    "conformance": Box(1, 0, 71, "checks of user-defined blocks"),
    "explorer": Box(1, 75, 25, "a study with sliders"),
    "robustness": Box(2, 0, 71, "which conclusions survive the doubt about constants"),
    "calibration": Box(2, 75, 25, "a fleet from recordings"),
    "repricing": Box(3, 0, 34, "a log in another world"),
    "live": Box(3, 37, 34, "the same rounds over real sockets"),
    "torch": Box(3, 75, 14, "PyTorch modules"),
    "jax": Box(3, 91, 9, "functions"),
    "running": Box(4, 0, 100, "one run, a campaign of runs, processes"),
    "building": Box(5, 0, 55, "the one place where specs become live objects"),
    "paper": Box(5, 57, 16, "a paper's folder"),
    "results": Box(5, 75, 25, "what runs have left"),
    "scenario": Box(6, 0, 22, "reads what the user writes"),
    "flower": Box(6, 24, 23, "Flower's clients, strategies"),
    "sim": Box(6, 49, 22, "the virtual world"),
    "report": Box(6, 75, 25, "one HTML page"),
    "worlds": Box(7, 0, 71, "what simulated and live worlds share: server, observer"),
    "algorithms": Box(8, 0, 22, "one file a family"),
    "protocol": Box(8, 24, 23, "rounds, without a clock"),
    "computing": Box(8, 49, 22, "evaluators of work"),
    "problems": Box(9, 0, 22, "losses, data, splits"),
    "wire": Box(9, 24, 23, "payloads, compressors"),
    "physics": Box(9, 49, 22, "radios, batteries, links"),
    "analysis": Box(9, 75, 25, "tables and figures"),
    "record": Box(10, 0, 100, "event log, round table, ledger; opens, audits and closes them"),
    "ports": Box(11, 0, 100, "what an algorithm sees: Server, Client, Message, Work"),
    "blocks": Box(12, 0, 100, "what every block of a scenario is built on; the registries"),
}
"""Every package of fedsim."""

TOP, MIDDLE, BOTTOM = 0.0, 0.5, 1.0
"""Heights within a box, as a share of it."""

WAY = (
    ((11, 6, TOP), (11, 5, BOTTOM)),  # scenario -> building
    ((52, 5, BOTTOM), (52, 6, TOP)),  # building -> sim
    ((71, 6, MIDDLE), (73, 6, MIDDLE), (73, 10, TOP)),  # sim -> record
    ((87, 10, TOP), (87, 9, BOTTOM)),  # record -> analysis
    ((87, 9, TOP), (87, 6, BOTTOM)),  # analysis -> report
    ((87, 6, TOP), (87, 5, BOTTOM)),  # report -> results
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
