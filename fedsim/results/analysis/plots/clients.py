"""Clients: how long uploads take, and which client took part, was silent or late, and when."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedsim.results.analysis.client_names import display_names, kinds_of
from fedsim.results.analysis.log.frames import SERVER, numbers_of
from fedsim.results.analysis.log.participation import OUTCOMES, round_outcomes, updates
from fedsim.results.analysis.plots.amounts import draw_clients
from fedsim.results.analysis.plots.canvas import (
    Logged,
    WithClients,
    add_keys,
    add_legend,
    axes_for,
    bar_row,
    figure_of,
    finish,
    fit_rows,
    label_with_unit,
    labels_for,
    run_of,
    usual_height,
    variant_of,
)
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import GREY, OUTCOME_COLOURS, escape_text, look
from fedsim.results.analysis.timeline import repeats

_COLUMNS = 200  # of a map; more rounds are drawn as shares of some of them
_NAMED = 20  # clients that are named at the side
_A_NAME = 0.15  # inches of a name's line, with letters of 8 points
_CELLS: dict[str, Any] = {"aspect": "auto", "interpolation": "none"}


def upload_times(events: pd.DataFrame) -> pd.DataFrame:
    """Return the time of each delivered message of a client, as `plot_upload_cdf` draws it.

    Args:
        events: of `Result.events`.

    Returns:
        The columns variant and seconds.
    """
    up = (events["event"] == "send") & (events["node"] != SERVER) & events["detail"].isna()
    seconds = (events["duration"] + repeats(events))[up]
    return pd.DataFrame({"variant": events.loc[up, "variant"].astype(str), "seconds": seconds})


def plot_upload_cdf(
    runs: Logged,
    *,
    log: bool = True,
    labels: Mapping[str, str] | None = None,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw how long uploads take: the share of all messages of clients that took no longer.

    The time of an upload is that in which its bits flowed, with packets that were sent again, and
    without the latency of links. Beacons count; messages that were not delivered are left out. The
    curve of a variant is over all of its seeds.

    Args:
        runs: a `Result`.
        log: whether the axis of time is logarithmic.
        labels: variant -> its name, of those that are drawn; all if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant.

    Example:
        >>> axes = plot_upload_cdf(result)
        >>> axes.get_ylabel(), float(axes.lines[0].get_ydata()[-1])
        ('share of uploads', 1.0)
    """
    named = labels_for(runs, labels)
    times = upload_times(runs.events)
    axis = axes_for(ax, width)
    for number, (variant, label) in enumerate(named.items()):
        own = np.sort(times[times["variant"] == variant]["seconds"].to_numpy(np.float64))
        _draw_shares(axis, own[own > 0] if log else own, number, label)
    if log:
        axis.set_xscale("log")
    axis.set_ylim(0, 1)
    axis.set_ylabel("share of uploads")
    label_with_unit(axis.xaxis, "time of an upload", "s")
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def _draw_shares(axis: Axes, values: NDArray[np.float64], number: int, label: str) -> None:
    """Draw the share of sorted values that are no larger, for each of them."""
    if len(values):
        shares = np.arange(1, len(values) + 1) / len(values)
        shown = spread(len(values))
        style = look(number, len(shown)) | {"label": escape_text(label)}
        axis.plot(values[shown], shares[shown], drawstyle="steps-post", **style)


def plot_participation(
    runs: Logged,
    variant: str | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw a map of the share of rounds and seeds in which each client sent an update.

    Of more than 200 rounds, a column stands for several.

    Args:
        runs: a `Result`.
        variant: the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes; the map is `axes.images[0]`.

    Raises:
        DataError: there is no such variant.

    Example:
        >>> axes = plot_participation(result, "gd")
        >>> shares = axes.images[0].get_array()
        >>> shares.shape, float(shares.max())
        ((5, 12), 1.0)
    """
    chosen = variant_of(runs.rounds, variant)
    rounds, events = (each[each["variant"] == chosen] for each in (runs.rounds, runs.events))
    last = int(rounds["round"].max())
    names = _clients(runs, chosen)
    sent = events[updates(events) & events["round"].between(1, last)]
    sent = sent.drop_duplicates(["seed", "node", "round"])
    counts = _count(sent, names, last)
    seeds = rounds.groupby("seed")["round"].max()
    running = np.array([(seeds >= number).sum() for number in range(1, last + 1)])
    places = _bins(last)
    shares = np.add.reduceat(counts, places, axis=1) / np.add.reduceat(running, places)
    axis = axes_for(ax, width, _map_height(ax, width, len(names)))
    axis.grid(visible=False)
    box = (0.5, last + 0.5, len(names) - 0.5, -0.5)
    image = axis.imshow(shares, cmap="cividis", vmin=0, vmax=1, extent=box, **_CELLS)
    bar = figure_of(axis).colorbar(image, ax=axis)
    bar.set_label("share of rounds with an update")
    _name_clients(axis, display_names(names, runs.clients[runs.clients["variant"] == chosen]))
    return finish(axis, out)


OUTCOMES_OF_TABLES = {
    "transmissions": "replied",
    "silent": "silent",
    "late": "late",
    "lost": "lost",
    "skipped": "skipped",
}
"""Columns of a client table that count what became of a client, and what they are called."""


def plot_outcomes(
    runs: WithClients,
    variant: str | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw how often each client replied, was silent, late, lost or skipped: a stacked bar each.

    Counts are those of a run, means over seeds. Of more than 40 clients, boxes say for each group
    of the fleet how they are spread, as in `plot_energy`.

    Args:
        runs: a `Result`.
        variant: the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant.

    Example:
        >>> axes = plot_outcomes(result, "base")
        >>> axes.get_legend_handles_labels()[1]
        ['replied', 'silent']
    """
    own = runs.clients[runs.clients["variant"] == variant_of(runs.clients, variant)]
    own = own.assign(kind=kinds_of(own)).rename(columns=OUTCOMES_OF_TABLES)
    groups = own.groupby(["client", "kind"], sort=False, observed=True)
    counts = groups[list(OUTCOMES_OF_TABLES.values())].sum() / own["seed"].nunique()
    axis = axes_for(ax, width)
    if ax is None:
        axis.grid(visible=False, axis="y")
    draw_clients(axis, counts, own, OUTCOME_COLOURS, "")
    label_with_unit(axis.xaxis, "times per client in a run")
    fit_rows(axis, bar_row(width), 0.9, own=ax is None)
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def plot_silence(
    runs: Logged,
    variant: str | None = None,
    seed: int | None = None,
    *,
    first: int = 1,
    last: int | None = None,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw which client replied, was silent, late, lost or skipped in which round of a run.

    Args:
        runs: a `Result`.
        variant: of the run; the first one if None.
        seed: of the run; the first one if None.
        first: round that is drawn, from 1.
        last: round that is drawn; at most 200 rounds are, from `first` on.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes; `axes.images[0]` has the number of each outcome in `OUTCOMES`.

    Raises:
        DataError: there is no such run.

    Example:
        >>> axes = plot_silence(result, "base")
        >>> sorted({OUTCOMES[int(number)] for number in axes.images[0].get_array().flat})
        ['replied', 'silent']
    """
    chosen = variant_of(runs.rounds, variant)
    rounds, own = (run_of(each, chosen, seed) for each in (runs.rounds, runs.events))
    end = int(rounds["round"].max())
    stop = min(end if last is None else last, end, first + _COLUMNS - 1)
    names = _clients(runs, chosen)
    table = _outcomes(own, names, first, stop)
    axis = axes_for(ax, width, _map_height(ax, width, len(names)))
    axis.grid(visible=False)
    colours = ["white", *(OUTCOME_COLOURS[name] for name in OUTCOMES[1:])]
    box = (first - 0.5, stop + 0.5, len(names) - 0.5, -0.5)
    limits: dict[str, Any] = {"vmin": -0.5, "vmax": len(OUTCOMES) - 0.5}
    axis.imshow(table, cmap=ListedColormap(colours), extent=box, **limits, **_CELLS)
    seen = [number for number in range(len(OUTCOMES)) if (table == number).any()]
    own_edge: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.5}
    keys = [Patch(facecolor=colours[n], label=OUTCOMES[n], **own_edge) for n in seen]
    _name_clients(axis, display_names(names, runs.clients[runs.clients["variant"] == chosen]))
    add_keys(axis, keys, own=ax is None)
    return finish(axis, out)


def _outcomes(events: pd.DataFrame, names: list[str], first: int, last: int) -> NDArray[np.int8]:
    """Return the number of the outcome of each client and round, shape (clients, rounds)."""
    table = np.zeros((len(names), max(last - first + 1, 0)), dtype=np.int8)
    found = round_outcomes(events)
    clients = numbers_of(found["client"], names)
    kept = found["round"].between(first, last).to_numpy() & (clients >= 0)
    rounds = found["round"].to_numpy()[kept] - first
    table[clients[kept], rounds] = numbers_of(found["outcome"], OUTCOMES)[kept]
    return table


def _clients(runs: Logged, variant: str) -> list[str]:
    """Return the clients of a variant, in the order of the fleet."""
    own = runs.clients.loc[runs.clients["variant"] == variant, "client"]
    return list(dict.fromkeys(own.astype(str)))


def _count(rows: pd.DataFrame, names: list[str], last: int) -> NDArray[np.intp]:
    """Return how many rows there are of each client and round, shape (clients, rounds)."""
    which = pd.Index(names).get_indexer(pd.Index(rows["node"].astype(str)))
    places = which * last + rows["round"].to_numpy() - 1
    return np.bincount(places[which >= 0], minlength=len(names) * last).reshape(len(names), last)


def _bins(rounds: int) -> NDArray[np.intp]:
    """Return the first round of each column, from 0."""
    return np.linspace(0, rounds, min(rounds, _COLUMNS), endpoint=False).astype(np.intp)


def _map_height(ax: Axes | None, width: float | str | None, clients: int) -> float | None:
    """Return the height of a map in which the names of clients have room; None for the usual."""
    if ax is not None or clients > _NAMED:
        return None
    needed = 1.0 + _A_NAME * clients
    return needed if needed > usual_height(width) else None


def _name_clients(axis: Axes, names: list[str]) -> None:
    """Label the axes of a map of clients and rounds; of many clients, by their numbers."""
    if len(names) <= _NAMED:
        axis.set_yticks(range(len(names)), [escape_text(name) for name in names])
    else:
        axis.set_ylabel("client")
        axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_xlabel("round")
