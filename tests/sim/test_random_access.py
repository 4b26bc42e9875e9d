"""ALOHA among peers: throughput, collisions against brute force, backoffs, and what they cost."""

from itertools import pairwise
from math import exp, sqrt
from typing import Any

import networkx as nx
import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.physics.medium import Medium, RadioGraph
from fedsim.physics.overlay import Overlay
from fedsim.protocol.stopping import Stop
from fedsim.sim.peers import SimNode
from tests.policies import participation_of
from tests.tiers import every

from .peers import overlay, peers, talk
from .physical import member
from .test_medium import RADIO, SCENARIO, T, spent, towards
from .worlds import Run, asked, fleet, play, work

FOR_EVER = 1e7
"""s, more than any run here takes."""

SENT = ("send", "retransmit", "forward")


def world(
    neighbours: Overlay,
    in_range: "nx.Graph[int] | None" = None,
    *,
    live: Any = talk,
    rounds: int = 1,
    stop: Stop | None = None,
    seed: int = 1,
    deadline: float | None = None,
    access: str = "aloha",
    **medium: Any,
) -> Run:
    nodes = len(neighbours.neighbours)
    near = neighbours if in_range is None else overlay(in_range)
    parts: dict[str, Any] = {}
    if deadline is not None:
        parts["participation"] = participation_of(deadline=deadline)
    return play(
        peers(
            fleet(*[(member().device, RADIO)] * nodes),
            live,
            neighbours,
            medium=RadioGraph.of(Medium.in_si(access=access, **medium), near),
            stop=stop or Stop(rounds=rounds),
            seed=seed,
            **parts,
        )
    )


# Throughput: senders that each have one message, at the times of a Poisson process.


def offered(times: list[float], access: str) -> tuple[Run, set[int]]:
    """Send a message to node 0 at each time; return the run, and the senders that got through."""

    async def live(node: SimNode) -> None:
        if node.id:
            await node.compute(work(times[node.id - 1]))
            await node.exchange(asked())
        await node.compute(work(FOR_EVER))

    nodes = 1 + len(times)
    to = Overlay(((), *[(0,)] * len(times)), (tuple(range(1, nodes)), *[()] * len(times)))
    run = world(
        to,
        nx.star_graph(len(times)),
        live=live,
        stop=Stop.in_si(time=times[-1] + 10 * T),
        deadline=FOR_EVER,
        access=access,
        slot=T,
        tries=1,
    )
    return run, {int(row["peer"][7:]) for row in run.of("receive", detail=None)}


@pytest.mark.parametrize("load", [0.25, 0.5, 1.0])
def test_pure_aloha_delivers_a_share_of_exp_minus_2g(load: float) -> None:
    messages = 1000
    gaps = np.random.default_rng(7).exponential(T / load, messages)
    times = np.cumsum(gaps)
    _, through = offered(times.tolist(), "aloha")
    clear = np.append(np.diff(times) > T, True)  # of the next one
    alone = clear & np.append(True, clear[:-1])
    assert through == set((1 + np.flatnonzero(alone)).tolist())
    # A message needs a gap on both sides; neighbours in time share one of these.
    q = exp(-load)
    deviation = sqrt(messages * (q**2 * (1 - q**2) + 2 * (q**3 - q**4)))
    assert len(through) == pytest.approx(messages * exp(-2 * load), abs=4 * deviation)


@pytest.mark.parametrize("load", [0.5, 1.0])
def test_slotted_aloha_has_a_throughput_of_g_exp_minus_g(load: float) -> None:
    slots = 1000
    rng = np.random.default_rng(11)
    times = np.sort(rng.uniform(0.0, slots * T, rng.poisson(load * slots)))
    _, through = offered(times.tolist(), "slotted-aloha")
    numbers = np.ceil(times / T)
    alone = np.isin(numbers, [n for n in numbers if (numbers == n).sum() == 1])
    assert through == set((1 + np.flatnonzero(alone)).tolist())
    share = load * exp(-load)
    deviation = sqrt(slots * share * (1 - share))
    assert len(through) == pytest.approx(slots * share, abs=4 * deviation)


# What is paid.


def test_two_hidden_senders_collide_and_all_pay() -> None:
    to = Overlay(((1,), (), (1,)), ((), (0, 2), ()))
    run = world(to, nx.path_graph(3), tries=1, deadline=50.0)
    assert [spent(run, node) for node in range(3)] == [8.0, 8.0, 8.0]  # 1 has received two, of 4 J
    assert {row["detail"] for row in run.of("receive") if row["joules"]} == {"collision"}
    assert [row["node"] for row in run.of("lost")] == ["client-0", "client-2"]
    assert run.rounds[0]["bits_up"] == 16


def test_who_sends_does_not_hear_and_pays_for_no_reception() -> None:
    run = world(overlay(nx.path_graph(2)), tries=1, deadline=50.0)
    assert [spent(run, node) for node in (0, 1)] == [8.0, 8.0]


def test_a_receiver_pays_until_it_sends_itself() -> None:
    async def live(node: SimNode) -> None:
        if node.id == 1:
            await node.compute(work(T / 4))
        await node.exchange(asked())
        node.commit(node.initial)

    run = world(overlay(nx.path_graph(2)), live=live, tries=1, deadline=50.0)
    computed = spent(run, 1) - sum(
        row["joules"] for row in run.rows if row["node"] == "client-1" and row["event"] == "compute"
    )
    assert spent(run, 0) == 8.0  # it sends as 1 begins
    assert computed == pytest.approx(8.0 + 4.0 / 4)


def test_each_further_try_is_charged_and_paid() -> None:
    run = world(overlay(nx.complete_graph(4)), rounds=3)
    tries = len(run.of("send")) + len(run.of("retransmit"))
    assert len(run.of("send")) == 12
    assert tries > 12
    assert sum(row["bits_up"] for row in run.rounds) == 8 * tries
    sent = sum(row["joules"] for row in (*run.of("send"), *run.of("retransmit")))
    assert sent == 8.0 * tries
    assert not run.of("lost")
    assert len(run.of("receive", detail=None)) == 3 * 12


# Collisions, again, from the log.


def transmissions(run: Run) -> list[tuple[float, float, int]]:
    """Return when each began and ended, and its sender."""
    return [
        (row["t"] - row["duration"], row["t"], int(row["node"][7:]))
        for event in SENT
        for row in run.of(event)
        if row["duration"] and (event != "forward" or row["payload_bits"] + row["header_bits"])
    ]


@every("access", ["aloha", "slotted-aloha"])
@every("broadcast", [True, False])
def test_a_reception_fails_if_another_is_in_range(access: str, broadcast: bool) -> None:
    graph = nx.random_geometric_graph(24, 0.3, seed=3)
    graph.add_edges_from(nx.path_graph(24).edges)
    run = world(overlay(graph), rounds=2, access=access, slot=1.1 * T, broadcast=broadcast)
    sent = transmissions(run)
    outcomes = {None: 0, "collision": 0}
    for row in run.of("receive"):
        node, peer, end = int(row["node"][7:]), int(row["peer"][7:]), row["t"]
        begin = end - row["duration"]
        others = {node, *graph.adj[node]}
        met = any(
            sender in others and min(end, stop) - max(begin, start) > 1e-9
            for start, stop, sender in sent
            if not (sender == peer and abs(stop - end) < 1e-9)
        )
        assert met == (row["detail"] == "collision")
        outcomes[row["detail"]] += 1
    assert min(outcomes.values()) > 0
    assert outcomes[None] == 2 * 2 * graph.number_of_edges()  # all of it arrives in the end
    if access == "slotted-aloha":
        begins = np.array([begin for begin, *_ in sent]) / (1.1 * T)
        assert begins == pytest.approx(np.round(begins))


@pytest.mark.parametrize("window", [1, 4])
def test_backoffs_are_within_windows_that_double(window: int) -> None:
    run = world(overlay(nx.complete_graph(8)), window=window)
    waits = dict[int, list[float]]()
    for node in range(8):
        own = sorted(each for each in transmissions(run) if each[2] == node)
        for number, (before, after) in enumerate(pairwise(own)):
            waits.setdefault(number, []).append((after[0] - before[1]) / T)
    assert len(waits) > 1
    for number, each in waits.items():
        assert max(each) <= window * 2**number
    assert max(map(max, waits.values())) > window  # later ones use more than the first window


def test_a_message_is_lost_after_its_tries() -> None:
    run = world(overlay(nx.complete_graph(6)), window=1, tries=2, deadline=200.0)
    again = [row["node"] for row in run.of("retransmit")]
    assert len(again) == len(set(again)) > 0
    got = len(run.of("receive", detail=None))
    assert got + len(run.of("receive", detail="lost")) == 6 * 5
    assert run.of("receive", detail="lost")


def test_a_seed_decides_the_backoffs() -> None:
    ring = overlay(nx.cycle_graph(6))
    runs = [world(ring, seed=seed) for seed in (1, 1, 2)]
    assert str(runs[0].rows) == str(runs[1].rows)
    assert runs[0].t != runs[2].t


def test_where_messages_take_no_time_nothing_collides() -> None:
    scenario = {**SCENARIO, "fleet": []}
    scenario["problem"] = {**SCENARIO["problem"], "split": {"kind": "iid", "clients": 6}}
    scenario["network"] = {"peers": {"kind": "ring"}, "medium": {"access": "aloha"}}
    assert "retransmit" not in set(fedsim.run(scenario).events["event"])


def test_a_relay_sends_again_what_the_next_node_has_missed() -> None:
    run = world(towards(0, (3,), 4), nx.path_graph(4))
    assert [row["t"] for row in run.of("receive", detail=None)] == pytest.approx([3 * T])
    # Two messages towards each other meet at the node in the middle.
    both = Overlay(((2,), (), (0,)), ((2,), (), (0,)))
    run = world(both, nx.path_graph(3))
    assert len(run.of("receive", detail=None)) == 2
    assert run.of("forward", detail="collision")


# Scenarios.


def medium_of(**medium: Any) -> dict[str, Any]:
    return {**SCENARIO, "network": {"peers": {"kind": "ring"}, "medium": medium}}


def test_nothing_is_lost_with_unlimited_tries() -> None:
    free = fedsim.run(medium_of(access="csma"))
    random = fedsim.run(medium_of(access="aloha"))
    assert random.rounds["objective"].tolist() == free.rounds["objective"].tolist()
    assert random.rounds["t"].iloc[-1] > free.rounds["t"].iloc[-1]
    edges = random.edges
    assert edges["messages"].tolist() == [2] * 12
    assert not edges["lost"].any()


LIMITED = {"access": "aloha", "tries": 3}
EF21 = {"up": {"compressor": {"kind": "qsgd", "levels": 16}, "error_feedback": "ef21"}}
ENDS = {"kind": "full", "deadline": "1 s"}


@every(
    ("scenario", "key", "words"),
    [
        (medium_of(access="csma", tries=3), "network.medium.tries", "nothing collides under csma"),
        (medium_of(window=2), "network.medium.window", "use aloha"),
        (medium_of(access="slotted-aloha", slot="0 s"), "network.medium.slot", "give slots a"),
        (medium_of(**LIMITED), "network.medium.tries", "add participation.deadline"),
        (
            {**medium_of(**LIMITED), "participation": ENDS, "wire": EF21},
            "wire.up.error_feedback",
            "network.medium.tries",
        ),
    ],
)
def test_what_cannot_be_is_refused(scenario: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(scenario)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message
