"""Which links of a graph the messages of each client took to the server, where that is sure."""

from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from math import isclose
from typing import Any

import networkx as nx
import pandas as pd
from pydantic import TypeAdapter

from fedsim.blocks.quantities import Seconds

_MOST = 64  # equally good ways of a client that are looked at

_SECONDS: TypeAdapter[Any] = TypeAdapter(Seconds)

Ends = tuple[str, str]


def carried(
    edges: Sequence[Mapping[str, Any]], server: str, sums: pd.DataFrame
) -> dict[Ends, tuple[float, float]]:
    """Return the bits of the links of a graph, up and down, by the end that is further away.

    A message takes the way of least latency, and of these the one of fewest hops. A client that
    has several of these tells nothing of their links, which are left out.

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
