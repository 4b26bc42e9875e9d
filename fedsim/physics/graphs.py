"""Kinds of graphs of neighbours: regular, random, and listed. Each block is its own law.

NetworkX constructs most of them. Random graphs follow from the seed of the run.
"""

from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.spec import Given, as_written
from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError
from fedsim.core.ports import ClientId
from fedsim.physics.graphs_in_time import Contacts, OnePeer, RandomMatching
from fedsim.physics.mobility import LevyWalk, PositionTraces, RandomWaypoint
from fedsim.physics.overlay import Neighbours, ReadPairs, check_source

__all__ = [
    "Complete",
    "Contacts",
    "Exponential",
    "Geometric",
    "Grid",
    "Hypercube",
    "LevyWalk",
    "Listed",
    "OnePeer",
    "PositionTraces",
    "Random",
    "RandomMatching",
    "RandomWaypoint",
    "Regular",
    "Ring",
    "ScaleFree",
    "SmallWorld",
    "StarGraph",
    "Torus",
    "TreeGraph",
]

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

_DIGITS = 9  # in the number of a client, at most

# Graphs that follow from the number of nodes.


class Ring(Neighbours):
    """Every node is a neighbour of the next and the previous one, cyclically."""

    kind: Literal["ring"] = "ring"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        ring: nx.Graph[int] = nx.path_graph(nodes)
        # With two nodes, the path has this edge already.
        if nodes > 2:
            ring.add_edge(nodes - 1, 0)
        return ring


class Complete(Neighbours):
    """Every node is a neighbour of every other one."""

    kind: Literal["complete"] = "complete"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        complete: nx.Graph[int] = nx.complete_graph(nodes)
        return complete


class StarGraph(Neighbours):
    """Node 0 is the only neighbour of all others."""

    kind: Literal["star"] = "star"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        star: nx.Graph[int] = nx.star_graph(nodes - 1)
        return star


class TreeGraph(Neighbours):
    """A tree with node 0 as its root, filled level by level."""

    kind: Literal["tree"] = "tree"
    branching: int = Field(default=2, ge=1, description="children per node")

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        tree: nx.Graph[int] = nx.full_rary_tree(self.branching, nodes)
        return tree


class Grid(Neighbours):
    """A rectangular grid, filled row by row.

    Neighbours are next to each other in a row or column.
    """

    kind: Literal["grid"] = "grid"
    rows: int | None = Field(
        default=None, ge=1, description="number of rows; the nearest to a square by default"
    )

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        return self._graph(nodes, around=False)

    def _graph(self, nodes: int, *, around: bool) -> "nx.Graph[int]":
        import networkx as nx

        # The largest divisor up to the square root gives the grid nearest to a square.
        rows = self.rows or max(
            divisor for divisor in range(1, isqrt(nodes) + 1) if nodes % divisor == 0
        )
        if nodes % rows:
            text = f"got {rows}, which does not divide the {nodes} nodes; give one that does"
            raise DataError("rows", text)
        places: nx.Graph[Any] = nx.grid_2d_graph(rows, nodes // rows, periodic=around)
        return nx.convert_node_labels_to_integers(places, ordering="sorted")


class Torus(Grid):
    """A rectangular grid whose rows and columns are closed to rings."""

    kind: Literal["torus"] = "torus"  # type: ignore[assignment]  # another kind

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        return self._graph(nodes, around=True)


class Hypercube(Neighbours):
    """Neighbours are the nodes whose numbers differ in one binary digit."""

    kind: Literal["hypercube"] = "hypercube"

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        if nodes & (nodes - 1):
            text = f"got {nodes} nodes; a hypercube has a power of 2, such as"
            raise DataError("kind", f"{text} {2 ** nodes.bit_length()}")
        # A single node has no binary digit, and is a grid of side 1.
        places: nx.Graph[Any] = nx.grid_graph((2,) * (nodes.bit_length() - 1) or (1,))
        return nx.convert_node_labels_to_integers(places, ordering="sorted")


class Exponential(Neighbours):
    """Every node sends to the nodes 1, 2, 4, 8, ... places further, cyclically.

    Ying, Yuan, Chen, Hu, Pan, Yin, "Exponential Graph is Provably Efficient for Decentralized Deep
    Training", NeurIPS 2021: the static exponential graph, which is directed in the paper.
    """

    kind: Literal["exponential"] = "exponential"
    directed: bool = Field(
        default=False, description="whether edges lead one way only, as in the paper"
    )

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        steps = [2**power for power in range((nodes - 1).bit_length())]
        graph: nx.Graph[int] = nx.DiGraph() if self.directed else nx.Graph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(
            (node, (node + step) % nodes) for node in range(nodes) for step in steps
        )
        return graph


# Random graphs, drawn once per run.


def _regular(degree: int, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
    """Return a random graph in which all nodes have the same degree.

    Raises:
        DataError: no such graph exists.
    """
    import networkx as nx

    if degree >= nodes or degree * nodes % 2:
        most = f"less than the {nodes} nodes, and even if their number is odd"
        raise DataError("degree", f"got {degree}; expected a degree {most}")
    regular: nx.Graph[int] = nx.random_regular_graph(degree, nodes, _seed(rng))
    return regular


class Random(Neighbours):
    """A random graph, drawn once per run: regular, or with independent edges."""

    kind: Literal["random"] = "random"
    degree: int | None = Field(default=None, ge=1, description="neighbours per node")
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
        import networkx as nx

        if self.degree is None:
            drawn: nx.Graph[int] = nx.gnp_random_graph(nodes, self.probability or 0.0, _seed(rng))
            return drawn
        return _regular(self.degree, nodes, rng)


class Regular(Neighbours):
    """A random graph in which every node has the same number of neighbours."""

    kind: Literal["regular"] = "regular"
    degree: int = Field(ge=1, description="neighbours per node")

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        return _regular(self.degree, nodes, rng)


class SmallWorld(Neighbours):
    """A ring in which each edge to the nearest nodes is rewired with a probability.

    Watts, Strogatz, "Collective dynamics of small-world networks", Nature 1998. The graph is drawn
    again, at most 100 times, until it is connected.
    """

    kind: Literal["small-world"] = "small-world"
    degree: int = Field(default=4, ge=2, description="nearest nodes, half of them on each side")
    rewiring: float = Field(default=0.1, ge=0, le=1, description="probability that an edge moves")

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        if self.degree % 2 or self.degree >= nodes:
            text = f"got {self.degree}; expected an even degree less than the {nodes} nodes"
            raise DataError("degree", text)
        draw = nx.connected_watts_strogatz_graph
        try:
            drawn: nx.Graph[int] = draw(nodes, self.degree, self.rewiring, _TRIES, _seed(rng))
        except nx.NetworkXError as error:
            text = f"got {self.degree}, with which none of {_TRIES} graphs was connected; give more"
            raise DataError("degree", text) from error
        return drawn


class ScaleFree(Neighbours):
    """Nodes arrive one by one and prefer neighbours with many edges: a few nodes have very many.

    Barabasi, Albert, "Emergence of scaling in random networks", Science 1999.
    """

    kind: Literal["scale-free"] = "scale-free"
    links: int = Field(default=2, ge=1, description="edges that each new node adds")

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        if self.links >= nodes:
            raise DataError("links", f"got {self.links}; expected less than the {nodes} nodes")
        drawn: nx.Graph[int] = nx.barabasi_albert_graph(nodes, self.links, _seed(rng))
        return drawn


Position = tuple[float, float]


class Geometric(Neighbours):
    """Nodes in a plane are neighbours within a range of each other.

    By default positions are uniform in the unit square. They are drawn again, at most 100 times,
    until the graph is connected, which is likely from a range of about sqrt(log(M) / (pi M)) on
    (Gupta, Kumar, "Critical power for asymptotic connectivity in wireless networks", 1999).
    """

    kind: Literal["geometric"] = "geometric"
    range: Annotated[float, Field(gt=0, description="largest distance between neighbours")]
    positions: tuple[Position, ...] = Field(
        default=(),
        description=(
            "[x, y] of every node, in the unit of range; by default drawn in [0, 1] x [0, 1]"
        ),
    )

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        if self.positions:
            if len(self.positions) != nodes:
                text = f"got {len(self.positions)}, and there are {nodes} nodes; give one for each"
                raise DataError("positions", text)
            return self._within(self.positions)
        for _ in range(_TRIES):
            graph = self._within(rng.random((nodes, 2)).tolist())
            if nx.is_connected(graph):
                return graph
        text = f"got {self.range:g}, with which none of {_TRIES} graphs was connected; give more"
        raise DataError("range", text)

    def _within(self, places: Any) -> "nx.Graph[int]":
        import networkx as nx

        at = {node: tuple(place) for node, place in enumerate(places)}
        graph: nx.Graph[int] = nx.random_geometric_graph(len(at), self.range, pos=at)
        return graph


_TRIES = 100  # graphs drawn, at most, until one is connected


def _seed(rng: np.random.Generator) -> Any:
    """Return a seed for NetworkX, which draws differently from NumPy's generators by version."""
    return int(rng.integers(2**32))


# Listed graphs.


class Listed(Neighbours):
    """Neighbours listed as pairs, in the scenario or in a file."""

    kind: Literal["edges"] = "edges"
    edges: tuple[tuple[int, int], ...] = Field(
        default=(), description="pairs of clients, counted from 0: [[0, 1], [1, 2]]"
    )
    path: Given[Path | None, Path | str | None] = as_written(
        None,
        "a .graphml or .gml file, or a .csv list with columns source and target, in place of edges",
    )
    directed: bool = Field(
        default=False, description="whether the first node of a pair sends to the second only"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_source(self.path, self.edges, ("edges", "give pairs of clients, or a file by path"))
        return self

    def read_edges(self, read: ReadPairs) -> Self:
        """Return the block with the edges of its file, whose nodes are client-0, ... or 0, ...

        Raises:
            DataError: a node of the file has another name.
        """
        if self.path is None:
            return self
        pairs = read(self.path, directed=True) if self.directed else read(self.path)
        edges = [(_number(one), _number(other)) for one, other in pairs]
        return self.model_copy(update={"edges": tuple(edges)})

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """See `Neighbours.graph`."""
        import networkx as nx

        graph: nx.Graph[int] = nx.DiGraph() if self.directed else nx.Graph()
        graph.add_nodes_from(range(nodes))
        for number, (one, other) in enumerate(self.edges):
            if one == other or not {one, other} <= set(range(nodes)):
                text = f"got [{one}, {other}]; give two different clients, of 0 to {nodes - 1}"
                raise DataError(f"edges.{number}" if self.path is None else "path", text)
            graph.add_edge(one, other)
        return graph


def _number(node: str) -> ClientId:
    """Return the number of a client in a file.

    Raises:
        DataError: its name has no number.
    """
    number = node.removeprefix("client-")
    if not (number.isascii() and number.isdecimal()) or len(number) > _DIGITS:
        text = f'got the node "{printable(node)}"; expected client-0, client-1, ... or 0, 1, ...'
        raise DataError("path", text)
    return int(number)
