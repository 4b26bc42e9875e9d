"""A networkx graph as the network and the fleet of a scenario."""

from math import inf
from typing import Any

import networkx as nx
import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.physics.overlay import Overlay
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.scenario.building.network import read_graph
from tests.runs import PEERS
from tests.tiers import every

PLAIN_SERVER = {**PEERS, "algorithm": {"kind": "gd", "step_size": 0.1}}
PLAIN = {"latency": 0.0, "discipline": "fair", "duplex": "full"}


def linked(*edges: Any) -> Any:
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_edges_from(edges)
    return graph


def arrows(*edges: Any) -> Any:
    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_edges_from(edges)
    return graph


def built(graph: Any, **changes: Any) -> Job:
    plan = load({**PEERS, **changes}, graph=graph)
    return Builder(plan).build(plan.variants[0], 1)


def test_nodes_are_clients_in_their_order_and_edges_are_neighbours() -> None:
    overlay = built(linked(("b", "a"), ("a", "c"))).deployment.overlay
    assert isinstance(overlay, Overlay)
    assert overlay.neighbours == ((1,), (0, 2), (1,))


def test_nodes_with_numbers_are_these_clients() -> None:
    overlay = built(linked(("client-2", "client-0"), ("client-0", "client-1"))).deployment.overlay
    assert isinstance(overlay, Overlay)
    assert overlay.neighbours == ((1, 2), (0,), (0,))


def test_weights_are_the_mixing_matrix() -> None:
    graph = linked((0, 1, {"weight": 0.5}), (1, 2, {"weight": 0.25}))
    overlay = built(graph).deployment.overlay
    assert isinstance(overlay, Overlay)
    rows = [[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]]
    assert np.allclose(overlay.matrix().toarray(), rows)


def test_a_directed_edge_carries_what_its_source_sends() -> None:
    graph = arrows((0, 1), (1, 2), (2, 0))
    result = fedsim.run(PEERS, graph=graph)
    sent = result.events[result.events["event"] == "send"]
    pairs = set(zip(sent["node"], sent["peer"], strict=True))
    assert pairs == {(f"client-{n}", f"client-{(n + 1) % 3}") for n in range(3)}


def test_attributes_of_edges_and_nodes_are_links_and_fleet() -> None:
    link = {"rate": 1e6, "latency": 0.5}
    graph = linked((0, 1, link), (1, 2, link))
    for node, radio in enumerate(("wifi", "wifi", "lte")):
        graph.nodes[node].update(device="pi-4", radio=radio, club="of no effect")
    job = built(graph)
    scenario = job.scenario
    assert [(group.count, group.radio.kind) for group in scenario.fleet] == [
        (2, "wifi"),
        (1, "lte"),
    ]
    assert job.deployment.topology is not None
    assert job.deployment.topology.between(0, 2).latency == 1.0
    assert {link.capacity.peak for link in job.deployment.topology.links} == {1e6}
    assert fedsim.run(PEERS, graph=graph).events["t"].max() > 1.0


def test_links_of_arrows_that_differ_lead_one_way() -> None:
    edges = (0, 1, {"rate": 1e6}), (1, 0, {"rate": 2e6, "loss": 0.07}), (1, 2), (2, 1)
    topology = built(arrows(*edges), algorithm={"kind": "push-sum"}).deployment.topology
    assert topology is not None
    assert {link.name: link.capacity.peak for link in topology.links} == {
        "client-0 -> client-1": 1e6,
        "client-1 -> client-0": 2e6,
    }
    assert topology.between(2, 0).loss == pytest.approx(0.07)
    assert topology.between(0, 2).loss == 0


def test_links_of_arrows_that_are_alike_lead_both_ways() -> None:
    link = {"rate": 1e6}
    edges = (0, 1, link), (1, 0, link), (1, 2), (2, 0)
    job = built(arrows(*edges), algorithm={"kind": "push-sum"})
    assert list(job.scenario.network.model_dump()["edges"]) == [
        {"source": "client-0", "target": "client-1", "rate": 1e6, **PLAIN},
        {"source": "client-1", "target": "client-2", "rate": inf, **PLAIN},
        {"source": "client-2", "target": "client-0", "rate": inf, **PLAIN},
    ]


def test_a_graph_with_a_server_has_the_links_of_a_star_s_method() -> None:
    graph = linked(("server", "client-0", {"rate": "1 Mbit/s"}), ("server", "client-1"))
    changes = {"algorithm": {"kind": "gd", "step_size": 0.1}, "fleet": [{"count": 2}]}
    job = built(graph, **changes)
    assert job.deployment.overlay is None
    assert job.deployment.topology is not None
    assert [link.name for link in job.deployment.topology.links] == [
        "server -> client-0",
        "client-0 -> server",
    ]


def test_nodes_of_a_graph_with_a_server_are_its_fleet() -> None:
    graph = linked(("server", "a"), ("a", "client-1"), ("a", "client-0"), ("server", "client-2"))
    for number, radio in enumerate(("wifi", "lte", "lte")):
        graph.nodes[f"client-{number}"]["radio"] = radio
    changes = {"algorithm": {"kind": "gd", "step_size": 0.1}}
    fleet = built(graph, **changes).scenario.fleet
    assert [(group.count, group.radio.kind) for group in fleet] == [(1, "wifi"), (2, "lte")]
    bare = linked(("server", "client-0"), ("server", "client-1"))
    assert [group.count for group in built(bare, **changes).scenario.fleet] == [2]


@pytest.mark.parametrize("number", [np.float64, np.float32, float])
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    said = {"latency": number(0.1), "loss": number(0.01), "weight": number(0.2)}
    job = built(linked((0, 1, {"rate": np.int64(2000), **said})))
    assert job.deployment.topology is not None
    route = job.deployment.topology.between(0, 1)
    assert route.latency == 0.1
    assert route.loss == pytest.approx(0.01, rel=1e-12)
    assert {link.capacity.peak for link in job.deployment.topology.links} == {2000.0}
    assert isinstance(job.deployment.overlay, Overlay)
    assert job.deployment.overlay.matrix().toarray()[0, 1] == 0.2


def test_check_says_what_the_graph_is() -> None:
    (note,) = fedsim.check(PEERS, graph=nx.petersen_graph()).graphs
    assert note.text == (
        "10 nodes, 15 edges, degree 3, diameter 2, spectral gap 0.5: 10 exchanges bring models"
        " 1000 times closer to their mean"
    )


LOSES_ALL = linked((0, 1, {"loss": 1.0}))
ROUTED = linked(("server", "a"), ("a", "client-0"))
ROUTED.nodes["a"]["device"] = "pi-4"
RATED = linked((0, 1, {"weight": 0.5}), (1, 2))


@every(
    ("graph", "changes", "key", "words"),
    [
        ("ring", {}, "graph", "expected a networkx.Graph"),
        (nx.MultiGraph(linked((0, 1))), {}, "graph", "got a MultiGraph"),
        (linked(), {}, "graph", "with nodes"),
        (LOSES_ALL, {}, "network.edges.0.loss", "below 100 %"),
        (RATED, {}, "graph", "between 1 and 2 has no weight"),
        (linked((0, 1, {"weight": "a"})), {}, "graph", "give a number"),
        (ROUTED, {}, "graph", "the node a has the attribute device, and is no client"),
        (nx.karate_club_graph(), {}, "network.mixing.weights", "row 33 add up to 48"),
        (nx.path_graph(3), {"network": {"peers": {"kind": "ring"}}}, "network.peers", "beside a"),
        (linked((0, 1), (2, 3)), {}, "network.peers.kind", "must be connected"),
    ],
)
def test_what_is_no_graph_of_peers_is_refused(
    graph: Any, changes: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run({**PEERS, **changes}, graph=graph)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault


@pytest.mark.parametrize(
    "names",
    [
        {"bandwidth": 1e6, "delay": 0.05},
        {"bandwidth_mbps": 1, "delay_ms": 50},
        {"Bandwidth": np.float64(1e6), "delay (ms)": np.int64(50)},
        {"LinkSpeedRaw": 1000000.0, "latency": "50 ms"},
    ],
)
def test_links_are_understood_under_the_names_that_people_use(names: Any, tmp_path: Any) -> None:
    """In memory and in a file alike; where a name has no unit, a file's number needs one."""
    own = linked(("server", "client-0", {"rate": 1e6, "latency": 0.05}))
    (wanted,) = load(PLAIN_SERVER, graph=own).variants
    (found,) = load(PLAIN_SERVER, graph=linked(("server", "client-0", names))).variants
    assert found.scenario == wanted.scenario
    path = tmp_path / "net.graphml"
    plain = {
        key: getattr(value, "item", lambda value=value: value)() for key, value in names.items()
    }
    written = {key: {"bandwidth": f"{value} bit/s", "delay": f"{value} s"}.get(key.lower(), value)
               for key, value in plain.items()}  # fmt: skip
    nx.write_graphml(linked(("server", "client-0", written)), path)
    assert read_graph(path).edges["server", "client-0"] == {
        **PLAIN, "rate": 1e6, "latency": 0.05,
    }  # fmt: skip


def test_two_names_of_one_attribute_are_refused() -> None:
    graph = linked(("server", "client-0", {"rate": 1e6, "bandwidth": 2e6}))
    with pytest.raises(ScenarioError, match="rate and bandwidth are both the rate"):
        load(PLAIN_SERVER, graph=graph)


def test_a_file_of_the_topology_zoo_has_the_neighbours_of_peers(tmp_path: Any) -> None:
    graph = linked(
        (0, 1, {"LinkSpeedRaw": 1e7, "LinkLabel": "OC-3"}), (1, 2, {"LinkSpeedRaw": 1e7})
    )
    nx.write_graphml(graph, tmp_path / "zoo.graphml")
    network = {"peers": {"kind": "edges", "path": str(tmp_path / "zoo.graphml")}}
    plan = load({**PEERS, "network": network, "fleet": [{"count": 3}]})
    job = Builder(plan).build(plan.variants[0], 1)
    assert isinstance(job.deployment.overlay, Overlay)
    assert job.deployment.overlay.neighbours == ((1,), (0, 2), (1,))
    ((text, key),) = job.remarks.items()
    assert key == "network.peers.path"
    assert "LinkLabel" in text
    assert "LinkSpeedRaw" in text
