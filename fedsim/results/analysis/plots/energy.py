"""Energy: where it went, by variant, device or client, and what batteries held."""

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.results.analysis.client_names import kinds_of
from fedsim.results.analysis.energy import energy_parts, state_of_charge
from fedsim.results.analysis.plots.amounts import IN_ALL, draw_clients, summed_bars
from fedsim.results.analysis.plots.canvas import (
    Logged,
    WithClients,
    add_legend,
    axes_for,
    bar_row,
    finish,
    fit_rows,
    label_with_unit,
    labels_for,
    run_of,
    variant_of,
)
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import DEVICE_COLOURS, PART_COLOURS, PART_HATCHES

Bars = Literal["variant", "device", "kind", "client"]
"""What a bar of energy is of."""

_TIMES = 300  # of the curve of a battery
_BATTERIES = 1000  # whose quantiles are drawn, spread over the fleet
_FEW = 5  # batteries of a group that are drawn one by one


def plot_energy(
    runs: WithClients,
    by: Bars = "variant",
    variant: str | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw where energy went, a stacked bar each: sending, tails, computing, rest, ...

    Of more than 40 clients, boxes say for each kind how each part is spread over them: the line is
    the median, the box holds the middle half, and whiskers reach from the least to the most.

    Args:
        runs: a `Result`.
        by: "variant" for the whole fleet of each variant, "device" for each device and radio of
            one, "kind" for each group of its fleet, "client" for each client of one. Bars are
            means over seeds.
        variant: whose devices, kinds or clients are drawn; the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant.

    Example:
        >>> axes = plot_energy(result, "device")
        >>> [text.get_text() for text in axes.get_yticklabels()]
        ['phone-mid, lte', 'pi-4, wifi']
    """
    table, labels = runs.clients, labels_for(runs, None)
    axis = axes_for(ax, width)
    if ax is None:
        axis.grid(visible=False, axis="y")
    if by == "variant":
        parts = energy_parts(table, ["variant"])
        seeds = table.groupby("variant", observed=True)["seed"].nunique()
        parts = parts.div(seeds.reindex(parts.index), axis=0)
        bars = parts.set_axis([labels[str(name)] for name in parts.index])
        summed_bars(axis, bars, PART_COLOURS, "J", PART_HATCHES)
    else:
        own = table[table["variant"] == variant_of(table, variant)]
        own = own.assign(
            kind=kinds_of(own), both=own["device"].astype(str) + ", " + own["radio"].astype(str)
        )
        keys = {"device": ["both"], "kind": ["kind"], "client": ["client", "kind"]}[by]
        parts = energy_parts(own, keys) / own["seed"].nunique()
        if by == "client":
            draw_clients(axis, parts, own, {**PART_COLOURS, IN_ALL: "black"}, "J", PART_HATCHES)
        else:
            summed_bars(axis, parts, PART_COLOURS, "J", PART_HATCHES)
    label_with_unit(axis.xaxis, "energy", "J")
    fit_rows(axis, bar_row(width), 0.9, own=ax is None)
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def plot_batteries(
    runs: Logged,
    variant: str | None = None,
    seed: int | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the state of charge of a run's batteries as fans, one per group of clients.

    The line is the median of the batteries, the dark band holds the middle half of them, the light
    one 90 %; up to five have one line each. The log has a battery's charge whenever its client does
    something; between it is taken to run straight. Of more than 1,000 batteries some are drawn,
    spread over the fleet.

    Args:
        runs: a `Result`.
        variant: of the run; the first one if None.
        seed: of the run; the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such run, or its whole fleet is on mains.

    Example:
        >>> axes = plot_batteries(result)
        >>> axes.get_ylabel(), axes.get_legend_handles_labels()[1]
        ('state of charge (%)', ['0: phone-mid, lte'])
    """
    events = run_of(runs.events, variant, seed)
    rows = events[events["state_of_charge"].notna()]
    if rows.empty:
        raise DataError("plot", "no client of this run has a battery; expected a fleet with some")
    times = np.linspace(0.0, float(events["t"].max()), _TIMES)
    levels = _levels(rows, times)
    shown = list(levels.columns)
    clients = run_of(runs.clients, variant, seed)
    kinds = dict(zip(clients["client"].astype(str), kinds_of(clients), strict=True))
    axis = axes_for(ax, width)
    for number, kind in enumerate(dict.fromkeys(kinds[name] for name in shown)):
        fan = levels[[name for name in shown if kinds[name] == kind]]
        _draw_fan(axis, fan, DEVICE_COLOURS[number % len(DEVICE_COLOURS)], kind)
    axis.set_ylim(0, 102)
    axis.set_xlim(0, times[-1])
    axis.set_ylabel("state of charge (%)")
    label_with_unit(axis.xaxis, "simulated time", "s")
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def _levels(rows: pd.DataFrame, times: NDArray[np.float64]) -> pd.DataFrame:
    """Return the charge of batteries in per cent, one row per time and one column per client."""
    nodes = rows["node"].astype(str)
    names = list(nodes.unique())
    shown = [names[place] for place in spread(len(names), _BATTERIES)]
    own = rows[nodes.isin(shown)].astype({"node": str})
    levels = 100 * state_of_charge(own, times).droplevel(["variant", "seed"], axis="columns")
    return levels.bfill().ffill()[shown]


def _draw_fan(axis: Axes, fan: pd.DataFrame, colour: str, kind: str) -> None:
    """Draw the median of batteries with the bands that hold 90 % and the middle half of them.

    A few are drawn one by one.
    """
    if fan.shape[1] <= _FEW:
        lines = axis.plot(fan.index, fan, color=colour)
        lines[0].set_label(kind)
        return
    for share, alpha in ((0.05, 0.15), (0.25, 0.3)):
        low, high = (fan.quantile(each, axis=1) for each in (share, 1 - share))
        axis.fill_between(fan.index, low, high, color=colour, alpha=alpha, linewidth=0)
    axis.plot(fan.index, fan.median(axis=1), color=colour, label=kind)
