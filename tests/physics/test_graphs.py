"""Kinds of graphs of neighbours: what their mathematics says of them."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.physics import graphs
from fedsim.physics.graphs import (
    Complete,
    Exponential,
    Geometric,
    Grid,
    Hypercube,
    Regular,
    Ring,
    ScaleFree,
    SmallWorld,
    StarGraph,
    Torus,
    TreeGraph,
)
from fedsim.physics.overlay import Neighbours, Overlay, overlay_of
from fedsim.physics.spectral import facts_of, second_eigenvalue
from tests.tiers import every, examples

RNG = np.random.default_rng


def facts(block: Neighbours, nodes: int) -> tuple[int, tuple[int, int], int | None]:
    found = facts_of(block.overlay(nodes, RNG(0)))
    return found.edges, found.degrees, found.diameter


@every(
    ("block", "nodes", "edges", "degrees", "diameter"),
    [
        (Ring(), 9, 9, (2, 2), 4),
        (Complete(), 7, 21, (6, 6), 1),
        (StarGraph(), 6, 5, (1, 5), 2),
        (TreeGraph(), 7, 6, (1, 3), 4),
        (TreeGraph(branching=1), 5, 4, (1, 2), 4),
        (Grid(), 12, 17, (2, 4), 5),  # 3 x 4
        (Grid(rows=2), 12, 16, (2, 3), 6),
        (Torus(), 12, 24, (4, 4), 3),
        (Hypercube(), 16, 32, (4, 4), 4),
        (Hypercube(), 1, 0, (0, 0), 0),
        (Exponential(), 8, 20, (5, 5), 2),
        (Exponential(directed=True), 8, 24, (3, 3), 3),
        (Regular(degree=4), 11, 22, (4, 4), None),
        (ScaleFree(links=1), 20, 19, None, None),
    ],
)
def test_a_graph_has_the_size_that_its_kind_says(
    block: Neighbours,
    nodes: int,
    edges: int,
    degrees: tuple[int, int] | None,
    diameter: int | None,
) -> None:
    found = facts(block, nodes)
    assert found[0] == edges
    assert degrees in (None, found[1])
    assert diameter in (None, found[2])


@every(
    ("block", "nodes", "key", "words"),
    [
        (Hypercube(), 12, "kind", "a power of 2, such as 16"),
        (Grid(rows=5), 12, "rows", "does not divide the 12 nodes"),
        (SmallWorld(degree=3), 12, "degree", "an even degree"),
        (SmallWorld(degree=12), 12, "degree", "less than the 12 nodes"),
        (ScaleFree(links=4), 4, "links", "less than the 4 nodes"),
        (Regular(degree=4), 4, "degree", "less than the 4 nodes"),
        (Geometric(range=0.01), 20, "range", "none of 100 graphs"),
        (Geometric(range=1.0, positions=((0, 0), (1, 0))), 3, "positions", "there are 3 nodes"),
        (Geometric(range=1.0, positions=((0, 0), (3, 0))), 2, "kind", "must be connected"),
    ],
)
def test_what_is_no_graph_is_refused(block: Neighbours, nodes: int, key: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        block.overlay(nodes, RNG(0))
    assert (caught.value.key, words in str(caught.value)) == (key, True), caught.value


def test_graphs_are_drawn_until_one_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    block = SmallWorld(degree=2, rewiring=1.0)
    assert facts_of(block.overlay(40, RNG(3))).diameter is not None
    monkeypatch.setattr(graphs, "_TRIES", 1)
    with pytest.raises(DataError, match="none of 1 graphs was connected"):
        block.overlay(40, RNG(3))


@every("block", [Regular(degree=4), SmallWorld(), ScaleFree(), Geometric(range=0.5)])
def test_what_is_drawn_follows_the_stream(block: Neighbours) -> None:
    same = [block.overlay(20, RNG(seed)) for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_nodes_are_neighbours_within_their_range() -> None:
    places = RNG(3).random((15, 2))
    block = Geometric(range=0.6, positions=tuple(map(tuple, places.tolist())))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    near = tuple(
        [tuple([m for m in range(15) if m != n and apart[n, m] <= 0.6]) for n in range(15)]
    )
    assert block.overlay(15, RNG(0)).neighbours == near


def test_of_a_directed_graph_each_knows_whom_it_sends_to_and_hears() -> None:
    made = overlay_of(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    assert made.neighbours == ((1, 2), (2,), (0,))
    assert made.senders == ((2,), (0,), (0, 1))
    assert np.allclose(made.matrix().toarray().sum(axis=0), 1)
    assert not np.allclose(made.matrix().toarray().sum(axis=1), 1)


@pytest.mark.parametrize("nodes", [3, 8, 9])
def test_the_second_eigenvalue_of_a_ring_is_its_closed_form(nodes: int) -> None:
    overlay = Ring().overlay(nodes, RNG(0))
    expected = max(abs(1 + 2 * np.cos(2 * np.pi * k / nodes)) / 3 for k in range(1, nodes))
    assert second_eigenvalue(overlay.matrix()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("power", [2, 3, 4])
def test_of_an_exponential_graph_the_gap_is_that_of_its_paper(power: int) -> None:
    """Ying et al. 2021, theorem 1: rho = (tau - 1)/(tau + 1), tau = log2 n."""
    overlay = Exponential(directed=True).overlay(2**power, RNG(0))
    expected = (power - 1) / (power + 1)
    assert second_eigenvalue(overlay.matrix()) == pytest.approx(expected, abs=1e-7)


@examples(60)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_facts_are_those_of_networkx(nodes: int, seed: int) -> None:
    drawn: nx.Graph[Any] = nx.gnp_random_graph(nodes, 0.7, seed=seed)
    drawn.add_edges_from((node, node + 1) for node in range(nodes - 1))
    found = facts_of(overlay_of(drawn))
    degrees = [degree for _, degree in drawn.degree]
    assert found.degrees == (min(degrees), max(degrees))
    assert (found.edges, found.diameter) == (drawn.number_of_edges(), nx.diameter(drawn))


def test_a_large_graph_has_no_eigenvalues_computed() -> None:
    found = facts_of(Ring().overlay(1001, RNG(0)))
    assert (found.second, found.gap, found.exchanges(10), found.diameter) == (None,) * 4


def test_without_a_gap_no_exchanges_are_enough() -> None:
    apart = Overlay(((1,), (0,)), None, ({1: 0.0}, {0: 0.0}), (1.0, 1.0))
    assert facts_of(apart).exchanges(10) == float("inf")
