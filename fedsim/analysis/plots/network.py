"""The network of a run: senders and receivers, and what that cost."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, HTMLWriter
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from fedsim.analysis.log.edges import edges
from fedsim.analysis.log.frames import SERVER
from fedsim.analysis.plots.canvas import Logged, axes_for, figure_of, finish, run_of
from fedsim.analysis.style import GREY
from fedsim.blocks.wording import nearest
from fedsim.errors import DataError
from fedsim.record.atomic import write_whole

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

MOST_FRAMES = 100
"""Rounds that an animation shows at most; of more, such as are equally far apart."""

Amounts = np.ndarray[Any, np.dtype[np.float64]]

Point = tuple[float, float]

Layout = str | Mapping[str, Point]
"""How nodes are placed: the name of a layout, or the place of each node."""

_COLOURS = LinearSegmentedColormap.from_list("carried", ["#b9c9e0", "#10325c"])

_NAMED = 40  # nodes with room for their numbers


def plot_network(
    runs: Logged,
    value: OnEdges = "bits",
    *,
    layout: Layout = "kamada-kawai",
    variant: str | None = None,
    seed: int | None = None,
    round: int | None = None,  # noqa: A002 - the name of the column
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the graph of one run: an edge is as wide and dark as what went over it, both ways.

    Args:
        runs: a `Result`.
        value: "bits", "joules" (of both ends), "messages" or "busy" (s on the air).
        layout: of networkx: "kamada-kawai", "spring", "circular", "shell" or "spectral"; or the
            place of each node, x and y in any unit.
        variant: the first one if None.
        seed: the first one if None.
        round: only what was sent in this round; in the whole run if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant, seed, value or layout, a node has no place, or nothing
            was sent.

    Example:
        >>> axes = plot_network(result, layout="circular")
        >>> len(axes.collections) > 0
        True
    """
    _check(value, layout)
    events = run_of(runs.events, variant, seed)
    shown = total = _sum_edges(events, value)
    whole = _Drawing.of(total, layout)
    if round is not None:
        shown = _sum_edges(_rows_of_round(events, round), value)
    axis = axes_for(ax, width)
    whole.draw(axis, whole.amounts(shown))
    whole.add_scale(axis, value)
    return finish(axis, out)


def animate_network(
    runs: Logged,
    out: Path | str,
    value: OnEdges = "bits",
    *,
    layout: Layout = "kamada-kawai",
    variant: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write the graph of one run, round by round, as one HTML file with a slider.

    An edge is as wide and dark as what went over it in that round, on the scale of the round that
    carried the most. Of more than `MOST_FRAMES` rounds, such as are equally far apart are shown.

    Args:
        runs: a `Result`.
        out: the file to write, which ends in .html; it needs no other file.
        value: as for `plot_network`.
        layout: as for `plot_network`.
        variant: the first one if None.
        seed: the first one if None.

    Returns:
        The path of the file.

    Raises:
        DataError: as for `plot_network`, or the file's name has another ending.
        OutputError: the file cannot be written.

    Example:
        >>> animate_network(result, out / "network.html").name
        'network.html'
    """
    path = Path(out)
    if path.suffix != ".html":
        raise DataError("out", f"got {path.name!r}; expected a name that ends in .html")
    _check(value, layout)
    events = run_of(runs.events, variant, seed)
    whole = _Drawing.of(_sum_edges(events, value), layout)
    rounds = sorted({int(own) for own in events["round"] if own > 0})
    if len(rounds) > MOST_FRAMES:
        chosen = np.linspace(0, len(rounds) - 1, MOST_FRAMES).round().astype(int)
        rounds = [rounds[place] for place in chosen]
    by_round = dict(iter(events.groupby("round")))
    frames = {number: whole.amounts(_sum_edges(by_round[number], value)) for number in rounds}
    write_whole(path, _render_frames(whole, frames, value).encode())
    return path


def _render_frames(whole: "_Drawing", frames: Mapping[int, Amounts], value: str) -> str:
    """Return a page with a frame a round, whose amounts are given."""
    most = max((float(each.max(initial=0.0)) for each in frames.values()), default=0.0)
    axis = axes_for(None, None)
    rounds = list(frames)

    def show(place: int) -> list[Any]:
        axis.clear()
        whole.draw(axis, frames[rounds[place]], most)
        axis.set_title(f"round {rounds[place]:,}")
        return []

    whole.most = most
    whole.add_scale(axis, value)
    moving = FuncAnimation(figure_of(axis), show, frames=len(rounds), init_func=list)
    with TemporaryDirectory() as folder:
        page = Path(folder) / "network.html"
        moving.save(str(page), HTMLWriter(fps=4, embed_frames=True, default_mode="once"))
        return _embed_icons(page.read_text(encoding="utf-8"))


_ICONS = {
    "minus": "&minus;",
    "fast-backward": "|&#x25C0;",
    "step-backward": "&lsaquo;",
    "pause": "||",
    "play": "&#x25B6;",
    "step-forward": "&rsaquo;",
    "fast-forward": "&#x25B6;|",
    "plus": "+",
}
"""Characters for the icons of matplotlib's buttons, whose font would be loaded from the web."""


def _embed_icons(page: str) -> str:
    """Return a page of matplotlib's that loads nothing, and is the same for the same frames."""
    page = re.sub(r"<link[^>]*font-awesome[^>]*>\s*", "", page)
    page = re.sub(r'<i class="fa fa-(play [^"]+)"></i>', "&#x25C0;", page)  # it is drawn mirrored
    for name, sign in _ICONS.items():
        page = page.replace(f'<i class="fa fa-{name}"></i>', sign)
    drawn = re.search(r"_anim_img([0-9a-f]{32})", page)
    return page.replace(drawn[1], "OfNetwork") if drawn else page


def _check(value: str, layout: Layout) -> None:
    asked: list[tuple[str, str, Any]] = [("value", value, (*_UNITS, "busy"))]
    if isinstance(layout, str):
        asked.append(("layout", layout, LAYOUTS))
    for key, seen, known in asked:
        if seen not in known:
            text = f"got {seen!r}{nearest(seen, list(known))}; expected {', '.join(known)}"
            raise DataError(key, text)


def _rows_of_round(events: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return the rows of a round.

    Raises:
        DataError: there is no such round.
    """
    rows = events[events["round"] == number]
    if rows.empty:
        raise DataError("round", f"got round {number}; expected 1 to {events['round'].max()}")
    return rows


def _sum_edges(events: pd.DataFrame, value: str) -> "nx.Graph[str]":
    """Return the graph of a log, with a `value` on each edge; empty where nothing was sent."""
    table = edges(events)
    joules = table["joules_sent"] + table["joules_received"]
    values = joules if value == "joules" else table[value]
    graph: nx.Graph[str] = nx.Graph()
    for source, target, amount in zip(table["source"], table["target"], values, strict=True):
        before = graph.get_edge_data(source, target, {"value": 0.0})["value"]
        graph.add_edge(source, target, value=before + float(amount))
    return graph


def _limit(graph: "nx.Graph[str]") -> "tuple[nx.Graph[str], int]":
    """Return the `MOST` nodes that carried the most with their edges, and how many are hidden."""
    hidden = max(len(graph) - MOST, 0)
    if hidden:
        carried = dict(graph.degree(weight="value"))
        graph = graph.subgraph(sorted(graph, key=lambda node: -carried[node])[:MOST])
    return graph, hidden


class _Drawing:
    """The graph of a run with the places of its nodes, on which any of its rounds is drawn.

    Args:
        graph: the nodes in their order, and the edges.
        hidden: how many nodes are not in it.
        layout: that places the nodes.
    """

    def __init__(self, graph: "nx.Graph[str]", hidden: int, layout: Layout) -> None:
        self.graph, self.hidden = graph, hidden
        self.most = 1.0  # the end of the scale
        if isinstance(layout, str):
            seeded: dict[str, Any] = {"seed": 1} if layout == "spring" else {}
            self.places = LAYOUTS[layout](graph, **seeded)
            return
        lacking = [node for node in graph if node not in layout]
        if lacking:
            raise DataError("layout", f"got no place for {lacking[0]}; expected one for each node")
        self.places = {node: layout[node] for node in graph}

    @classmethod
    def of(cls, total: "nx.Graph[str]", layout: Layout) -> "_Drawing":
        """Return the drawing of a run's graph, limited to the nodes that carried the most.

        Raises:
            DataError: nothing was sent, or a node has no place.
        """
        if not len(total):
            raise DataError("events", "no message was sent: there is nothing to draw")
        found, hidden = _limit(total)
        ordered: nx.Graph[str] = nx.Graph()
        for node in sorted(found, key=_number):
            ordered.add_node(node)
        ordered.add_edges_from(found.edges)
        return cls(ordered, hidden, layout)

    def amounts(self, found: "nx.Graph[str]") -> Amounts:
        """Return what each edge of the drawing carried in a graph; 0 where it is not in it."""
        nothing = {"value": 0.0}
        own = [found.get_edge_data(*ends, nothing)["value"] for ends in self.graph.edges]
        return np.array(own, dtype=np.float64)

    def draw(self, axis: Axes, amounts: Amounts, most: float | None = None) -> None:
        """Draw nodes and edges.

        Args:
            axis: to draw on.
            amounts: what each edge carried.
            most: the end of the scale; the largest amount if None.
        """
        self.most = (float(amounts.max(initial=0.0)) if most is None else most) or 1.0
        nx.draw_networkx_edges(
            self.graph,
            self.places,
            ax=axis,
            width=(0.6 + 3.4 * amounts / self.most).tolist(),
            edge_color=amounts.tolist(),
            edge_vmin=0.0,
            edge_vmax=self.most,
            edge_cmap=_COLOURS,
        )
        small = len(self.graph) > _NAMED
        colours = ["black" if node == SERVER else GREY for node in self.graph]
        size = 30 if small else 220
        nx.draw_networkx_nodes(self.graph, self.places, ax=axis, node_size=size, node_color=colours)
        if not small:
            names = {node: "S" if node == SERVER else str(_number(node)) for node in self.graph}
            nx.draw_networkx_labels(
                self.graph, self.places, names, ax=axis, font_size=8, font_color="white"
            )
        axis.set_axis_off()
        if self.hidden:
            shown = f"{MOST} nodes of {MOST + self.hidden:,}: those that carried the most"
            axis.set_title(shown)

    def add_scale(self, axis: Axes, value: str) -> None:
        """Draw the scale of the edges beside them."""
        label = _UNITS.get(value, "time on the air (s)")
        scale = ScalarMappable(Normalize(0.0, self.most), _COLOURS)
        figure_of(axis).colorbar(scale, ax=axis, label=label, shrink=0.8)


def _number(node: str) -> int:
    """Return the number of a client; -1 for the server."""
    return -1 if node == SERVER else int(node.removeprefix("client-"))
