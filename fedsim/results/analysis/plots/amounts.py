"""Amounts that are made of parts: a stacked bar each, or boxes where there are many."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import ArrayLike

from fedsim.core.text import quantity
from fedsim.results.analysis.client_names import display_names
from fedsim.results.analysis.plots.canvas import category, name_places

BARS = 40
"""Clients that are drawn one by one, at most; of more, boxes say how their amounts are spread."""

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the clients that lie below the ends, the sides and the line of a box."""

IN_ALL = "in all"
"""What all parts of a client add up to."""

_HIGH = 0.7  # of a row, which is a bar's

_ROOM, _SPARE = 1.22, 1.05  # of an axis, with what is written beside its longest bar, and without

_OUTLINE = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]

_EDGE: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.3}

_NONE: Mapping[str, str] = MappingProxyType({})


def draw_bars(
    axis: Axes, rows: ArrayLike, begins: ArrayLike, ends: ArrayLike, **style: object
) -> PathPatch:
    """Draw horizontal bars of one look; the limits of the axes are left to the caller.

    One path holds all of them, so that thousands are drawn as fast as one. Its vertices are the
    corners, five a bar: left and low, left and high, right and high, right and low, and the first.

    Args:
        axis: where.
        rows: of each bar, its place upwards, the middle of the bar.
        begins: of each bar, from left to right.
        ends: of each bar.
        style: as `PathPatch` takes it.
    """
    middle, left, right = (np.asarray(each, dtype=np.float64) for each in (rows, begins, ends))
    low, high = middle - _HIGH / 2, middle + _HIGH / 2
    corners = np.stack([left, low, left, high, right, high, right, low, left, low], axis=-1)
    outline = Path(corners.reshape(-1, 2), np.tile(_OUTLINE, len(middle)))
    drawn: PathPatch = PathPatch(outline, **style)
    axis.add_artist(drawn)
    return drawn


def stacked_bars(
    axis: Axes,
    parts: pd.DataFrame,
    colours: Mapping[str, str],
    hatches: Mapping[str, str] = _NONE,
) -> None:
    """Draw a bar a row, the first on top, made of the row's columns from left to right.

    Args:
        axis: where.
        parts: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts.
        hatches: of the parts, which tell them apart in grey; none if not given.
    """
    begins, rows = np.zeros(len(parts)), np.arange(len(parts))
    for name, amounts in parts.items():
        ends = begins + amounts.to_numpy(np.float64)
        own: dict[str, Any] = {"facecolor": colours[str(name)], "linewidth": 0.0}
        if hatches:
            own |= {**_EDGE, "hatch": hatches[str(name)]}
        draw_bars(axis, rows, begins, ends, label=str(name), **own)
        begins = ends
    axis.set_xlim(0, _SPARE * float(begins.max(initial=0.0)) or 1.0)
    category(axis, [str(name) for name in parts.index])


def summed_bars(
    axis: Axes,
    parts: pd.DataFrame,
    colours: Mapping[str, str],
    unit: str,
    hatches: Mapping[str, str] = _NONE,
) -> None:
    """Draw `stacked_bars` of the parts that there are, and write at each bar what it adds up to.

    Args:
        axis: where.
        parts: amounts of at least 0; the index names the bars, the columns their parts.
        colours: of the parts, which are drawn in its order.
        unit: of the amounts.
        hatches: as for `stacked_bars`.
    """
    shown = [name for name in colours if name in parts and (parts[name] > 0).any()]
    stacked_bars(axis, parts[shown], colours, hatches)
    sums = parts[shown].sum(axis=1).to_numpy(np.float64)
    for row, amount in enumerate(sums.tolist()):
        axis.text(amount, row, f"\N{NO-BREAK SPACE}{quantity(amount, unit)}", va="center")
    axis.set_xlim(0, _ROOM * float(sums.max(initial=0.0)) or 1.0)


def boxes(axis: Axes, amounts: pd.DataFrame, kinds: pd.Index, colours: Mapping[str, str]) -> None:
    """Draw how amounts are spread over the clients of each kind: a box of their quarters each.

    The line in a box is the median, the box holds the middle half of the clients, and its whiskers
    reach from the least to the most. A kind has a row an amount; rows are counted downwards, with
    one left empty between kinds.

    Args:
        axis: where.
        amounts: of at least 0; a row a client, a column each.
        kinds: of the clients.
        colours: of the columns, which are drawn in its order, and of what they add up to if it has
            `IN_ALL`.
    """
    amounts = amounts.assign(**{IN_ALL: amounts.sum(axis=1)})
    shown = [name for name in colours if name in amounts and (amounts[name] > 0).any()]
    groups = [(str(kind), own) for kind, own in amounts[shown].groupby(kinds, sort=False)]
    firsts = np.arange(len(groups)) * (len(shown) + 1)
    for number, name in enumerate(shown):
        rows = firsts + number
        each = [np.quantile(own[name].to_numpy(np.float64), QUARTERS) for _, own in groups]
        least, first, median, third, most = np.array(each).T
        axis.hlines(rows, least, most, color=colours[name], linewidth=1.2)
        style: dict[str, Any] = {"edgecolor": colours[name], "linewidth": 0.8, "label": name}
        draw_bars(axis, rows, first, third, facecolor=(colours[name], 0.45), **style)
        for colour, wide in (("black", 3.0), (colours[name], 1.6)):
            ends = rows - _HIGH / 2, rows + _HIGH / 2
            axis.vlines(median, *ends, color=colour, linewidth=wide)
    names = [f"{kind} ({len(own):,})" for kind, own in groups]
    name_places(axis.yaxis, (firsts + (len(shown) - 1) / 2).tolist(), names)
    axis.set_ylim(len(groups) * (len(shown) + 1) - 1.5, -0.5)
    axis.set_xlim(0, _SPARE * float(amounts[shown].to_numpy().max(initial=0.0)) or 1.0)


def draw_clients(
    axis: Axes,
    amounts: pd.DataFrame,
    clients: pd.DataFrame,
    colours: Mapping[str, str],
    unit: str,
    hatches: Mapping[str, str] = _NONE,
) -> None:
    """Draw a bar a client, or boxes of each kind where there are more than `BARS` clients.

    Args:
        axis: where.
        amounts: of at least 0; a row a client, a column a part; the index is client and kind.
        clients: the client tables, which have the clients' names.
        colours: as for `summed_bars` and `boxes`.
        unit: of the amounts.
        hatches: as for `stacked_bars`.
    """
    nodes, kinds = (amounts.index.get_level_values(level) for level in ("client", "kind"))
    if len(amounts) <= BARS:
        named = amounts.set_axis(display_names(nodes, clients))
        summed_bars(axis, named, colours, unit, hatches)
    else:
        boxes(axis, amounts, kinds, colours)
