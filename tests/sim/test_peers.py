"""Peers by hand: two legs of every message, who waits for whom, and who goes on without whom."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import Deadlock, Diverged
from fedsim.physics.packet_loss import IndependentLoss, NoLoss
from fedsim.physics.topology import build_routes, star
from fedsim.protocol.stopping import Stop
from fedsim.sim.peers import SimNode
from tests.policies import participation_of
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel
from tests.tiers import examples

from .packets import FRAMING, Scripted
from .peers import LINE, RING, overlay, peers, talk
from .physical import battery, member
from .worlds import IDEAL, Run, asked, fleet, play, work

RADIO = RadioModel(up=4.0, down=8.0, latency=0.25, energy_up=1.0, energy_down=0.5)
"""A message of 8 bits takes 2 s up and 1 s down, with a quarter of a second before either."""


LOSSY = IndependentLoss.model_validate({"kind": "independent", "rate": "20 %"})


def once(rounds: int = 1) -> dict[str, Any]:
    return {"stop": Stop(rounds=rounds)}


def came(run: Run, event: str = "receive") -> list[tuple[float, str, str]]:
    return [(row["t"], row["node"], row["peer"]) for row in run.of(event)]


def check_pairs(run: Run) -> None:
    """Every send has its receive: with its bits, or with what has become of it on the way."""
    sent = Counter((row["node"], row["peer"], row["round"]) for row in run.of("send", detail=None))
    got = Counter((row["peer"], row["node"], row["round"]) for row in run.of("receive"))
    assert sent == got
    assert "server" not in {row[end] for row in run.of("send") for end in ("node", "peer")}
    # Only the end of a run finds a message in flight; what breaks off before is aborted or lost.
    flying = run.of("receive", detail="in flight")
    assert {row["t"] for row in flying} <= {run.t}
    ways = {(row["peer"], row["node"], row["round"]) for row in flying}
    held = [
        row
        for row in run.of("send")
        if row["detail"] == "in flight" or (row["node"], row["peer"], row["round"]) in ways
    ]
    assert run.world.meters().bits_in_flight == sum(map(bits_of, held))
    # There is no server, so nothing goes down: a message is charged once, to its sender.
    assert {row["bits_down"] for row in run.rounds} <= {0}


def bits_of(row: dict[str, Any]) -> int:
    return int(row["payload_bits"] + row["header_bits"] + row["transport_bits"])


def test_a_message_takes_its_senders_radio_and_then_its_receivers() -> None:
    run = play(peers(fleet(*[(member().device, RADIO)] * 3), **once()))
    assert came(run, "send") == [
        (2.25, "client-0", "client-1"),
        (2.25, "client-1", "client-0"),
        (2.25, "client-2", "client-0"),
        (4.5, "client-0", "client-2"),
        (4.5, "client-1", "client-2"),
        (4.5, "client-2", "client-1"),
    ]
    assert came(run) == [
        (3.5, "client-1", "client-0"),
        (3.5, "client-0", "client-1"),
        (4.75, "client-0", "client-2"),
        (5.75, "client-2", "client-0"),
        (5.75, "client-1", "client-2"),
        (7.0, "client-2", "client-1"),
    ]
    assert [row["t"] for row in run.rounds] == [7.0]
    assert [(row["joules"], row["duration"]) for row in run.of("send")[:6]] == [(8.0, 2.0)] * 6
    assert [(row["joules"], row["duration"]) for row in run.of("receive")[:6]] == [(4.0, 1.0)] * 6


def test_the_observer_sees_the_mean_of_a_round_and_how_far_its_models_are_apart() -> None:
    seen: list[list[float]] = []

    async def live(node: SimNode) -> None:
        while True:
            await node.exchange(asked())
            node.commit(np.array([float(node.id) * node.round, 0.0]), figure=float(node.id))

    def objective(model: Any) -> float:
        seen.append(model.tolist())
        return float(model[0])

    run = play(peers(fleet(*[(member().device, IDEAL)] * 3), live, evaluate=objective, **once(3)))
    assert seen[1:] == [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    # The distances of 0, k and 2k to their mean k, squared, have the mean 2k^2/3.
    assert [row["consensus"] for row in run.rounds] == pytest.approx(
        [k * (2 / 3) ** 0.5 for k in (1, 2, 3)]
    )
    assert [(row["figure"], row["cohort"]) for row in run.rounds] == [(1.0, 3)] * 3
    assert run.reason == "rounds: 3 of 3"


def test_links_between_two_nodes_are_shared_by_those_whose_way_leads_over_them() -> None:
    graph: nx.Graph[str] = nx.Graph()
    for node in range(3):
        graph.add_edge(f"client-{node}", "core", rate=4.0, latency=0.5)
    ways = build_routes(graph, 3, server=False)
    run = play(
        peers(fleet(*[(member().device, IDEAL)] * 3), neighbours=LINE, topology=ways, **once())
    )
    # 0 and 2 both send to 1 at once, over its 4 bit/s; 1 sends to 0, and then to 2.
    assert came(run) == [
        (3.0, "client-0", "client-1"),
        (5.0, "client-1", "client-0"),
        (5.0, "client-1", "client-2"),
        (6.0, "client-2", "client-1"),
    ]
    check_pairs(run)


def test_in_a_star_the_way_leads_by_the_server() -> None:
    links = star(3, uplink=8.0, latency=0.5)
    run = play(
        peers(fleet(*[(member().device, IDEAL)] * 3), neighbours=LINE, topology=links, **once())
    )
    # Three share 8 bit/s for 3 s; then node 1 has them for its second message.
    assert [t for t, *_ in came(run)] == [4.0, 4.0, 4.0, 6.0]


def test_who_has_nothing_to_say_to_a_neighbour_sends_it_a_beacon() -> None:
    heard: list[tuple[int, list[int]]] = []

    async def live(node: SimNode) -> None:
        replies = await node.exchange({0: asked()} if node.id else asked())
        heard.append((node.id, [reply.client for reply in replies]))
        node.commit(np.zeros(1))

    run = play(peers(fleet(*[(member().device, IDEAL)] * 3), live, header_bits=4, **once()))
    assert sorted(heard) == [(0, [1, 2]), (1, [0]), (2, [0])]
    assert [(row["node"], row["peer"]) for row in run.of("silent")] == [
        ("client-1", "client-2"),
        ("client-2", "client-1"),
    ]
    assert len(run.of("send", message="beacon")) == 2
    assert (run.rounds[0]["transmissions"], run.rounds[0]["beacons"]) == (4, 2)


def test_packets_are_sent_again_on_either_leg_and_each_radio_frames_in_its_own_way() -> None:
    lossy = RadioModel(up=128.0, down=128.0, framing=FRAMING, loss=Scripted(1, 0, 1))
    run = play(
        peers(
            fleet((member().device, lossy), (member().device, IDEAL)),
            neighbours=overlay(nx.path_graph(2)),
            **once(),
        )
    )
    assert {row["transport_bits"] for row in run.of("send", node="client-0")} == {32}
    assert {row["transport_bits"] for row in run.of("send", node="client-1")} == {0}
    assert len(run.of("retransmit")) == 2
    for row in [*run.of("send", node="client-0"), *run.of("retransmit")]:
        assert row["duration"] == bits_of(row) / 128  # time is shared by the bits that flowed
    check_pairs(run)


def test_a_message_to_a_node_that_is_gone_is_aborted_where_it_would_be_stored() -> None:
    """It was sent and is paid for, framing included, and the run goes on without it."""
    radio = RadioModel(up=4.0, down=8.0, energy_up=1.0, energy_down=1.0, framing=FRAMING)
    members = [member(radio=radio), member(battery(30.0), radio=radio), member(radio=radio)]
    run = play(peers(members, **once(4)))
    ((when, dead),) = [(row["t"], row["node"]) for row in run.of("depleted")]
    lost = [row for row in run.of("lost", peer=dead) if row["t"] > when]
    assert lost
    for row in lost:
        assert (row["detail"], bits_of(row)) == ("aborted", 40)
        assert row["t"] in run.times("send", node=row["node"], peer=dead)
    assert run.world.meters().bits_lost == sum(map(bits_of, run.of("lost")))
    check_pairs(run)


def test_a_message_that_is_lost_is_waited_for_until_the_deadline() -> None:
    lossy = RadioModel(up=8.0, down=8.0, framing=FRAMING, loss=Scripted(1), tries=1)
    members = fleet((member().device, lossy), (member().device, IDEAL))
    pair = overlay(nx.path_graph(2))
    run = play(peers(members, neighbours=pair, **once()))
    assert isinstance(run.error, Deadlock)
    assert "client-1 waits in round 1: 0 of 1 have reported" in run.reason
    assert "participation.deadline" in run.reason
    assert [row["detail"] for row in run.of("send")][:1] == [None]
    (lost,) = run.of("lost")
    assert (lost["node"], lost["peer"], lost["detail"]) == ("client-0", "client-1", "lost")

    lossy = RadioModel(up=8.0, down=8.0, framing=FRAMING, loss=Scripted(1), tries=1)
    members = fleet((member().device, lossy), (member().device, IDEAL))
    run = play(
        peers(members, neighbours=pair, participation=participation_of(deadline=100.0), **once(2))
    )
    assert run.error is None
    assert run.times("round")[0] == 100.0


def test_what_comes_after_the_deadline_is_late_and_stands_for_nothing() -> None:
    heard: list[tuple[int, list[int]]] = []

    async def live(node: SimNode) -> None:
        while True:
            await node.compute(work(3.0 if node.id == 1 else 0.0))
            replies = await node.exchange(asked())
            heard.append((node.id, [reply.round for reply in replies]))
            node.commit(np.zeros(1))

    pair = overlay(nx.path_graph(2))
    members = fleet(*[(member().device, IDEAL)] * 2)
    run = play(peers(members, live, pair, participation=participation_of(deadline=2.0), **once(3)))
    # Node 0 gives up at 2, 4 and 6 s; what node 1 says at 3 s is of an exchange that is over.
    assert heard[0] == (0, [])
    late = [(row["t"], row["node"], row["peer"], row["detail"]) for row in run.of("late")]
    assert late[0] == (
        3.0,
        "client-1",
        "client-0",
        "dropped",
    )
    assert (1, [1]) in heard
    check_pairs(run)


def test_the_others_go_on_without_a_node_whose_battery_is_empty() -> None:
    radio = RadioModel(up=4.0, down=8.0, energy_up=1.0, energy_down=1.0)
    members = [member(radio=radio), member(battery(30.0), radio=radio), member(radio=radio)]
    run = play(peers(members, **once(4)))
    assert run.reason == "rounds: 4 of 4"
    ((when, dead),) = [(row["t"], row["node"]) for row in run.of("depleted")]
    assert dead == "client-1"
    assert [row["cohort"] for row in run.rounds][-1] == 2
    assert not [
        row for row in run.of("receive", detail=None) if row["t"] > when and row["node"] == dead
    ]
    assert {row["detail"] for row in run.of("lost")} == {"aborted"}
    check_pairs(run)


def test_a_run_ends_where_nobody_is_left() -> None:
    async def live(node: SimNode) -> None:
        while True:
            await node.compute(work(1.0))
            await node.exchange(asked())
            node.commit(np.zeros(1))

    device = device_of(speed=1.0, active=5.0)
    members = [member(battery(20.0 + number), device=device) for number in range(2)]
    run = play(peers(members, live, overlay(nx.path_graph(2)), **once(100)))
    assert run.times("depleted") == [4.0, 4.2]
    assert run.reason == "no client can take part any more: battery empty (2)"


def test_a_node_that_has_ended_is_gone_to_the_others() -> None:
    async def live(node: SimNode) -> None:
        for _ in range(2 + node.id):
            await node.exchange(asked())
            node.commit(np.zeros(1))

    run = play(peers(fleet(*[(member().device, RADIO)] * 3), live, **once(100)))
    assert (run.reason, [row["cohort"] for row in run.rounds]) == (
        "the algorithm has ended",
        [3, 3, 2, 1],
    )


def test_what_is_stored_between_the_legs_when_the_run_ends_is_in_flight() -> None:
    slow = RadioModel(up=4.0, down=0.5)
    run = play(peers(fleet(*[(member().device, slow)] * 3), stop=Stop.in_si(time=10.0)))
    assert run.reason == "time: 10 s"
    stored = [row for row in run.of("receive") if row["detail"] == "in flight"]
    assert len(stored) == 6
    assert run.world.meters().bits_in_flight == 8 * len(stored)
    check_pairs(run)


def test_a_node_that_fails_ends_the_run() -> None:
    async def live(node: SimNode) -> None:
        await node.compute(work(2.0))
        if node.id == 1:
            raise ValueError("a node's own")
        await talk(node)

    with pytest.raises(ValueError, match="a node's own"):
        play(peers(fleet(*[(member().device, IDEAL)] * 3), live))


def test_the_other_nodes_are_cancelled_when_the_commit_of_one_ends_the_run() -> None:
    cancelled: list[int] = []

    async def live(node: SimNode) -> None:
        try:
            await talk(node)
        except asyncio.CancelledError:
            cancelled.append(node.id)
            raise

    play(peers(fleet(*[(member().device, IDEAL)] * 3), live, **once()))
    assert cancelled == [0, 2]


def test_a_node_that_fails_as_it_is_cancelled_is_heard() -> None:
    async def live(node: SimNode) -> None:
        try:
            await talk(node)
        except asyncio.CancelledError:
            raise ValueError("a node's own") from None

    with pytest.raises(ValueError, match="a node's own"):
        play(peers(fleet(*[(member().device, IDEAL)] * 3), live, **once()))


def test_a_mean_that_is_not_finite_ends_the_run() -> None:
    async def live(node: SimNode) -> None:
        for number in (0.0, float("inf")):
            await node.exchange(asked())
            node.commit(np.array([number if node.id == 1 else 0.0]))

    run = play(peers(fleet(*[(member().device, IDEAL)] * 3), live))
    assert isinstance(run.error, Diverged)
    assert len(run.rounds) == 1


@examples(40)
@given(st.data())
def test_the_books_of_any_world_of_peers_balance(data: st.DataObject) -> None:
    """The audit holds, every send has its receive, and those that are left end all rounds."""
    nodes = data.draw(st.integers(2, 5))
    rates = st.sampled_from([1.0, 4.0, 32.0])
    members = [
        member(
            data.draw(st.sampled_from([None, battery(60.0)])),
            radio=RadioModel(
                up=data.draw(rates),
                down=data.draw(rates),
                latency=data.draw(st.sampled_from([0.0, 0.5])),
                energy_down=0.5,
                loss=data.draw(st.sampled_from([NoLoss(), LOSSY])),
                framing=FRAMING,
                tries=data.draw(st.sampled_from([1, None])),
                base=1.0,
            ),
        )
        for _ in range(nodes)
    ]
    seed = data.draw(st.integers(0, 9))
    graph = nx.compose(nx.path_graph(nodes), nx.gnp_random_graph(nodes, 0.5, seed=seed))
    run = play(
        peers(
            members,
            neighbours=overlay(graph),
            seed=seed,
            participation=participation_of(deadline=200.0),
            stop=Stop.in_si(rounds=4, time=data.draw(st.sampled_from([150.0, 1e4]))),
        )
    )
    assert run.error is None
    assert all(row["duration"] >= 0.0 and row["joules"] >= 0.0 for row in run.rows)
    check_pairs(run)


def test_the_ring_is_that_of_three() -> None:
    assert RING.neighbours == ((1, 2), (0, 2), (0, 1))
    assert RING.weights(0) == {1: 1 / 3, 2: 1 / 3}
    assert LINE.weights(0) == {1: 1 / 3}


def test_an_exchange_that_was_cancelled_leaves_the_next_one_free_and_without_its_timer() -> None:
    closed: list[tuple[float, int]] = []

    async def live(node: SimNode) -> None:
        if node.id == 1:
            await node.compute(work(5.0))
            await node.exchange(asked())
            await node.compute(work(1.5))
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(3.0):
                    await node.exchange(asked())
        # Opened at 3 s by node 0, at 6.5 s by node 1. A deadline of 4 s that is left from 0 s would
        # close it at 4 s.
        replies = await node.exchange(asked())
        closed.append((node.now, len(replies)))
        while True:
            node.commit(np.zeros(1))
            await node.exchange(asked())

    pair = overlay(nx.path_graph(2))
    members = fleet(*[(member().device, IDEAL)] * 2)
    play(peers(members, live, pair, participation=participation_of(deadline=4.0), **once()))
    assert closed[0] == (6.5, 1)
