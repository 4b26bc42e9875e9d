"""The network of a run: senders and receivers, and what that cost."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, HTMLWriter
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from fedsim.core.atomic import write_whole
from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.results.analysis.log.edges import edges, node_number, set_disagreement
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.plots.canvas import Logged, axes_for, figure_of, finish, run_of
from fedsim.results.analysis.style import GREY

OnEdges = Literal["bits", "joules", "messages", "busy", "disagreement"]

LAYOUTS: dict[str, Callable[..., Any]] = {
    "kamada-kawai": nx.kamada_kawai_layout,
    "spring": nx.spring_layout,
    "circular": nx.circular_layout,
    "shell": nx.shell_layout,
    "spectral": nx.spectral_layout,
}
"""Functions of networkx that place nodes."""

_UNITS = {
    "bits": "bits",
    "joules": "energy at both ends (J)",
    "messages": "messages",
    "busy": "time on the air (s)",
    "disagreement": "distance between the models",
}


MOST = 200
"""Nodes that are drawn at most; of more, those that carried the most."""

MOST_FRAMES = 100
"""Rounds that an animation shows at most; of more, such as are equally far apart."""

Amounts = np.ndarray[Any, np.dtype[np.float64]]
"""Of edges, or of nodes, of a drawing, in its order."""

Point = tuple[float, float]

Layout = str | Mapping[str, Point]
"""How nodes are placed: the name of a layout, or the place of each node."""

_COLOURS = LinearSegmentedColormap.from_list("carried", ["#b9c9e0", "#10325c"])

_NAMED = 40  # nodes with room for their numbers


class Networked(Logged, Protocol):
    """Recorded runs that may have kept the models of nodes: a `Result`."""

    @property
    def models(self) -> pd.DataFrame:
        """As `Result.models` has them."""

    def node_models(self, variant: str | None, seed: int | None, round: int | None) -> Array:  # noqa: A002
        """As `Result.node_models` has them."""


def plot_network(
    runs: Networked,
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

    A node is the larger the more of it was its own: bits sent or received, joules, time on the air.

    Args:
        runs: a `Result`.
        value: "bits", "joules" (of both ends), "messages" or "busy" (s on the air); or
            "disagreement", the norm of the difference of the two ends' models, and at a node of its
            difference to the mean model, of what `models: {every: 1, clients: true}` keeps.
        layout: of networkx: "kamada-kawai", "spring", "circular", "shell" or "spectral"; or the
            place of each node, x and y in any unit.
        variant: the first one if None.
        seed: the first one if None.
        round: the whole run, and the last one's models, if None.
        ax: axes to draw on; a new figure if None.
        width: of a new figure, inches or a style such as "ieee".
        out: file to save the figure to; its ending gives the format.

    Returns:
        The axes.

    Raises:
        DataError: there is no such variant, seed, value or layout, a node has no place, or nothing
            was sent.
        ValueError: the models of nodes, which are asked for, were not kept.

    Example:
        >>> axes = plot_network(result, layout="circular")
        >>> len(axes.collections) > 0
        True
    """
    _check(value, layout)
    events = run_of(runs.events, variant, seed)
    shown = total = _sum_edges(events, value)
    if round is not None:
        shown = _sum_edges(_rows_of_round(events, round), value)
    if value == "disagreement":
        total = shown = set_disagreement(shown, runs.node_models(*_run_in(events), round))
    whole = _Drawing.of(total, layout)
    axis = axes_for(ax, width)
    whole.draw(axis, shown)
    whole.add_scale(axis, value)
    return finish(axis, out)


def animate_network(
    runs: Networked,
    out: Path | str,
    value: OnEdges = "bits",
    *,
    layout: Layout = "kamada-kawai",
    variant: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write the graph of one run, round by round, as one HTML file with a slider.

    An edge is as wide and dark as what went over it in that round, on the scale of the round that
    carried the most. Of more than `MOST_FRAMES` rounds, such as are equally far apart are shown; of
    "disagreement" those whose models were kept.

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
    apart = value == "disagreement"
    kept = run_of(runs.models, variant, seed) if apart else events
    rounds = sorted({int(own) for own in kept["round"] if own > 0})
    if len(rounds) > MOST_FRAMES:
        chosen = np.linspace(0, len(rounds) - 1, MOST_FRAMES).round().astype(int)
        rounds = [rounds[place] for place in chosen]
    by_round = dict(iter(events.groupby("round")))
    frames = {number: _sum_edges(by_round[number], value) for number in rounds}
    if apart:
        for number in rounds:
            set_disagreement(frames[number], runs.node_models(*_run_in(events), number))
    write_whole(path, _render_frames(whole, frames, value).encode())
    return path


def _render_frames(whole: "_Drawing", frames: "Mapping[int, nx.Graph[str]]", value: str) -> str:
    """Return a page with a frame a round, of the graphs with their amounts."""
    most = max((whole.largest(each) for each in frames.values()), default=0.0)
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
    asked: list[tuple[str, str, Any]] = [("value", value, _UNITS)]
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
    """Return the graph of a log, with a `value` on each edge and node; empty if nothing was sent.

    The disagreement is to be set (`set_disagreement`); 0 until then.
    """
    table = edges(events)
    nothing = pd.Series(0.0, index=table.index)
    known = {"joules": (table["joules_sent"], table["joules_received"])}
    known |= {"busy": (table["busy"], nothing), "disagreement": (nothing, nothing)}
    sent, received = known.get(value) or (table[value], table[value])
    whole = sent + received if value == "joules" else sent
    graph: nx.Graph[str] = nx.Graph()
    ends = zip(table["source"], table["target"], strict=True)
    for (source, target), amount, *own in zip(ends, whole, sent, received, strict=True):
        before = graph.get_edge_data(source, target, {"value": 0.0})["value"]
        graph.add_edge(source, target, value=before + float(amount))
        for node, share in zip((source, target), own, strict=True):
            graph.nodes[node]["value"] = graph.nodes[node].get("value", 0.0) + float(share)
    return graph


def _run_in(events: pd.DataFrame) -> tuple[str, int]:
    """Return the variant and the seed of the log of one run."""
    return str(events["variant"].iloc[0]), int(events["seed"].iloc[0])


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
        for node in sorted(found, key=node_number):
            ordered.add_node(node)
        ordered.add_edges_from(found.edges)
        return cls(ordered, hidden, layout)

    def amounts(self, found: "nx.Graph[str]") -> Amounts:
        """Return what each edge of the drawing carried in a graph; 0 where it is not in it."""
        nothing = {"value": 0.0}
        own = [found.get_edge_data(*ends, nothing)["value"] for ends in self.graph.edges]
        return np.array(own, dtype=np.float64)

    def largest(self, found: "nx.Graph[str]") -> float:
        """Return the largest amount of an edge of the drawing."""
        return float(self.amounts(found).max(initial=0.0))

    def sizes(self, found: "nx.Graph[str]") -> Amounts:
        """Return the area of each node, from a third of the largest one's."""
        there = {node: found.nodes[node]["value"] for node in found}
        own = np.array([there.get(node, 0.0) for node in self.graph])
        most = own.max(initial=0.0) or 1.0
        return (45.0 if len(self.graph) > _NAMED else 330.0) * (1 + 2 * own / most) / 3

    def draw(self, axis: Axes, found: "nx.Graph[str]", most: float | None = None) -> None:
        """Draw nodes and edges.

        Args:
            axis: to draw on.
            found: the graph with what its edges and nodes carried.
            most: the end of the scale; the largest amount of an edge if None.
        """
        amounts = self.amounts(found)
        self.most = (self.largest(found) if most is None else most) or 1.0
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
        size = self.sizes(found).tolist()
        nx.draw_networkx_nodes(self.graph, self.places, ax=axis, node_size=size, node_color=colours)
        if not small:
            names = {node: "S" if node == SERVER else str(node_number(node)) for node in self.graph}
            nx.draw_networkx_labels(
                self.graph, self.places, names, ax=axis, font_size=8, font_color="white"
            )
        axis.set_axis_off()
        if self.hidden:
            shown = f"{MOST} nodes of {MOST + self.hidden:,}: those that carried the most"
            axis.set_title(shown)

    def add_scale(self, axis: Axes, value: str) -> None:
        """Draw the scale of the edges beside them."""
        label = _UNITS[value]
        scale = ScalarMappable(Normalize(0.0, self.most), _COLOURS)
        figure_of(axis).colorbar(scale, ax=axis, label=label, shrink=0.8)
