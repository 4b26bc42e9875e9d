"""A medium among nodes that move: closed forms of contacts, brute force over a log, and books."""

from itertools import combinations
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.physics.failures import OverlayInTime
from fedsim.physics.graphs_in_time import Contacts
from fedsim.physics.medium import Medium, RadioGraph
from fedsim.physics.overlay import Overlay
from fedsim.protocol.stopping import Stop
from tests.policies import participation_of
from tests.tiers import every

from .peers import overlay, peers
from .physical import battery, member
from .test_medium import RADIO, SCENARIO, T
from .worlds import Run, fleet, play

Given = list[tuple[int, int, float, float]]
"""Contacts: two nodes, begin and end, s."""


def radio_graph(contacts: Given, nodes: int, **medium: Any) -> RadioGraph:
    law = Contacts.model_validate({"kind": "contacts", "contacts": contacts})
    moves = OverlayInTime(nodes, law, lambda: np.random.default_rng(0))
    return RadioGraph.of(Medium.in_si(**medium), moves)


def world(
    neighbours: Overlay, contacts: Given, rounds: int = 1, deadline: float = 99.0, **medium: Any
) -> Run:
    nodes = len(neighbours.neighbours)
    return play(
        peers(
            fleet(*[(member().device, RADIO)] * nodes),
            neighbours=neighbours,
            medium=radio_graph(contacts, nodes, **medium),
            participation=participation_of(deadline=deadline),
            stop=Stop(rounds=rounds),
        )
    )


def one_way(nodes: int, *ways: tuple[int, int]) -> Overlay:
    to = tuple(tuple(b for a, b in ways if a == node) for node in range(nodes))
    back = tuple(tuple(a for a, b in ways if b == node) for node in range(nodes))
    return Overlay(to, back)


# Closed forms: a message takes 2 s, 8 J to send and 4 J to receive.


@every("access", ["csma", "node-exclusive", "tdma"])
@every(
    ("contacts", "joules", "detail"),
    [
        ([(0, 1, 0.0, 9.0)], 4.0, None),
        ([(0, 1, 0.0, T)], 4.0, None),  # it goes as the message ends
        ([(0, 1, 0.0, 0.5)], 1.0, "lost"),
        ([(0, 1, 0.0, 0.5), (0, 1, 0.75, 9.0)], 1.0, "lost"),  # it has missed a part
        ([(0, 1, 1.0, 9.0)], 0.0, "lost"),  # not there as it is sent
    ],
)
def test_a_receiver_misses_what_it_is_out_of_range_of(
    access: str, contacts: Given, joules: float, detail: str | None
) -> None:
    run = world(one_way(2, (0, 1)), contacts, access=access, slot=T)
    (row,) = run.of("receive")
    assert (row["joules"], row["detail"]) == (pytest.approx(joules), detail)
    (sent,) = run.of("send")
    assert sent["joules"] == pytest.approx(8.0 if contacts[0][2] == 0.0 else 0.0)
    assert bool(run.of("lost")) == (detail is not None)


def test_others_receive_what_one_has_missed() -> None:
    run = world(one_way(3, (0, 1), (0, 2)), [(0, 1, 0.0, 1.0), (0, 2, 0.0, 9.0)])
    assert {row["node"]: row["detail"] for row in run.of("receive")} == {
        "client-1": "lost",
        "client-2": None,
    }
    assert not run.of("lost")  # one has it


def test_two_that_come_into_range_on_the_air_collide() -> None:
    """0 sends to 1 and 2 to 3, which do not hear each other; from 1 s on, 1 hears 2."""
    ways = one_way(4, (0, 1), (2, 3))
    apart = [(0, 1, 0.0, 9.0), (2, 3, 0.0, 9.0)]
    for contacts, lost in ((apart, set()), ([*apart, (1, 2, 1.0, 9.0)], {"client-1"})):
        run = world(ways, contacts)
        assert {row["node"] for row in run.of("receive", detail="lost")} == lost
        assert run.of("receive", node="client-1")[0]["joules"] == pytest.approx(4.0)
    alone = world(ways, [*apart, (1, 2, 1.0, 9.0)], access="node-exclusive")
    assert not alone.of("receive", detail="lost")  # on channels of their own


def test_who_waits_sends_as_soon_as_the_other_is_out_of_range() -> None:
    """Both have 3 s of the medium to themselves, from the moment on at which they part."""
    contacts = [(0, 1, 0.0, 9.0), (2, 3, 0.0, 9.0), (0, 2, 0.0, 0.5)]
    run = world(one_way(4, (0, 1), (2, 3)), contacts)
    ends = {row["node"]: row["t"] for row in run.of("send")}
    assert ends == {"client-0": pytest.approx(T), "client-2": pytest.approx(0.5 + T)}


def test_a_message_takes_the_hops_that_there_are_as_it_goes_on() -> None:
    """1 has it as the edge to its receiver goes: it takes the longer way over 2."""
    contacts = [(0, 1, 0.0, 99.0), (1, 3, 0.0, 1.0), (1, 2, 0.0, 99.0), (2, 3, 0.0, 99.0)]
    run = world(one_way(4, (0, 3)), contacts)
    (row,) = run.of("receive")
    assert (row["t"], row["node"], row["peer"]) == (pytest.approx(3 * T), "client-3", "client-0")
    assert [row["node"] for row in run.of("forward") if row["payload_bits"]] == [
        "client-1",
        "client-2",
    ]


def test_aloha_sends_again_what_was_out_of_range_and_gives_up_where_no_way_leads() -> None:
    for contacts, arrives in (
        ([(0, 1, 0.0, 0.5), (0, 1, 1.0, 99.0)], True),
        ([(0, 1, 0.0, 0.5)], False),
    ):
        run = world(one_way(2, (0, 1)), contacts, access="aloha", window=1)
        first, last = run.of("receive")
        assert (first["detail"], first["joules"]) == ("missed", pytest.approx(1.0))
        assert (last["detail"] is None) == arrives
        assert len(run.of("retransmit")) == arrives


def test_each_node_that_moves_has_a_slot_of_its_own() -> None:
    nodes = 5
    everyone = [(one, other, 0.0, 99.0) for one, other in combinations(range(nodes), 2)]
    run = world(overlay(nx.complete_graph(nodes)), everyone, access="tdma", slot=T)
    assert sorted(row["t"] for row in run.of("send")) == pytest.approx(
        [T * (1 + node) for node in range(nodes)]
    )


# Brute force: what each reception should have been, from the log and the contacts alone.


class Sent(NamedTuple):
    begin: float
    end: float
    sender: int
    receivers: list[tuple[int, float, str | None]]  # with joules and detail


def transmissions(run: Run) -> list[Sent]:
    """Return all that was on the air, with what each receiver had of it."""
    found = list[Sent]()
    for row in run.rows:
        if row["event"] not in {"send", "retransmit", "forward", "receive"} or not row["duration"]:
            continue
        node = int(row["node"][7:])
        sends = row["event"] in {"send", "retransmit"} or row["payload_bits"] + row["header_bits"]
        if sends and row["event"] != "receive":
            found.append(Sent(row["t"] - row["duration"], row["t"], node, []))
        else:
            assert row["t"] == found[-1].end  # rows of receivers follow those of their sender
            found[-1].receivers.append((node, row["joules"], row["detail"]))
    return found


def drawn(nodes: int, seed: int) -> Given:
    rng = np.random.default_rng(seed)
    found: Given = []
    for one, other in combinations(range(nodes), 2):
        ends = np.cumsum(rng.exponential(6.0, 60)).tolist()
        found += [
            (one, other, begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True)
        ]
    return found


@every("access", ["csma", "aloha", "slotted-aloha", "node-exclusive", "tdma"])
@every("broadcast", [True, False])
def test_receptions_are_those_of_brute_force(access: str, broadcast: bool) -> None:
    nodes, tiny = 7, 1e-9
    contacts = drawn(nodes, 3)
    neighbours = overlay(nx.cycle_graph(nodes))
    made: dict[str, Any] = {"access": access, "broadcast": broadcast, "slot": 1.1 * T, "rounds": 3}
    run = world(neighbours, contacts, deadline=60.0, **made)
    assert run.error is None
    sent = transmissions(run)
    by_pair: dict[frozenset[int], list[tuple[float, float]]] = {}
    for *pair, begin, end in contacts:
        by_pair.setdefault(frozenset(map(int, pair)), []).append((begin, end))

    def meets(one: int, other: int, begin: float, end: float) -> bool:
        """Return whether two are in range, or the same, at any time between two others."""
        if one == other:
            return end - begin > tiny
        spans = by_pair.get(frozenset((one, other)), [])
        return any(min(end, b) - max(begin, a) > tiny for a, b in spans)

    details = dict.fromkeys((True, False), 0)
    for each in sent:
        overlaps = [
            (other.sender, max(each.begin, other.begin), min(each.end, other.end))
            for other in sent
            if other is not each
        ]
        if access == "csma":  # as it begins, no other is in range of it, nor of its receivers
            ends = each.sender, *(node for node, *_ in each.receivers)
            for other in sent:
                if other.begin < each.begin - tiny and other.end > each.begin + tiny:
                    now = each.begin, each.begin + 10 * tiny
                    assert not any(meets(other.sender, end, *now) for end in ends)
                    assert not any(meets(each.sender, node, *now) for node, *_ in other.receivers)
        for node, joules, detail in each.receivers:
            stays = [
                end
                for begin, end in by_pair[frozenset((each.sender, node))]
                if begin <= each.begin + tiny < end
            ]
            disturbed = access not in {"node-exclusive", "tdma"} and any(
                meets(other, node, begin, end) for other, begin, end in overlaps
            )
            own = [
                begin
                for other, begin, end in overlaps
                if other == node and end - begin > tiny and access != "tdma"
            ]
            until = min(stays[0], each.end, *own)
            complete = until > each.end - tiny and not disturbed
            assert (detail is None) == complete
            details[complete] += 1
            if access != "tdma":  # where what is longer than the rest of a slot has gaps
                assert joules == pytest.approx(4.0 * (until - each.begin) / T)
    assert min(details.values()) > 0


@every("seed", range(12))
def test_the_books_balance_where_nodes_move_and_die(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 7))
    access = ["csma", "aloha", "slotted-aloha", "node-exclusive", "tdma"][seed % 5]
    members = [
        member(battery(60.0) if rng.random() < 0.4 else None, radio=RADIO) for _ in range(nodes)
    ]
    run = play(
        peers(
            members,
            neighbours=overlay(nx.complete_graph(nodes)),
            medium=radio_graph(
                drawn(nodes, seed), nodes, access=access, slot=T, broadcast=bool(seed % 2)
            ),
            seed=seed,
            participation=participation_of(deadline=40.0),
            stop=Stop.in_si(rounds=4, time=float(rng.choice([30.0, 75.0, 1e4]))),
        )
    )
    assert run.error is None


# Of scenarios.

WALKS: dict[str, Any] = {
    "kind": "random-waypoint",
    "range": "60 m",
    "width": "100 m",
    "height": "100 m",
    "max_speed": "9 m/s",
}
SOON = {"participation": {"kind": "full", "deadline": "2 s"}}


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"network": {"peers": WALKS, "medium": {}}}, "participation.deadline", "out of range"),
        (
            {
                "network": {
                    "peers": {"kind": "ring"},
                    "medium": {"graph": {**WALKS, "every": "1 s"}},
                },
                **SOON,
            },
            "network.medium.graph.every",
            "leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(SCENARIO | change)
    (fault,) = caught.value.faults
    assert (fault.key, words in fault.message) == (key, True), fault.message


@pytest.mark.slow
@every("access", ["csma", "tdma", "aloha"])
@every(
    "law",
    [
        WALKS,
        {"kind": "levy-walk", "range": "60 m", "width": "100 m", "height": "100 m"},
        {
            "kind": "positions",
            "range": "60 m",
            "points": [[node, 0, 10 * node, 0] for node in range(6)],
        },
    ],
)
def test_walkers_share_a_medium(access: str, law: dict[str, Any]) -> None:
    medium: dict[str, Any] = {"access": access, "slot": "1 ms"}
    network = {"peers": {**law, "every": "3 s"}, "medium": medium}
    block = SCENARIO | SOON | {"network": network}
    said = str(fedsim.check(block).graphs)
    assert "which come and go" in said
    arrived = fedsim.run(block).events["event"].eq("receive").sum()
    assert arrived
    # A range of its own, and the same walk: all that was in range before still is.
    medium["graph"] = {**law, "range": "90 m"}
    assert fedsim.run(block).events["event"].eq("receive").sum() >= arrived
