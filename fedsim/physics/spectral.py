"""Properties of a graph of peers: degrees, diameter, and the speed of consensus."""

from math import ceil, inf, log
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path

from fedsim.physics.failures import FailingByExchange, OverlayInTime, PeerGraph
from fedsim.physics.graphs_in_time import Matchings, OverlayCycle
from fedsim.physics.overlay import Matrix, Overlay

LARGEST = 1000
"""The most nodes of a graph whose eigenvalues and diameter are computed, which takes a second."""

_ROUNDING = 1e-12

_CLOSER = 1000  # descriptions give the number of exchanges for this reduction


class GraphFacts(NamedTuple):
    """Properties of a graph of peers.

    Attributes:
        nodes: the number of nodes.
        edges: the number of edges.
        degrees: the smallest and the largest number of nodes that a node sends to.
        diameter: the largest distance of two nodes, in edges; None if not computed.
        second: the factor by which an exchange reduces the distance to the mean in the long run,
            which is the second largest modulus of an eigenvalue of W; None if not computed.
    """

    nodes: int
    edges: int
    degrees: tuple[int, int]
    diameter: int | None
    second: float | None

    @property
    def gap(self) -> float | None:
        """The spectral gap: 1 minus the second largest modulus of an eigenvalue."""
        return None if self.second is None else 1 - self.second

    def exchanges(self, factor: float) -> float | None:
        """Return the exchanges that reduce the distance to the mean by a factor above 1."""
        if self.second is None or self.second <= 0:
            return None if self.second is None else 1.0
        return inf if self.second >= 1 else float(ceil(log(factor) / -log(self.second)))


def second_eigenvalue(matrix: Matrix) -> float:
    """Return the second largest modulus of the eigenvalues of a mixing matrix, shape (M, M).

    For a symmetric matrix it is the norm of W - 11^T/M (Xiao, Boyd, "Fast linear iterations for
    distributed averaging", Systems & Control Letters 2004).

    >>> from fedsim.physics.overlay import Overlay
    >>> round(second_eigenvalue(Overlay(((1, 2), (0, 2), (0, 1))).matrix()), 12)
    0.0
    """
    dense = matrix.toarray()
    if len(dense) == 1:
        return 0.0
    # Eigenvalues of a symmetric matrix are real, and take less time.
    symmetric = np.array_equal(dense, dense.T)
    values = np.linalg.eigvalsh(dense) if symmetric else np.linalg.eigvals(dense)
    # The largest one is 1, since mixing keeps equal models.
    second = float(np.sort(np.abs(values))[-2])
    return second if second > _ROUNDING else 0.0


def contracts(overlay: Overlay) -> bool:
    """Return whether mixing brings models together; True for large graphs, without analysis."""
    if len(overlay.neighbours) > LARGEST:
        return True
    return second_eigenvalue(overlay.matrix()) < 1 - _ROUNDING


def facts_of(overlay: Overlay) -> GraphFacts:
    """Return the properties of a graph of peers."""
    counts = [len(others) for others in overlay.neighbours]
    known = len(counts) <= LARGEST
    return GraphFacts(
        nodes=len(counts),
        edges=overlay.edges,
        degrees=(min(counts), max(counts)),
        diameter=_diameter(overlay) if known else None,
        second=second_eigenvalue(overlay.matrix()) if known else None,
    )


def _diameter(overlay: Overlay) -> int:
    """Return the largest distance between two nodes, in edges."""
    return int(shortest_path(overlay.adjacency(), unweighted=True).max())


def describe(facts: GraphFacts) -> str:
    """Return the properties of a graph as a sentence.

    >>> describe(GraphFacts(8, 8, (2, 2), 4, 0.5)).partition(": ")[0]
    '8 nodes, 8 edges, degree 2, diameter 4, spectral gap 0.5'
    """
    least, most = facts.degrees
    degree = f"degree {least}" if least == most else f"degrees {least} to {most}"
    text = f"{facts.nodes:,} nodes, {facts.edges:,} edges, {degree}"
    if facts.gap is None:
        return f"{text}; diameter and spectral gap are not computed above {LARGEST:,} nodes"
    text += f", diameter {facts.diameter}, spectral gap {facts.gap:.3g}"
    needed = facts.exchanges(_CLOSER)
    if needed is None or needed == inf:
        return f"{text}: mixing does not bring models together"
    plural = "" if needed == 1 else "s"
    verb = "brings" if needed == 1 else "bring"
    text += f": {needed:,.0f} exchange{plural} {verb} models {_CLOSER} times closer"
    return f"{text} to their mean"


# Graphs that change.

_CHANGES = 100_000  # changes of a graph that are examined at most, which takes a few seconds

_LOOKS = 200  # times at which connectivity is examined


class TimeFacts(NamedTuple):
    """Properties of a graph that changes in time.

    Attributes:
        nodes: the number of nodes.
        degree: the number of neighbours of a node, averaged over nodes and time.
        connected: the share of time in which the graph is connected.
        alone: the share of time in which a node has no neighbour, averaged over the nodes.
        span: the time that was examined, from the start, s.
    """

    nodes: int
    degree: float
    connected: float
    alone: float
    span: float


def facts_in_time(overlay: OverlayInTime) -> TimeFacts:
    """Return the properties of a graph that changes in time, from samples at regular intervals."""
    graph, span, nodes = overlay.play(), overlay.law.span, overlay.nodes
    step = span / _LOOKS
    edges, connected, alone, looks = 0, 0, 0.0, 0
    while looks < _LOOKS and graph.changes < _CHANGES:
        graph.advance((looks + 0.5) * step)
        now = graph.overlay()
        edges += graph.edges
        parts, _ = connected_components(now.adjacency())
        connected += parts == 1
        alone += sum(not others for others in now.neighbours) / nodes
        looks += 1
    return TimeFacts(
        nodes, 2 * edges / looks / nodes, connected / looks, alone / looks, looks * step
    )


def describe_any(overlay: PeerGraph) -> str:
    """Return the properties of a graph of peers as a sentence, for all sorts of graphs."""
    if isinstance(overlay, OverlayInTime):
        facts = facts_in_time(overlay)
        return (
            f"{facts.nodes:,} nodes; in the first {facts.span:,g} s a node has {facts.degree:.3g}"
            f" neighbours on average and none for {facts.alone:.1%} of the time, and paths join all"
            f" nodes for {facts.connected:.1%} of it"
        )
    if isinstance(overlay, FailingByExchange):
        text = describe_any(overlay.base).partition(": ")[0]
        return f"{text}; each edge is missing in {overlay.probability:.3g} of the exchanges"
    if isinstance(overlay, Matchings):
        return (
            f"{overlay.nodes:,} nodes, paired at random in each exchange, which makes the expected"
            f" squared distance of models to their mean {overlay.contraction():.3g} times as large"
        )
    if isinstance(overlay, OverlayCycle):
        return _describe_cycle(overlay)
    return describe(facts_of(overlay))


def _describe_cycle(cycle: OverlayCycle) -> str:
    """Return the properties of a cycle of graphs as a sentence."""
    nodes, turns = len(cycle.graphs[0].neighbours), len(cycle.graphs)
    degree = max(len(others) for graph in cycle.graphs for others in graph.neighbours)
    text = f"{nodes:,} nodes, {turns} graphs that take turns, degree {degree}"
    if nodes > LARGEST:
        return f"{text}; their contraction is not computed above {LARGEST:,} nodes"
    factor = cycle.contraction()
    if factor < _ROUNDING:
        return f"{text}: {turns} exchanges bring models to their mean"
    return f"{text}: {turns} exchanges bring models {1 / factor:.3g} times closer to their mean"
