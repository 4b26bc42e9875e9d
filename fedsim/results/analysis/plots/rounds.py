"""A round: what every client was doing, and when."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedsim.core.errors import DataError
from fedsim.results.analysis.client_names import display_names
from fedsim.results.analysis.costs import without_start
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.plots.canvas import (
    Logged,
    add_keys,
    axes_for,
    category,
    finish,
    label_with_unit,
    run_of,
    variant_of,
)
from fedsim.results.analysis.style import OUTCOME_COLOURS, PART_HATCHES, STATE_ORDER, STATES
from fedsim.results.analysis.timeline import spans

_MOST = 40  # clients that are drawn: those that were done last

_MARKS = {"silent": "o", "late": "D", "lost": "X", "skipped": "s"}


def plot_round(
    runs: Logged,
    number: int | None = None,
    variant: str | None = None,
    seed: int | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the timeline of a round (a Gantt chart): a lane a client, time from the round's begin.

    Of more than 40 clients, those are drawn that were done last.

    Args:
        runs: a `Result`.
        number: of the round, from 1; the slowest one if None.
        variant: of the run; the first one if None.
        seed: of the run; the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such run or round.

    Example:
        >>> axes = plot_round(result, 1)
        >>> len(axes.get_yticks()), axes.get_xlabel()
        (5, 'time since the round began (ms)')
    """
    shown = variant_of(runs.rounds, variant)
    rounds, own = (run_of(each, shown, seed) for each in (runs.rounds, runs.events))
    begin, end = _window(rounds, number)
    doings = spans(own)
    doings = doings[(doings["end"] > begin) & (doings["begin"] < end)].astype({"node": str})
    marks = own[own["event"].isin(list(_MARKS)) & own["t"].between(begin, end, inclusive="left")]
    marks = marks.astype({"node": str})
    marks = marks[marks["node"] != SERVER]
    lanes = _lanes(doings, marks)
    axis = axes_for(ax, width, None if ax is not None else 1.0 + 0.17 * len(lanes))
    axis.grid(visible=False, axis="y")
    keys = [
        *_draw_states(axis, doings, lanes, (begin, end)),
        *_draw_marks(axis, marks, lanes, begin),
    ]
    category(axis, display_names(lanes, run_of(runs.clients, shown, seed)))
    axis.set_xlim(0, end - begin)
    label_with_unit(axis.xaxis, "time since the round began", "s")
    add_keys(axis, keys, own=ax is None)
    return finish(axis, out)


def _window(rounds: pd.DataFrame, number: int | None) -> tuple[float, float]:
    """Return when a round began and ended; of the slowest one if None.

    Raises:
        DataError: there is no such round.
    """
    ends = without_start(rounds).set_index("round")["t"]
    begins = ends.shift(fill_value=0.0)
    if ends.empty:
        raise DataError(
            "round", "the run ended before its first round did: there is nothing to draw"
        )
    slowest = int(ends.index[int((ends - begins).to_numpy().argmax())])
    chosen = slowest if number is None else number
    if chosen not in ends.index:
        text = f"got the round {chosen}; expected one from {ends.index.min()} to {ends.index.max()}"
        raise DataError("round", text)
    return float(begins[chosen]), float(ends[chosen])


def _lanes(doings: pd.DataFrame, marks: pd.DataFrame) -> list[str]:
    """Return the clients that are drawn, by number; of many, those that were done last."""
    busy = doings[doings["state"].isin(["download", "compute", "upload", "retransmit"])]
    last = busy.groupby("node")["end"].max()
    every = pd.concat([doings["node"], marks["node"]]).unique()
    order = last.reindex(every).fillna(-1.0).sort_values(kind="stable").index[-_MOST:]
    return sorted(order, key=lambda name: int(name.rpartition("-")[2]))


def _draw_states(
    axis: Axes, doings: pd.DataFrame, lanes: list[str], window: tuple[float, float]
) -> list[Patch]:
    """Draw the bars of all states, and return what a legend has of them.

    Hatches tell states apart in grey, and a thin edge keeps the shortest ones visible.
    """
    keys, (begin, end) = {}, window
    places = {name: place for place, name in enumerate(lanes)}
    for state, (name, colour) in STATES.items():
        own = doings[(doings["state"] == state) & doings["node"].isin(lanes)]
        if own.empty:
            continue
        starts = own["begin"].clip(lower=begin)
        bars = own["node"].map(places), own["end"].clip(upper=end) - starts, 0.75, starts - begin
        hatch: dict[str, Any] = {"hatch": PART_HATCHES.get(name, ""), "edgecolor": "#444444"}
        axis.barh(*bars, facecolor=colour, edgecolor=colour, linewidth=0.5)
        axis.barh(*bars, facecolor="none", linewidth=0, **hatch)
        keys[name] = Patch(facecolor=colour, label=name, linewidth=0.3, **hatch)
    return [keys[name] for name in sorted(keys, key=STATE_ORDER.index)]


def _draw_marks(axis: Axes, marks: pd.DataFrame, lanes: list[str], begin: float) -> list[Line2D]:
    """Draw the moments at which a client was silent, late, lost or skipped."""
    keys = []
    places = {name: place for place, name in enumerate(lanes)}
    for event, symbol in _MARKS.items():
        own = marks[(marks["event"] == event) & marks["node"].isin(lanes)]
        if own.empty:
            continue
        style: dict[str, Any] = {"color": OUTCOME_COLOURS[event], "markersize": 5}
        style["markeredgecolor"] = "black"
        axis.plot(own["t"] - begin, own["node"].map(places), symbol, clip_on=False, **style)
        keys.append(Line2D([], [], marker=symbol, linestyle="", label=event, **style))
    return keys
