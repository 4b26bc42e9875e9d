"""Mixing matrices: their definitions, and the theorems that are known of them."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsim.core.errors import DataError
from fedsim.physics.mixing import (
    BestConstant,
    FastestMixing,
    GivenMatrix,
    LaplacianMixing,
    MaximumDegree,
    Metropolis,
    Mixing,
    OutDegree,
)
from fedsim.physics.overlay import Overlay, overlay_of
from fedsim.physics.spectral import second_eigenvalue
from tests.tiers import every, examples

FASTEST = FastestMixing()
SYMMETRIC = (Metropolis(), MaximumDegree(), LaplacianMixing(), BestConstant())
RING = overlay_of(nx.cycle_graph(4))
CIRCLE = overlay_of(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))


def dense(law: Mixing, overlay: Overlay) -> Any:
    return law.apply(overlay).matrix().toarray()


def connected(nodes: int, seed: int) -> "nx.Graph[int]":
    drawn: nx.Graph[int] = nx.gnp_random_graph(nodes, 0.5, seed=seed)
    drawn.add_edges_from((node, node + 1) for node in range(nodes - 1))
    return drawn


@examples(60)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_each_preserves_the_mean_and_brings_nodes_together(nodes: int, seed: int) -> None:
    graph = connected(nodes, seed)
    overlay = overlay_of(graph)
    for law in SYMMETRIC:
        mixed = law.apply(overlay)
        mixed.check("symmetric")
        W = mixed.matrix().toarray()
        assert np.allclose(W, W.T, atol=1e-15)
        assert np.allclose(W.sum(axis=0), 1)
        assert (W[~(nx.to_numpy_array(graph) + np.eye(nodes)).astype(bool)] == 0).all()
        assert second_eigenvalue(mixed.matrix()) < 1
    OutDegree().apply(overlay).check("column-stochastic")


@examples(60)
@given(st.integers(3, 9), st.integers(0, 10**6), st.floats(0.01, 1))
def test_no_other_constant_is_faster_than_the_best(nodes: int, seed: int, share: float) -> None:
    graph = connected(nodes, seed)
    L = nx.laplacian_matrix(graph).toarray().astype(float)
    best = second_eigenvalue(BestConstant().apply(overlay_of(graph)).matrix())
    other = np.eye(nodes) - share * 2 / np.linalg.eigvalsh(L)[-1] * L
    assert best <= np.sort(np.abs(np.linalg.eigvalsh(other)))[-2] + 1e-9


def test_definitions_on_a_star() -> None:
    star = overlay_of(nx.star_graph(3))  # degrees 3, 1, 1, 1; l_2 = 1, l_M = 4
    for law, weight in [
        (Metropolis(), 1 / 4),
        (MaximumDegree(), 1 / 4),
        (LaplacianMixing(), 1 / 4),
        (LaplacianMixing(tau=5), 1 / 5),
        (BestConstant(), 2 / 5),
    ]:
        expected = np.eye(4) - weight * nx.laplacian_matrix(nx.star_graph(3)).toarray()
        assert np.allclose(dense(law, star), expected, atol=1e-14)
    shares = dense(OutDegree(), star)
    assert np.allclose(shares[:, 0], 1 / 4)
    assert np.allclose(shares[1], [1 / 4, 1 / 2, 0, 0])


def test_a_matrix_of_one_s_own_is_taken_as_it_is() -> None:
    rows = [[0.5, 0.3, 0, 0.2], [0.3, 0.4, 0.3, 0], [0, 0.3, 0.2, 0.5], [0.2, 0, 0.5, 0.3]]
    given_rows = GivenMatrix(rows=tuple(map(tuple, rows)))
    assert np.allclose(dense(given_rows, RING), rows)
    weights = tuple((n, m, rows[n][m]) for n in range(4) for m in range(4) if n != m and rows[n][m])
    assert np.allclose(dense(GivenMatrix(weights=weights), RING), rows)


def test_in_a_directed_graph_a_node_keeps_what_is_left_of_its_column() -> None:
    shares = GivenMatrix(weights=((1, 0, 0.3), (2, 1, 0.6), (0, 2, 1.0)))
    assert np.allclose(dense(shares, CIRCLE), [[0.7, 0, 1], [0.3, 0.4, 0], [0, 0.6, 0]])
    shares.apply(CIRCLE).check("column-stochastic")


@every(
    ("law", "overlay", "key", "words"),
    [
        (Metropolis(), CIRCLE, "kind", "use out-degree or matrix"),
        (LaplacianMixing(tau=1.9), RING, "tau", "more than half the largest eigenvalue"),
        (GivenMatrix(rows=((1.0,),)), RING, "rows", "there are 4 nodes"),
        (GivenMatrix(weights=((0, 4, 0.5),)), RING, "weights.0", "of 0 to 3"),
        (GivenMatrix(weights=((0, 2, 0.5),)), RING, "kind", "no edge leads from 2 to 0"),
        (GivenMatrix(weights=((1, 0, 0.7), (1, 2, 0.7))), RING, "weights", "row 1 add up to 1.4"),
    ],
)
def test_what_cannot_be_mixed_with_is_refused(
    law: Mixing, overlay: Overlay, key: str, words: str
) -> None:
    with pytest.raises(DataError) as caught:
        law.apply(overlay)
    assert (caught.value.key, words in str(caught.value)) == (key, True), caught.value


@pytest.mark.parametrize(
    ("need", "weights", "words"),
    [
        ("symmetric", ((0, 1, 0.3), (1, 0, 0.2)), "row 0 has 0.3 in column 1, and row 1 has 0.2"),
        ("doubly-stochastic", ((0, 1, 0.3), (1, 0, 0.2)), "the row of node 0 adds up to 0.3"),
        ("column-stochastic", ((0, 1, 0.3), (1, 0, 0.2)), "column 0 adds up to 0.2"),
    ],
)
def test_an_error_names_the_row(need: Any, weights: Any, words: str) -> None:
    mixed = GivenMatrix(weights=weights).apply(RING)
    with pytest.raises(DataError, match=words):
        mixed.check(need)


@pytest.mark.parametrize(
    "block", [{}, {"rows": ((1.0,),), "weights": ((0, 1, 0.5),)}, {"rows": ((1.0, 0.0),)}]
)
def test_a_matrix_is_square_and_given_once(block: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GivenMatrix(**block)


@every(
    ("graph", "second"),
    [
        # Boyd, Diaconis, Sun, Xiao, "Fastest Mixing Markov Chain on a Path", 2006.
        (nx.path_graph(8), np.cos(np.pi / 8)),
        (nx.star_graph(5), 4 / 5),  # the centre's weights add up to 1 at most
        (nx.complete_graph(5), 0.0),
        (nx.petersen_graph(), 3 / 7),  # all edges are alike: the best constant
        (nx.path_graph(2), 0.0),
    ],
)
def test_the_fastest_weights_are_those_that_are_known(
    graph: "nx.Graph[int]", second: float
) -> None:
    mixed = FASTEST.apply(overlay_of(graph))
    assert second_eigenvalue(mixed.matrix()) == pytest.approx(second, abs=1e-6)
    mixed.check("symmetric")
    assert mixed.matrix().toarray().min() > -1e-12


@every("seed", range(4))
def test_no_metropolis_is_faster_than_the_fastest(seed: int) -> None:
    overlay = overlay_of(connected(9, seed))
    fastest = second_eigenvalue(FASTEST.apply(overlay).matrix())
    for law in (Metropolis(), MaximumDegree()):
        assert fastest <= second_eigenvalue(law.apply(overlay).matrix()) + 1e-6


def test_the_fastest_weights_of_large_graphs_are_refused() -> None:
    with pytest.raises(DataError, match="at most 50 nodes, and there are 51"):
        FASTEST.apply(overlay_of(nx.cycle_graph(51)))
