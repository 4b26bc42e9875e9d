"""Mixing matrices: the weights with which peers mix received vectors. Each block is its own law.

The entry in row i and column j of the mixing matrix W is the weight that node i gives to the vector
from node j. It is zero if no edge leads from j to i. If each row adds up to 1, a node computes a
weighted mean. If each column does, mixing preserves the sum of the nodes' vectors.
"""

from abc import abstractmethod
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.sparse import csr_array, diags_array

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.physics.overlay import Matrix, Overlay, Weights

_ROUNDING = 1e-9

_DENSE = 2000  # nodes of a graph, at most, whose eigenvalues are computed


class Mixing(Spec):
    """A law of the weights of peers."""

    kind: str

    @abstractmethod
    def matrix(self, overlay: Overlay) -> Matrix:
        """Return the mixing matrix for a graph of neighbours, shape (M, M), sparse.

        Raises:
            DataError: the law does not apply to this graph; its key is relative to the block.
        """

    def apply(self, overlay: Overlay) -> Overlay:
        """Return an overlay with the weights of this law.

        Raises:
            DataError: the law does not apply, or gives a weight to a pair without an edge.
        """
        matrix = csr_array(self.matrix(overlay))
        nodes = len(overlay.neighbours)
        if matrix.shape != (nodes, nodes):
            text = f"the mixing matrix of {self.kind} has shape {matrix.shape}; expected"
            raise DataError("kind", f"{text} ({nodes}, {nodes})")
        rows = tuple([self._row(matrix, node, overlay) for node in range(nodes)])
        diagonal = tuple(matrix.diagonal().tolist())
        return Overlay(overlay.neighbours, overlay.senders, rows, diagonal)

    def _row(self, matrix: Matrix, node: int, overlay: Overlay) -> Weights:
        """Return the weights of the nodes that a node receives from.

        Raises:
            DataError: another node has a weight, or a weight is not finite.
        """
        span = slice(matrix.indptr[node], matrix.indptr[node + 1])
        entries = dict(zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True))
        received_from = overlay.received_from[node]
        for other, weight in entries.items():
            if not np.isfinite(weight):
                text = f"row {node} of the mixing matrix has {weight} in column {other}"
                raise DataError("kind", f"{text}; expected a number")
            if weight and other != node and other not in received_from:
                text = (
                    f"row {node} of the mixing matrix has the weight {weight:g} in column {other}"
                )
                raise DataError("kind", f"{text}, but no edge leads from {other} to {node}")
        return {other: entries.get(other, 0.0) for other in received_from}


def _adjacency(overlay: Overlay, law: Mixing) -> Matrix:
    """Return the adjacency matrix of an undirected graph, shape (M, M).

    Raises:
        DataError: the graph is directed.
    """
    if overlay.directed:
        text = f"got {law.kind}, but its weights are for undirected edges; use out-degree or matrix"
        raise DataError("kind", text)
    return overlay.adjacency()


def _laplacian(overlay: Overlay, law: Mixing) -> Matrix:
    """Return the Laplacian matrix L of an undirected graph, shape (M, M).

    Raises:
        DataError: the graph is directed.
    """
    adjacency = _adjacency(overlay, law)
    return csr_array(diags_array(adjacency.sum(axis=1)) - adjacency)


def _less(laplacian: Matrix, factor: float) -> Matrix:
    """Return I - factor L."""
    return csr_array(diags_array(np.ones(laplacian.shape[0])) - factor * laplacian)


def _spectrum(laplacian: Matrix, law: Mixing) -> Array:
    """Return the eigenvalues of a Laplacian matrix in ascending order, shape (M,).

    Raises:
        DataError: the graph is too large to compute them.
    """
    nodes = laplacian.shape[0]
    if nodes > _DENSE:
        text = f"got {law.kind}, whose weights need the eigenvalues of a graph of {nodes:,} nodes"
        raise DataError("kind", f"{text}; at most {_DENSE:,} are accepted, or use metropolis")
    return np.asarray(np.linalg.eigvalsh(laplacian.toarray()))


class Metropolis(Mixing):
    """Weight 1 / (1 + the larger degree of the two): a node has to know its neighbours' degrees.

    Xiao, Boyd, Kim, "Distributed Average Consensus with Least-Mean-Square Deviation", J. Parallel
    Distrib. Comput. 2007 (Metropolis-Hastings). Symmetric and doubly stochastic.
    """

    kind: Literal["metropolis"] = "metropolis"

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        _adjacency(overlay, self)
        return Overlay(overlay.neighbours).matrix()


class MaximumDegree(Mixing):
    """Weight 1 / (1 + the largest degree of all nodes), the same for every edge.

    Xiao, Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 2004,
    section 4.1. Here 1 is added to the degree, so that W does not have the eigenvalue -1. Symmetric
    and doubly stochastic.
    """

    kind: Literal["maximum-degree"] = "maximum-degree"

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        laplacian = _laplacian(overlay, self)
        return _less(laplacian, 1 / (1 + max(laplacian.diagonal())))


class LaplacianMixing(Mixing):
    """W = I - L/tau, where L is the Laplacian matrix of the graph.

    Shi, Ling, Wu, Yin, "EXTRA", SIAM J. Optim. 2015, section 2.4 (ii). Symmetric; its rows and
    columns add up to 1. A node's own weight may be negative.
    """

    kind: Literal["laplacian"] = "laplacian"
    tau: float | None = Field(
        default=None,
        gt=0,
        description="more than half the largest eigenvalue of L; by default the largest eigenvalue",
    )

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        laplacian = _laplacian(overlay, self)
        largest = float(_spectrum(laplacian, self)[-1])
        tau = largest if self.tau is None else self.tau
        if tau <= largest / 2:
            text = f"got {tau:g}; expected more than half the largest eigenvalue of the Laplacian"
            raise DataError("tau", f"{text} matrix, {largest / 2:g}, else mixing diverges")
        # A single node has L = 0, and tau = 0 with it.
        return _less(laplacian, 1 / tau if tau else 0.0)


class BestConstant(Mixing):
    """The one weight for all edges with the fastest consensus: 2 / (l_2 + l_M).

    Xiao, Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 2004,
    section 4.1. l_2 is the smallest positive and l_M the largest eigenvalue of the Laplacian
    matrix. Symmetric; its rows and columns add up to 1. A node's own weight may be negative.
    """

    kind: Literal["best-constant"] = "best-constant"

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        laplacian = _laplacian(overlay, self)
        if laplacian.shape[0] == 1:
            return _less(laplacian, 0.0)
        values = _spectrum(laplacian, self)
        return _less(laplacian, 2 / float(values[1] + values[-1]))


class FastestMixing(Mixing):
    """The nonnegative weights with the fastest consensus, that is, the largest spectral gap.

    Boyd, Diaconis, Xiao, "Fastest Mixing Markov Chain on a Graph", SIAM Rev. 2004: the symmetric W
    with entries of at least 0 that minimises the second largest modulus of an eigenvalue. This
    convex problem is solved to about 1e-5 by the alternating direction method of multipliers.
    """

    kind: Literal["fastest"] = "fastest"

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        adjacency = _adjacency(overlay, self)
        nodes = adjacency.shape[0]
        if nodes > _SOLVED:
            text = f"got {self.kind}, whose weights are solved for graphs of at most {_SOLVED}"
            raise DataError("kind", f"{text} nodes, and there are {nodes:,}; use metropolis")
        ends = np.array([pair for pair in overlay.pairs() if pair[0] < pair[1]]).reshape(-1, 2)
        return csr_array(_fastest(ends, nodes))


def _fastest(ends: NDArray[np.int_], nodes: int) -> Array:
    """Return the fastest mixing matrix W for edges `ends` of shape (edges, 2); shape (M, M).

    With W = I - sum_e w_e b_e b_e^T, the norm of W - 11^T/M is minimised over w >= 0 whose sum at
    each node is at most 1. The alternating direction method of multipliers splits off copies of the
    arguments of the norm and of the two constraints. Each step in w is then a least-squares
    problem.
    """
    edges = len(ends)
    incidence = np.zeros((edges, nodes))
    incidence[np.arange(edges), ends[:, 0]], incidence[np.arange(edges), ends[:, 1]] = 1.0, -1.0
    sums = np.abs(incidence).T
    rank_one = (incidence[:, :, None] * incidence[:, None, :]).reshape(edges, -1).T
    stacked = csr_array(np.vstack([-rank_one, np.eye(edges), sums]))
    # `stacked @ w + fixed` are the three arguments, one below the other: the entries of W - 11^T/M,
    # w itself, and the sums of w at the nodes. `prices` are the scaled dual variables.
    fixed = np.concatenate([(np.eye(nodes) - 1 / nodes).ravel(), np.zeros(edges), np.zeros(nodes)])
    # This matrix is the same in all steps, so it is inverted once.
    solve = np.linalg.inv((stacked.T @ stacked).toarray())
    copies, prices = fixed.copy(), np.zeros_like(fixed)
    for _ in range(_STEPS):
        w = solve @ (stacked.T @ (copies - prices - fixed))
        wanted = stacked @ w + fixed + prices
        old, copies = copies, _nearest(wanted, nodes, edges)
        prices = wanted - copies
        apart = np.abs(stacked @ w + fixed - copies).max()
        if max(apart, np.abs(copies - old).max()) < _CLOSE:
            break
    # An approximate solution may violate the constraints slightly; the result must not.
    w = np.maximum(w, 0.0)
    w = w / max(1.0, float((sums @ w).max(initial=0.0)))
    return np.asarray(np.eye(nodes) - (rank_one @ w).reshape(nodes, nodes))


def _nearest(wanted: Array, nodes: int, edges: int) -> Array:
    """Return the proximal points of the norm, of w >= 0, and of sums of at most 1, stacked."""
    square = wanted[: nodes * nodes].reshape(nodes, nodes)
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    # The proximal point of the norm clips the moduli of the eigenvalues at a level. The level is
    # such that the clipped parts add up to the step.
    moduli = np.sort(np.abs(values))[::-1]
    levels = (np.cumsum(moduli) - _STEP) / np.arange(1, nodes + 1)
    level = max(float(levels.max()), 0.0)
    cut = np.clip(values, -level, level)
    weights = np.maximum(wanted[nodes * nodes : nodes * nodes + edges], 0.0)
    at_most = np.minimum(wanted[nodes * nodes + edges :], 1.0)
    return np.concatenate([((vectors * cut) @ vectors.T).ravel(), weights, at_most])


_SOLVED = 50  # nodes of a graph, at most, whose fastest weights are computed

_STEPS, _STEP, _CLOSE = 5_000, 0.3, 1e-8


class OutDegree(Mixing):
    """Weight 1 / (1 + the number of the sender's receivers): a node divides its vector equally.

    Column stochastic, for push-sum on directed graphs (Kempe, Dobra, Gehrke, "Gossip-Based
    Computation of Aggregate Information", FOCS 2003). A node only needs to know the number of its
    receivers.
    """

    kind: Literal["out-degree"] = "out-degree"

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        return Overlay(overlay.neighbours, overlay.received_from).matrix()


class GivenMatrix(Mixing):
    """A user-defined matrix, given by its rows or by the weights of its edges."""

    kind: Literal["matrix"] = "matrix"
    rows: tuple[tuple[float, ...], ...] = Field(
        default=(),
        description=(
            "the rows of W: entry j of row i is the weight that node i gives to what node j sends"
        ),
    )
    weights: tuple[tuple[int, int, float], ...] = Field(
        default=(),
        description=(
            "in place of rows, [i, j, weight]: the weight that node i gives to what node j"
            " sends; the node's own weight is what is left of 1: of its column in a directed"
            " graph, of its row in another"
        ),
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.rows) == bool(self.weights):
            raise failure(("rows", "give one of the two: rows, or weights", None))
        for number, row in enumerate(self.rows):
            if len(row) != len(self.rows):
                text = f"got {len(row)} numbers in {len(self.rows)} rows; the matrix is square"
                raise failure((f"rows.{number}", text, None))
        return self

    def matrix(self, overlay: Overlay) -> Matrix:
        """See `Mixing.matrix`."""
        nodes = len(overlay.neighbours)
        if self.rows:
            if len(self.rows) != nodes:
                text = f"got {len(self.rows)} rows, and there are {nodes} nodes; give one for each"
                raise DataError("rows", text)
            return csr_array(np.array(self.rows))
        entries: dict[tuple[int, int], float] = {}
        for number, (row, column, weight) in enumerate(self.weights):
            if not {row, column} <= set(range(nodes)) or row == column:
                text = f"got [{row}, {column}, {weight:g}]; give two different nodes, of 0 to"
                raise DataError(f"weights.{number}", f"{text} {nodes - 1}")
            entries[row, column] = weight
        places = np.array(list(entries), dtype=int).T
        rest = csr_array((list(entries.values()), tuple(places)), shape=(nodes, nodes))
        kept = 1 - rest.sum(axis=0 if overlay.directed else 1)
        if kept[least := int(np.argmin(kept))] < -_ROUNDING:
            line = "column" if overlay.directed else "row"
            text = (
                f"the weights of {line} {least} add up to {1 - kept[least]:g}; expected at most 1"
            )
            raise DataError("weights", text)
        return csr_array(rest + diags_array(kept))


MIXING: Registry[Mixing] = Registry(
    "mixing",
    (
        Metropolis,
        MaximumDegree,
        LaplacianMixing,
        BestConstant,
        FastestMixing,
        OutDegree,
        GivenMatrix,
    ),
    Mixing,
    plural="mixings",
    title="mixing",
)
"""The kinds of mixing matrices."""
