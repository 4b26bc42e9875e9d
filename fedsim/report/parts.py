"""What a page is made of: tables, figures as plotly.js reads them, and what they share."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fedsim.analysis import COLOURS, quantity
from fedsim.visible import visible

Figure = dict[str, Any]
"""`data` and `layout` of plotly.js, and a `note` that stands below the figure."""

DASHES = ("solid", "dash", "dashdot", "dot")

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "cross", "x", "hexagon")

PARTS = {
    "promotion": "#F0E442",
    "tail": "#E69F00",
    "receiving": "#56B4E9",
    "sending": "#D55E00",
    "sending again": "#CC79A7",
    "at rest": "#BBBBBB",
    "computing": "#0072B2",
}
"""The colour of each part of the energy, by what `energy_parts` calls it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what is read.
        value: the figure behind it, in the unit of its column; None for words.
        colour: of the mark in front of it; empty for none.
        under: a second line, in small letters.
    """

    text: str
    value: float | None = None
    colour: str = ""
    under: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, the heads of its columns, and its rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def number(value: float, unit: str = "") -> Cell:
    """Return the cell of a figure: a count, or a quantity with an SI prefix."""
    return Cell(quantity(float(value), unit), float(value) if np.isfinite(value) else None)


def digits(value: float, most: int = 3) -> Cell:
    """Return the cell of a figure without a unit, with so many digits."""
    return Cell(f"{value:,.{most}g}", float(value)) if np.isfinite(value) else Cell("-")


def words(*texts: object) -> list[Cell]:
    """Return the cells of some words."""
    return [Cell(str(text)) for text in texts]


def short(values: ArrayLike) -> list[float | None]:
    """Return figures with seven digits; what is not finite becomes None.

    >>> short([1 / 3, 2e9 + 1, float("nan")])
    [0.3333333, 2000000000.0, None]
    """
    array = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(array).tolist()
    return [
        float(f"{value:.7g}") if known else None
        for value, known in zip(array.tolist(), finite, strict=True)
    ]


def plain(name: object) -> str:
    """Return a name as plotly.js shows it: it reads some tags of HTML in texts.

    >>> plain("<b>")
    '&lt;b&gt;'
    """
    return html.escape(visible(str(name)), quote=False)


def spread(count: int, most: int) -> NDArray[np.intp]:
    """Return which of so many rows to take: all, or some spread evenly, first and last included.

    >>> spread(3, 5).tolist(), spread(9, 3).tolist()
    ([0, 1, 2], [0, 4, 8])
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.intp)


def style(number: int) -> tuple[str, str]:
    """Return the colour and the dash of the curve of that number."""
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


def axis(unit: str = "", title: str = "", **more: object) -> dict[str, Any]:
    """Return an axis whose ticks have SI prefixes."""
    return {"title": {"text": title}, "tickformat": "~s", "ticksuffix": unit, **more}


def bars(frame: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str) -> Figure:
    """Return a stacked bar a row, the first on top, its name above it.

    Args:
        frame: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
        unit: of the amounts.
        title: of the axis.
    """
    parts = [part for part in frame if (frame[part] > 0).any()]
    layout = {
        "barmode": "stack",
        "height": 110 + 46 * len(frame),
        "annotations": _names(frame.sum(axis=1), unit),
        "xaxis": axis(unit, title, rangemode="tozero"),
        "yaxis": {"visible": False, "range": [len(frame) - 0.6, -0.8]},
        "legend": {"traceorder": "normal"},
        "showlegend": True,
    }
    data = [_part(frame[part], str(part), colours[str(part)], unit) for part in parts]
    return {"data": data, "layout": layout}


_QUANTILES = {"lowerfence": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "upperfence": 1.0}


def boxes(rows: pd.DataFrame, kinds: "pd.Series[str]", colours: Mapping[str, str]) -> Figure:
    """Return how amounts are spread over the clients of each kind: a box of their quarters each.

    However many clients there are, the figure is as large as the kinds are many.

    Args:
        rows: amounts of each client, a column each.
        kinds: of the clients.
        colours: of the columns.
    """
    shown = [column for column in rows if (rows[column] > 0).any()]
    names = list(dict.fromkeys(kinds))
    groups = rows[shown].groupby(kinds.to_numpy(), sort=False)
    quantiles = {end: groups.quantile(share).loc[names] for end, share in _QUANTILES.items()}
    data = [
        {
            "type": "box",
            "orientation": "h",
            "name": plain(column),
            "y": [plain(name) for name in names],
            "marker": {"color": colours[str(column)]},
            **{end: short(of[column]) for end, of in quantiles.items()},
        }
        for column in shown
    ]
    layout = {
        "boxmode": "group",
        "height": 110 + 34 * len(names) * max(len(shown), 1),
        "yaxis": {"automargin": True, "autorange": "reversed"},
        "legend": {"traceorder": "normal"},
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


def _part(amounts: "pd.Series[float]", part: str, colour: str, unit: str) -> dict[str, Any]:
    """Return one part of every bar."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(part),
        "y": list(range(len(amounts))),
        "x": short(amounts),
        "width": 0.5,
        "marker": {"color": colour, "line": {"color": "white", "width": 0.5}},
        "text": [f"{plain(name)}<br>{part}" for name in amounts.index],
        "textposition": "none",
        "hovertemplate": f"%{{text}}: %{{x:.3~s}}{unit}<extra></extra>",
    }


def _names(totals: "pd.Series[float]", unit: str) -> list[dict[str, Any]]:
    """Return the words above each bar: they are as wide as they need to be, on any screen."""
    return [
        {
            "text": f"{plain(name)}: {quantity(float(total), unit)}",
            "x": 0,
            "y": place - 0.42,
            "xanchor": "left",
            "showarrow": False,
            "font": {"size": 12},
        }
        for place, (name, total) in enumerate(totals.items())
    ]


def options(names: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    """Return the choices of a menu: what names a figure, and what is read."""
    return [(str(value), text) for value, text in names]
