"""Networks become links and routes, and graphs are read from files."""

from math import inf
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fedsim.physics.topology import Topology
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.network import Files, topology
from tests.scenario.building.plans import found, job, plan
from tests.tiers import examples


def built(folder: Path, **network: Any) -> Topology:
    made = job(folder, network=network).deployment.topology
    assert made is not None
    return made


def figures(made: Topology) -> list[tuple[list[float], float]]:
    """Return the capacities and the latency of every client's way up, and then down."""
    return [
        ([made.links[link].capacity.peak for link in route.links], route.latency)
        for route in (*made.up, *made.down)
    ]


def test_without_a_network_nothing_binds(tmp_path: Path) -> None:
    made = built(tmp_path)
    assert made.links == ()
    assert figures(made) == [([], 0.0)] * 8


def test_a_star(tmp_path: Path) -> None:
    server = {"downlink": "4 Mbit/s", "uplink": "2 Mbit/s", "latency": "5 ms", "discipline": "fifo"}
    made = built(tmp_path, server=server)
    assert figures(made) == [([2e6], 0.005)] * 4 + [([4e6], 0.005)] * 4
    assert {link.discipline for link in made.links} == {"fifo"}


def test_a_tree(tmp_path: Path) -> None:
    made = built(
        tmp_path,
        topology="tree",
        gateways=2,
        gateway={"rate": "1 Mbit/s", "latency": "2 ms", "discipline": "slotted"},
        server={"downlink": "4 Mbit/s", "uplink": "3 Mbit/s", "latency": "5 ms"},
    )
    assert figures(made) == [([1e6, 3e6], 0.007)] * 4 + [([4e6, 1e6], 0.007)] * 4
    first, second, third, fourth = (route.links[0] for route in made.up)
    assert (first, third) == (second, fourth)
    assert first != third
    assert made.links[first].discipline == "slotted"


EDGES = [
    {"source": "server", "target": "hub", "rate": "8 Mbit/s", "latency": "1 ms"},
    {"source": "hub", "target": "client-0", "rate": "1 Mbit/s", "duplex": "half"},
    {"source": "client-1", "target": "hub", "rate": "2 Mbit/s", "discipline": "fifo"},
    {"source": "hub", "target": "client-2", "latency": "3 ms"},
    {"source": "server", "target": "client-3", "latency": "9 ms"},
]

CSV = """source,target,rate,latency,discipline,duplex
server,hub,8 Mbit/s,1 ms,,
hub,client-0,1 Mbit/s,,,half
client-1,hub,2 Mbit/s,,fifo,
hub,client-2,,3 ms,,
server,client-3,,9 ms,,
"""


def check_graph(made: Topology) -> None:
    up, down = figures(made)[:4], figures(made)[4:]
    assert up == [([1e6, 8e6], 0.001), ([2e6, 8e6], 0.001), ([8e6], 0.004), ([], 0.009)]
    assert down == [([8e6, 1e6], 0.001), ([8e6, 2e6], 0.001), ([8e6], 0.004), ([], 0.009)]
    assert made.up[0].links[0] == made.down[0].links[1]  # half duplex: one link
    assert made.up[1].links[0] != made.down[1].links[1]
    assert made.links[made.up[1].links[0]].discipline == "fifo"


def test_a_graph_written_out(tmp_path: Path) -> None:
    check_graph(built(tmp_path, topology="graph", edges=EDGES))


def test_a_graph_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text(CSV)
    check_graph(built(tmp_path, topology="graph", path="net.csv"))


def written(graph: "nx.Graph[str]", folder: Path) -> str:
    nx.write_graphml(graph, folder / "net.graphml")
    return "net.graphml"


def test_a_graph_of_a_graphml_file(tmp_path: Path) -> None:
    graph: nx.Graph[str] = nx.Graph()
    for edge in EDGES:
        attributes = {key: each for key, each in edge.items() if key not in {"source", "target"}}
        graph.add_edge(edge["source"], edge["target"], **attributes)
    check_graph(built(tmp_path, topology="graph", path=written(graph, tmp_path)))


def test_an_arrow_of_a_directed_graph_is_one_direction(tmp_path: Path) -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for client in range(4):
        graph.add_edge("server", f"client-{client}", rate="2 Mbit/s")
        graph.add_edge(f"client-{client}", "server", rate="1 Mbit/s", latency="7 ms")
    made = built(tmp_path, topology="graph", path=written(graph, tmp_path))
    assert figures(made) == [([1e6], 0.007)] * 4 + [([2e6], 0.0)] * 4


def test_a_client_that_is_cut_off_is_named_with_its_kind(tmp_path: Path) -> None:
    edges = [*EDGES[:3], {"source": "client-2", "target": "client-3"}]
    text = found(tmp_path, network={"topology": "graph", "edges": edges})["network.edges"]
    assert "client-2 (phone-mid over lte), client-3 (phone-mid over lte)" in text
    assert "not connected to the server" in text
    (tmp_path / "net.csv").write_text(CSV.replace("server,client-3", "server,client-9"))
    text = found(tmp_path, network={"topology": "graph", "path": "net.csv"})["network.path"]
    assert "client-3 (phone-mid over lte) has no node" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("8 Mbit/s", "8", ["net.csv, line 2: rate: ", "without a unit", '"5 Mbit/s"']),
        ("8 Mbit/s", "0 bit/s", ["line 2: rate", "above 0"]),
        ("fifo", "lifo", ["line 4: discipline", "One of: fair, fifo, slotted"]),
        (
            "source,target,rate",
            "source,target,rat",
            ["line 2: rat", "did you mean 'rate'?", "Accepted here: source"],
        ),
        (
            "source,target",
            "from,to",
            ["line 2: source", "missing", "a router", "unknown key 'from'"],
        ),
        ("hub,client-2", "client-2,client-2", ["line 5: target", "two ends"]),
        ("server,client-3", "hub,server", ["line 6", "hub and server are connected already"]),
        ("9 ms,,", "9 ms,,full,x", ["line 6: cells beyond the columns"]),
        ("server,hub", "Server,hub", ['no node "server"']),
    ],
)
def test_what_is_wrong_with_a_csv_file(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    (tmp_path / "net.csv").write_text(CSV.replace(old, new, 1))
    if old.startswith("server,hub"):
        (tmp_path / "net.csv").write_text(CSV.replace("server", "Server"))
    text = found(tmp_path, network={"topology": "graph", "path": "net.csv"})["network.path"]
    assert [word for word in words if word not in text] == []


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="edge" attr.name="{name}" attr.type="{type}"/>
<graph edgedefault="undirected">
<edge source="server" target="client-0"><data key="k">{value}</data></edge>{more}
</graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "kind", "value", "more", "words"),
    [
        ("rate", "double", "5e6", "", ["rate", "5000000.0, a bare number"]),
        ("rate", "string", "5 s", "", ["server - client-0: rate", "a duration"]),
        (
            "weight",
            "string",
            "5",
            "",
            ["unknown key 'weight'", "Accepted here: source, target, rate"],
        ),
        ("rate", "string", "5 bit/s", "<edge", ["net.graphml is no GraphML"]),
        ("rate", "colour", "5 bit/s", "", ["net.graphml is no GraphML"]),
    ],
)
def test_what_is_wrong_with_a_graphml_file(
    tmp_path: Path, name: str, kind: str, value: str, more: str, words: list[str]
) -> None:
    content = GRAPHML.format(name=name, type=kind, value=value, more=more)
    (tmp_path / "net.graphml").write_text(content)
    text = found(tmp_path, network={"topology": "graph", "path": "net.graphml"})["network.path"]
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"source,target\n", b"a\0b,c\nd,e\n"])
@pytest.mark.parametrize("name", ["net.csv", "net.graphml"])
def test_bytes_that_are_no_graph(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    faults = found(tmp_path, network={"topology": "graph", "path": name})
    assert list(faults) == ["network.path"]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cut=st.integers(0, len(CSV)), piece=st.text('abs,-"\n\r 0', max_size=5), more=st.integers(0, 9)
)
def test_any_list_of_edges_is_a_graph_or_a_fault(
    tmp_path: Path, cut: int, piece: str, more: int
) -> None:
    (tmp_path / "net.csv").write_text(CSV[:cut] + piece + CSV[cut + more :])
    loaded = plan(tmp_path, network={"topology": "graph", "path": "net.csv"})
    findings = Findings(loaded.variants[0])
    links = topology(loaded.variants[0].scenario.network, ["one"] * 4, Files(tmp_path), findings)
    assert (links is None) == (len(findings.faults) == 1)


@pytest.mark.parametrize("name", ["no.csv", "no.graphml"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    text = found(tmp_path, network={"topology": "graph", "path": name})["network.path"]
    assert name in text
    assert "No such file" in text


def test_unlimited_is_infinite(tmp_path: Path) -> None:
    star = [{"source": "server", "target": f"client-{n}", "rate": "unlimited"} for n in range(4)]
    assert built(tmp_path, topology="graph", edges=star).links == ()
    assert inf not in {link.capacity.peak for link in built(tmp_path).links}
