"""Links among peers that lose packets: closed forms of what is sent again, and of what arrives."""

from math import prod, sqrt
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.ports import node_name
from fedsim.physics.overlay import Overlay
from fedsim.physics.packet_loss import IndependentLoss
from fedsim.physics.topology import Topology, build_routes
from fedsim.protocol.stopping import Stop
from fedsim.sim.peers import SimNode
from tests.policies import participation_of
from tests.runs import PEERS
from tests.sim.radios import RadioModel

from .peers import overlay, peers
from .physical import member
from .worlds import Run, asked, fleet, play

PACKET = 8 * 1500
"""Bits of a packet."""

MANY = 20_000
"""Packets of a message: a share that is drawn of them is known to some percent."""


def radio(**parts: Any) -> RadioModel:
    return RadioModel(up=PACKET, down=PACKET, energy_up=1.0, energy_down=0.5, **parts)


def links(*edges: tuple[int, int, float], directed: bool = False) -> Topology:
    """Return the links of edges that lose these shares of packets."""
    graph: nx.Graph[str] = nx.DiGraph() if directed else nx.Graph()
    for one, other, loss in edges:
        graph.add_edge(node_name(one), node_name(other), loss=loss)
    return build_routes(graph, 1 + max(max(edge[:2]) for edge in edges), server=False)


def talk(packets: int) -> Any:
    async def live(node: SimNode) -> None:
        while True:
            await node.exchange(asked(PACKET * packets))
            node.commit(np.array([0.0]))

    return live


def world(
    neighbours: Overlay, topology: Topology, packets: int, law: RadioModel, **parts: Any
) -> Run:
    nodes = len(neighbours.neighbours)
    members = fleet(*[(member().device, law)] * nodes)
    parts.setdefault("stop", Stop(rounds=1))
    return play(peers(members, talk(packets), neighbours, topology=topology, **parts))


def repeated(run: Run, source: int, target: int) -> float:
    """Return how many packets a node has sent again to another."""
    ends = {"node": f"client-{source}", "peer": f"client-{target}"}
    return float(sum(row["transport_bits"] for row in run.of("retransmit", **ends))) / PACKET


def expect_repeats(run: Run, source: int, target: int, lost: float) -> None:
    """A packet is sent again a geometric number of times: q / (1 - q) on average."""
    mean, deviation = MANY * lost / (1 - lost), sqrt(MANY * lost) / (1 - lost)
    assert repeated(run, source, target) == pytest.approx(mean, abs=4 * deviation)


PAIR = overlay(nx.path_graph(2))


def test_each_way_of_a_link_has_losses_of_its_own() -> None:
    one_way = links((0, 1, 0.2), (1, 0, 0.0), directed=True)
    run = world(PAIR, one_way, MANY, radio())
    expect_repeats(run, 0, 1, 0.2)
    assert repeated(run, 1, 0) == 0
    both = world(PAIR, links((0, 1, 0.2)), MANY, radio())
    expect_repeats(both, 0, 1, 0.2)
    expect_repeats(both, 1, 0, 0.2)
    assert repeated(both, 0, 1) != repeated(both, 1, 0)  # drawn from streams of their own


def test_the_sender_pays_for_what_a_link_loses() -> None:
    one_way = links((0, 1, 0.2), (1, 0, 0.0), directed=True)
    run = world(PAIR, one_way, MANY, radio())
    again = repeated(run, 0, 1)
    spent = [sum(row["joules"] for row in run.rows if row["node"] == f"client-{n}") for n in (0, 1)]
    received = 0.5 * MANY * PACKET
    assert spent[0] == pytest.approx((MANY + again) * PACKET + received)
    assert spent[1] == pytest.approx(MANY * PACKET + received)
    # On the air for as long, and then one message's time on the receiver's radio.
    assert run.t == pytest.approx(MANY + again + MANY)
    assert run.rounds[0]["bits_up"] == (2 * MANY + again) * PACKET


def test_links_on_a_route_and_the_radio_lose_one_after_the_other() -> None:
    shares = (0.1, 0.2, 0.05)
    line = links(*[(hop, hop + 1, share) for hop, share in enumerate(shares)])
    ends = Overlay(((3,), (), (), (0,)), ((3,), (), (), (0,)))
    run = world(ends, line, MANY, radio())
    kept = prod(1 - share for share in shares)
    expect_repeats(run, 0, 3, 1 - kept)
    # The radio loses what it sends, and what it receives: the latter is sent again to it alone.
    own = IndependentLoss.model_validate({"kind": "independent", "rate": "30 %"})
    run = world(PAIR, links((0, 1, 0.2)), MANY, radio(loss=own))
    second = 0.3 / 0.7  # on the second leg
    first = (1 - 0.7 * 0.8) / (0.7 * 0.8)
    deviation = sqrt(MANY) * (sqrt(1 - 0.56) / 0.56 + sqrt(0.3) / 0.7)
    assert repeated(run, 0, 1) == pytest.approx(MANY * (first + second), abs=4 * deviation)


@pytest.mark.parametrize(("packets", "tries"), [(1, 1), (3, 1), (2, 2)])
def test_a_share_of_messages_arrives_where_tries_are_limited(packets: int, tries: int) -> None:
    nodes, rounds, loss = 30, 20, 0.2
    ring = nx.cycle_graph(nodes)
    run = world(
        overlay(ring),
        links(*[(one, other, loss) for one, other in ring.edges]),
        packets,
        radio(tries=tries),
        participation=participation_of(deadline=100.0),
        stop=Stop(rounds=rounds),
    )
    sent, arrived = 2 * nodes * rounds, (1 - loss**tries) ** packets
    got = [row for row in run.of("receive") if row["detail"] is None]
    assert len(run.of("lost")) == sent - len(got)
    deviation = sqrt(sent * arrived * (1 - arrived))
    assert len(got) == pytest.approx(sent * arrived, abs=4 * deviation)


def test_a_link_without_losses_beside_one_with_them_is_as_it_was() -> None:
    star = overlay(nx.star_graph(2))
    run = world(star, links((0, 1, 0.2), (0, 2, 0.0)), MANY, radio())
    assert repeated(run, 0, 2) == repeated(run, 2, 0) == 0
    expect_repeats(run, 0, 1, 0.2)
    expect_repeats(run, 1, 0, 0.2)


def test_a_loss_is_a_share_of_packets_and_of_graphs_without_a_server() -> None:
    with pytest.raises(DataError, match=r"the loss 1; a loss is a share of packets, at least 0"):
        links((0, 1, 1))
    graph = nx.Graph([("server", "client-0", {"loss": 0.1})])
    with pytest.raises(DataError, match="between server and client-0 has a loss"):
        build_routes(graph, 1)


# From scenarios and graphs.

LIMITED = {"kind": "wifi", "tries": 1}


def one_way() -> Any:
    """Return a directed ring of four nodes, whose edges lose half of the packets one way."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node in range(4):
        graph.add_edge(node, (node + 1) % 4, loss=0.5)
        graph.add_edge((node + 1) % 4, node)
    return graph


def test_a_directed_graph_has_losses_of_one_way() -> None:
    fleet = [{"count": 4, "radio": "wifi"}]
    result = fedsim.run({**PEERS, "stop": {"rounds": 10}, "fleet": fleet}, graph=one_way())
    again = result.events[result.events["event"] == "retransmit"]
    pairs = set(zip(again["node"], again["peer"], strict=True))
    assert pairs == {(f"client-{node}", f"client-{(node + 1) % 4}") for node in range(4)}


@pytest.mark.parametrize("suffix", [".csv", ".graphml"])
def test_files_of_links_have_losses(suffix: str, tmp_path: Any) -> None:
    path = tmp_path / f"links{suffix}"
    if suffix == ".csv":
        path.write_text(
            "source,target,loss\nclient-0,client-1,50 %\nclient-1,client-0,\n"
            "client-1,client-2,\nclient-2,client-1,\n"
        )
    else:
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_edge("client-0", "client-1", loss="50 %")
        graph.add_edge("client-1", "client-0")
        graph.add_edge("client-1", "client-2")
        graph.add_edge("client-2", "client-1")
        nx.write_graphml(graph, path)
    network = {"topology": "graph", "path": str(path), "directed": True, "peers": {"kind": "star"}}
    network["peers"] = {"kind": "edges", "edges": [[0, 1], [1, 2]]}
    fleet = [{"count": 3, "radio": "wifi"}]
    run = {**PEERS, "network": network, "fleet": fleet, "stop": {"rounds": 20}}
    edges = fedsim.run(run).events
    again = edges[edges["event"] == "retransmit"]
    assert set(zip(again["node"], again["peer"], strict=True)) == {("client-0", "client-1")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "may be lost for good on a link (loss), and a neighbour would wait for it for ever"),
        (
            {
                "participation": {"kind": "full", "deadline": "1 s"},
                "wire": {
                    "up": {
                        "compressor": {"kind": "qsgd", "levels": 16},
                        "error_feedback": "ef21",
                    }
                },
            },
            "under which neighbours add up all messages of a node",
        ),
    ],
)
def test_messages_that_links_lose_for_good_need_a_rule(changes: Any, words: str) -> None:
    fleet = [{"count": 4, "radio": LIMITED}]
    with pytest.raises(ScenarioError) as caught:
        fedsim.run({**PEERS, "fleet": fleet, **changes}, graph=one_way())
    (fault,) = caught.value.faults
    key = "wire.up.error_feedback" if "wire" in changes else "fleet.0.radio.tries"
    assert (fault.key, words in fault.message) == (key, True), fault


def ends(rows: pd.DataFrame, *columns: str) -> list[tuple[int, int]]:
    """Return the numbers of the nodes in two columns."""
    one, other = (rows[column].astype(str).str[7:].astype(int).tolist() for column in columns)
    return list(zip(one, other, strict=True))


def test_losses_take_their_share_of_push_sum_s_mass() -> None:
    nodes, rounds, loss = 200, 3, 0.1
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from(
        (node, (node + hop) % nodes, {"loss": loss}) for node in range(nodes) for hop in (1, 2)
    )
    run: dict[str, Any] = {
        **PEERS,
        "algorithm": {"kind": "push-sum"},
        "fleet": [{"count": nodes, "radio": LIMITED}],
        "participation": {"kind": "full", "deadline": "10 s"},
        "stop": {"rounds": rounds},
        "wire": {"values": "float64"},
    }
    result = fedsim.run(run, graph=graph)
    events, mass = result.events, np.ones(nodes)
    # Nodes that wait for a lost message begin the next exchange later, and may be too late in it.
    got = events[(events["event"] == "receive") & events["detail"].isna()]
    late = events[events["event"] == "late"]
    for number in range(1, rounds + 1):
        own = mass / 3  # a node has two receivers, and keeps as much
        mass = own.copy()
        for receiver, sender in ends(got[got["round"] == number], "node", "peer"):
            mass[receiver] += own[sender]
        for receiver, sender in ends(late[late["round"] == number], "peer", "node"):
            mass[receiver] -= own[sender]
        assert result.rounds["mass"].iloc[number] == pytest.approx(mass.mean(), rel=1e-12)
    # At first all begin together. Two thirds of all mass go out, of which a share is lost.
    assert not (late["round"] == 1).any()
    deviation = sqrt(loss * (1 - loss) * 2 / 9 / nodes)
    assert result.rounds["mass"].iloc[1] == pytest.approx(1 - loss * 2 / 3, abs=4 * deviation)
