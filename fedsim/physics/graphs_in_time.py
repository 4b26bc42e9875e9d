"""Graphs of neighbours that change: from exchange to exchange, or in time.

In all of them, the neighbours of a node in an exchange are those it has when the exchange begins.
What is sent to them arrives even if the edge has disappeared meanwhile. If a graph changes with the
number of the exchange, nodes may begin an exchange at different times. If a graph changes in time,
all nodes begin an exchange together, when the last of them is ready. So both ends of an edge agree
on it, and the mixing matrix W of an exchange is that of one graph.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, permutations
from math import inf
from operator import matmul
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Seconds
from fedsim.core.blocks.spec import Given, as_written
from fedsim.core.errors import DataError
from fedsim.core.ports import Array, ClientId
from fedsim.physics.headers import Column, words
from fedsim.physics.overlay import Neighbours, Overlay, Weights, overlay_of
from fedsim.physics.tables import check_clients, read_table

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

# Graphs that change with the number of the exchange.


@dataclass(frozen=True, slots=True)
class OverlayCycle:
    """The neighbours of peers in a cycle of graphs.

    Attributes:
        graphs: the graphs; exchange k, from 1, has the graph number (k - 1) modulo their number.
    """

    graphs: tuple[Overlay, ...]

    def of(self, exchange: int) -> Overlay:
        """Return the graph of an exchange, from 1."""
        return self.graphs[(exchange - 1) % len(self.graphs)]

    def pairs(self) -> Iterator[tuple[ClientId, ClientId]]:
        """Yield the pairs (sender, receiver) of all graphs."""
        for graph in self.graphs:
            yield from graph.pairs()

    def contraction(self) -> float:
        """Return the factor by which one cycle reduces the distance to the mean.

        It is the norm of W_k ... W_1 - 11^T/M, and 0 if one cycle computes the mean exactly.
        """
        matrices = [graph.matrix().toarray() for graph in self.graphs]
        # The first exchange acts first, so its matrix is the last factor.
        *_, whole = accumulate(matrices, lambda past, new: matmul(new, past))
        return float(np.linalg.norm(whole - 1 / len(whole), 2))


class NeighboursByExchange(Neighbours):
    """A law of neighbours that change with the number of the exchange."""

    @abstractmethod
    def sequence(self, nodes: int, stream: "Stream") -> "OverlayCycle | Matchings":
        """Return the graphs of all exchanges; random ones come from the exchange's own stream."""

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """Return the graph of all edges that occur in some exchange."""
        import networkx as nx

        graph: nx.Graph[int] = nx.DiGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(self.sequence(nodes, lambda _: rng).pairs())
        return graph


class OnePeer(NeighboursByExchange):
    """In exchange k every node sends to the one 2^((k - 1) mod n) places further, n = log2 M.

    The one-peer exponential graph of Ying, Yuan, Chen, Hu, Pan, Yin, "Exponential Graph is Provably
    Efficient for Decentralized Deep Training", NeurIPS 2021, and of Assran, Loizou, Ballas, Rabbat,
    "Stochastic Gradient Push", ICML 2019, with one peer. A node sends and receives one message per
    exchange, and W has two entries of 1/2 in each row and column. If M is a power of two, n
    exchanges compute the mean exactly. For other numbers n is rounded up.
    """

    kind: Literal["one-peer"] = "one-peer"

    def sequence(self, nodes: int, stream: "Stream") -> OverlayCycle:
        """See `NeighboursByExchange.sequence`."""
        return self.cycle(nodes)

    def cycle(self, nodes: int) -> OverlayCycle:
        """Return the cycle of graphs."""
        steps = [2**power for power in range(max((nodes - 1).bit_length(), 1))]
        return OverlayCycle(tuple([_shift_graph(nodes, step) for step in steps]))


def _shift_graph(nodes: int, step: int) -> Overlay:
    """Return the graph in which every node sends to the one `step` places further, cyclically."""
    if nodes == 1:
        return Overlay(((),), ((),))
    to = tuple([((node + step) % nodes,) for node in range(nodes)])
    back = tuple([((node - step) % nodes,) for node in range(nodes)])
    return Overlay(to, back)


Stream = Callable[[int], np.random.Generator]
"""Returns the random stream of an exchange, from 1."""


def drawn_once(known: dict[int, Overlay], exchange: int, draw: Callable[[int], Overlay]) -> Overlay:
    """Return the graph of an exchange: a recent one from the cache, otherwise a drawn one."""
    if exchange not in known:
        if len(known) >= _KEPT:
            known.clear()  # an exchange has its own stream, so drawing again gives the same graph
        known[exchange] = draw(exchange)
    return known[exchange]


@dataclass(frozen=True, slots=True)
class Matchings:
    """The neighbours of peers in pairs that are drawn for each exchange.

    Attributes:
        nodes: the number of nodes.
        stream: see `Stream`.
    """

    nodes: int
    stream: Stream
    _known: dict[int, Overlay] = field(default_factory=dict, repr=False, compare=False)

    def of(self, exchange: int) -> Overlay:
        """Return the graph of an exchange, from 1."""
        return drawn_once(self._known, exchange, self._draw)

    def _draw(self, exchange: int) -> Overlay:
        order = self.stream(exchange).permutation(self.nodes).tolist()
        near: list[tuple[ClientId, ...]] = [() for _ in range(self.nodes)]
        # If the number of nodes is odd, the last one in this order has no partner.
        for one, other in zip(order[::2], order[1::2], strict=False):
            near[one], near[other] = (other,), (one,)
        return Overlay(tuple(near))

    def pairs(self) -> Iterator[tuple[ClientId, ClientId]]:
        """Yield all pairs of different nodes: any of them may be joined in some exchange."""
        return permutations(range(self.nodes), 2)

    def contraction(self) -> float:
        """Return the factor by which an exchange reduces the expected squared distance to the mean.

        It is the second largest eigenvalue of E[W]. Since each W is a projection, E[W] = E[W^T W].
        """
        even = self.nodes % 2 == 0
        return (self.nodes - 2) / (2 * (self.nodes - 1)) if even else 0.5 * (self.nodes > 1)


_KEPT = 64  # graphs in the cache: nodes are rarely this many exchanges apart


class RandomMatching(NeighboursByExchange):
    """In each exchange the nodes are paired at random: random pairwise gossip in rounds.

    Boyd, Ghosh, Prabhakar, Shah, "Randomized Gossip Algorithms", IEEE Trans. Inf. Theory 2006, the
    synchronous model on a complete graph. Both nodes of a pair take their mean. If the number of
    nodes is odd, one has no partner. In each exchange the expected squared distance to the mean
    falls by the second largest eigenvalue of E[W], which is (M - 2) / (2 (M - 1)) for an even
    number M.
    """

    kind: Literal["random-matching"] = "random-matching"

    def sequence(self, nodes: int, stream: Stream) -> Matchings:
        """See `NeighboursByExchange.sequence`."""
        return Matchings(nodes, stream)


# Graphs that change in time.


class EdgeChange(NamedTuple):
    """An edge that appears or disappears.

    If both ends are the same node, nothing changes. Endless laws yield such changes from time to
    time, so that a search for the next change ends even if the graph has stopped changing.

    Attributes:
        time: the time of the change, s.
        one: the node at one end of the edge.
        other: the node at the other end.
        there: whether the edge appears.
    """

    time: float
    one: ClientId
    other: ClientId
    there: bool


class GraphInTime:
    """An undirected graph at a time that only increases, with Metropolis weights.

    Weights are cached. A change of the graph recomputes only those of its two ends and their
    neighbours.

    Args:
        nodes: the number of nodes.
        changes: the changes in the order of time; those at 0 make the first graph.

    Attributes:
        edges: the current number of edges.
        changes: the number of changes so far.
    """

    def __init__(self, nodes: int, changes: Iterator[EdgeChange]) -> None:
        self._upcoming = changes
        self._there: list[set[ClientId]] = [set() for _ in range(nodes)]
        self._weights: dict[ClientId, Weights] = {}
        self._gone: set[ClientId] = set()
        self.edges = 0
        self.changes = 0
        self._next = next(changes, None)

    @property
    def next_time(self) -> float:
        """The time of the next change, s; infinite if there is none."""
        return inf if self._next is None else self._next.time

    def advance(self, time: float, seen: Callable[[EdgeChange], None] | None = None) -> None:
        """Apply all changes up to and including a time, s.

        Args:
            time: the time.
            seen: called with each change that has an effect.
        """
        ends = set()
        while (change := self._next) is not None and change.time <= time:
            if self._apply(change):
                ends |= {change.one, change.other}
                if seen is not None:
                    seen(change)
            self._next = next(self._upcoming, None)
        self._forget(ends)

    def _apply(self, change: EdgeChange) -> bool:
        """Apply a change; return whether it has an effect."""
        _, one, other, there = change
        near, far = self._there[one], self._there[other]
        # A law may repeat a change, and does not know which nodes have been removed.
        if (other in near) == there or one in self._gone or other in self._gone:
            return False
        if there:
            near.add(other)
            far.add(one)
        else:
            near.remove(other)
            far.remove(one)
        self.edges += 1 if there else -1
        self.changes += 1
        return True

    def _forget(self, nodes: set[ClientId]) -> None:
        """Drop the cached weights that depend on the degrees of nodes."""
        for node in nodes if self._weights else ():
            self._weights.pop(node, None)
            for near in self._there[node]:
                self._weights.pop(near, None)

    def remove(self, node: ClientId) -> None:
        """Remove a node for good, with its edges."""
        others = tuple(self._there[node])
        for other in others:
            self._apply(EdgeChange(0.0, node, other, there=False))
        self._forget({node, *others})
        self._gone.add(node)

    def neighbours(self, node: ClientId) -> tuple[ClientId, ...]:
        """Return the current neighbours of a node, in order."""
        return tuple(sorted(self._there[node]))

    def weights(self, node: ClientId) -> Weights:
        """Return the current weights that a node gives its neighbours; see `Overlay.weights`."""
        if node not in self._weights:
            degree = len(self._there[node])
            self._weights[node] = {
                other: 1 / (1 + max(degree, len(self._there[other])))
                for other in sorted(self._there[node])
            }
        return self._weights[node]

    def overlay(self) -> Overlay:
        """Return the current graph."""
        return Overlay(tuple([self.neighbours(node) for node in range(len(self._there))]))


class NeighboursInTime(Neighbours):
    """A law of neighbours that change in time; all nodes begin an exchange together."""

    every: Seconds = as_written("0 s", "shortest time between the starts of two exchanges")

    def follow(self, read: "ReadFile") -> Self:
        """Return the block with the contents of its file, if it has one.

        Raises:
            DataError: the file is invalid.
            OSError: the file cannot be read.
        """
        return self

    @abstractmethod
    def changes(self, nodes: int, rng: np.random.Generator) -> Iterator[EdgeChange]:
        """Yield the changes of the graph in the order of time; those at 0 s make the first graph.

        Args:
            nodes: the number of nodes.
            rng: the stream of random graphs, which only this method uses.

        Raises:
            DataError: on the first step, if the law does not suit the nodes; its key is relative to
                the block.
        """

    @property
    def span(self) -> float:
        """The time over which `fedsim check` examines the graph, s."""
        return 3600.0

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        """Return the graph at time 0, which need not be connected."""
        import networkx as nx

        first = GraphInTime(nodes, self.changes(nodes, rng))
        first.advance(0.0)
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(first.overlay().pairs())
        return graph

    def overlay(self, nodes: int, rng: np.random.Generator) -> Overlay:
        """Return the neighbours at time 0; the graph need not be connected."""
        return overlay_of(self.graph(nodes, rng))


ReadFile = Callable[..., Array]
"""Calls a reader, the first argument, with the path of a file, the second argument."""


# Recorded contacts.

Contact = tuple[int, int, float, float]
_COLUMNS = (
    Column("source", words=words("source src from sender i u node1 id1 client1")),
    Column("target", words=words("target dst destination to receiver j v node2 id2 client2 peer")),
    Column("begin", "s", "s", words("begin start on since up")),
    Column("end", "s", "s", words("end stop finish off until down")),
)


def read_contacts(path: Path) -> Array:
    """Read contacts: a CSV file with columns source, target, begin, end (clients from 0, and s).

    For headers, dates and times since 1970 see `fedsim.physics.tables.read_table`.

    Returns:
        Shape (contacts, 4): one row (source, target, begin, end) per contact.

    Raises:
        DataError: the file cannot be read, or a line is malformed.
    """
    table = read_table(path, _COLUMNS, "path")
    one, other, begin, end = table.columns
    for ends in (one, other):
        table.refuse_clients(ends)
    table.refuse(one == other, "a contact is one of two different clients")
    table.refuse(~((begin >= 0) & (end > begin) & np.isfinite(end)), "0 <= begin < end, in s")
    return np.column_stack(table.columns)


class Contacts(NeighboursInTime):
    """Nodes are neighbours from the begin to the end of each contact, as in recorded traces."""

    kind: Literal["contacts"] = "contacts"
    contacts: tuple[Contact, ...] = Field(
        default=(),
        description="list of [source, target, begin, end]: clients counted from 0, times in s",
    )
    path: Given[Path | None, Path | str | None] = as_written(
        None, "a .csv file with columns source, target, begin, end, in place of contacts"
    )
    repeat: Seconds = as_written("0 s", "period after which the contacts repeat; 0 s: never")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (not self.contacts):
            raise failure(("contacts", "give one of the two: contacts, or a file by path", None))
        for number, (one, other, begin, end) in enumerate(self.contacts):
            if min(one, other) < 0 or one == other or not 0 <= begin < end < inf:
                text = f"got [{one}, {other}, {begin:g}, {end:g}]; give two different clients,"
                text += " counted from 0, and 0 <= begin < end, in s"
                raise failure((f"contacts.{number}", text, None))
        return self

    def follow(self, read: ReadFile) -> Self:
        """Return the block with the contacts of its file."""
        if self.path is None:
            return self
        rows = read(read_contacts, self.path).tolist()
        contacts = tuple([(int(one), int(other), begin, end) for one, other, begin, end in rows])
        return self.model_copy(update={"contacts": contacts})

    @property
    def span(self) -> float:
        """The period of the contacts, or without one the end of the last contact, s."""
        return self.repeat or max((contact[3] for contact in self.contacts), default=0.0)

    def changes(self, nodes: int, rng: np.random.Generator) -> Iterator[EdgeChange]:
        """See `NeighboursInTime.changes`."""
        key = "path" if self.path is not None else "contacts"
        file = None if self.path is None else Path(self.path)
        check_clients({end for contact in self.contacts for end in contact[:2]}, nodes, key, file)
        once = _turns([contact for contact in self.contacts if max(contact[:2]) < nodes])
        if not self.repeat:
            yield from once
            return
        if once and once[-1].time > self.repeat:
            text = f"got {self.repeat:g} s, and the last contact ends at {once[-1].time:g} s"
            raise DataError("repeat", f"{text}; give at least that")
        start = 0.0
        while once:
            yield from (change._replace(time=start + change.time) for change in once)
            start += self.repeat


def _turns(contacts: Sequence[Contact]) -> list[EdgeChange]:
    """Return the changes of the graph; contacts of one pair may overlap."""
    ends = [(begin, True, min(a, b), max(a, b)) for a, b, begin, _ in contacts]
    ends += [(end, False, min(a, b), max(a, b)) for a, b, _, end in contacts]
    open_ones: dict[tuple[int, int], int] = {}
    edge_changes = []
    # If a contact of a pair ends when another begins, the edge stays: begins come first.
    for time, there, one, other in sorted(ends, key=lambda end: (end[0], not end[1], *end[2:])):
        before = open_ones.get((one, other), 0)
        open_ones[one, other] = now = before + (1 if there else -1)
        if (before > 0) != (now > 0):
            edge_changes.append(EdgeChange(time, one, other, there))
    return edge_changes
