"""The graph of a run's network: its nodes, its links, and the bits that each of these carried."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from fedsim.report import ways
from fedsim.report.study import Run

SERVER = "server"

MOST = 200  # clients that are drawn one by one

_BITS = ["payload_bits", "header_bits", "transport_bits"]

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """A network.

    Attributes:
        links: the graph; its clients, or kinds of clients, have their `group`.
        note: what is to be said of it.
        carried: the bits that went from the first end of a link to the second, and back; a link
            that is one of several ways of which it is not sure which was taken is not in it.
    """

    links: "nx.Graph[str]"
    note: str
    carried: Mapping[Ends, tuple[float, float]] = field(default_factory=dict)


def graph_of(run: Run, members: pd.DataFrame) -> Graph:
    """Return the network of a run: of peers who speaks to whom, else the ways to the server.

    Args:
        run: whose log tells what was sent.
        members: the rows of its client table.
    """
    groups = dict(zip(members["client"].astype(str), members["group"].astype(int), strict=True))
    network: Mapping[str, Any] = run.scenario["network"]
    if network.get("peers"):
        return _peers(run, groups)
    note = f"a {network['topology']} of {len(groups):,} clients"
    names = {client: client for client in groups}
    edges = None
    if len(groups) > MOST:
        names = {client: f"kind {group}" for client, group in groups.items()}
        note += "; a node stands for a whole kind"
    else:
        edges = _links(network, list(groups))
        if edges is None:
            note += f", whose file {network['path']} is not here: only its ends are drawn"
    graph: nx.Graph[str] = nx.Graph()
    graph.add_node(SERVER)
    for client, group in groups.items():
        graph.add_node(names[client], group=group)
    graph.add_edges_from(edges or [(name, SERVER) for name in names.values()])
    sums = members.assign(node=members["client"].astype(str).map(names)).groupby("node")
    totals = sums[["bits_up", "bits_down"]].sum()
    carried = _to_the_server(graph, totals)
    if edges and network["topology"] == "graph" and not network.get("path"):
        carried = ways.carried(network["edges"], SERVER, totals) | carried
    return Graph(graph, note, carried)


def _to_the_server(graph: "nx.Graph[str]", sums: pd.DataFrame) -> dict[Ends, tuple[float, float]]:
    """Return what went over the links that are the only way: all that lies behind them sent.

    Args:
        graph: the ways to the server.
        sums: bits_up and bits_down of the clients in it.
    """
    carried = {}
    ways: list[Ends] = list(nx.bridges(graph))  # type: ignore[arg-type]  # stubs take nodes for links
    for one, other in ways:
        rest = nx.restricted_view(graph, [], [(one, other)])
        behind = nx.node_connected_component(rest, one)
        near, far = (other, one) if SERVER not in behind else (one, other)
        beyond = sums.index.isin(nx.node_connected_component(rest, far))
        own = sums[beyond]
        carried[far, near] = float(own["bits_up"].sum()), float(own["bits_down"].sum())
    return carried


def _peers(run: Run, groups: Mapping[str, int]) -> Graph:
    """Return who has sent to whom, and how much."""
    rows = run.events(["event", "node", "peer", *_BITS])
    rows = rows[rows["event"].isin(["send", "retransmit"]) & rows["peer"].notna()]
    many = len(groups) > MOST
    names = {name: f"kind {group}" if many else name for name, group in groups.items()}
    ends = [rows[end].astype(str).map(names) for end in ("node", "peer")]
    sums = rows[_BITS].sum(axis=1).groupby(ends).sum()
    graph: nx.Graph[str] = nx.Graph()
    for client, group in groups.items():
        graph.add_node(names[client], group=group)
    pairs = sums.index.to_frame(index=False).astype(str).itertuples(index=False, name=None)
    bits: dict[Ends, float] = dict(zip(pairs, sums.to_numpy(float).tolist(), strict=True))
    graph.add_edges_from(bits)
    carried = {
        (one, other): (bits.get((one, other), 0.0), bits.get((other, one), 0.0) * (one != other))
        for one, other in graph.edges()
    }
    note = f"{len(groups):,} peers, and who has sent to whom"
    return Graph(graph, f"{note}; a node stands for a whole kind" if many else note, carried)


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
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:
                rows = csv.DictReader(stream, skipinitialspace=True)
                return [(row["source"], row["target"]) for row in rows]
        return [(str(one), str(other)) for one, other in nx.read_graphml(path).edges()]
    except (OSError, KeyError, ValueError, nx.NetworkXException):
        return None


def places(graph: "nx.Graph[str]") -> Mapping[str, Any]:
    """Return where the nodes are drawn: a star or peers in a circle, all else by their ways."""
    around = [node for node in graph if node != SERVER]
    if SERVER not in graph:
        return dict(nx.circular_layout(graph))
    if all(set(graph[node]) <= {SERVER} for node in around):
        return {**nx.circular_layout(graph.subgraph(around)), SERVER: np.zeros(2)}
    return dict(nx.kamada_kawai_layout(graph))
