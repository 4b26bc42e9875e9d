"""The network of a run: senders and receivers, and what that cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from fedsim.analysis.log.edges import edges
from fedsim.analysis.log.frames import SERVER
from fedsim.analysis.plots.canvas import Logged, axes_for, figure_of, finish, run_of
from fedsim.analysis.style import GREY
from fedsim.blocks.wording import nearest
from fedsim.errors import DataError

OnEdges = Literal["bits", "joules", "messages", "busy"]

LAYOUTS: dict[str, Callable[..., Any]] = {
    "kamada-kawai": nx.kamada_kawai_layout,
    "spring": nx.spring_layout,
    "circular": nx.circular_layout,
    "shell": nx.shell_layout,
    "spectral": nx.spectral_layout,
}
"""Functions of networkx that place nodes."""

_UNITS = {"bits": "bits", "joules": "energy at both ends (J)", "messages": "messages"}

MOST = 200
"""Nodes that are drawn at most; of more, those that carried the most."""

_COLOURS = LinearSegmentedColormap.from_list("carried", ["#b9c9e0", "#10325c"])

_NAMED = 40  # nodes with room for their numbers


def plot_network(
    runs: Logged,
    value: OnEdges = "bits",
    *,
    layout: str = "kamada-kawai",
    variant: str | None = None,
    seed: int | None = None,
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the graph of one run: an edge is as wide and dark as what went over it, both ways.

    Args:
        runs: a `Result`.
        value: "bits", "joules" (of both ends), "messages" or "busy" (s on the air).
        layout: of networkx: "kamada-kawai", "spring", "circular", "shell" or "spectral".
        variant: the first one if None.
        seed: the first one if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant, seed, value or layout, or nothing was sent.

    Example:
        >>> axes = plot_network(result, layout="circular")
        >>> len(axes.collections) > 0
        True
    """
    for key, seen, known in (("layout", layout, LAYOUTS), ("value", value, (*_UNITS, "busy"))):
        if seen not in known:
            text = f"got {seen!r}{nearest(seen, list(known))}; expected {', '.join(known)}"
            raise DataError(key, text)
    graph, hidden = graph_of(edges(run_of(runs.events, variant, seed)), value)
    axis = axes_for(ax, width)
    _draw(axis, graph, layout, value)
    if hidden:
        axis.set_title(f"{MOST} nodes of {MOST + hidden:,}: those that carried the most")
    return finish(axis, out)


def graph_of(table: pd.DataFrame, value: str) -> "tuple[nx.Graph[str], int]":
    """Return the graph of a table of edges, with a `value` on each, and how many nodes are hidden.

    Raises:
        DataError: nothing was sent.
    """
    if table.empty:
        raise DataError("events", "no message was sent: there is nothing to draw")
    joules = table["joules_sent"] + table["joules_received"]
    values = joules if value == "joules" else table[value]
    graph: nx.Graph[str] = nx.Graph()
    for source, target, amount in zip(table["source"], table["target"], values, strict=True):
        before = graph.get_edge_data(source, target, {"value": 0.0})["value"]
        graph.add_edge(source, target, value=before + float(amount))
    hidden = max(len(graph) - MOST, 0)
    if hidden:
        carried = dict(graph.degree(weight="value"))
        graph = graph.subgraph(sorted(graph, key=lambda node: -carried[node])[:MOST]).copy()
    return graph, hidden


def _draw(axis: Axes, graph: "nx.Graph[str]", layout: str, value: str) -> None:
    """Draw nodes and edges, and the scale of the edges beside them."""
    ordered: nx.Graph[str] = nx.Graph()
    for node in sorted(graph, key=_number):
        ordered.add_node(node)
    ordered.add_edges_from(graph.edges(data=True))
    seeded: dict[str, Any] = {"seed": 1} if layout == "spring" else {}
    at = LAYOUTS[layout](ordered, **seeded)
    values: list[float] = [own["value"] for *_, own in ordered.edges(data=True)]
    amounts = np.array(values, dtype=np.float64)
    most = float(amounts.max(initial=0.0)) or 1.0
    scale = Normalize(0.0, most)
    nx.draw_networkx_edges(
        ordered,
        at,
        ax=axis,
        width=(0.6 + 3.4 * amounts / most).tolist(),
        edge_color=amounts.tolist(),
        edge_vmin=0.0,
        edge_vmax=most,
        edge_cmap=_COLOURS,
    )
    small = len(ordered) > _NAMED
    colours = ["black" if node == SERVER else GREY for node in ordered]
    size = 30 if small else 220
    nx.draw_networkx_nodes(ordered, at, ax=axis, node_size=size, node_color=colours)
    if not small:
        names = {node: "S" if node == SERVER else str(_number(node)) for node in ordered}
        nx.draw_networkx_labels(ordered, at, names, ax=axis, font_size=8, font_color="white")
    axis.set_axis_off()
    label = _UNITS.get(value, "time on the air (s)")
    figure_of(axis).colorbar(ScalarMappable(scale, _COLOURS), ax=axis, label=label, shrink=0.8)


def _number(node: str) -> int:
    """Return the number of a client; -1 for the server."""
    return -1 if node == SERVER else int(node.removeprefix("client-"))
