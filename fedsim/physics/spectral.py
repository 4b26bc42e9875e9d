"""What a graph of peers promises: degrees, diameter, and how fast mixing brings peers together."""

from math import ceil, inf, log
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import shortest_path

from fedsim.physics.overlay import Matrix, Overlay

LARGEST = 1000
"""Nodes of the largest graph whose eigenvalues and diameter are computed: it takes a second."""

_ROUNDING = 1e-12

_CLOSER = 1000  # the factor for which exchanges are predicted


class GraphFacts(NamedTuple):
    """Properties of a graph of peers.

    Attributes:
        nodes, edges: their numbers.
        degrees: the smallest and the largest number of those that a node sends to.
        diameter: the largest distance of two nodes, in edges; None where not computed.
        second: the factor by which an exchange shortens the distance to the mean in the long run:
            the second largest modulus of an eigenvalue of W; None where not computed.
    """

    nodes: int
    edges: int
    degrees: tuple[int, int]
    diameter: int | None
    second: float | None

    @property
    def gap(self) -> float | None:
        """The spectral gap, 1 minus the second eigenvalue."""
        return None if self.second is None else 1 - self.second

    def exchanges(self, factor: float) -> float | None:
        """Return the exchanges until the distance to the mean has shrunk by a factor above 1."""
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
    symmetric = np.array_equal(dense, dense.T)
    values = np.linalg.eigvalsh(dense) if symmetric else np.linalg.eigvals(dense)
    second = float(np.sort(np.abs(values))[-2])
    return second if second > _ROUNDING else 0.0


def contracts(overlay: Overlay) -> bool:
    """Return whether mixing brings models together; unknown of large graphs, which are taken to."""
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
    """Return the largest distance of two nodes, in edges."""
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
