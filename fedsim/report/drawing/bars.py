"""Bars of parts, and boxes of quarters: amounts from left to right, a row each."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.analysis import quantity
from fedsim.report.drawing.area import Area
from fedsim.report.drawing.scales import linear
from fedsim.report.drawing.svg import ink, joined, percent, tag

_ROW, _BAR = 46, 22  # pixels of a bar with its name, and of the bar

_BOX, _HEAD = 20, 24  # pixels of a box, and of the name above some of them

_SPARE = 1.04  # of an axis, beyond what is longest

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the clients that lie below the ends, the sides and the line of a box."""


def bars(
    frame: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str, label: str
) -> Markup:
    """Return a stacked bar a row, the first on top, its name and its sum above it.

    Args:
        frame: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
        unit: of the amounts.
        title: of the axis.
        label: of the figure.
    """
    sums = frame.sum(axis=1)
    scale = linear(0.0, _SPARE * float(sums.max() if len(sums) else 0.0), unit)
    area = Area(label, _ROW * len(frame) + 6, scale, title)
    rows = []
    for place, (name, amounts) in enumerate(frame.iterrows()):
        down = _ROW * place
        told = f"{name}: {quantity(float(sums.iloc[place]), unit)}"
        rows.append(tag("text", told, class_="name", x=0, y=down + 15))
        begin = 0.0
        for part, amount in amounts.items():
            if not amount > 0:
                continue
            rows.append(
                tag(
                    "rect",
                    tag("title", f"{name}\n{part}: {quantity(float(amount), unit)}"),
                    fill=ink(colours[str(part)]),
                    x=percent(scale.share(begin)),
                    y=down + 20,
                    width=percent(scale.share(float(amount))),
                    height=_BAR,
                )
            )
            begin += float(amount)
    return area.holding(tag("g", *rows, class_="bars"))


def boxes(
    rows: pd.DataFrame,
    kinds: "pd.Series[str]",
    colours: Mapping[str, str],
    unit: str,
    title: str,
    label: str,
) -> Markup:
    """Return how amounts are spread over the clients of each kind: a box of their quarters each.

    However many clients there are, the figure is as large as the kinds are many.

    Args:
        rows: amounts of each client, a column each.
        kinds: of the clients.
        colours: of the columns.
        unit: of the amounts.
        title: of the axis.
        label: of the figure.
    """
    shown = [str(column) for column in rows if (rows[column] > 0).any()]
    largest = float(rows[shown].to_numpy().max()) if shown else 0.0
    scale = linear(0.0, _SPARE * largest, unit)
    parts, down = [], 0
    groups = rows[shown].groupby(kinds.to_numpy(), sort=False)
    for kind, own in groups:
        parts.append(tag("text", f"{kind} ({len(own):,})", class_="name", x=0, y=down + 15))
        down += _HEAD
        for column in shown:
            quarters = np.quantile(own[column].to_numpy(np.float64), QUARTERS)
            told = f"{kind}\n{column}: {_told(quarters, unit)}"
            shares = scale.shares(quarters).tolist()
            parts.append(_box(shares, down, ink(colours[column]), told, column))
            down += _BOX
        down += 6
    return Area(label, down + 4, scale, title).holding(tag("g", *parts, class_="boxes"))


def _told(quarters: "np.ndarray[tuple[int], np.dtype[np.float64]]", unit: str) -> str:
    least, first, median, third, most = (quantity(value, unit) for value in quarters.tolist())
    return f"median {median}, half of them {first} to {third}, all {least} to {most}"


def _box(shares: list[float], down: int, colour: str, told: str, column: str) -> Markup:
    """Return a box: whiskers from end to end, the box between the sides, the line at the median."""
    least, first, median, third, most = shares
    middle = down + _BOX / 2
    whisker = {"x1": percent(least), "x2": percent(most), "y1": middle, "y2": middle}
    line = {"x1": percent(median), "x2": percent(median), "y1": down + 3, "y2": down + _BOX - 3}
    box = {"x": percent(first), "width": percent(third - first), "y": down + 4}
    return joined(
        [
            tag(
                "g",
                tag("title", told),
                tag("rect", class_="hit", x="0", width="100%", y=down, height=_BOX),
                tag("line", class_="whisker", stroke=colour, **whisker),
                tag("rect", fill=colour, stroke=colour, height=_BOX - 8, **box),
                tag("line", class_="median", **line),
                data_name=column,
            )
        ]
    )
