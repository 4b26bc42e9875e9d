"""The medium of peers in range: closed forms of time and joules, and the books of any world."""

from itertools import combinations
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.physics.medium import Medium, RadioGraph, two_hop_colours
from fedsim.physics.overlay import Overlay
from fedsim.physics.packet_loss import IndependentLoss, NoLoss
from fedsim.protocol.stopping import Stop
from tests.policies import participation_of
from tests.sim.radios import RadioModel
from tests.tiers import every, examples

from .packets import FRAMING
from .peers import overlay, peers
from .physical import battery, member
from .worlds import Run, fleet, play

RADIO = RadioModel(up=4.0, down=8.0, energy_up=1.0, energy_down=0.5)
"""A message of 8 bits takes 2 s, 8 J to send and 4 J to receive."""

T = 2.0


def world(
    neighbours: Overlay,
    in_range: "nx.Graph[int] | None" = None,
    rounds: int = 1,
    radio: RadioModel = RADIO,
    **medium: Any,
) -> Run:
    nodes = len(neighbours.neighbours)
    near = neighbours if in_range is None else overlay(in_range)
    return play(
        peers(
            fleet(*[(member().device, radio)] * nodes),
            neighbours=neighbours,
            medium=RadioGraph.of(Medium.in_si(**medium), near),
            stop=Stop(rounds=rounds),
        )
    )


def spent(run: Run, node: int) -> float:
    return float(sum(row["joules"] for row in run.rows if row["node"] == f"client-{node}"))


@every("nodes", [2, 3, 5, 8])
@every("access", ["csma", "tdma"])
def test_all_in_range_of_each_other_take_turns(nodes: int, access: str) -> None:
    complete = overlay(nx.complete_graph(nodes))
    run = world(complete, access=access, slot=T)
    assert run.t == pytest.approx(nodes * T)
    assert [row["t"] for row in run.of("send")] == pytest.approx(
        [T * (k + 1) for k in range(nodes)]
    )
    # One transmission, and as many receptions as neighbours.
    assert [spent(run, node) for node in range(nodes)] == [8.0 + 4.0 * (nodes - 1)] * nodes
    assert run.rounds[0]["bits_up"] == 8 * nodes


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_without_broadcast_each_neighbour_has_a_transmission(nodes: int) -> None:
    run = world(overlay(nx.complete_graph(nodes)), broadcast=False)
    assert run.t == pytest.approx(nodes * (nodes - 1) * T)
    assert [spent(run, node) for node in range(nodes)] == [12.0 * (nodes - 1)] * nodes
    assert run.rounds[0]["bits_up"] == 8 * nodes * (nodes - 1)


@every(("nodes", "colours"), [(3, 3), (5, 5), (6, 3), (9, 3), (12, 3)])
def test_a_ring_in_slots_takes_as_many_as_colours(nodes: int, colours: int) -> None:
    run = world(overlay(nx.cycle_graph(nodes)), rounds=2, access="tdma", slot=T)
    assert run.times("round") == pytest.approx([colours * T, 2 * colours * T])
    # Under csma, those at a distance of three send at the same time, too.
    if nodes % 3 == 0:
        assert world(overlay(nx.cycle_graph(nodes))).t == pytest.approx(3 * T)


def test_a_message_longer_than_a_slot_goes_on_in_the_next_frame() -> None:
    run = world(overlay(nx.cycle_graph(3)), access="tdma", slot=0.75)
    # 2 s are 0.75, 0.75 and 0.5 in slots that begin every 2.25 s.
    assert [row["t"] for row in run.of("send")] == pytest.approx(
        [4.5 + 0.5 + 0.75 * colour for colour in range(3)]
    )
    assert [spent(run, node) for node in range(3)] == [16.0] * 3


@examples(30)
@given(st.integers(2, 14), st.integers(0, 99))
def test_colours_differ_within_two_hops(nodes: int, seed: int) -> None:
    graph = nx.gnp_random_graph(nodes, 0.3, seed=seed)
    colours = two_hop_colours([sorted(graph.adj[node]) for node in graph])
    apart = dict(nx.all_pairs_shortest_path_length(graph, cutoff=2))
    for one, other in combinations(range(nodes), 2):
        assert other not in apart[one] or colours[one] != colours[other]


@every("broadcast", [True, False])
@every("access", ["csma", "tdma", "node-exclusive"])
def test_no_two_transmissions_meet(access: str, broadcast: bool) -> None:
    graph = nx.random_geometric_graph(24, 0.3, seed=3)
    graph.add_edges_from(nx.path_graph(24).edges)
    run = world(overlay(graph), rounds=2, access=access, slot=T, broadcast=broadcast)
    sent = [
        (
            row["t"] - row["duration"],
            row["t"],
            int(row["node"][7:]),
            set(graph.adj[int(row["node"][7:])]) if row["peer"] is None else {int(row["peer"][7:])},
        )
        for row in run.of("send")
    ]
    together = 0
    for (begin, end, one, to), (start, stop, other, far) in combinations(sent, 2):
        if min(end, stop) - max(begin, start) < 1e-9:
            continue
        together += 1
        assert not ({one} | to) & ({other} | far)
        if access != "node-exclusive":  # a receiver hears its own sender alone
            assert not any(other in graph.adj[node] for node in {one} | to)
            assert not any(one in graph.adj[node] for node in {other} | far)
    assert together  # some are far enough apart
    # A channel that is free is not left unused: what waits meets something that is on the air.
    if access != "tdma":
        assert run.t < sum(end - begin for begin, end, *_ in sent)


def towards(source: int, targets: tuple[int, ...], nodes: int) -> Overlay:
    """Return a graph in which one node sends to others."""
    to = tuple([targets if node == source else () for node in range(nodes)])
    back = tuple([(source,) if node in targets else () for node in range(nodes)])
    return Overlay(to, back)


@every("nodes", [3, 4, 5])
@every("access", ["csma", "node-exclusive"])
def test_who_forwards_receives_and_sends(nodes: int, access: str) -> None:
    run = world(towards(0, (nodes - 1,), nodes), nx.path_graph(nodes), access=access)
    assert [row["t"] for row in run.of("receive")] == pytest.approx([(nodes - 1) * T])
    middle = [8.0 + 4.0] * (nodes - 2)
    assert [spent(run, node) for node in range(nodes)] == [8.0, *middle, 4.0]
    assert run.rounds[0]["bits_up"] == 8  # charged once; what is forwarded is in its own rows
    forward = [row for row in run.of("forward") if row["payload_bits"] + row["header_bits"]]
    assert [row["t"] for row in forward] == pytest.approx([k * T for k in range(2, nodes)])


@pytest.mark.parametrize("nodes", [3, 4, 5])
def test_a_message_for_all_goes_down_a_line_once_or_once_for_each(nodes: int) -> None:
    others = tuple(range(1, nodes))
    once = world(towards(0, others, nodes), nx.path_graph(nodes), access="node-exclusive")
    assert once.t == pytest.approx((nodes - 1) * T)
    assert [spent(once, node) for node in range(nodes)] == [8.0, *[12.0] * (nodes - 2), 4.0]
    each = world(
        towards(0, others, nodes), nx.path_graph(nodes), access="node-exclusive", broadcast=False
    )
    # The node k hops away receives what is for it and for those behind it, and sends the latter.
    behind = [nodes - 1 - node for node in range(nodes)]
    assert [spent(each, node) for node in range(nodes)] == [
        8.0 * behind[0],
        *[4.0 * (far + 1) + 8.0 * far for far in behind[1:]],
    ]


def test_a_radio_that_has_a_tail_is_awake_all_the_time() -> None:
    result = fedsim.run(SCENARIO)
    times, joules = result.summary["t"].iloc[0], result.summary["joules"].iloc[0]
    sent = result.events[result.events["event"].isin(["send", "receive"])]
    assert not set(result.events["event"]) & {"tail", "promotion"}
    idle = result.events.loc[result.events["event"].isin(["round", "stop"]), "joules"].sum()
    assert idle == pytest.approx(6 * 0.119 * times)
    assert joules == pytest.approx(idle + sent["joules"].sum())
    bits = (sent["payload_bits"] + sent["header_bits"] + sent["transport_bits"]).to_numpy()
    up = (sent["event"] == "send").to_numpy()
    per_bit = 2.8317e-07 * up + 1.3701e-07 * ~up
    span = bits / 20e6  # of two directions the slower
    assert sent["joules"].to_numpy() == pytest.approx(per_bit * bits + (0.13286 - 0.119) * span)


LOSSY = IndependentLoss.model_validate({"kind": "independent", "rate": "20 %"})


@examples(30)
@given(st.data())
def test_the_books_of_any_world_balance(data: st.DataObject) -> None:
    """Losses, batteries of relays and of ends, and ends in the middle of it: the audit holds."""
    nodes = data.draw(st.integers(2, 6))
    members = [
        member(
            data.draw(st.sampled_from([None, battery(12.0), battery(40.0)])),
            radio=RadioModel(
                up=data.draw(st.sampled_from([1.0, 4.0, 32.0])),
                down=8.0,
                latency=data.draw(st.sampled_from([0.0, 0.5])),
                energy_up=0.5,
                energy_down=0.25,
                loss=data.draw(st.sampled_from([NoLoss(), LOSSY])),
                framing=FRAMING,
                base=0.5,
            ),
        )
        for _ in range(nodes)
    ]
    seed = data.draw(st.integers(0, 9))
    graph = nx.compose(nx.path_graph(nodes), nx.gnp_random_graph(nodes, 0.5, seed=seed))
    near = nx.compose(nx.path_graph(nodes), nx.gnp_random_graph(nodes, 0.2, seed=seed))
    medium = Medium.in_si(
        access=data.draw(
            st.sampled_from(["csma", "tdma", "node-exclusive", "aloha", "slotted-aloha"])
        ),
        slot=data.draw(st.sampled_from([0.5, 30.0])),
        broadcast=data.draw(st.booleans()),
    )
    run = play(
        peers(
            members,
            neighbours=overlay(graph),
            medium=RadioGraph.of(medium, overlay(near)),
            seed=seed,
            participation=participation_of(deadline=300.0),
            stop=Stop.in_si(rounds=4, time=data.draw(st.sampled_from([40.0, 150.0, 1e4]))),
        )
    )
    assert run.error is None
    # A receiver has a row for each message to it, whatever has become of it.
    to = {one: len(others) for one, others in enumerate(overlay(graph).neighbours)}
    sends = run.of("send", detail=None) if medium.broadcast else []
    again = {"collision", "missed"}  # what has failed, and is tried again
    heard = [row for row in run.of("receive") if row["detail"] not in again]
    whole = [row for row in sends if len({each["node"] for each in run.of("depleted")}) == 0]
    for row in whole:
        number = int(row["node"][7:])
        same = [
            each for each in heard if each["peer"] == row["node"] and each["round"] == row["round"]
        ]
        assert len(same) == to[number]


SCENARIO: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "d-psgd", "step_size": "0.5/L_max"},
    "fleet": [{"count": 6, "radio": "wifi"}],
    "network": {"peers": {"kind": "ring"}, "medium": {"access": "csma"}},
    "stop": {"rounds": 2},
}

LOSES = {"kind": "wifi", "loss": {"kind": "independent", "rate": "1 %"}}


@every(
    ("change", "key", "words"),
    [
        ({"fleet": [{"count": 6, "radio": "lte"}]}, "fleet.0.radio", "speaks to a base station"),
        (
            {"network": {"topology": "tree", "gateways": 2, **SCENARIO["network"]}},
            "network.medium",
            "links beside medium",
        ),
        (
            {"network": {"peers": {"kind": "one-peer"}, "medium": {}}},
            "network.medium.graph",
            "neighbours change by exchange",
        ),
        (
            {"network": {"peers": {"kind": "ring"}, "medium": {"graph": {"kind": "one-peer"}}}},
            "network.medium.graph.kind",
            "which changes by exchange",
        ),
        (
            {"network": {"peers": {"kind": "ring"}, "medium": {"access": "tdma", "slot": "0 s"}}},
            "network.medium.slot",
            "give slots a length",
        ),
        (
            {"fleet": [{"count": 6, "radio": LOSES}]},
            "fleet.0.radio.tries",
            "participation.deadline",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(SCENARIO | change)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message


def test_check_says_what_the_medium_is() -> None:
    said = str(fedsim.check(SCENARIO).graphs)
    assert "csma, 2 nodes in range" in said
