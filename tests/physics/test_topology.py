"""Topologies: stars and trees by hand, routes through graphs against NetworkX."""

from itertools import pairwise
from math import inf
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.core.ports import SERVER
from fedsim.physics.radios import ConstantRate, Traced
from fedsim.physics.signals import Steps
from fedsim.physics.topology import Link, Route, Topology, build_routes, star, tree
from tests.tiers import every, examples

Edge = tuple[str, str, dict[str, Any]]


def names(topology: Topology, route: Route) -> list[str]:
    return [topology.links[link].name for link in route.links]


def graph(*edges: Edge, directed: bool = False) -> "nx.Graph[str]":
    made: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    made.add_edges_from(edges)
    return made


def test_a_star_is_the_server_s_own_connection() -> None:
    made = star(3, downlink=8.0, uplink=5.0, latency=0.5, discipline="fifo")
    assert made.links == (
        Link(ConstantRate(5.0), "fifo", "server.up"),
        Link(ConstantRate(8.0), "fifo", "server.down"),
    )
    assert made.up == (Route((0,), 0.5),) * 3
    assert made.down == (Route((1,), 0.5),) * 3


def test_links_that_cannot_hold_anything_up_are_left_out() -> None:
    assert star(2) == Topology((), (Route((), 0.0),) * 2, (Route((), 0.0),) * 2)
    assert star(2, discipline="slotted").links == ()
    assert len(star(2, discipline="fifo").links) == 2


def test_a_star_costs_one_route_however_many_clients_it_has() -> None:
    made = star(100_000, uplink=1e9)
    assert len({id(route) for route in (*made.up, *made.down)}) == 2


def test_a_tree_has_clients_in_even_blocks_behind_gateways() -> None:
    made = tree(7, 3, rate=4.0, gateway_latency=0.25, uplink=9.0, latency=0.5)
    ups = [names(made, route) for route in made.up]
    assert (
        ups
        == [["gateway-0.up", "server.up"]] * 2
        + [["gateway-1.up", "server.up"]] * 2
        + [["gateway-2.up", "server.up"]] * 3
    )
    assert [names(made, route) for route in made.down][:3] == [
        ["gateway-0.down"],
        ["gateway-0.down"],
        ["gateway-1.down"],
    ]
    assert {route.latency for route in (*made.up, *made.down)} == {0.75}


@given(st.integers(1, 200), st.integers(1, 40))
def test_blocks_differ_by_one_client_at_most(clients: int, gateways: int) -> None:
    made = tree(clients, gateways, rate=1.0)
    sizes = [sum(route.links == (2 * n,) for route in made.up) for n in range(gateways)]
    assert sum(sizes) == len(made.up) == len(made.down) == clients
    assert max(sizes) - min(sizes) <= 1
    assert {route.latency for route in (*made.up, *made.down)} == {0}


def test_a_tree_and_its_graph_are_the_same_network() -> None:
    edges: list[Edge] = [("server", "core", {"rate": 9.0, "latency": 0.5})]
    edges += [("core", f"g{n}", {"rate": 4.0, "latency": 0.25}) for n in range(2)]
    edges += [(f"g{n // 2}", f"client-{n}", {}) for n in range(4)]
    made, expected = (
        build_routes(graph(*edges), 4),
        tree(4, 2, rate=4.0, gateway_latency=0.25, downlink=9.0, uplink=9.0, latency=0.5),
    )
    for way in ("up", "down"):
        for ours, theirs in zip(getattr(made, way), getattr(expected, way), strict=True):
            assert ours.latency == theirs.latency
            assert [made.links[link].capacity for link in ours.links] == [
                expected.links[link].capacity for link in theirs.links
            ]
        shared = [route.links for route in getattr(made, way)]
        assert (shared[0] == shared[1], shared[0] == shared[2]) == (True, False)


def test_each_direction_has_a_capacity_of_its_own_unless_the_edge_is_half_duplex() -> None:
    made = build_routes(
        graph(
            ("server", "router", {"rate": 9.0, "discipline": "fifo"}),
            ("router", "client-0", {"rate": 4.0, "duplex": "half"}),
        ),
        1,
    )
    assert names(made, made.up[0]) == ["router -> client-0", "router -> server"]
    assert names(made, made.down[0]) == ["server -> router", "router -> client-0"]
    assert made.up[0].links[0] == made.down[0].links[1]
    assert [link.discipline for link in made.links] == ["fifo", "fifo", "fair"]


def test_an_edge_of_a_directed_graph_is_one_direction_only() -> None:
    made = build_routes(
        graph(
            ("server", "client-0", {"rate": 9.0, "latency": 0.5}),
            ("client-0", "relay", {"rate": 2.0, "latency": 1.0}),
            ("relay", "server", {"rate": 3.0, "latency": 1.0}),
            directed=True,
        ),
        1,
    )
    assert (names(made, made.up[0]), made.up[0].latency) == (
        ["client-0 -> relay", "relay -> server"],
        2.0,
    )
    assert (names(made, made.down[0]), made.down[0].latency) == (["server -> client-0"], 0.5)


def test_of_routes_of_equal_latency_the_one_of_fewest_hops_is_taken() -> None:
    edges = [
        ("server", "a", {"latency": 0.25, "rate": 1.0}),
        ("a", "b", {"latency": 0.25, "rate": 1.0}),
        ("b", "client-0", {"latency": 0.5, "rate": 1.0}),
        ("server", "c", {"latency": 0.75, "rate": 1.0}),
        ("c", "client-0", {"latency": 0.25, "rate": 1.0}),
    ]
    for order in (edges, edges[::-1]):
        made = build_routes(graph(*order), 1)
        assert len(made.down[0].links) == 2
        assert made.down[0].latency == 1.0


def test_a_capacity_may_follow_a_trace() -> None:
    trace = Traced(Steps([0, 1], [1.0, 2.0], period=2))
    made = build_routes(graph(("server", "client-0", {"law": trace})), 1)
    assert [link.capacity for link in made.links] == [trace, trace]


latencies = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0])  # exact, so that many routes tie


@st.composite
def _graphs(draw: st.DrawFn) -> "nx.Graph[str]":
    nodes = ["server", *[f"client-{n}" for n in range(3)], "a", "b", "c", "d"]
    pairs = st.lists(st.sampled_from(nodes), min_size=2, max_size=2, unique=True)
    made: nx.Graph[str] = nx.DiGraph() if draw(st.booleans()) else nx.Graph()
    made.add_nodes_from(nodes)
    for start, end in draw(st.lists(pairs, max_size=25)):
        made.add_edge(start, end, latency=draw(latencies), rate=1.0)
    return made


def walk(topology: Topology, route: Route, start: str) -> list[str]:
    """Return the nodes that a route passes."""
    nodes = [start]
    for link in route.links:
        here, there = topology.links[link].name.split(" -> ")
        assert here == nodes[-1]
        nodes.append(there)
    return nodes


@examples(200)
@given(_graphs())
def test_routes_are_of_least_latency_and_then_of_fewest_hops(made: "nx.Graph[str]") -> None:
    clients = [f"client-{n}" for n in range(3)]
    ends = [("server", client) for client in clients] + [(client, "server") for client in clients]
    lost = {
        client
        for client in clients
        if not all(nx.has_path(made, *pair) for pair in ends if client in pair)
    }
    if lost:
        with pytest.raises(DataError) as caught:
            build_routes(made, 3)
        assert caught.value.key == "network"
        assert all((client in str(caught.value)) == (client in lost) for client in clients)
        return
    found = build_routes(made, 3)
    for pair, route in zip(ends, (*found.down, *found.up), strict=True):
        nodes = walk(found, route, pair[0])
        assert (nodes[0], nodes[-1]) == pair
        edges = list(pairwise(nodes))
        assert route.latency == sum(made.edges[edge]["latency"] for edge in edges)
        assert route.latency == nx.shortest_path_length(made, *pair, weight="latency")
        exact = {edge: made.edges[edge]["latency"] + 1e-6 for edge in made.edges}
        weighted = made.copy()
        nx.set_edge_attributes(weighted, exact, "cost")
        best = nx.shortest_path(weighted, *pair, weight="cost")
        assert len(nodes) == len(best)
        assert found.between(*map(numbered, pair)).latency == route.latency
    assert build_routes(made, 3) == found


def numbered(name: str) -> int:
    return SERVER if name == "server" else int(name.removeprefix("client-"))


@examples(100)
@given(_graphs(), st.integers(0, 2), st.integers(0, 2))
def test_a_way_between_any_two_is_of_least_latency(
    made: "nx.Graph[str]", sender: int, receiver: int
) -> None:
    made.remove_node("server")
    ends = f"client-{sender}", f"client-{receiver}"
    directed: nx.DiGraph[str] = nx.DiGraph(made)
    clients = {f"client-{n}" for n in range(3)}
    if not any(clients <= part for part in nx.strongly_connected_components(directed)):
        with pytest.raises(DataError, match="connected to client-0"):
            build_routes(made, 3, server=False)
        return
    found = build_routes(made, 3, server=False)
    route = found.between(sender, receiver)
    assert walk(found, route, ends[0])[-1] == ends[1]
    assert route.latency == nx.shortest_path_length(made, *ends, weight="latency")
    assert found.between(sender, receiver) == route
    assert (found.up, found.down) == ((), ())


def test_in_a_star_and_a_tree_the_way_between_two_leads_by_the_server() -> None:
    made = tree(4, 2, rate=4.0, gateway_latency=0.25, uplink=9.0, downlink=8.0, latency=0.5)
    route = made.between(0, 3)
    assert names(made, route) == ["gateway-0.up", "server.up", "server.down", "gateway-1.down"]
    assert route.latency == 1.5
    assert made.between(0, SERVER) == made.up[0]
    assert made.between(SERVER, 3) == made.down[3]
    assert star(2, latency=0.5).between(0, 1) == Route((), 1.0)


@every(
    ("made", "clients", "message"),
    [
        (nx.Graph(), 1, 'no node "server"'),
        (nx.MultiGraph(), 1, "two edges between the same nodes"),
        (graph(("server", "client-0", {})), 2, "client-1 has no node"),
        (graph(("server", "r", {})), 2, "client-0, client-1 have no node"),
        (graph(("server", "r", {})), 9, "client-0, client-1, client-2 and 6 more have no node"),
        (graph(("server", "client-0", {"rate": 0.0})), 1, "the rate 0.0"),
        (graph(("server", "client-0", {"rate": float("nan")})), 1, "the rate nan"),
        (graph(("server", "client-0", {"latency": -1.0})), 1, "the latency -1.0"),
        (graph(("server", "client-0", {"latency": inf})), 1, "the latency inf"),
        (graph(("server", "client-0", {"discipline": "lifo"})), 1, "fair, fifo, slotted"),
        (graph(("server", "client-0", {"duplex": "both"})), 1, "full, half"),
        (graph(("server", "client-0", {}), directed=True), 1, "client-0 is not connected"),
    ],
)
def test_a_graph_that_makes_no_network_is_refused(
    made: "nx.Graph[str]", clients: int, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        build_routes(made, clients)
    assert caught.value.key == "network"
