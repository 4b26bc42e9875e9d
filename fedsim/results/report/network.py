"""The network, drawn: its links as wide as what they carried."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import islice, pairwise
from math import isclose
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from fedsim.core.blocks.quantities import Seconds
from fedsim.core.errors import DataError
from fedsim.core.files import open_file
from fedsim.core.graph_files import ENDINGS, read_graph_file
from fedsim.core.ports import Array
from fedsim.results.analysis import DEVICE_COLOURS, quantity
from fedsim.results.analysis.client_names import client_names
from fedsim.results.analysis.log.edges import edges, set_disagreement
from fedsim.results.record.models import nodes_of
from fedsim.results.record.scenarios import tiers_of
from fedsim.results.report.charts import SYMBOLS, GraphLine, GraphNodes, network, symbol_icon
from fedsim.results.report.components import LegendKey, PageFigure
from fedsim.results.report.study import ReportedRun, ReportedStudy

# The links of a graph that each client's messages took to the server, where that is certain.

_MOST = 64  # equally good ways of a client that are looked at

_SECONDS: TypeAdapter[Any] = TypeAdapter(Seconds)

Ends = tuple[str, str]


def carried_bits(
    edges: Sequence[Mapping[str, Any]], server: str, sums: pd.DataFrame
) -> dict[Ends, tuple[float, float]]:
    """Return the bits of the links of a graph, up and down, by the end that is further away.

    A message takes the way of least latency, and of these the one of fewest hops. A client that
    has several of these does not identify their links, which are left out.

    Args:
        edges: as a scenario has them.
        server: its node.
        sums: bits_up and bits_down of the clients.
    """
    graph = _towards(edges, server)
    bits: dict[Ends, tuple[float, float]] = dict.fromkeys(_away(edges, graph, server), (0.0, 0.0))
    unsure = set[frozenset[str]]()
    for client, up, down in sums[["bits_up", "bits_down"]].itertuples():
        ways = list(islice(nx.all_shortest_paths(graph, client, server), _MOST))
        links = {ends for way in ways for ends in pairwise(way)}
        if len(ways) > 1:
            unsure |= set(map(frozenset, graph.edges if len(ways) == _MOST else links))
            continue
        for one, other in links:
            ends = (one, other) if (one, other) in bits else (other, one)
            before = bits.pop(ends)
            bits[one, other] = before[0] + float(up), before[1] + float(down)
    return {ends: own for ends, own in bits.items() if frozenset(ends) not in unsure}


def _towards(edges: Sequence[Mapping[str, Any]], server: str) -> "nx.DiGraph[str]":
    """Return the graph whose ways to the server are all those of least latency."""
    graph: nx.Graph[str] = nx.Graph()
    for edge in edges:
        latency = _SECONDS.validate_python(edge.get("latency", "0 s"))
        graph.add_edge(edge["source"], edge["target"], latency=latency)
    far = nx.single_source_dijkstra_path_length(graph, server, weight="latency")
    tight: nx.DiGraph[str] = nx.DiGraph()
    tight.add_nodes_from(graph)
    for one, other, latency in graph.edges(data="latency"):
        for here, there in ((one, other), (other, one)):
            if here in far and isclose(far[there] + latency, far[here], rel_tol=1e-9):
                tight.add_edge(here, there)
    return tight


def _away(edges: Sequence[Mapping[str, Any]], graph: "nx.DiGraph[str]", server: str) -> list[Ends]:
    """Return the ends of every link, the one with more hops to the server first."""
    hops = nx.single_source_shortest_path_length(graph.reverse(copy=False), server)
    pairs = [(str(edge["source"]), str(edge["target"])) for edge in edges]
    return [
        (one, other) if hops.get(one, 0) >= hops.get(other, 0) else (other, one)
        for one, other in pairs
    ]


# The graph of a run's network: its nodes, its links, and the bits that each of these carried.

SERVER = "server"

MOST = 200  # clients that are drawn one by one

_BITS = ["payload_bits", "header_bits", "transport_bits"]


@dataclass(frozen=True, slots=True)
class Graph:
    """A network.

    Attributes:
        links: the graph; its clients, or kinds of clients, have their `group`.
        note: what is to be said of it.
        carried: the bits that went from the first end of a link to the second, and back; a link
            that is one of several ways of which it is not sure which was taken is not in it.
        unit: of what was carried: "bit", or "J" of what that cost; or "apart", where `carried` is
            how far the models of the ends are apart.
    """

    links: "nx.Graph[str]"
    note: str
    carried: Mapping[Ends, tuple[float, float]] = field(default_factory=dict)
    unit: str = "bit"


def graph_of(
    run: ReportedRun, members: pd.DataFrame, unit: str = "bit", models: Array | None = None
) -> Graph:
    """Return the network of a run: of peers their neighbours, else the routes to the server.

    Args:
        run: the run whose log is read.
        members: the rows of its client table.
        unit: of what links carried; "J" and "apart" among peers alone.
        models: of the nodes, shape (M, ...), by which they are apart.
    """
    groups = dict(zip(members["client"].astype(str), members["group"].astype(int), strict=True))
    network: Mapping[str, Any] = run.scenario["network"]
    if network.get("peers"):
        return _peers(run, groups, unit, models)
    tiers = tiers_of(run.scenario)
    note = f"a {network['topology']} of {len(groups):,} clients"
    if tiers:
        note = f"{len(groups):,} clients and gateways, each with the server that it has"
    names = {client: client for client in groups}
    edges = None
    if len(groups) > MOST:
        names = {client: f"kind {group}" for client, group in groups.items()}
        note += "; a node stands for a whole kind"
    elif not tiers:
        edges = _links(network, list(groups))
        if edges is None:
            note += f", whose file {network['path']} is not here: only its ends are drawn"
    graph: nx.Graph[str] = nx.Graph()
    graph.add_node(SERVER)
    for client, group in groups.items():
        graph.add_node(names[client], group=group)
    if tiers:
        return Graph(graph, note, _add_tiers(graph, run, members, names))
    graph.add_edges_from(edges or [(name, SERVER) for name in names.values()])
    sums = members.assign(node=members["client"].astype(str).map(names)).groupby("node")
    totals = sums[["bits_up", "bits_down"]].sum()
    loads = _to_the_server(graph, totals)
    if edges and network["topology"] == "graph" and not network.get("path"):
        loads = carried_bits(network["edges"], SERVER, totals) | loads
    return Graph(graph, note, loads)


def _add_tiers(
    graph: "nx.Graph[str]", run: ReportedRun, members: pd.DataFrame, names: Mapping[str, str]
) -> dict[Ends, tuple[float, float]]:
    """Add a link from each client and gateway to what is above it; return what links carried."""
    bits = _bits(run)
    carried: dict[Ends, tuple[float, float]] = {}
    for below, above in members[["client", "server"]].astype(str).itertuples(index=False):
        ends = names[below], names.get(above, above)
        up, down = carried.get(ends, (0.0, 0.0))
        carried[ends] = up + bits.get((below, above), 0.0), down + bits.get((above, below), 0.0)
    graph.add_edges_from(carried)
    return carried


def _to_the_server(graph: "nx.Graph[str]", sums: pd.DataFrame) -> dict[Ends, tuple[float, float]]:
    """Return what went over the links that are the only way: all that lies behind them sent.

    Args:
        graph: the ways to the server.
        sums: bits_up and bits_down of the clients in it.
    """
    carried = {}
    bridges: list[Ends] = list(nx.bridges(graph))  # type: ignore[arg-type]  # stubs take nodes for links
    for one, other in bridges:
        rest = nx.restricted_view(graph, [], [(one, other)])
        behind = nx.node_connected_component(rest, one)
        near, far = (other, one) if SERVER not in behind else (one, other)
        beyond = sums.index.isin(nx.node_connected_component(rest, far))
        own = sums[beyond]
        carried[far, near] = float(own["bits_up"].sum()), float(own["bits_down"].sum())
    return carried


def _peers(run: ReportedRun, groups: Mapping[str, int], unit: str, models: Array | None) -> Graph:
    """Return the pairs of sender and receiver, and the traffic between them, or what it cost."""
    carried = _joules(run) if unit == "J" else _bits(run)
    own = Counter[str]()
    for ends, amount in carried.items():
        for end in set(ends):
            own[end] += amount  # type: ignore[assignment]  # a counter of numbers
    most = sorted(groups, key=own.__getitem__, reverse=True)[:MOST]
    drawn = {name: groups[name] for name in groups if name in set(most)}
    graph: nx.Graph[str] = nx.Graph()
    for client, group in drawn.items():
        graph.add_node(client, group=group)
    graph.add_edges_from(ends for ends in carried if drawn.keys() >= set(ends))
    both = {
        (one, other): (
            carried.get((one, other), 0.0),
            carried.get((other, one), 0.0) * (one != other),
        )
        for one, other in graph.edges()
    }
    note = f"{len(groups):,} peers, and which has sent to which"
    if len(drawn) < len(groups):
        note = f"of {len(groups):,} peers the {len(drawn)} that carried the most"
    if unit == "apart" and models is not None:
        set_disagreement(graph, models)
        both = {(one, other): (own["value"], 0.0) for one, other, own in graph.edges(data=True)}
    if unit == "J" and run.scenario["network"].get("medium"):
        note += "; what a broadcast costs its sender is on no link"
    return Graph(graph, note, both, unit)


def node_models(run: ReportedRun) -> Array | None:
    """Return the last models of the nodes that are kept, shape (M, ...); None if none are."""
    if not (run.scenario.get("models") or {}).get("clients"):
        return None
    try:
        return nodes_of([run.path], None)
    except ValueError:  # no round of which they are kept has ended
        return None


def _bits(run: ReportedRun) -> dict[Ends, float]:
    """Return the bits from each peer to another."""
    rows = run.events(["event", "node", "peer", *_BITS])
    if run.scenario["network"].get("medium"):  # one message sent may be received by several
        rows = rows[rows["event"] == "receive"].rename(columns={"node": "peer", "peer": "node"})
    else:
        rows = rows[rows["event"].isin(["send", "retransmit"]) & rows["peer"].notna()]
    ends = [rows[end].astype(str) for end in ("node", "peer")]
    sums = rows[_BITS].sum(axis=1).groupby(ends).sum()
    pairs = sums.index.to_frame(index=False).astype(str).itertuples(index=False, name=None)
    return dict(zip(pairs, sums.to_numpy(float).tolist(), strict=True))


def _joules(run: ReportedRun) -> dict[Ends, float]:
    """Return what messages from each peer to another have cost at both ends, J."""
    columns = ["event", "node", "peer", "round", "message", "duration", "joules", "detail"]
    table = edges(run.events([*columns, *_BITS]))
    table = table[table["source"] != table["target"]]
    joules = (table["joules_sent"] + table["joules_received"]).tolist()
    pairs = zip(table["source"], table["target"], strict=True)
    return {ends: value for ends, value in zip(pairs, joules, strict=True) if value}


def _links(network: Mapping[str, Any], clients: Sequence[str]) -> list[Ends] | None:
    """Return the links of a network; None for a graph in a file that cannot be read from here."""
    match network["topology"]:
        case "tree":
            count = int(network["gateways"])
            gateways = [f"gateway-{number}" for number in range(count)]
            blocks = np.array_split(np.arange(len(clients)), count)
            sizes = sorted(len(block) for block in blocks)  # the larger blocks come last
            owners = np.repeat(np.arange(count), sizes)
            ends = [(clients[place], gateways[owner]) for place, owner in enumerate(owners)]
            return [*((gateway, SERVER) for gateway in gateways), *ends]
        case "graph" if network.get("path"):
            return _from_file(Path(str(network["path"])))
        case "graph":
            return [(edge["source"], edge["target"]) for edge in network["edges"]]
        case _:
            return [(client, SERVER) for client in clients]


def _from_file(path: Path) -> list[Ends] | None:
    try:
        if path.suffix in ENDINGS:
            return [(one, other) for one, other in read_graph_file(path).edges()]
        with open_file(path) as file:
            lines = TextIOWrapper(file, "utf-8-sig", newline="")
            rows = csv.DictReader(lines, skipinitialspace=True)
            return [(row["source"], row["target"]) for row in rows]
    except (OSError, KeyError, ValueError, DataError):
        return None


def places(graph: "nx.Graph[str]") -> Mapping[str, Any]:
    """Return where the nodes are drawn: a star and most peers in a circle, all else by ways."""
    around = [node for node in graph if node != SERVER]
    if SERVER not in graph:
        few = 2 < len(graph) <= _PLACED and nx.density(graph) < _SPARSE and nx.is_connected(graph)
        return dict((nx.kamada_kawai_layout if few else nx.circular_layout)(graph))
    if all(set(graph[node]) <= {SERVER} for node in around):
        return {**nx.circular_layout(graph.subgraph(around)), SERVER: np.zeros(2)}
    return dict(nx.kamada_kawai_layout(graph))


_FACTS = ("uplink", "downlink", "up", "down", "rate", "latency")

_PLACED, _SPARSE = 64, 0.4  # peers that are placed by their ways, and the density of their graph

_FEW = 40  # nodes of a drawing with room for large ones

_WRITTEN = 8  # links that have room for what they carried

_INK, _SOFT = "#000000", "#666666"


ON_LINKS = {"bit": "bits", "J": "joules at both ends", "apart": "distance between the models"}
"""What the links of peers are drawn by, with its name."""


def drawings(study: ReportedStudy, run: ReportedRun) -> dict[str, PageFigure]:
    """Return the drawings of the network, of peers by all of `ON_LINKS` that is known."""
    if not run.scenario["network"].get("peers"):
        return {"": drawing(study, run)}
    models = node_models(run)
    known = {
        "bit": True,
        "J": bool(float(run.rows(study.clients)["joules"].sum())),
        "apart": models is not None,
    }
    return {unit: drawing(study, run, unit, models) for unit in ON_LINKS if known[unit]}


def drawing(
    study: ReportedStudy, run: ReportedRun, unit: str = "bit", models: Array | None = None
) -> PageFigure:
    """Return the network as it is drawn: server, gateways or routers, clients, or peers.

    Args:
        study: whose page it is.
        run: whose network.
        unit: see `graph_of`.
        models: see `graph_of`.
    """
    members = run.rows(study.clients)
    graph, names = graph_of(run, members, unit, models), client_names(members)
    kinds = dict(_kinds(graph, members, run.scenario["network"], names))
    label = f"The network: {graph.note}"
    own = network(label, places(graph.links), _drawn_links(graph, names), kinds.values())
    keys = tuple(
        LegendKey(name, symbol_icon(kind.symbol, kind.colour)) for name, kind in kinds.items()
    )
    return PageFigure(own, f"{graph.note}; {_widths(graph, run)}", keys)


def _widths(graph: Graph, run: ReportedRun) -> str:
    most = max(map(sum, graph.carried.values()), default=0.0)
    if graph.unit == "apart":
        return (
            f"a link is as wide as the models of its ends are apart under seed {run.seed}, in the"
            f" last round of which they are kept, at most {most:.3g}"
        )
    what = "what it carried" if graph.unit == "bit" else "what messages cost at its ends"
    text = f"a link is as wide as {what} both ways under seed {run.seed}, at most "
    text += quantity(most, graph.unit)
    if run.scenario["network"].get("broadcast", "unicast") != "unicast":
        text += ", with a copy of a broadcast for each that received it"
    if graph.links.number_of_edges() > len(graph.carried):
        text += "; dashed ones are one of several equally good routes, not distinguished here"
    return text


def _drawn_links(graph: Graph, names: Mapping[str, str]) -> Iterator[GraphLine]:
    most = max(map(sum, graph.carried.values()), default=0.0)
    known, room = set(), len(graph.carried) <= min(_WRITTEN, len(graph.links))
    for (one, other), (there, back) in graph.carried.items():
        known |= {(one, other), (other, one)}
        first, second = names.get(one, one), names.get(other, other)
        word = _format_amount(there + back, graph.unit)
        text = f"{first}, {second}: {word} apart"
        if graph.unit != "apart":
            text = f"{first} to {second}: {_format_amount(there, graph.unit)}"
            text += f"\n{second} to {first}: {_format_amount(back, graph.unit)}" * (one != other)
        yield GraphLine((one, other), (there + back) / most if most else 0.0, text, word * room)
    for one, other in graph.links.edges():
        if (one, other) not in known:
            first, second = names.get(one, one), names.get(other, other)
            text = f"{first}, {second}: one of several ways as good as each other"
            yield GraphLine((one, other), None, text)


def _format_amount(amount: float, unit: str) -> str:
    """Return an amount on a link; distances between models have no unit."""
    return f"{amount:.3g}" if unit == "apart" else quantity(amount, unit)


def _kinds(
    graph: Graph, members: pd.DataFrame, facts: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, GraphNodes]]:
    """Yield the kinds of nodes, what runs the network first."""
    inner = [node for node, own in graph.links.nodes(data=True) if "group" not in own]
    if SERVER in inner:
        inner.remove(SERVER)
        text = {SERVER: _describe(SERVER, facts.get("server"))}
        yield SERVER, GraphNodes("square", _INK, 10, text, SERVER)
    if inner:
        name = "gateway" if facts["topology"] == "tree" else "router"
        own = {node: _describe(node, facts.get("gateway")) for node in inner}
        yield name, GraphNodes("square", _SOFT, 7, own)
    for group in sorted(members["group"].unique()):
        own = members[members["group"] == group]
        kind, place = str(own["kind"].iloc[0]), int(group)
        yield f"{kind} ({len(own):,})", _clients(graph, own, (kind, place), names)


def _describe(name: str, link: Mapping[str, Any] | None) -> str:
    facts = [f"{key} {link[key]}" for key in _FACTS if link and key in link]
    return "\n".join([name, *facts])


def _clients(
    graph: Graph, own: pd.DataFrame, numbered: tuple[str, int], names: Mapping[str, str]
) -> GraphNodes:
    """Return the nodes of a kind of clients, which has a number."""
    kind, place = numbered
    symbol = list(SYMBOLS)[place % len(SYMBOLS)]
    colour = DEVICE_COLOURS[place % len(DEVICE_COLOURS)]
    whole = f"kind {place}"
    if whole in graph.links:
        text = f"{len(own):,} clients\n{kind}\n{own['samples'].sum():,} samples"
        return GraphNodes(symbol, colour, 14, {whole: text}, whole)
    facts = zip(own["client"].astype(str), own["samples"], strict=True)
    texts = {
        client: f"{names.get(client, client)}\n{kind}\n{samples:,} samples"
        for client, samples in facts
        if client in graph.links
    }
    for client in texts if graph.unit == "apart" else ():
        texts[client] += f"\n{graph.links.nodes[client]['value']:.3g} from the mean of the models"
    return GraphNodes(symbol, colour, 7 if len(graph.links) <= _FEW else 4.5, texts)
