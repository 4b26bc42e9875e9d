"""A round: what every client was doing, and when."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedsim.core.errors import DataError
from fedsim.results.analysis.client_names import names_with_groups
from fedsim.results.analysis.costs import without_start
from fedsim.results.analysis.log.edges import node_number
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.plots.amounts import draw_bars
from fedsim.results.analysis.plots.canvas import (
    Logged,
    add_keys,
    axes_for,
    category,
    finish,
    fit_rows,
    label_with_unit,
    run_of,
    variant_of,
)
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import OUTCOME_COLOURS, PART_HATCHES, STATE_ORDER, STATES
from fedsim.results.analysis.timeline import spans

MOST = 40
"""Clients that are drawn at most; half of them are those that were done last."""

_ROW = 0.17  # inches of a lane

_UNDER = 0.43  # of a lane, below its middle: beyond its bar

_BUSY = ("download", "compute", "upload", "retransmit")

_MARKS = {"silent": "o", "late": "D", "lost": "X", "skipped": "s"}

COLUMNS = (
    *("t", "duration", "event", "node", "peer", "round", "message"),
    *("payload_bits", "header_bits", "transport_bits", "joules", "detail"),
)
"""The columns of a log that timelines are drawn from."""


class Window(NamedTuple):
    """A round: its number, and when it began and ended, s."""

    number: int
    begin: float
    end: float


class Lanes(NamedTuple):
    """What the clients of a run were doing, and moments at which something became of one.

    Attributes:
        spans: as `fedsim.results.analysis.spans` gives them.
        moments: rows of the log.
    """

    spans: pd.DataFrame
    moments: pd.DataFrame

    @classmethod
    def of(cls, events: pd.DataFrame) -> "Lanes":
        """Return those of the log of one run, of which `COLUMNS` are enough."""
        moments = events[events["event"].isin(list(_MARKS)) & (events["node"] != SERVER)]
        return cls(spans(events).astype({"node": str}), moments.astype({"node": str}))

    def within(self, window: Window) -> "Lanes":
        """Return what overlaps a round; it has its begin and not its end."""
        (own, marks), (_, start, stop) = self, window
        begin, end = own["begin"], own["end"]
        moment = (begin == end) & (end == start)
        inside = marks["t"].between(start, stop, inclusive="left")
        return Lanes(own[((end > start) | moment) & (begin < stop)], marks[inside])

    @property
    def clients(self) -> list[str]:
        """The clients of which something is known, in the order of the log."""
        return list(pd.concat([self.spans["node"], self.moments["node"]]).unique())

    def last_done(self, window: Window) -> list[str]:
        """Return the clients that finished last within a round, together if there are several.

        What goes on beyond the end of the round has not held it up.
        """
        own = self.spans[self.spans["state"].isin(_BUSY) & (self.spans["end"] <= window.end)]
        ends = own.groupby("node")["end"].max()
        together = 1e-9 * (window.end - window.begin)
        return list(ends.index[ends >= ends.max() - together])

    def choose(self, most: int = MOST) -> list[str]:
        """Return the clients that are drawn, by number.

        Of more than `most` they are those that were done last, half of them, and as many that are
        spread over the others.
        """
        last = self.spans[self.spans["state"].isin(_BUSY)].groupby("node")["end"].max()
        every = last.reindex(self.clients).fillna(-1.0).sort_values(kind="stable")
        if len(every) <= most:
            return sorted(every.index, key=node_number)
        latest = list(every.index[-(most // 2) :])
        others = sorted(every.index[: -(most // 2)], key=node_number)
        others = [others[place] for place in spread(len(others), most - most // 2)]
        return sorted([*latest, *others], key=node_number)


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

    Of more than 40 clients, the 20 are drawn that were done last, and 20 spread over the others.

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
    window = _window(rounds, number)
    axis, seen = axes_for(ax, width), Lanes.of(own).within(window)
    if ax is None:
        axis.grid(visible=False, axis="y")
    keys = draw_round(axis, seen, seen.choose(), window, run_of(runs.clients, shown, seed))
    fit_rows(axis, _ROW, 1.0, own=ax is None)
    add_keys(axis, keys, own=ax is None)
    return finish(axis, out)


def draw_round(
    axis: Axes, seen: Lanes, drawn: Sequence[str], window: Window, clients: pd.DataFrame
) -> list[Patch | Line2D]:
    """Draw a round; return what a legend has of it.

    Args:
        axis: where.
        seen: what was done in the round.
        drawn: the clients that have a lane, the first one on top.
        window: the round.
        clients: the rows of the run's client table, which have the clients' names.
    """
    keys = [*_draw_states(axis, seen.spans, drawn, window), *_draw_marks(axis, seen, drawn, window)]
    keys += _draw_last(axis, seen, drawn, window)
    category(axis, names_with_groups(drawn, clients))
    axis.set_xlim(0, window.end - window.begin or 1.0)
    label_with_unit(axis.xaxis, "time since the round began", "s")
    return keys


def windows(rounds: pd.DataFrame) -> list[Window]:
    """Return the rounds of one run, by number."""
    played = without_start(rounds)
    ends = played["t"].to_numpy(np.float64)
    begins = np.concatenate([[0.0], ends[:-1]])[: len(ends)]
    numbers = played["round"].astype(int).tolist()
    return [Window(*each) for each in zip(numbers, begins.tolist(), ends.tolist(), strict=True)]


def _window(rounds: pd.DataFrame, number: int | None) -> Window:
    """Return a round of a run by its number, the slowest one if None.

    Raises:
        DataError: there is no such round.
    """
    every = {window.number: window for window in windows(rounds)}
    if not every:
        raise DataError(
            "round", "the run ended before its first round did: there is nothing to draw"
        )
    if number is None:
        return max(every.values(), key=lambda window: window.end - window.begin)
    if number not in every:
        text = f"got the round {number}; expected one from {min(every)} to {max(every)}"
        raise DataError("round", text)
    return every[number]


def _draw_states(
    axis: Axes, doings: pd.DataFrame, lanes: Sequence[str], window: Window
) -> list[Patch | Line2D]:
    """Draw the bars of all states, and return what a legend has of them.

    Hatches tell states apart in grey, and a thin edge keeps the shortest ones visible.
    """
    keys, (_, begin, end) = {}, window
    rows = pd.Index(lanes).get_indexer(pd.Index(doings["node"]))
    states, drawn = doings["state"].astype(str).to_numpy(), rows >= 0
    starts = np.maximum(doings["begin"].to_numpy(np.float64), begin) - begin
    ends = np.minimum(doings["end"].to_numpy(np.float64), end) - begin
    for state, (name, colour) in STATES.items():
        own = drawn & (states == state)
        if not own.any():
            continue
        bars = rows[own], starts[own], ends[own]
        hatch: dict[str, Any] = {"hatch": PART_HATCHES.get(name, ""), "edgecolor": "#444444"}
        draw_bars(axis, *bars, facecolor=colour, edgecolor=colour, linewidth=0.5, label=name)
        if rcParams["hatch.linewidth"] > 0:
            draw_bars(axis, *bars, facecolor="none", linewidth=0, **hatch)
        keys[name] = Patch(facecolor=colour, label=name, linewidth=0.3, **hatch)
    return [keys[name] for name in sorted(keys, key=STATE_ORDER.index)]


def _draw_last(axis: Axes, seen: Lanes, lanes: Sequence[str], window: Window) -> list[Line2D]:
    """Underline the clients that finished last, unless most did."""
    last = [name for name in seen.last_done(window) if name in lanes]
    if not 0 < len(last) <= len(lanes) / 2:
        return []
    style: dict[str, Any] = {"color": "black", "linewidth": 1.8, "solid_capstyle": "butt"}
    for name in last:
        own = seen.spans[(seen.spans["node"] == name) & (seen.spans["end"] <= window.end)]
        ends = max(own["begin"].min(), window.begin), own.loc[own["state"].isin(_BUSY), "end"].max()
        place = lanes.index(name) + _UNDER
        axis.plot([each - window.begin for each in ends], [place, place], clip_on=False, **style)
    return [Line2D([], [], label="last to finish", **style)]


def _draw_marks(axis: Axes, seen: Lanes, lanes: Sequence[str], window: Window) -> list[Line2D]:
    """Draw the moments at which a client was silent, late, lost or skipped."""
    keys = []
    places = {name: place for place, name in enumerate(lanes)}
    for event, symbol in _MARKS.items():
        own = seen.moments
        own = own[(own["event"] == event) & own["node"].isin(lanes)]
        if own.empty:
            continue
        style: dict[str, Any] = {"color": OUTCOME_COLOURS[event], "markersize": 5}
        style |= {"markeredgecolor": "black", "label": event}
        axis.plot(own["t"] - window.begin, own["node"].map(places), symbol, clip_on=False, **style)
        keys.append(Line2D([], [], marker=symbol, linestyle="", **style))
    return keys
