"""Overlays: the neighbours of peers, independent of the links of the network.

The links and the routes are those of `fedsim.physics.topology`; an overlay defines neighbours on
top of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Given, Spec, as_written
from fedsim.blocks.wording import printable
from fedsim.errors import DataError
from fedsim.ports import ClientId

# Edges of a graph, in a scenario or in a file.

FORMATS = (".graphml", ".csv")
"""The suffixes of files of edges."""


def check_source(path: Path | None, edges: Sequence[object], neither: tuple[str, str]) -> None:
    """Check that edges come either from a file of a known format or from the block.

    Args:
        path: the file, if any.
        edges: the edges in the block.
        neither: the key and the message if there are neither.

    Raises:
        ValueError: there are neither, or both, or the file has an unknown format; raised in the
            validator of a model.
    """
    if path is None and not edges:
        key, text = neither
        raise failure((key, f"missing: {text}", None))
    if path is not None and edges:
        raise failure(("edges", "given beside path; give one of the two", None))
    if path is not None and path.suffix not in FORMATS:
        text = f'got "{path}"; give a file that ends in {" or ".join(FORMATS)}'
        raise failure(("path", text, path))


if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Overlay:
    """The neighbours of peers.

    Attributes:
        neighbours: of every node, by number.
    """

    neighbours: tuple[tuple[ClientId, ...], ...]

    @property
    def edges(self) -> int:
        """The number of pairs of neighbours."""
        return sum(map(len, self.neighbours)) // 2

    def weights(self, node: ClientId) -> Mapping[ClientId, float]:
        """Return the weights of a node's neighbours; its own weight is 1 minus their sum.

        They are those of Metropolis and Hastings (Xiao, Boyd, Kim, "Distributed Average
        Consensus with Least-Mean-Square Deviation", 2007): 1 / (1 + the larger degree of the two),
        with which the mixing matrix is symmetric and doubly stochastic on every graph.
        """
        own, degree = self.neighbours[node], len(self.neighbours[node])
        return {other: 1 / (1 + max(degree, len(self.neighbours[other]))) for other in own}

    def check(self) -> None:
        """Check that mixing with these neighbours and weights preserves the mean of the models.

        It does with the weights of this class; those of a user-defined subclass may not.

        Raises:
            DataError: the neighbours are not symmetric, or the mixing matrix has a negative entry
                or is not doubly stochastic.
        """
        nodes = range(len(self.neighbours))
        columns, rows = dict.fromkeys(nodes, 0.0), dict.fromkeys(nodes, 0.0)
        for node in nodes:
            weights = self.weights(node)
            for other in self.neighbours[node]:
                if node not in self.neighbours[other]:
                    text = f"got {other} as a neighbour of {node}, but not {node} as one of {other}"
                    raise DataError("kind", f"{text}; neighbours send to each other")
            if set(weights) != set(self.neighbours[node]) or min(weights.values(), default=0) < 0:
                text = f"the weights of node {node} must be one of at least 0 for each neighbour"
                raise DataError("kind", text)
            rows[node] = sum(weights.values())
            for other, weight in weights.items():
                columns[other] += weight
        for node in nodes:
            if rows[node] > 1 + _ROUNDING or abs(rows[node] - columns[node]) > _ROUNDING:
                text = (
                    "the mixing matrix is not doubly stochastic: without its own weight, the row"
                    f" of node {node} adds up to {rows[node]:g} and its column to"
                    f" {columns[node]:g}; they must be equal, and at most 1"
                )
                raise DataError("kind", text)


_ROUNDING = 1e-9

ReadPairs = Callable[[Path], Sequence[tuple[str, str]]]
"""Reads the edges of a graph from a file, given relative to the scenario, as pairs of nodes."""

_DIGITS = 9  # the largest length of a client's number


class Neighbours(Spec):
    """A law of the neighbours of peers."""

    kind: str

    def read_edges(self, read: "ReadPairs") -> Self:  # noqa: ARG002
        """Return the block with the contents of its file, if any; `read` reads a file of edges.

        Raises:
            DataError, OSError: the file is invalid or cannot be read.
        """
        return self

    @abstractmethod
    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """Return the graph of neighbours of the nodes 0, 1, ..., nodes - 1.

        Raises:
            DataError: there is none; its key is relative to the block.
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
            raise DataError("kind", f"the graph must be connected: no path leads from 0 to {few}")
        return Overlay(tuple([tuple(sorted(graph.adj[node])) for node in range(nodes)]))


def _odd(graph: object, nodes: int) -> str:
    """Return why a graph is not one of `nodes` peers; empty if it is."""
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        return f"is a {type(graph).__name__}; expected a networkx.Graph of undirected edges"
    if set(graph) != set(range(nodes)):
        few = ", ".join(map(repr, list(graph)[:3])) + (", ..." if len(graph) > 3 else "")
        return f"has {len(graph)} nodes ({few}); expected the clients, 0 to {nodes - 1}"
    if loops := list(nx.selfloop_edges(graph)):
        return f"has an edge from {loops[0][0]} to itself; neighbours must differ"
    return ""


def _reach(graph: "nx.Graph[int]") -> set[int]:
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    return set(nx.node_connected_component(graph, 0))


class Ring(Neighbours):
    """Every node is a neighbour of the next and the previous one, cyclically."""

    kind: Literal["ring"] = "ring"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":  # noqa: ARG002
        """See `Neighbours.graph`."""
        import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

        ring: nx.Graph[int] = nx.path_graph(nodes)
        if nodes > 2:
            ring.add_edge(nodes - 1, 0)
        return ring


class Complete(Neighbours):
    """Every node is a neighbour of every other one."""

    kind: Literal["complete"] = "complete"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":  # noqa: ARG002
        """See `Neighbours.graph`."""
        import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

        complete: nx.Graph[int] = nx.complete_graph(nodes)
        return complete


class Random(Neighbours):
    """A random graph, drawn once a run: regular, or with independent edges."""

    kind: Literal["random"] = "random"
    degree: int | None = Field(default=None, ge=1, description="neighbours of every node")
    probability: float | None = Field(
        default=None, gt=0, le=1, description="probability of an edge (Erdos, Renyi)"
    )

    @model_validator(mode="after")
    def _one_law(self) -> Self:
        if (self.degree is None) == (self.probability is None):
            text = "give one of the two: degree, or probability"
            raise failure(("degree", text, self.degree))
        return self

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

        if self.degree is None:
            drawn: nx.Graph[int] = nx.gnp_random_graph(nodes, self.probability or 0.0, _seed(rng))
            return drawn
        if self.degree >= nodes or self.degree * nodes % 2:
            most = f"less than the {nodes} nodes, and even if their number is odd"
            raise DataError("degree", f"got {self.degree}; expected a degree {most}")
        regular: nx.Graph[int] = nx.random_regular_graph(self.degree, nodes, _seed(rng))
        return regular


def _seed(rng: np.random.Generator) -> Any:  # noqa: ANN401 - a seed of NetworkX
    """Return a seed for NetworkX, whose use of NumPy's generators differs between versions."""
    return int(rng.integers(2**32))


class Listed(Neighbours):
    """The neighbours given as pairs."""

    kind: Literal["edges"] = "edges"
    edges: tuple[tuple[int, int], ...] = Field(
        default=(), description="pairs of clients, counted from 0: [[0, 1], [1, 2]]"
    )
    path: Given[Path | None, Path | str | None] = as_written(
        None, "a .graphml file, or a .csv list with columns source and target, in place of edges"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_source(self.path, self.edges, ("edges", "give pairs of clients, or a file by path"))
        return self

    def read_edges(self, read: ReadPairs) -> Self:
        """Return the block with the edges of its file, whose nodes are client-0, ... or 0, ..."""
        if self.path is None:
            return self
        edges = [(_number(one), _number(other)) for one, other in read(self.path)]
        return self.model_copy(update={"edges": tuple(edges)})

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":  # noqa: ARG002
        """See `Neighbours.graph`."""
        import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

        graph: nx.Graph[int] = nx.empty_graph(nodes)
        for number, (one, other) in enumerate(self.edges):
            if one == other or not {one, other} <= set(range(nodes)):
                text = f"got [{one}, {other}]; give two different clients, of 0 to {nodes - 1}"
                raise DataError(f"edges.{number}" if self.path is None else "path", text)
            graph.add_edge(one, other)
        return graph


def _number(node: str) -> ClientId:
    """Return the number of a client in a file.

    Raises:
        DataError: the name has none.
    """
    number = node.removeprefix("client-")
    if not (number.isascii() and number.isdecimal()) or len(number) > _DIGITS:
        text = f'got the node "{printable(node)}"; expected client-0, client-1, ... or 0, 1, ...'
        raise DataError("path", text)
    return int(number)


OVERLAYS: Registry[Neighbours] = Registry(
    "overlay", (Ring, Complete, Random, Listed), Neighbours, title="neighbours of peers"
)
"""The kinds of overlays."""
