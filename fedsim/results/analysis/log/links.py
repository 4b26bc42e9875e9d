"""The links of a run's network, and what each carried: of every message's pair of ends, its way."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from fedsim.core.ports.messages import clients_behind
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.record.scenarios import tiers_of

MOST = 200
"""Clients that are nodes of their own, at most."""

Ends = tuple[str, str]
"""The ends of a link; the one further from the server comes first."""

_ROUTES = 64  # equally good routes of a client that are looked at

_SECONDS: TypeAdapter[Any] = TypeAdapter(Seconds)


@dataclass(frozen=True)
class Network:
    """The network of a run.

    Attributes:
        graph: its links; clients, or nodes that stand for a kind of clients, have their `group`.
        clients: how many there are.
        called: what it is, in a few words.
        behind: of each link, the nodes whose messages it certainly carried; of other links it is
            not known, since their clients have several equally good routes. None where messages go
            over the link between their two ends.
        merged: client -> the node that stands for its kind, where clients are no nodes themselves.
    """

    graph: "nx.Graph[str]"
    clients: int
    called: str
    behind: Mapping[Ends, frozenset[str]] | None
    merged: Mapping[str, str]

    @classmethod
    def of(
        cls,
        scenario: Mapping[str, Any],
        clients: pd.DataFrame,
        edges: pd.DataFrame,
        value: str = "bits",
    ) -> "Network":
        """Return the network of a run: of peers their pairs, else the links to the server.

        Among more than `MOST` peers those are nodes that carried the most; of more than `MOST`
        clients of a server, a node stands for each kind.

        Args:
            scenario: of the run, as plain data.
            clients: the rows of its client table.
            edges: as `fedsim.results.analysis.edges` gives them.
            value: column of the edges. Joules and time on the air are at the ends of a message,
                whatever is between these: gateways and routers are left out of such a network.
        """
        groups = dict(zip(clients["client"].astype(str), clients["group"].astype(int), strict=True))
        network: Mapping[str, Any] = scenario["network"]
        if network.get("peers"):
            return _among_peers(groups, edges, value)
        graph: nx.Graph[str] = nx.Graph()
        graph.add_node(SERVER)
        merged = {}
        if len(groups) > MOST:
            merged = {client: f"kind {group}" for client, group in groups.items()}
        for client, group in groups.items():
            graph.add_node(merged.get(client, client), group=group)
        links = [(node, SERVER) for node in graph if node != SERVER]
        called = f"a {network['topology']} of {len(groups):,} clients"
        if tiers_of(scenario):
            above = clients["server"].astype(str)
            pairs = zip(clients["client"].astype(str), above, strict=True)
            links = [(merged.get(one, one), merged.get(other, other)) for one, other in pairs]
            called = f"{len(groups):,} clients and gateways, each with the server that it has"
        elif not merged and value in _CARRIED:
            known = _links(network, list(groups))
            links = links if known is None else known
            if known is None:
                called += f", whose file {network['path']} is not here: only its ends are drawn"
        graph.add_edges_from(links)
        if merged:
            called += "; a node stands for a whole kind"
        if tiers_of(scenario) or value not in _CARRIED:
            return cls(graph, len(groups), called, None, merged)
        behind = _beyond_bridges(graph)
        if network["topology"] == "graph" and not network.get("path") and not merged:
            behind = _on_shortest(network["edges"], list(groups)) | behind
        return cls(graph, len(groups), called, behind, merged)

    def carried(self, edges: pd.DataFrame, value: str = "bits") -> dict[Ends, tuple[float, float]]:
        """Return what went over each link, from its first end to its second, and back.

        Links of which that is not certain are left out.

        Args:
            edges: as `fedsim.results.analysis.edges` gives them, of a run or of a part of it.
            value: a column of theirs, or "joules", which is what both ends have spent.
        """
        sent = Counter[Ends]()
        pairs = zip(edges["source"], edges["target"], strict=True)
        for (one, other), amount in zip(pairs, amounts(edges, value), strict=True):
            sent[self.merged.get(one, one), self.merged.get(other, other)] += amount  # type: ignore[assignment]  # a counter of numbers
        if self.behind is None:
            return {
                (one, other): (float(sent[one, other]), float(sent[other, one] * (one != other)))
                for one, other in map(self._upwards, self.graph.edges())
            }
        return {
            ends: (
                float(sum(sent[node, SERVER] for node in nodes)),
                float(sum(sent[SERVER, node] for node in nodes)),
            )
            for ends, nodes in self.behind.items()
        }

    @property
    def unsure(self) -> list[Ends]:
        """The links of which it is not certain who used them."""
        if self.behind is None:
            return []
        known = {*self.behind, *((other, one) for one, other in self.behind)}
        return [ends for ends in self.graph.edges() if ends not in known]

    @staticmethod
    def _upwards(ends: Ends) -> Ends:
        """Return the ends of a link with the server second, if it is one of them."""
        return (ends[1], ends[0]) if ends[0] == SERVER else ends


_CARRIED = ("bits", "messages")
"""What a link between two others carries, as its ends do."""


def amounts(edges: pd.DataFrame, value: str) -> list[float]:
    """Return an amount of each edge: a column, or for "joules" those of both ends."""
    if value == "joules":
        return (edges["joules_sent"] + edges["joules_received"]).astype(float).tolist()
    return edges[value].astype(float).tolist()


def _among_peers(groups: Mapping[str, int], edges: pd.DataFrame, value: str) -> Network:
    """Return the peers, or those that carried the most, with the pairs that sent to each other."""
    own = Counter[str]()
    pairs = list(zip(edges["source"], edges["target"], strict=True))
    for ends, amount in zip(pairs, amounts(edges, value), strict=True):
        for end in set(ends):
            own[end] += amount  # type: ignore[assignment]  # a counter of numbers
    most = set(sorted(groups, key=own.__getitem__, reverse=True)[:MOST])
    graph: nx.Graph[str] = nx.Graph()
    for client, group in groups.items():
        if client in most:
            graph.add_node(client, group=group)
    graph.add_edges_from(ends for ends in pairs if most.issuperset(ends))
    called = f"{len(groups):,} peers, and which has sent to which"
    if len(graph) < len(groups):
        called = f"of {len(groups):,} peers the {len(graph)} that carried the most"
    return Network(graph, len(groups), called, None, {})


def _beyond_bridges(graph: "nx.Graph[str]") -> dict[Ends, frozenset[str]]:
    """Return the links that are the only way to the server, with all clients beyond each."""
    found = {}
    bridges: list[Ends] = list(nx.bridges(graph))  # type: ignore[arg-type]  # stubs take nodes for links
    for one, other in bridges:
        # Whatever routes a network chooses, all nodes on the far side of a bridge use it.
        rest = nx.restricted_view(graph, [], [(one, other)])
        near, far = (
            (one, other) if SERVER in nx.node_connected_component(rest, one) else (other, one)
        )
        beyond = nx.node_connected_component(rest, far)
        found[far, near] = frozenset(node for node in beyond if "group" in graph.nodes[node])
    return found


def _on_shortest(
    edges: Sequence[Mapping[str, Any]], clients: Sequence[str]
) -> dict[Ends, frozenset[str]]:
    """Return the links of a graph with the clients whose messages take them.

    A message takes the route of least latency, and of these the one of fewest hops. A client that
    has several of these does not tell which links it used, and these links are left out.

    Args:
        edges: as a scenario has them.
        clients: that send to the server.
    """
    graph = _towards(edges)
    users: dict[Ends, set[str]] = {ends: set() for ends in _away(edges, graph)}
    unsure = set[frozenset[str]]()
    for client in clients:
        routes = list(islice(nx.all_shortest_paths(graph, client, SERVER), _ROUTES))
        links = {ends for route in routes for ends in pairwise(route)}
        if len(routes) > 1:
            # If there may be more routes than were looked at, any link may be on one of them.
            unsure |= set(map(frozenset, graph.edges if len(routes) == _ROUTES else links))
            continue
        for one, other in links:
            if (one, other) not in users:  # it leads away from the server in hops, not in latency
                users[one, other] = users.pop((other, one))
            users[one, other].add(client)
    return {ends: frozenset(own) for ends, own in users.items() if frozenset(ends) not in unsure}


def _towards(edges: Sequence[Mapping[str, Any]]) -> "nx.DiGraph[str]":
    """Return the graph whose routes to the server are all those of least latency."""
    graph: nx.Graph[str] = nx.Graph()
    for edge in edges:
        latency = _SECONDS.validate_python(edge.get("latency", "0 s"))
        graph.add_edge(edge["source"], edge["target"], latency=latency)
    far = nx.single_source_dijkstra_path_length(graph, SERVER, weight="latency")
    tight: nx.DiGraph[str] = nx.DiGraph()
    tight.add_nodes_from(graph)
    for one, other, latency in graph.edges(data="latency"):
        for here, there in ((one, other), (other, one)):
            # Sums of equal latencies in different orders differ by rounding.
            if here in far and isclose(far[there] + latency, far[here], rel_tol=1e-9):
                tight.add_edge(here, there)
    return tight


def _away(edges: Sequence[Mapping[str, Any]], graph: "nx.DiGraph[str]") -> Iterator[Ends]:
    """Yield the ends of every link, the one with more hops to the server first."""
    hops = nx.single_source_shortest_path_length(graph.reverse(copy=False), SERVER)
    for edge in edges:
        one, other = str(edge["source"]), str(edge["target"])
        yield (one, other) if hops.get(one, 0) >= hops.get(other, 0) else (other, one)


def _links(network: Mapping[str, Any], clients: Sequence[str]) -> list[Ends] | None:
    """Return the links of a network; None for a graph in a file that cannot be read from here."""
    match network["topology"]:
        case "tree":
            count = int(network["gateways"])
            gateways = [f"gateway-{number}" for number in range(count)]
            owners = np.repeat(gateways, clients_behind(len(clients), count)).tolist()
            ends = list(zip(clients, owners, strict=True))
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
