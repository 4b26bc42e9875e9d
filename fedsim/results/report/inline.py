"""Figures of matplotlib as SVG elements of a page, in the page's letters and colours."""

import re
from collections import Counter
from collections.abc import Container, Iterator
from io import BytesIO
from xml.etree import ElementTree as ET

from markupsafe import Markup
from matplotlib.figure import Figure

from fedsim.results.report.templating import ink

# What an element has by default, what only matplotlib refers to and what cannot be seen is left
# out; colours are names of the page's.

_REFERENCE = re.compile(r"""(?:url\(|href=")#([^)"]+)""")
_NAME = re.compile(r"#([^)]+)")
_GROUP = re.compile(r"variant-(\d+)")
_NUMBER = re.compile(r"-?\d+\.\d+")
_COMMAND = re.compile(r"([MLCQz])([^MLCQz]*)")

_HREF = "{http://www.w3.org/1999/xlink}href"

_FAR = 1e6  # points, far beyond a page

_DOTS = 1.5  # pixels of a point: letters of 10 points are as large as the page's

_PLACES = ("x", "y", "transform", "width", "height")

_NEEDLESS = {
    **dict.fromkeys(("font-family", "stroke-linejoin", "stroke-linecap", "stroke-miterlimit"), ""),
    "stroke-opacity": "1",
    "text-anchor": "start",
    "font-size": "10px",
    "stroke-width": "1",
}
"""Declarations that are left out, where they say this; of an empty one whatever they say."""


def inline(figure: Figure, name: str, label: str = "", hidden: Container[str] = ()) -> Markup:
    """Return a figure as an SVG element.

    What is drawn with the gid `variant-n`, or one that begins so and a hyphen, is a group n, which
    a script can hide.

    Args:
        figure: of matplotlib.
        name: with which the names of all its elements begin; no other figure on the page has it.
        label: what is read out in its place; it is left out by readers if empty.
        hidden: gids of what is hidden at first.
    """
    image = BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(image, format="svg", metadata=nothing)
    root = ET.fromstring(image.getvalue())  # noqa: S314 - matplotlib's
    wide, high = (round(_DOTS * 72 * inches) for inches in figure.get_size_inches())
    facts = {"class": "drawn", "viewBox": root.attrib["viewBox"]}
    facts |= {"width": str(wide), "height": str(high)}
    facts |= {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    drawn = ET.Element("svg", facts)
    drawn.extend(_Cleaner(root, name, hidden).inside(root))
    return Markup(ET.tostring(drawn, encoding="unicode"))  # noqa: S704 - ElementTree has escaped it


class _Cleaner:
    """What makes elements of a page from those of matplotlib.

    Args:
        root: of a figure.
        name: with which the names of its elements begin.
        hidden: gids of what is hidden at first.
    """

    def __init__(self, root: ET.Element, name: str, hidden: Container[str]) -> None:
        self.hidden = hidden
        self.known = {own.attrib["id"]: own for own in root.iter() if "id" in own.attrib}
        used = Counter(_REFERENCE.findall(ET.tostring(root, encoding="unicode")))
        shapes = {own.attrib[_HREF][1:] for own in root.iter() if _HREF in own.attrib}
        self.once = {given for given in shapes if used[given] == 1}
        rest = (given for given in used if given not in self.once)
        self.names = {given: f"{name}-{number}" for number, given in enumerate(rest)}

    def inside(self, own: ET.Element) -> list[ET.Element]:
        """Return what a page has of all that is in an element."""
        return [each for child in own for each in self.clean(child)]

    def clean(self, own: ET.Element) -> list[ET.Element]:
        """Return what a page has of an element: itself, what is in it alone, or nothing."""
        tag = own.tag.rpartition("}")[2]
        if tag in {"metadata", "style"} or own.get("id") in self.once:
            return []
        if tag == "use" and own.attrib[_HREF][1:] in self.once:
            own, tag = self._in_place(own), "path"
        facts, children = dict(self._facts(own)), self.inside(own)
        unseen = tag == "path" and facts.get("style") == "fill:none"
        if unseen or (tag in {"g", "defs"} and not children):
            return []
        if tag == "g" and not facts:
            return children
        made = ET.Element(tag, facts)
        made.extend(children)
        if tag in {"text", "tspan"}:
            made.text = own.text
            for each, child in zip(made, own, strict=True):
                each.tail = child.tail
        return [made]

    def _in_place(self, used: ET.Element) -> ET.Element:
        """Return a shape that is used once where it is used, and in the style that it has there."""
        shape = self.known[used.attrib[_HREF][1:]]
        style = f"{used.get('style', '')};{shape.get('style', '')}"
        place = f"translate({used.get('x')} {used.get('y')})"
        return ET.Element("path", {"d": shape.attrib["d"], "transform": place, "style": style})

    def _facts(self, own: ET.Element) -> Iterator[tuple[str, str]]:
        for key, given in own.attrib.items():
            name, value = key.rpartition("}")[2], _NAME.sub(self._rename, given)
            if name == "id":
                yield from self._named(given)
            elif name == "style":
                style = self._style(value)
                if style:
                    yield name, style
            elif name == "d":
                yield name, _shorten(value)
            elif not value.startswith("rotate(-0 "):
                yield name, _NUMBER.sub(_round, value) if name in _PLACES else value

    def _named(self, given: str) -> Iterator[tuple[str, str]]:
        group = _GROUP.match(given)
        if given in self.names:
            yield "id", self.names[given]
        elif group:
            yield "data-group", group[1]
            if given in self.hidden:
                yield "hidden", "hidden"

    def _style(self, style: str) -> str:
        """Return a style: of each declaration the last one, where it is needed."""
        found = {}
        for each in style.split(";"):
            key, _, value = (part.strip() for part in each.partition(":"))
            if key == "font":  # a short form, of earlier versions of matplotlib
                key, value = "font-size", next(word for word in value.split() if word[0].isdigit())
            if key and _NEEDLESS.get(key) not in {"", value}:
                found[key] = ink(value)
        return ";".join(f"{key}:{value}" for key, value in found.items())

    def _rename(self, found: "re.Match[str]") -> str:
        return f"#{self.names.get(found[1], found[1])}"


def _shorten(outline: str) -> str:
    r"""Return an outline in steps, each in tenths of a point: a page has no finer pixels.

    >>> _shorten("M 10.01 20 \nL 12.5 17 \nL 12.51 17.04 \nL 12.5 18 \nz")
    'M10 20l2.5-3 0 1z'
    """
    parts, here, before = list[str](), (0, 0), ""
    for kind, rest in _COMMAND.findall(outline):
        tenths = [round(10 * min(max(float(each), -_FAR), _FAR)) for each in rest.split()]
        places = list(zip(tenths[::2], tenths[1::2], strict=True))
        steps = [(x - here[0], y - here[1]) for x, y in places]
        if kind == "L" and steps == [(0, 0)]:
            continue
        moved = places if kind == "M" else steps
        letter = kind if kind == "M" else kind.lower()
        parts += [letter] if letter != before else [" "]
        parts.append(" ".join(f"{x / 10:g} {y / 10:g}" for x, y in moved))
        here, before = places[-1] if places else here, letter
    return "".join(parts).replace(" -", "-")


def _round(found: "re.Match[str]") -> str:
    """Return a place with hundredths of a point, which cannot be seen."""
    value = round(float(found[0]), 2)
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < _FAR else f"{value:.0e}"
