"""Reading a drawing as a test reads it: what its shapes stand for, by its axes."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from fedsim.results.report.svg import HIGH, WIDE

RESOLUTION = 2e-4
"""Of an axis: nothing is further from its place, however coarse its coordinates are."""


class Axis(NamedTuple):
    """An axis, as a script reads it."""

    kind: str
    low: float
    high: float

    @classmethod
    def read(cls, told: str) -> "Axis":
        kind, low, high, *_ = told.split()
        return cls(kind, float(low), float(high))

    def at(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the figures at some shares of the axis."""
        if self.kind == "log":
            return np.asarray((self.high / self.low) ** share * self.low)
        return np.asarray(self.low + share * (self.high - self.low))


class Drawing:
    """A drawing.

    Attributes:
        root: its element.
    """

    def __init__(self, markup: str) -> None:
        self.root = ET.fromstring(markup)  # noqa: S314 - of our own making

    @property
    def x(self) -> Axis:
        return Axis.read(self.root.attrib["data-x"])

    @property
    def y(self) -> Axis:
        return Axis.read(self.root.attrib["data-y"])

    def titles(self, path: str) -> list[str]:
        """Return what is told of some elements."""
        return [each.findtext("title") or "" for each in self.root.iterfind(path)]

    def curves(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the points of the curves, by their names; a gap separates the parts of one."""
        found = {}
        for group in self.root.iterfind(".//g"):
            line = group.find("path[@class='line']")
            if line is not None:
                x, y = points(line.attrib["d"])
                found[group.findtext("title") or ""] = self.x.at(x / WIDE), self.y.at(1 - y / HIGH)
        return found

    def bars(self) -> dict[tuple[str, str], float]:
        """Return the amounts of stacked bars, by bar and part."""
        found = {}
        for bar in self.root.iterfind(".//g[@class='bars']/rect"):
            name, _, part = (bar.findtext("title") or "").rpartition("\n")
            found[name, part.partition(":")[0]] = float(self.x.at(_share(bar.attrib["width"])))
        return found

    def boxes(self) -> dict[tuple[str, str], list[float]]:
        """Return the ends, sides and middles of boxes, by kind and what is counted."""
        found = {}
        for box in self.root.iterfind(".//g[@data-name]"):
            name = (box.findtext("title") or "").partition("\n")[0]
            (rect,) = [each for each in box.iterfind("rect") if "class" not in each.attrib]
            whisker, median = (box.find(f"line[@class='{each}']") for each in ("whisker", "median"))
            assert whisker is not None
            assert median is not None
            first = _share(rect.attrib["x"])
            shares = [
                _share(whisker.attrib["x1"]),
                first,
                _share(median.attrib["x1"]),
                first + _share(rect.attrib["width"]),
                _share(whisker.attrib["x2"]),
            ]
            found[name, box.attrib["data-name"]] = [float(self.x.at(each)) for each in shares]
        return found

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes, the first one on top."""
        texts = list(self.root.iterfind("text[@class='y']"))
        return [each.text or "" for each in sorted(texts, key=lambda each: float(each.attrib["y"]))]

    def spans(self) -> dict[str, list[tuple[str, float, float]]]:
        """Return the lane, the beginning and the duration of all spans, by their kind."""
        return {
            group.attrib["data-name"]: [
                (
                    self._lane(float(bar.attrib["y"]) + 8),
                    float(self.x.at(_share(bar.attrib["x"]))),
                    float(self.x.at(_share(bar.attrib["width"]))),
                )
                for bar in group.iterfind("rect")
            ]
            for group in self.root.iterfind("g[@class='spans']")
        }

    def moments(self) -> dict[str, list[tuple[str, float]]]:
        """Return the lane and the place of all marks, by their kind."""
        return {
            group.attrib["data-name"]: [
                (self._lane(float(mark.attrib["y"])), float(self.x.at(_share(mark.attrib["x"]))))
                for mark in group.iterfind("svg")
            ]
            for group in self.root.iterfind("g[@class='moments']")
        }

    def _lane(self, down: float) -> str:
        """Return the lane whose middle is there."""
        middles = {
            float(each.attrib["y"]): each.text for each in self.root.iterfind("text[@class='y']")
        }
        return middles[down] or ""


def _share(text: str) -> NDArray[np.float64]:
    """Return a share of the width, of "12.5%"."""
    assert text.endswith("%")
    return np.asarray(float(text[:-1]) / 100)


def points(d: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where a line of moves and steps goes."""
    x, y = [], []
    for piece in d.split("M")[1:]:
        begin, _, steps = piece.replace("h0", "").partition("l")
        start = [int(each) for each in begin.split()]
        moves = np.array([start, *_pairs(steps)]).cumsum(axis=0)
        x += moves[:, 0].tolist()
        y += moves[:, 1].tolist()
    return np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)


def _pairs(steps: str) -> Iterator[list[int]]:
    numbers = [int(each) for each in re.findall(r"-?\d+", steps)]
    for at in range(0, len(numbers), 2):
        yield numbers[at : at + 2]
