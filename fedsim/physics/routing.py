"""The best ways through a graph from one node: least latency, then fewest hops."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from fedsim.ports import ClientId


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction between two neighbours.

    Attributes:
        links: the numbers of the links that it stands for.
        latency: s.
    """

    links: tuple[int, ...]
    latency: float


Edges = Mapping[tuple[Any, Any], Edge]
"""By the nodes that it leaves and reaches."""

Ways = dict[Any, tuple[Any, float]]
"""For every node that can be reached: the node before it, and the latency up to it."""


class Path(NamedTuple):
    """A way from one node to another.

    Attributes:
        links: the numbers of its links, in the order of travel.
        latency: of all of it, s.
        passed: the nodes between its two ends, in the order of travel.
    """

    links: tuple[int, ...]
    latency: float
    passed: tuple[Any, ...]


class Paths:
    """The best ways of a graph from any node to any other, found when they are asked for.

    The ways from the node that was asked for last are kept: who speaks to several nodes mostly
    does so at once.

    Args:
        neighbours: of every node, those that an edge leads to.
        edges: these edges.
        numbers: of the nodes that are clients.

    Attributes:
        numbers: see above.
    """

    def __init__(
        self,
        neighbours: Mapping[Any, Iterable[Any]],
        edges: Edges,
        numbers: Mapping[Any, ClientId],
    ) -> None:
        self.numbers = numbers
        self._neighbours = neighbours
        self._edges = edges
        self._source: object = None
        self._ways = Ways()

    def between(self, source: object, target: object) -> Path:
        """Return the best way from one node to another.

        Raises:
            KeyError: there is none.
        """
        if source != self._source:
            self._ways = best_ways(source, self._neighbours, self._edges)
            self._source = source
        return way_to(target, self._ways, self._edges)


def best_ways(source: object, neighbours: Mapping[Any, Iterable[Any]], edges: Edges) -> Ways:
    """Return the tree of best ways from a source (Dijkstra's algorithm).

    Ways are compared by latency, then by hops, then by which was found first, so that the
    tree depends on nothing but the order of nodes and edges.

    Args:
        source: the node they start from.
        neighbours: of every node, those that an edge leads to.
        edges: these edges.
    """
    best, serial = Ways(), count(1)
    heap: list[tuple[float, int, int, Any, Any]] = [(0.0, 0, 0, source, None)]
    while heap:
        latency, hops, _, node, before = heappop(heap)
        if node in best:
            continue
        best[node] = before, latency
        for other in neighbours[node]:
            if other not in best:
                there = latency + edges[node, other].latency
                heappush(heap, (there, hops + 1, next(serial), other, node))
    return best


def way_to(node: object, ways: Ways, edges: Edges) -> Path:
    """Return the best way to a node."""
    links, passed, latency = list[int](), list[Any](), ways[node][1]
    while (before := ways[node][0]) is not None:
        links += reversed(edges[before, node].links)
        passed.append(before)
        node = before
    return Path(tuple(reversed(links)), latency, tuple(reversed(passed[:-1])))
