"""Overlays: the neighbours of peers, independent of the links of the network.

Links and routes belong to `fedsim.physics.topology`. An overlay defines neighbours on top of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import numpy as np
from scipy.sparse import csr_array, dok_array

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.on_demand import Named
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.graph_files import ENDINGS
from fedsim.core.ports import ClientId

# Edges of a graph, in a scenario or in a file.

FORMATS = (*ENDINGS, ".csv")
"""The suffixes of files with edges."""


def check_source(path: Path | None, edges: Sequence[object], neither: tuple[str, str]) -> None:
    """Check that edges come either from a file of a known format or from the block.

    Called in the validator of a pydantic model.

    Args:
        path: the file, if any.
        edges: the edges in the block.
        neither: the key and the message for a block without any edges.

    Raises:
        ValueError: there are no edges, or both sorts, or the file has an unknown format.
    """
    if path is None and not edges:
        key, text = neither
        raise failure((key, f"missing: {text}", None))
    if path is not None and edges:
        raise failure(("edges", "given beside path; give one of the two", None))
    if path is not None and path.suffix not in FORMATS:
        text = f'got "{path}"; give a file that ends in {", ".join(FORMATS[:-1])} or {FORMATS[-1]}'
        raise failure(("path", text, path))


if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx


Weights = Mapping[ClientId, float]
"""Weights by the node that sent the message."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """The neighbours of peers, and the weights with which they mix.

    The mixing matrix W has in row i and column j the weight that node i gives to the vector from
    node j.

    Attributes:
        neighbours: for each node, the nodes that it sends to.
        senders: for each node of a directed graph, the nodes that it receives from. None in an
            undirected graph, where these are its neighbours.
        table: for each node, the weights of its senders, if a law of mixing has set them. If None,
            weights follow from the degrees (see `weights`).
        diagonal: each node's weight of its own vector, if `table` is set.
    """

    neighbours: tuple[tuple[ClientId, ...], ...]
    senders: tuple[tuple[ClientId, ...], ...] | None = None
    table: tuple[Weights, ...] | None = None
    diagonal: tuple[float, ...] = ()

    @property
    def edges(self) -> int:
        """The number of pairs of neighbours; in a directed graph, the number of directed edges."""
        ends = sum(map(len, self.neighbours))
        return ends if self.directed else ends // 2

    @property
    def directed(self) -> bool:
        """Whether edges lead one way only."""
        return self.senders is not None

    @property
    def received_from(self) -> tuple[tuple[ClientId, ...], ...]:
        """For each node, the nodes that it receives from."""
        return self.neighbours if self.senders is None else self.senders

    def pairs(self) -> Iterator[tuple[ClientId, ClientId]]:
        """Yield (sender, receiver) for each edge and direction."""
        for node, others in enumerate(self.neighbours):
            for other in others:
                yield node, other

    def weights(self, node: ClientId) -> Weights:
        """Return the weights of the nodes that a node receives from.

        If no law of mixing has set them, they follow from the degrees. In an undirected graph they
        are those of Metropolis and Hastings, 1 / (1 + the larger degree of the two), with which the
        mixing matrix is symmetric and doubly stochastic on every graph (Xiao, Boyd, Kim,
        "Distributed Average Consensus with Least-Mean-Square Deviation", 2007). In a directed graph
        they are 1 / (1 + the number of the sender's receivers), with which it is column stochastic.
        """
        if self.table is not None:
            return self.table[node]
        if self.senders is not None:
            return {other: 1 / (1 + len(self.neighbours[other])) for other in self.senders[node]}
        own, degree = self.neighbours[node], len(self.neighbours[node])
        return {other: 1 / (1 + max(degree, len(self.neighbours[other]))) for other in own}

    def own_weight(self, node: ClientId) -> float:
        """Return the weight of a node's own vector, on the diagonal of W."""
        if self.diagonal:
            return self.diagonal[node]
        if self.senders is not None:
            return 1 / (1 + len(self.neighbours[node]))
        return 1 - sum(self.weights(node).values())

    def matrix(self) -> "Matrix":
        """Return the mixing matrix W, shape (M, M)."""
        nodes = range(len(self.neighbours))
        matrix = dok_array((len(nodes), len(nodes)))
        for node in nodes:
            matrix[node, node] = self.own_weight(node)
            for other, weight in self.weights(node).items():
                matrix[node, other] = weight
        return csr_array(matrix)

    def adjacency(self) -> "Matrix":
        """Return the adjacency matrix, shape (M, M): 1 in row i and column j if i sends to j."""
        counts = [len(others) for others in self.neighbours]
        rows = np.repeat(np.arange(len(counts)), counts)
        columns = np.array(
            [node for neighbours in self.neighbours for node in neighbours], dtype=int
        )
        return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(counts), len(counts)))

    def check(self, need: "Need" = "doubly-stochastic") -> None:
        """Check that senders and receivers agree, and that the weights have a required property.

        Args:
            need: the property that a method needs; see `Need`.

        Raises:
            DataError: under the key "kind", if neighbours do not expect each other, a weight is
                missing or negative, or the mixing matrix does not have the property.
        """
        self.check_neighbours()
        nodes = range(len(self.neighbours))
        rows, columns = [0.0 for _ in nodes], [0.0 for _ in nodes]
        for node in nodes:
            weights = self.weights(node)
            rows[node] = sum(weights.values())
            for other, weight in weights.items():
                columns[other] += weight
                back = self.weights(other).get(node, 0.0) if need == "symmetric" else weight
                if _differ(weight, back):
                    text = (
                        f"the mixing matrix is not symmetric: row {node} has {weight:g} in column"
                        f" {other}, and row {other} has {back:g} in column {node}"
                    )
                    raise DataError("kind", text)
        for node in nodes:
            if text := self._unlike(need, node, rows[node], columns[node]):
                raise DataError("kind", text)

    def check_neighbours(self) -> None:
        """Check that every receiver expects its senders, and gives each of them a weight.

        Raises:
            DataError: see `check`.
        """
        received_from = self.received_from
        for node, neighbours in enumerate(self.neighbours):
            for other in neighbours:
                if node not in received_from[other]:
                    text = f"got {other} as a neighbour of {node}, but not {node} as one of {other}"
                    raise DataError("kind", f"{text}; neighbours send to each other")
            weights = self.weights(node)
            if set(weights) != set(received_from[node]) or min(weights.values(), default=0) < 0:
                text = f"the weights of node {node} must be one of at least 0 for each neighbour"
                raise DataError("kind", text)

    def _unlike(self, need: "Need", node: ClientId, row: float, column: float) -> str:
        """Return why a node's row and column lack a property; the sums exclude its own weight."""
        weight = self.own_weight(node)
        if need == "column-stochastic":
            if not _differ(column, 1 - weight) and weight >= 0:
                return ""
            return (
                f"the mixing matrix is not column stochastic: column {node} adds up to"
                f" {column:g} without the weight of node {node} itself, which is {weight:g}; both"
                " must add up to 1"
            )
        too_much = row > 1 + _ROUNDING and not self.diagonal
        if not (too_much or _differ(row, column) or _differ(row, 1 - weight)):
            return ""
        return (
            "the mixing matrix is not doubly stochastic: without its own weight, the row"
            f" of node {node} adds up to {row:g} and its column to {column:g}; they must be equal,"
            f" and add up to 1 with its own, {weight:g}"
        )


_ROUNDING = 1e-9


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _ROUNDING


Need = Literal["symmetric", "doubly-stochastic", "column-stochastic"]
"""The property of the mixing matrix that a method needs: symmetric, on an undirected graph; rows
and columns that add up to 1; or columns that do, on a strongly connected directed graph."""

if TYPE_CHECKING:
    Matrix: TypeAlias = csr_array[np.float64, tuple[int, int]]
else:
    Matrix = csr_array

ReadPairs = Callable[..., Sequence[tuple[str, str]]]
"""Reads the edges of a graph, as pairs of nodes, from a file given relative to the scenario. With
`directed=True` pairs have the direction of the edges; otherwise each edge has to lead both ways."""


class Neighbours(Spec):
    """A law of the neighbours of peers."""

    kind: str

    def read_edges(self, read: "ReadPairs") -> Self:
        """Return the block with the contents of its file, if it has one.

        Args:
            read: reads a file of edges.

        Raises:
            DataError: the file is invalid.
            OSError: the file cannot be read.
        """
        return self

    @abstractmethod
    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """Return the graph of neighbours of the nodes 0, 1, ..., nodes - 1.

        In a directed graph (`networkx.DiGraph`) the source of an edge sends to its target.

        Args:
            nodes: the number of nodes.
            rng: the stream of random graphs.

        Raises:
            DataError: no such graph exists for these nodes; its key is relative to the block.
        """

    def overlay(self, nodes: int, rng: np.random.Generator) -> Overlay:
        """Return the neighbours of each peer.

        Args:
            nodes: the number of nodes.
            rng: the stream of random graphs.

        Raises:
            DataError: the graph is invalid, or not connected.
        """
        graph = self.graph(nodes, rng)
        if wrong := _odd(graph, nodes):
            raise DataError("kind", f"the graph of {self.kind} {wrong}")
        if lost := sorted(set(range(nodes)) - _reach(graph)):
            few = ", ".join(map(str, lost[:3])) + (", ..." if len(lost) > 3 else "")
            ways = "to and from" if graph.is_directed() else "to"
            raise DataError(
                "kind", f"the graph must be connected: no path leads from 0 {ways} {few}"
            )
        return overlay_of(graph)


def overlay_of(graph: "nx.Graph[int]") -> Overlay:
    """Return the neighbours in an undirected or directed graph of the nodes 0, 1, ..., M - 1."""
    import networkx as nx

    nodes = range(len(graph))
    neighbours = tuple([tuple(sorted(graph.adj[node])) for node in nodes])
    if not isinstance(graph, nx.DiGraph):
        return Overlay(neighbours)
    senders = tuple([tuple(sorted(graph.pred[node])) for node in nodes])
    return Overlay(neighbours, senders)


def _odd(graph: object, nodes: int) -> str:
    """Return why a graph is not a valid graph of `nodes` peers; empty if it is."""
    import networkx as nx

    if not isinstance(graph, nx.Graph) or graph.is_multigraph():
        return f"is a {type(graph).__name__}; expected a networkx.Graph or a networkx.DiGraph"
    if set(graph) != set(range(nodes)):
        few = ", ".join(map(repr, list(graph)[:3])) + (", ..." if len(graph) > 3 else "")
        return f"has {len(graph)} nodes ({few}); expected the clients, 0 to {nodes - 1}"
    if loops := list(nx.selfloop_edges(graph)):
        return f"has an edge from {loops[0][0]} to itself; neighbours must differ"
    return ""


def _reach(graph: "nx.Graph[int]") -> set[int]:
    """Return the nodes that node 0 reaches and that also reach node 0."""
    import networkx as nx

    if isinstance(graph, nx.DiGraph):
        return {0} | (nx.descendants(graph, 0) & nx.ancestors(graph, 0))
    return set(nx.node_connected_component(graph, 0))


OVERLAYS: Registry[Neighbours] = Registry(
    "overlay",
    Named(
        "fedsim.physics.graphs",
        {
            "ring": "Ring",
            "complete": "Complete",
            "star": "StarGraph",
            "tree": "TreeGraph",
            "grid": "Grid",
            "torus": "Torus",
            "hypercube": "Hypercube",
            "exponential": "Exponential",
            "random": "Random",
            "regular": "Regular",
            "small-world": "SmallWorld",
            "scale-free": "ScaleFree",
            "geometric": "Geometric",
            "edges": "Listed",
            "one-peer": "OnePeer",
            "random-matching": "RandomMatching",
            "contacts": "Contacts",
            "random-waypoint": "RandomWaypoint",
            "levy-walk": "LevyWalk",
            "positions": "PositionTraces",
        },
    ),
    Neighbours,
    title="neighbours of peers",
)
"""The kinds of overlays."""
