"""A network that is any graph, written down or in a file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import Given
from fedsim.blocks.quantities import Rate, Seconds
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.physics.edges import check_source
from fedsim.physics.networks.base import DISCIPLINE, Network, ReadGraph
from fedsim.physics.topology import Discipline, Topology, routed

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx


class Edge(Spec):
    """A link of a graph."""

    source: str = Field(min_length=1, description='one end: "server", "client-0" or a router')
    target: str = Field(min_length=1, description="the other end")
    rate: Rate = as_written("unlimited", "rate of each direction, or of both where half duplex")
    latency: Seconds = as_written("0 s", "one-way delay")
    discipline: Discipline = Field(default="fair", description=DISCIPLINE)
    duplex: Literal["full", "half"] = Field(
        default="full", description="each direction for itself, or both on one link"
    )

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if self.source == self.target:
            text = f'got "{self.target}", which is the source as well; a link has two ends'
            raise failure(("target", text, self.target))
        return self


def joined(edges: Iterable[tuple[str, Edge]], *, directed: bool) -> "nx.Graph[str]":
    """Return the graph of some edges.

    Args:
        edges: each after where it was written, for messages.
        directed: whether each is one direction only.

    Raises:
        DataError: under the key "edges", two of them join the same nodes.
    """
    import networkx as nx  # noqa: PLC0415 - see the note at TYPE_CHECKING

    graph: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    for where, edge in edges:
        if graph.has_edge(edge.source, edge.target):
            ends = f"{edge.source} and {edge.target}"
            raise DataError("edges", f"{where}: {ends} are joined already; give one edge")
        attributes = edge.model_dump(exclude={"source", "target"})
        graph.add_edge(edge.source, edge.target, **attributes)
    return graph


class GraphNetwork(Network):
    """Any graph: nodes "server", "client-0", "client-1", ... and routers of any name.

    Messages take the way of least latency, whatever happens to the nodes on it. A client on the way
    of others forwards their messages: its own radio receives and sends them, and its battery pays.
    A message that comes to such a client while it is off or offline is lost.
    """

    topology: Literal["graph"] = Field(description="star, tree or graph")
    path: Given[Path | None, Path | str | None] = as_written(
        None, "a .graphml file, or a .csv list with the columns of an edge"
    )
    edges: tuple[Edge, ...] = as_written((), "the links, in place of a file")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_source(self.path, self.edges, ("path", "a graph is given by path or by edges"))
        return self

    def links(self, clients: int, read: ReadGraph) -> Topology:
        """Return the edges, and the best ways over them."""
        if self.path is None:
            rows = [(f"edge {number}", edge) for number, edge in enumerate(self.edges)]
            graph = joined(rows, directed=False)
        else:
            graph = read(self.path)
        return routed(graph, clients, server=self.peers is None)

    @property
    def written(self) -> str:
        """The file or the edges."""
        return "edges" if self.path is None else "path"

    @property
    def disciplines(self) -> Mapping[str, Discipline]:
        """Those of the edges that are written out."""
        return {f"edges.{n}.discipline": edge.discipline for n, edge in enumerate(self.edges)}
