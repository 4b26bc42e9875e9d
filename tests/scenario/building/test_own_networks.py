"""Traces, networks and overlays of one's own: what they say is built, or refused."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

import networkx as nx
import numpy as np
import pytest

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import BlockError, DataError, ScenarioError
from fedsim.physics.networks import Network, ReadGraph
from fedsim.physics.overlay import Neighbours, Overlay
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.traces import Trace, TraceReader
from fedsim.physics.signals import Steps
from fedsim.physics.topology import Link, Route, Topology, build_routes, star
from fedsim.scenario import Plan, load
from fedsim.scenario.building import Builder, Job
from tests.scenario.building.plans import SMALL, by_key, group
from tests.tiers import every


class Own(Network):
    """A star, in one way or another."""

    topology: Literal["own"] = "own"
    made: Any = "star"

    def links(self, clients: int, read: ReadGraph) -> Topology:
        link = Link(ConstantRate(1e6))
        made: dict[str, Any] = {
            "star": star(clients, uplink=2e6),
            "fewer": star(clients - 1),
            "far": Topology((link,), (Route((1,), 0.0),) * clients, (Route((), 0.0),) * clients),
            "nothing": None,
        }
        return (
            made[self.made] if self.made in made else build_routes(read(Path(self.made)), clients)
        )


class Beat(Trace):
    """Two rates in turn."""

    kind: Literal["beat"] = "beat"
    period: float = 2.0
    starts_anywhere: ClassVar[bool] = True

    def rate(self, read: TraceReader) -> Steps:
        if self.period < 0:
            return 1e6  # type: ignore[return-value]  # as one may who does not read what is asked
        return Steps([0.0, 1.0], [1e6, 2e6], self.period or inf)


class Odd(Neighbours):
    """A graph that is told by the test."""

    kind: Literal["odd"] = "odd"
    made: str

    def graph(self, nodes: int, rng: np.random.Generator) -> "nx.Graph[int]":
        looped: nx.Graph[int] = nx.path_graph(nodes)
        looped.add_edge(1, 1)
        made: dict[str, Any] = {
            "path": nx.path_graph(nodes),
            "longer": nx.path_graph(nodes + 1),
            "directed": nx.path_graph(nodes, nx.DiGraph),
            "looped": looped,
            "apart": nx.empty_graph(nodes),
            "list": [(0, 1)],
        }
        graph: nx.Graph[int] = made[self.made]
        return graph


BLOCKS: Sequence[type[Spec]] = (Own, Beat, Odd)
GOSSIP = {"kind": "d-psgd", "step_size": 0.1}


def builder(folder: Path, **blocks: Any) -> Builder:
    loaded = load(SMALL | blocks, blocks=BLOCKS)
    return Builder(Plan(loaded.name, folder, loaded.variants))


def built(folder: Path, **blocks: Any) -> Job:
    (made,) = builder(folder, **blocks).check()
    return made


def found(folder: Path, **blocks: Any) -> dict[str, str]:
    with pytest.raises(ScenarioError) as caught:
        builder(folder, **blocks).check()
    return by_key(caught.value.faults)


def own(made: str) -> dict[str, Any]:
    return {"topology": "own", "made": made}


def peers(**keys: Any) -> dict[str, Any]:
    return {"algorithm": GOSSIP, "network": {"peers": keys}}


def test_a_network_is_what_its_class_says(tmp_path: Path) -> None:
    assert built(tmp_path, network=own("star")).deployment.topology == star(4, uplink=2e6)


def test_a_network_may_read_a_file_of_edges(tmp_path: Path) -> None:
    lines = [f"server,client-{n},{n + 1} Mbit/s" for n in range(4)]
    (tmp_path / "net.csv").write_text("source,target,rate\n" + "\n".join(lines))
    links = built(tmp_path, network=own("net.csv")).deployment.topology
    assert links is not None
    assert [links.links[way.links[0]].capacity.peak for way in links.up] == [1e6, 2e6, 3e6, 4e6]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("fewer", "the links of own have 3 ways up and 3 down, and there are 4 clients"),
        ("far", "a way of own takes link 1, and there are 1"),
        ("nothing", "the links of own are a NoneType; return a Topology"),
        ("nowhere.csv", "nowhere.csv: No such file"),
    ],
)
def test_links_that_lead_nowhere(made: str, said: str, tmp_path: Path) -> None:
    assert said in found(tmp_path, network=own(made))["network.topology"]


def test_a_trace_is_what_its_class_says(tmp_path: Path) -> None:
    (only,) = built(
        tmp_path, fleet=group(radio={"kind": "lte", "up_trace": {"kind": "beat"}})
    ).deployment.groups
    signal = only.rates.up.signal
    assert signal is not None
    assert (signal.at(0.0), signal.at(1.5), signal.peak) == (1e6, 2e6, 2e6)


@pytest.mark.parametrize(("period", "said"), [(0.0, "does not repeat"), (-1.0, "is a float")])
def test_a_trace_that_is_none(period: float, said: str, tmp_path: Path) -> None:
    radio = {"kind": "lte", "up_trace": {"kind": "beat", "period": period}}
    assert said in found(tmp_path, fleet=group(radio=radio))["fleet.0.radio.up_trace"]


def test_neighbours_are_those_that_a_class_says(tmp_path: Path) -> None:
    overlay = built(tmp_path, **peers(kind="odd", made="path")).deployment.overlay
    assert isinstance(overlay, Overlay)
    assert overlay.neighbours == ((1,), (0, 2), (1, 3), (2,))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("longer", "has 5 nodes (0, 1, 2, ...); expected the clients, 0 to 3"),
        ("directed", "no path leads from 0 to and from 1, 2, 3"),
        ("looped", "has an edge from 1 to itself"),
        ("apart", "must be connected: no path leads from 0 to 1, 2, 3"),
        ("list", "is a list; expected a networkx.Graph"),
    ],
)
def test_a_graph_that_is_none_of_neighbours(made: str, said: str, tmp_path: Path) -> None:
    assert said in found(tmp_path, **peers(kind="odd", made=made))["network.peers.kind"]


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<graph edgedefault="undirected"><node id="0"/><node id="1"/><node id="2"/><node id="3"/>
<edge source="0" target="1"/><edge source="1" target="2"/><edge source="2" target="3"/>
</graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("net.csv", "source,target\nclient-0,client-1\nclient-1,client-2\n3,2\n"),
        ("net.csv", "source,target,rate\n0,1,5 Mbit/s\n1,2,\n2,3,\n"),
        ("net.graphml", GRAPHML),
    ],
    ids=["names", "numbers", "graphml"],
)
def test_neighbours_may_stand_in_a_file(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    overlay = built(tmp_path, **peers(kind="edges", path=name)).deployment.overlay
    assert isinstance(overlay, Overlay)
    assert overlay.neighbours == ((1,), (0, 2), (1, 3), (2,))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("source,target\n0,router\n", 'got the node "router"; expected client-0'),
        ("source,target\n0,9\n", "got [0, 9]; give two different clients, of 0 to 3"),
        ("source,target\n0,1\n1,0\n", "connected already"),
        ("source\n0\n", "line 2"),
        ("source,target\n", "must be connected"),
    ],
)
def test_a_file_of_neighbours_that_is_none(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text(content)
    faults = found(tmp_path, **peers(kind="edges", path="net.csv"))
    assert said in " ".join(faults.values())
    assert set(faults) <= {"network.peers.path", "network.peers.kind"}


ARROWS = GRAPHML.replace('"undirected"', '"directed"')
BACK = '<edge source="1" target="0"/><edge source="2" target="1"/><edge source="3" target="2"/>'


def test_a_directed_graph_is_one_of_neighbours_where_every_arrow_has_one_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "net.graphml").write_text(ARROWS)
    blocks = peers(kind="edges", path="net.graphml")
    text = found(tmp_path, **blocks)["network.peers.path"]
    assert 'has an arrow from "0" to "1" and none back' in text
    assert "doubly stochastic" in text
    (tmp_path / "net.graphml").write_text(ARROWS.replace("</graph>", f"{BACK}</graph>"))
    overlay = built(tmp_path, **blocks).deployment.overlay
    assert isinstance(overlay, Overlay)
    assert overlay.neighbours == ((1,), (0, 2), (1, 3), (2,))


class Weighed(Overlay):
    """An overlay with weights of the test."""

    rows: ClassVar[tuple[dict[int, float], ...]]

    def weights(self, node: int) -> dict[int, float]:
        return self.rows[node]


ROWS: dict[str, tuple[tuple[dict[int, float], ...], str]] = {
    "symmetric": (({1: 0.3, 2: 0.2}, {0: 0.3, 2: 0.7}, {0: 0.2, 1: 0.7}), ""),
    "a circle": (({1: 0.6, 2: 0.1}, {0: 0.1, 2: 0.6}, {0: 0.6, 1: 0.1}), ""),
    "rows alone": (
        ({1: 0.5, 2: 0.5}, {0: 0.4, 2: 0.1}, {0: 0.5, 1: 0.1}),
        "the row of node 0 adds up to 1 and its column to 0.9",
    ),
    "too much": (({1: 0.6, 2: 0.6}, {0: 0.6, 2: 0.6}, {0: 0.6, 1: 0.6}), "adds up to 1.2"),
    "negative": (({1: -0.3, 2: 0.2}, {0: -0.3, 2: 0.7}, {0: 0.2, 1: 0.7}), "node 0 must be one of"),
    "missing": (({1: 0.3}, {0: 0.3, 2: 0.7}, {0: 0.2, 1: 0.7}), "node 0 must be one of"),
}


@every("case", ROWS)
def test_weights_of_one_s_own_are_doubly_stochastic_or_refused(case: str) -> None:
    rows, said = ROWS[case]
    overlay = type("These", (Weighed,), {"rows": rows, "__slots__": ()})(((1, 2), (0, 2), (0, 1)))
    if not said:
        overlay.check()
        W = np.array([[row.get(n, 0.0) for n in range(3)] for row in rows])
        W += np.diag(1 - W.sum(axis=1))
        assert np.allclose(W.sum(axis=0), 1)
        return
    with pytest.raises(DataError, match=said):
        overlay.check()


def test_neighbours_of_one_side_are_refused() -> None:
    with pytest.raises(DataError, match="got 1 as a neighbour of 0, but not 0 as one of 1"):
        Overlay(((1,), ())).check()


class NoLinks(Network):
    """Lacks its links."""

    topology: Literal["none"] = "none"


class NoName(Network):
    """Lacks its name."""

    def links(self, clients: int, read: ReadGraph) -> Topology:
        return star(clients)


class NoRate(Trace):
    """Lacks its rate."""

    kind: Literal["none"] = "none"


class NoGraph(Neighbours):
    """Lacks its graph."""

    kind: Literal["none"] = "none"


@every(
    ("block", "said"),
    [
        (NoLinks, "NoLinks cannot be used as a network: it has no `links`. It must return the"),
        (NoName, "a network: it has no `topology` of its own by which a scenario could name it"),
        (NoRate, "NoRate cannot be used as a trace: it has no `rate`. It must return the rate"),
        (NoGraph, "NoGraph cannot be used as an overlay: it has no `graph`. It must return the"),
    ],
)
def test_one_that_lacks_a_part_is_refused_with_what_it_is_for(block: type, said: str) -> None:
    with pytest.raises(BlockError) as caught:
        load(SMALL, blocks=[block])
    assert said in str(caught.value)
