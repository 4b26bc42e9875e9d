"""Reading what is drawn from the axes that it is drawn in."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch


class Bar(NamedTuple):
    """A horizontal bar: the name of its row, and its ends."""

    row: str
    begin: float
    end: float


def rows_of(axis: Axes) -> list[str]:
    """Return the names of the rows, the first one on top."""
    return [text.get_text().partition(" (group")[0] for text in axis.get_yticklabels()]


def bars_of(axis: Axes) -> dict[str, list[Bar]]:
    """Return the bars of each look that has a name, by what a legend calls it."""
    names, found = rows_of(axis), dict[str, list[Bar]]()
    for patch in axis.patches:
        label = str(patch.get_label())
        if not isinstance(patch, PathPatch) or label.strip("_") in {"", "nolegend"}:
            continue
        corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)
        middles = corners[:, :2, 1].mean(axis=1)
        found[label] = [
            Bar(names[round(float(row))], float(begin), float(end))
            for row, begin, end in zip(middles, corners[:, 0, 0], corners[:, 2, 0], strict=True)
        ]
    return found


def amounts_of(axis: Axes) -> dict[tuple[str, str], float]:
    """Return how long each part of each bar is, by the name of the bar and of the part."""
    return {
        (bar.row, part): bar.end - bar.begin for part, own in bars_of(axis).items() for bar in own
    }
