"""The network of a run: its nodes, its links, and what went over them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, HTMLWriter
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from fedsim.core.atomic import write_whole
from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.text import quantity
from fedsim.results.analysis.client_names import display_names, kinds_of
from fedsim.results.analysis.log.edges import edges, set_disagreement
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.log.links import Ends, Network
from fedsim.results.analysis.plots.canvas import (
    Logged,
    add_keys,
    axes_for,
    figure_of,
    finish,
    run_of,
)
from fedsim.results.analysis.style import DEVICE_COLOURS, GREY, escape_text

OnEdges = Literal["bits", "joules", "messages", "busy", "disagreement"]

LAYOUTS: dict[str, Callable[..., Any]] = {
    "kamada-kawai": nx.kamada_kawai_layout,
    "spring": nx.spring_layout,
    "circular": nx.circular_layout,
    "shell": nx.shell_layout,
    "spectral": nx.spectral_layout,
}
"""Functions of networkx that place nodes."""

UNITS = {"bits": "bit", "joules": "J", "messages": "", "busy": "s", "disagreement": ""}
"""The unit of what links are drawn by."""

MOST_FRAMES = 100
"""Rounds that an animation shows at most; of more, such as are equally far apart."""

Point = tuple[float, float]

Layout = str | Mapping[str, Point]
"""How nodes are placed: the name of a layout, "auto", or the place of each node."""

Carried = Mapping[Ends, tuple[float, float]]
"""What went over links, from the first end to the second, and back."""

_PLACED, _SPARSE = 64, 0.4  # peers that are placed by their ways, and the density of their graph

_NAMED, _NUMBERED = 12, 40  # nodes with room for their names, and for their numbers

_WRITTEN = 8  # links with room for what they carried

_OUTER = 0.65  # of a link, from its inner end, where the word on it stands

_THIN, _MORE, _LESS = 0.6, 3.4, 0.8
"""Points of a link that carried nothing, and what the widest has more, of few links and of many."""

_LINE = "#BBBBBB"

_FALSE: Mapping[str, Any] = {"marker": "x", "color": "#D55E00"}
"""The mark on a malicious client, beside that of its group."""

_MARKS = "osDP^*"
"""The marks of kinds of clients."""


class Networked(Logged, Protocol):
    """Recorded runs with their scenarios, which may have kept the models of nodes: a `Result`."""

    @property
    def models(self) -> pd.DataFrame:
        """As `Result.models` has them."""

    def node_models(self, variant: str | None, seed: int | None, round: int | None) -> Array:  # noqa: A002
        """As `Result.node_models` has them."""

    def scenario(self, variant: str | None, seed: int | None) -> Mapping[str, Any]:
        """As `Result.scenario` has it."""


def plot_network(
    runs: Networked,
    value: OnEdges = "bits",
    *,
    layout: Layout = "auto",
    variant: str | None = None,
    seed: int | None = None,
    round: int | None = None,  # noqa: A002 - the name of the column
    ax: Axes | None = None,
    width: float | str | None = None,
    out: Path | str | None = None,
) -> Axes:
    """Draw the network of one run: a link is as wide as what went over it, both ways.

    Clients have the mark and colour of their group; the larger a node, the more of it was its own:
    bits sent or received, joules, time on the air. Bits and messages are on the links of gateways
    and routers, too; dashed links are one of several equally good routes. Of more than 200 peers
    those are drawn that carried the most; of more than 200 clients, a node stands for each group.

    Args:
        runs: a `Result`.
        value: "bits", "joules" (of both ends), "messages" or "busy" (s on the air); or
            "disagreement", the norm of the difference of the two ends' models, and at a node of its
            difference to the mean model, of what `models: {every: 1, clients: true}` keeps.
        layout: of networkx: "kamada-kawai", "spring", "circular", "shell" or "spectral"; "auto" for
            a circle or the first one, by the graph; or the place of each node, x and y in any unit.
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
    whole = NetworkDrawing.of_runs(runs, value, layout, variant, seed)
    axis = axes_for(ax, width)
    add_keys(axis, whole.draw(axis, *whole.amounts(round)), own=ax is None)
    return finish(axis, out)


def animate_network(
    runs: Networked,
    out: Path | str,
    value: OnEdges = "bits",
    *,
    layout: Layout = "auto",
    variant: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write the network of one run, round by round, as one HTML file with a slider.

    A link is as wide as what went over it in that round, on the scale of the round that carried
    the most. Of more than `MOST_FRAMES` rounds, such as are equally far apart are shown; of
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
    whole = NetworkDrawing.of_runs(runs, value, layout, variant, seed)
    kept = run_of(runs.models, variant, seed) if value == "disagreement" else whole.events
    rounds = sorted({int(own) for own in kept["round"] if own > 0})
    if len(rounds) > MOST_FRAMES:
        chosen = np.linspace(0, len(rounds) - 1, MOST_FRAMES).round().astype(int)
        rounds = [rounds[place] for place in chosen]
    write_whole(path, _render_frames(whole, rounds).encode())
    return path


def _render_frames(whole: "NetworkDrawing", rounds: Sequence[int]) -> str:
    """Return a page with a frame a round."""
    frames = [whole.amounts(number) for number in rounds]
    most = max((whole.most(carried) for carried, _ in frames), default=0.0)
    axis = axes_for(None, None)

    def show(place: int) -> list[Any]:
        axis.clear()
        whole.draw(axis, *frames[place], most)
        axis.set_title(f"round {rounds[place]:,}")
        return []

    add_keys(axis, whole.draw(axis, {}, {}, most), own=True)
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
    asked: list[tuple[str, str, Any]] = [("value", value, UNITS)]
    if isinstance(layout, str):
        asked.append(("layout", layout, {"auto": None, **LAYOUTS}))
    for key, seen, known in asked:
        if seen not in known:
            text = f"got {seen!r}{nearest(seen, list(known))}; expected {', '.join(known)}"
            raise DataError(key, text)


def places_of(graph: "nx.Graph[str]", layout: Layout) -> Mapping[str, Any]:
    """Return where the nodes are drawn; "auto" has a star and most peers in a circle.

    Raises:
        DataError: a node has no place.
    """
    if not isinstance(layout, str):
        lacking = [node for node in graph if node not in layout]
        if lacking:
            raise DataError("layout", f"got no place for {lacking[0]}; expected one for each node")
        return {node: layout[node] for node in graph}
    if layout != "auto":
        seeded: dict[str, Any] = {"seed": 1} if layout == "spring" else {}
        return dict(LAYOUTS[layout](graph, **seeded))
    around = [node for node in graph if node != SERVER]
    if SERVER not in graph:
        few = 2 < len(graph) <= _PLACED and nx.density(graph) < _SPARSE and nx.is_connected(graph)
        return dict((nx.kamada_kawai_layout if few else nx.circular_layout)(graph))
    if all(set(graph[node]) <= {SERVER} for node in around):
        return {**nx.circular_layout(graph.subgraph(around)), SERVER: np.zeros(2)}
    return dict(nx.kamada_kawai_layout(graph))


@dataclass
class NetworkDrawing:
    """The network of a run with the places of its nodes, on which any of its rounds is drawn.

    Attributes:
        network: what is drawn.
        places: of the nodes.
        value: that links are drawn by.
        events: the log of the run.
        clients: the rows of its client table.
        models: returns the models of all nodes after a round, shape (M, ...), the last one's of
            None.
        attacks: the attack of each group of malicious clients, by its number.
    """

    network: Network
    places: Mapping[str, Any]
    value: OnEdges
    events: pd.DataFrame
    clients: pd.DataFrame
    models: Callable[[int | None], Array]
    attacks: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        events: pd.DataFrame,
        clients: pd.DataFrame,
        scenario: Mapping[str, Any],
        value: OnEdges,
        models: Callable[[int | None], Array],
        layout: Layout = "auto",
    ) -> "NetworkDrawing":
        """Return the drawing of a run.

        Args:
            events: its log.
            clients: the rows of its client table.
            scenario: of the run, as plain data.
            value: that links are drawn by.
            models: as the attribute has it.
            layout: as for `plot_network`.

        Raises:
            DataError: a node has no place.
        """
        column = "bits" if value == "disagreement" else value
        network = Network.of(scenario, clients, edges(events), column)
        places = places_of(network.graph, layout)
        return cls(network, places, value, events, clients, models, attacks_of(scenario))

    @classmethod
    def of_runs(
        cls, runs: Networked, value: OnEdges, layout: Layout, variant: str | None, seed: int | None
    ) -> "NetworkDrawing":
        """Return the drawing of one of several runs; the arguments are those of `plot_network`.

        Raises:
            DataError: as `plot_network` raises it.
        """
        _check(value, layout)
        events, clients = (run_of(each, variant, seed) for each in (runs.events, runs.clients))
        if not events["event"].eq("send").any():
            raise DataError("events", "no message was sent: there is nothing to draw")
        run = str(events["variant"].iloc[0]), int(events["seed"].iloc[0])
        scenario = runs.scenario(*run)

        def models(number: int | None) -> Array:
            return runs.node_models(*run, number)

        return cls.of(events, clients, scenario, value, models, layout)

    def amounts(self, number: int | None = None) -> tuple[Carried, Mapping[str, float]]:
        """Return what links carried in a round, or in the whole run if None, and nodes' own part.

        Raises:
            DataError: there is no such round.
            ValueError: the models of nodes, which links are drawn by, were not kept.
        """
        rows = self.events
        if number is not None:
            rows = rows[rows["round"] == number]
            if rows.empty:
                text = f"got round {number}; expected 1 to {self.events['round'].max()}"
                raise DataError("round", text)
        if self.value == "disagreement":
            graph = set_disagreement(self.network.graph.copy(), self.models(number))
            far = {(one, other): (own["value"], 0.0) for one, other, own in graph.edges(data=True)}
            return far, {node: own["value"] for node, own in graph.nodes(data=True)}
        table = edges(rows)
        sent = "joules_sent" if self.value == "joules" else self.value
        received = {"joules": "joules_received", "busy": None}.get(self.value, self.value)
        parts = [table.groupby("source")[sent].sum()]
        if received is not None:
            parts.append(table.groupby("target")[received].sum())
        own = pd.concat(parts).groupby(level=0).sum()
        return self.network.carried(table, self.value), dict(own.items())

    def draw(
        self, axis: Axes, carried: Carried, own: Mapping[str, float], most: float | None = None
    ) -> list[Line2D]:
        """Draw links and nodes; return what a legend has of them.

        Args:
            axis: to draw on.
            carried: as `amounts` returns it.
            own: as `amounts` returns it.
            most: what the widest link stands for; the largest of what was carried if None.
        """
        sums = {ends: there + back for ends, (there, back) in carried.items()}
        most = self.most(carried) if most is None else most
        wide = [_THIN + self._more * amount / (most or 1.0) for amount in sums.values()]
        lines = LineCollection([self._line(ends) for ends in sums], linewidths=wide, colors=_LINE)
        axis.add_collection(lines, autolim=False)
        unsure = self.network.unsure
        style: dict[str, Any] = {"linewidths": _THIN, "linestyles": "--", "colors": GREY}
        dashed = LineCollection([self._line(ends) for ends in unsure], **style)
        if unsure:
            axis.add_collection(dashed, autolim=False)
        if len(sums) <= min(_WRITTEN, len(self.network.graph)):
            for ends, amount in sums.items():
                self._write(axis, ends, amount)
        self._draw_nodes(axis, own)
        self._name_nodes(axis)
        axis.set_axis_off()
        axis.set_aspect("equal")
        corners = np.array(list(self.places.values()), dtype=np.float64)
        low, high = corners.min(axis=0), corners.max(axis=0)
        whole = float((high - low).max()) or 1.0
        across, upwards = (0.25 if len(corners) <= _NAMED else 0.1) * whole, 0.1 * whole
        axis.set(
            xlim=(low[0] - across, high[0] + across), ylim=(low[1] - upwards, high[1] + upwards)
        )
        graph, count = self.network.graph, self.network.clients
        if SERVER not in graph and len(graph) < count:
            axis.set_title(f"{len(graph)} nodes of {count:,}: those that carried the most")
        return self._keys(most)

    @staticmethod
    def most(carried: Carried) -> float:
        """Return the largest amount that a link carried, both ways."""
        return max(map(sum, carried.values()), default=0.0)

    @property
    def _more(self) -> float:
        return _MORE if len(self.network.graph) <= _NUMBERED else _LESS

    def _line(self, ends: Ends) -> list[Point]:
        return [tuple(map(float, self.places[end])) for end in ends]  # type: ignore[misc]  # two each

    def _write(self, axis: Axes, ends: Ends, amount: float) -> None:
        """Write what a link carried on it, nearer to its outer end: there links are apart."""
        far, near = (np.asarray(self.places[end], dtype=np.float64) for end in ends)
        x, y = (_OUTER * far + (1 - _OUTER) * near).tolist()
        place: dict[str, Any] = {"ha": "center", "va": "center", "bbox": _BEHIND}
        axis.text(x, y, self.say(amount), fontsize="small", **place)

    def say(self, amount: float) -> str:
        """Return an amount on a link; distances between models have no unit."""
        apart = self.value == "disagreement"
        return f"{amount:.3g}" if apart else quantity(amount, UNITS[self.value])

    @property
    def kinds(self) -> dict[str, tuple[list[str], str, str]]:
        """The nodes of each kind, with its mark and colour, what runs the network first."""
        graph = self.network.graph
        inner = [node for node in graph if "group" not in graph.nodes[node] and node != SERVER]
        tree = any(node.startswith("gateway-") for node in inner)
        found = {
            SERVER: ([SERVER] if SERVER in graph else [], "s", "black"),
            "gateway" if tree else "router": (inner, "s", GREY),
        }
        table = self.clients.assign(kind=kinds_of(self.clients))
        for group, own in table.groupby("group", sort=True):
            number = int(str(group))
            mine = [node for node, facts in graph.nodes(data=True) if facts.get("group") == number]
            look = _MARKS[number % len(_MARKS)], DEVICE_COLOURS[number % len(DEVICE_COLOURS)]
            false = f", {self.attacks[number]}" if number in self.attacks else ""
            found[f"{own['kind'].iloc[0]} ({len(own):,}{false})"] = (mine, *look)
        return {kind: own for kind, own in found.items() if own[0]}

    def _draw_nodes(self, axis: Axes, own: Mapping[str, float]) -> None:
        """Draw the nodes, with areas from a third of the largest one's."""
        most = max(own.values(), default=0.0) or 1.0
        small = len(self.network.graph) > _NUMBERED
        for nodes, mark, colour in self.kinds.values():
            shares = np.array([own.get(node, 0.0) for node in nodes]) / most
            sizes = (30.0 if small else 120.0) * (1 + 2 * shares) / 3
            x, y = np.array([self.places[node] for node in nodes], dtype=np.float64).T
            style: dict[str, Any] = {"marker": mark, "color": colour, "zorder": 3}
            axis.scatter(x, y, s=sizes, linewidth=0.5, edgecolor="white", **style)
        false = self._malicious_clients
        if false:
            x, y = np.array([self.places[node] for node in false], dtype=np.float64).T
            axis.scatter(x, y, s=40.0 if small else 160.0, linewidth=1.5, zorder=4, **_FALSE)

    @property
    def _malicious_clients(self) -> list[str]:
        """The nodes that attack."""
        nodes = self.network.graph.nodes(data=True)
        return [node for node, facts in nodes if facts.get("group") in self.attacks]

    def _name_nodes(self, axis: Axes) -> None:
        """Write names beside a few nodes, away from the middle, and numbers beside some more."""
        nodes = list(self.network.graph)
        if len(nodes) > _NUMBERED:
            nodes = [node for node in nodes if node == SERVER]
        names = dict(zip(nodes, display_names(nodes, self.clients), strict=True))
        if len(nodes) > _NAMED:
            names = {node: node.rpartition("-")[2] for node in nodes}
        for node, name in names.items():
            (x, y), width = self._free_side(node)
            if node == SERVER and width < _ROOMY:
                continue  # the name would lie on links; the legend has it
            style = {"ha": _align(x, "left", "right"), "va": _align(y, "bottom", "top")}
            beside: dict[str, Any] = {"textcoords": "offset points", **style}
            if width < _ROOMY:
                beside["bbox"] = _BEHIND
            axis.annotate(escape_text(name), self.places[node], (8 * x, 8 * y), **beside)

    def _free_side(self, node: str) -> tuple[Point, float]:
        """Return the direction, of length 1, in the middle of the widest angle without a link.

        The second value is that angle, in radians.
        """
        here = np.asarray(self.places[node], dtype=np.float64)
        ends = [self.places[other] for other in self.network.graph[node] if other != node]
        if not ends:
            return (0.0, -1.0), 2 * np.pi
        x, y = (np.array(ends, dtype=np.float64) - here).T
        angles = np.sort(np.arctan2(y, x))
        gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
        widest = int(np.argmax(np.round(gaps, 6)))
        side = angles[widest] + gaps[widest] / 2
        return (float(np.cos(side)), float(np.sin(side))), float(gaps[widest])

    def _keys(self, most: float) -> list[Line2D]:
        keys = [
            Line2D([], [], marker=mark, linestyle="", color=colour, label=escape_text(kind))
            for kind, (_, mark, colour) in self.kinds.items()
        ]
        if self._malicious_clients:
            keys.append(Line2D([], [], linestyle="", label="malicious client", **_FALSE))
        if most:
            style: dict[str, Any] = {"color": _LINE, "linewidth": _THIN + self._more}
            keys.append(Line2D([], [], label=f"{self.say(most)}, the most", **style))
        if self.network.unsure:
            style = {"linestyle": "--", "linewidth": _THIN, "color": GREY}
            keys.append(Line2D([], [], label="one of several routes", **style))
        return keys


def attacks_of(scenario: Mapping[str, Any]) -> dict[int, str]:
    """Return the kind of attack of each group of malicious clients, by the number of the group."""
    groups = enumerate(scenario.get("fleet") or ())
    return {number: str(group["attack"]["kind"]) for number, group in groups if group.get("attack")}


_BEHIND: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
"""The box of a text that may lie on links."""

_ROOMY = np.pi / 2  # radians without a link that a name needs; in less it gets a box

_SLANTED = 0.4  # a name that is less far aside of its node is centred on it


def _align(share: float, more: str, less: str) -> str:
    """Return how a name is aligned with its node, of which it stands so far aside."""
    return "center" if abs(share) < _SLANTED else more if share > 0 else less
