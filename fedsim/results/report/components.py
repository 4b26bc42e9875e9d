"""The parts of a page: tables, figures with their legends, and their common elements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.core.text import format_number
from fedsim.results.analysis import COLOURS, quantity
from fedsim.results.report.charts import DASHES, bar_icon, bars, boxes

NOT_REACHED = "not reached"
"""What a cell says of a run that never got there."""


_MISSING = frozenset({"-", NOT_REACHED})


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure.

    Attributes:
        drawing: an SVG.
        note: what stands below it.
        keys: what stands above it, of what is drawn.
    """

    drawing: Markup
    note: str = ""
    keys: tuple["LegendKey", ...] = ()


@dataclass(frozen=True, slots=True)
class LegendKey:
    """A line of a legend: a name, and what is called so.

    Attributes:
        name: what is read.
        icon: an SVG.
    """

    name: str
    icon: Markup


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: shown.
        value: the figure behind it, in the unit of its column; None for words.
        colour: of the mark in front of it; empty for none.
        under: a second line, in small letters.
        folded: shown in place of the text until the reader opens it; empty for the text.
    """

    text: str
    value: float | None = None
    colour: str = ""
    under: str = ""
    folded: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table: its caption, the heads of its columns, and its rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[TableCell]]

    def numeric(self, column: int) -> bool:
        """Whether a column is of figures: all of its cells are one, or say that it is missing."""
        cells = [row[column] for row in self.rows]
        return all(cell.value is not None or cell.text in _MISSING for cell in cells)


def number(value: float, unit: str = "") -> TableCell:
    """Return the cell of a figure: a count, or a quantity with an SI prefix."""
    return TableCell(quantity(float(value), unit), float(value) if np.isfinite(value) else None)


def digits(value: float, most: int = 3) -> TableCell:
    """Return the cell of a figure without a unit, with so many digits."""
    return (
        TableCell(format_number(value, f",.{most}g"), float(value))
        if np.isfinite(value)
        else TableCell("-")
    )


def words(*texts: object) -> list[TableCell]:
    """Return the cells of some words."""
    return [TableCell(str(text)) for text in texts]


def style(number: int) -> tuple[str, str]:
    """Return the colour and the dash of the curve of that number."""
    dashes = list(DASHES)
    return COLOURS[number % len(COLOURS)], dashes[number % len(dashes)]


def options(names: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    """Return the choices of a menu: what names a figure, and what is read."""
    return [(str(value), text) for value, text in names]


# Amounts with their parts: one by one where they are few, and spread over kinds where many.

_BARS = 40  # clients that are drawn one by one


def stacked_bars(
    frame: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str, label: str
) -> PageFigure:
    """Return `bars` with a legend of the parts that there are; its arguments are theirs."""
    shown = [str(part) for part in frame if (frame[part] > 0).any()]
    keys = tuple(LegendKey(part, bar_icon(colours[part])) for part in shown)
    return PageFigure(bars(frame[shown], colours, unit, title, label), keys=keys)


def each_or_spread(
    parts: pd.DataFrame,
    colours: Mapping[str, str],
    unit: str,
    title: str,
    whole: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
) -> PageFigure:
    """Return a bar a client; of many clients, boxes of their quarters for each kind.

    Args:
        parts: amounts; a row a client, its index the client and its kind.
        colours: of the columns, and of their sum.
        unit: of the amounts.
        title: of the axis.
        whole: what the sum of the columns is called, where it is an amount as well.
        names: of the clients that have one in the data, by node.
    """
    count = len(parts)
    if count <= _BARS:
        own = parts.set_axis([f"{names.get(node, node)} ({kind})" for node, kind in parts.index])
        return stacked_bars(own, colours, unit, title, f"{title}: every client")
    if whole:
        parts = parts.assign(**{whole: parts.sum(axis=1)})
    kinds = parts.index.get_level_values("kind").to_series().astype(str)
    shown = [str(part) for part in parts if (parts[part] > 0).any()]
    keys = tuple(LegendKey(part, bar_icon(colours[part])) for part in shown)
    note = (
        f"{count:,} clients: of each kind the line is the median, the box holds the middle half "
        "of its clients, and whiskers reach from the least to the most"
    )
    label = f"{title}: how it is spread over clients"
    return PageFigure(boxes(parts, kinds, colours, unit, title, label), note, keys)
