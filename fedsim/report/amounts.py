"""Amounts with their parts: one by one where they are few, and spread over kinds where many."""

from collections.abc import Mapping

import pandas as pd

from fedsim.report.drawing import bar_icon, bars, boxes
from fedsim.report.parts import Figure, Key

_BARS = 40  # clients that are drawn one by one


def stacked(
    frame: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str, label: str
) -> Figure:
    """Return `bars` with a legend of the parts that there are; its arguments are theirs."""
    shown = [str(part) for part in frame if (frame[part] > 0).any()]
    keys = tuple(Key(part, bar_icon(colours[part])) for part in shown)
    return Figure(bars(frame[shown], colours, unit, title, label), keys=keys)


def each_or_spread(
    parts: pd.DataFrame, colours: Mapping[str, str], unit: str, title: str, whole: str = ""
) -> Figure:
    """Return a bar a client; of many clients, boxes of their quarters for each kind.

    Args:
        parts: amounts; a row a client, its index the client and its kind.
        colours: of the columns, and of their sum.
        unit: of the amounts.
        title: of the axis.
        whole: what the sum of the columns is called, where it is an amount as well.
    """
    count = len(parts)
    if count <= _BARS:
        own = parts.set_axis([f"{client} ({kind})" for client, kind in parts.index])
        return stacked(own, colours, unit, title, f"{title}: every client")
    if whole:
        parts = parts.assign(**{whole: parts.sum(axis=1)})
    kinds = parts.index.get_level_values("kind").to_series().astype(str)
    shown = [str(part) for part in parts if (parts[part] > 0).any()]
    keys = tuple(Key(part, bar_icon(colours[part])) for part in shown)
    note = (
        f"{count:,} clients: of each kind the line is the median, the box holds the middle half "
        "of its clients, and whiskers reach from the least to the most"
    )
    label = f"{title}: how it is spread over clients"
    return Figure(boxes(parts, kinds, colours, unit, title, label), note, keys)
