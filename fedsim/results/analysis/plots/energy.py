"""Energy: where it went, by variant, device or client, and what batteries held."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.results.analysis.client_names import display_names
from fedsim.results.analysis.energy import energy_parts, state_of_charge
from fedsim.results.analysis.plots.canvas import (
    Logged,
    add_legend,
    axes_for,
    bars_height,
    category,
    finish,
    label_with_unit,
    labels_for,
    run_of,
    variant_of,
)
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import DEVICE_COLOURS, PART_COLOURS, PART_HATCHES

Bars = Literal["variant", "device", "client"]
"""What a bar of energy is of."""

_MOST_BARS = 40
_TIMES = 300  # of the curve of a battery
_BATTERIES = 1000  # whose quantiles are drawn, spread over the fleet


def plot_energy(
    runs: Logged,
    by: Bars = "variant",
    variant: str | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw where energy went, a stacked bar each: sending, tails, computing, rest, ...

    Args:
        runs: a `Result`.
        by: "variant" for the whole fleet of each variant, "device" for each device and radio of
            one, "client" for each client of one. Bars are means over seeds.
        variant: whose devices or clients are drawn; the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant, or there are more than 40 clients.

    Example:
        >>> axes = plot_energy(result, "device")
        >>> [text.get_text() for text in axes.get_yticklabels()]
        ['phone-mid, lte', 'pi-4, wifi']
    """
    clients = runs.clients
    labels = labels_for(runs, None)
    if by == "variant":
        parts = energy_parts(clients, ["variant"])
        seeds = clients.groupby("variant", observed=True)["seed"].nunique()
        parts = parts.div(seeds.reindex(parts.index), axis=0)
        names = [labels[str(name)] for name in parts.index]
    else:
        own = clients[clients["variant"] == variant_of(clients, variant)]
        keys = ["device", "radio"] if by == "device" else ["client"]
        parts = energy_parts(own, keys) / own["seed"].nunique()
        joined = [", ".join(key) if isinstance(key, tuple) else str(key) for key in parts.index]
        names = joined if by == "device" else display_names(joined, own)
    if len(parts) > _MOST_BARS:
        text = f"got {len(parts):,} bars; expected at most {_MOST_BARS}, such as by='device'"
        raise DataError("by", text)
    axis = axes_for(ax, width, bars_height(ax, width, len(names), 0.9))
    axis.grid(visible=False, axis="y")
    _stack(axis, parts)
    category(axis, names)
    label_with_unit(axis.xaxis, "energy", "J")
    add_legend(axis, own=ax is None)
    return finish(axis, out)


def _stack(axis: Axes, parts: pd.DataFrame) -> None:
    """Draw one bar per row from its parts; hatches tell them apart in grey."""
    begins = np.zeros(len(parts))
    for part in (name for name in PART_COLOURS if name in parts and (parts[name] > 0).any()):
        own = parts[part].to_numpy()
        style: dict[str, Any] = {"color": PART_COLOURS[part], "hatch": PART_HATCHES[part]}
        style |= {"edgecolor": "#444444", "linewidth": 0.3, "label": part}
        axis.barh(range(len(parts)), own, 0.7, begins, **style)
        begins = begins + own
    axis.set_xlim(0, 1.05 * float(begins.max()) or 1.0)


def plot_batteries(
    runs: Logged,
    variant: str | None = None,
    seed: int | None = None,
    *,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the state of charge of a run's batteries as a fan, a fan a device.

    The line is the median of the batteries, the dark band holds the middle half of them, the light
    one 90 %. The log has a battery's charge whenever its client does something; between it is
    taken to run straight. Of more than 1,000 batteries some are drawn, spread over the fleet.

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
        ('state of charge (%)', ['phone-mid'])
    """
    events = run_of(runs.events, variant, seed)
    rows = events[events["state_of_charge"].notna()]
    if rows.empty:
        raise DataError("plot", "no client of this run has a battery; expected a fleet with some")
    times = np.linspace(0.0, float(events["t"].max()), _TIMES)
    levels = _levels(rows, times)
    shown = list(levels.columns)
    devices = runs.clients.drop_duplicates("client").set_index("client")["device"].astype(str)
    axis = axes_for(ax, width)
    for number, device in enumerate(dict.fromkeys(devices[shown])):
        fan = levels[[name for name in shown if devices[name] == device]]
        _draw_fan(axis, fan, DEVICE_COLOURS[number % len(DEVICE_COLOURS)], device)
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


def _draw_fan(axis: Axes, fan: pd.DataFrame, colour: str, device: str) -> None:
    """Draw the median of batteries with the bands that hold 90 % and the middle half of them."""
    for share, alpha in ((0.05, 0.15), (0.25, 0.3)):
        low, high = (fan.quantile(each, axis=1) for each in (share, 1 - share))
        axis.fill_between(fan.index, low, high, color=colour, alpha=alpha, linewidth=0)
    axis.plot(fan.index, fan.median(axis=1), color=colour, label=device)
