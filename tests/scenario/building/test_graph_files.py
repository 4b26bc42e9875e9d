"""Graphs in files as others publish them: GML and GraphML are read alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from fedsim.core.errors import DataError
from fedsim.core.remarks import hearing
from fedsim.scenario.building.network import read_graph

LINKS: list[tuple[str, str, dict[str, Any]]] = [
    ("server", "hub", {"rate": "8 Mbit/s", "latency": "1 ms"}),
    ("hub", "client-0", {"rate": "1 MBps", "duplex": "half"}),
    ("client-1", "hub", {"LinkSpeed": "10", "LinkSpeedUnits": "G", "LinkLabel": "10 Gbps"}),
]

# As the Topology Zoo writes it: places for labels, of which some are shared, and parallel edges.
ZOO = """Creator "Topology Zoo Toolset"
graph [
  directed 0
  Network "Abc"
  node [ id 0 label "server" Country "Austria" ]
  node [ id 1 label "Vienna" Latitude 48.2 ]
  node [ id 2 label "Vienna" ]
  node [ id 3 label "client-0" ]
  edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 id "e1" ]
  edge [ source 0 target 1 LinkLabel "Unknown" LinkNote "leased" ]
  edge [ source 1 target 0 LinkSpeed "40" LinkSpeedUnits "M" LinkType "Fibre" ]
  edge [ source 1 target 2 LinkSpeed "155" LinkSpeedUnits "M" ]
  edge [ source 2 target 3 ]
]
"""


def graph_of(links: list[tuple[str, str, dict[str, Any]]], kind: Any) -> Any:
    graph = kind()
    for source, target, attributes in links:
        graph.add_edge(source, target, **attributes)
    return graph


def links_of(graph: Any) -> dict[frozenset[str], Mapping[str, Any]]:
    return {frozenset((one, other)): own for one, other, own in graph.edges(data=True)}


def written(tmp_path: Path, name: str, graph: Any) -> Path:
    path = tmp_path / name
    (nx.write_gml if name.endswith(".gml") else nx.write_graphml)(graph, path)
    return path


def zoo(tmp_path: Path, text: str = ZOO) -> Path:
    path = tmp_path / "zoo.gml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_both_formats_have_the_same_graph(kind: Any, tmp_path: Path) -> None:
    graph = graph_of(LINKS, kind)
    gml, graphml = (read_graph(written(tmp_path, f"g.{end}", graph)) for end in ("gml", "graphml"))
    assert type(gml) is type(graphml) is kind
    assert gml.edges(data=True) == graphml.edges(data=True) or links_of(gml) == links_of(graphml)
    rates = {ends: own["rate"] for ends, own in links_of(gml).items()}
    assert rates == {
        frozenset(("server", "hub")): 8e6,
        frozenset(("hub", "client-0")): 8e6,  # a megabyte per second
        frozenset(("hub", "client-1")): 10e9,
    }


def test_a_file_of_the_topology_zoo_is_read_as_published(tmp_path: Path) -> None:
    with hearing() as heard:
        graph = read_graph(zoo(tmp_path))
    assert set(graph) == {"server", "Vienna (1)", "Vienna (2)", "client-0"}
    rates = {ends: own["rate"] for ends, own in links_of(graph).items()}
    assert rates == {
        frozenset(("server", "Vienna (1)")): 10e9,
        frozenset(("Vienna (1)", "Vienna (2)")): 155e6,
        frozenset(("Vienna (2)", "client-0")): float("inf"),
    }
    (text,) = heard
    assert "1 pair of nodes is joined by parallel edges" in text
    assert "highest rate" in text


def test_without_a_label_of_a_scenarios_node_the_ids_are_the_names(tmp_path: Path) -> None:
    text = ZOO.replace('"server"', '"Graz"').replace('"client-0"', '"Linz"')
    assert set(read_graph(zoo(tmp_path, text))) == {"0", "1", "2", "3"}


@pytest.mark.parametrize("name", ["g.gml", "g.graphml"])
@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
def test_of_parallel_edges_the_one_with_the_highest_rate_counts(
    name: str, kind: Any, tmp_path: Path
) -> None:
    """Of equal rates the least latency; a directed edge back is no parallel one."""
    own = [
        ("server", "client-0", {"rate": "1 Mbit/s"}),
        ("server", "client-0", {"rate": "5 Mbit/s", "latency": "9 ms"}),
        ("server", "client-0", {"rate": "5 Mbit/s", "latency": "7 ms"}),
        ("server", "client-0", {"latency": "1 ms"}),
        ("client-0", "server", {"rate": "2 Mbit/s"}),
    ]
    with hearing() as heard:
        graph = read_graph(written(tmp_path, name, graph_of(own, kind)))
    assert not graph.is_multigraph()
    best = graph.edges["server", "client-0"]
    assert (best["rate"], best["latency"]) == (5e6, 0.007)
    if kind is nx.MultiDiGraph:
        assert graph.edges["client-0", "server"]["rate"] == 2e6
    assert len(list(heard)) == 1


def test_neighbours_joined_twice_are_neighbours(tmp_path: Path) -> None:
    with hearing() as heard:
        graph = read_graph(zoo(tmp_path), ends=True)
    assert len(graph.edges) == 3
    assert any("which count as one" in text for text in heard)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("node [ id 1", "node [ id 0", "is no GML"),
        ("target 3 ]", "target 9 ]", "is no GML"),
        ("]\n]", "]\n", "is no GML"),
        ('"M"', '"furlongs"', 'LinkSpeedUnits: got "furlongs"; give one of K, M, G, T'),
        ('"client-0"', '"server"', 'several nodes with the label "server"'),
        ('label "Vienna" Latitude', 'label "2" Latitude', None),
        ('LinkSpeed "155"', 'LinkSpeed "many"', "rate"),
    ],
)
def test_what_is_wrong_with_a_gml_file(
    old: str, new: str, words: str | None, tmp_path: Path
) -> None:
    assert old in ZOO
    path = zoo(tmp_path, ZOO.replace(old, new))
    if words is None:
        assert "2" in read_graph(path)
        return
    with pytest.raises(DataError, match=r"zoo\.gml") as caught:
        read_graph(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"graph [" * 20_000, b"graph [ ]"])
def test_bytes_that_are_no_gml(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "g.gml"
    path.write_bytes(content)
    if content == b"graph [ ]":
        assert not read_graph(path)
        return
    with pytest.raises(DataError, match="is no GML"):
        read_graph(path)
