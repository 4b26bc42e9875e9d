"""Nodes that meet in pairs, by hand: who waits, who is refused, and that nobody waits for ever."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import ClientId, Message, Reply
from fedsim.protocol.pairs import PairProtocol, Verdict
from fedsim.protocol.stopping import Stop
from fedsim.protocol.transport import BEACON, Envelope, LocalProtocolError, RemoteProtocolError
from fedsim.sim.peer_nodes import SimPairNode
from fedsim.wire.packers import Packing
from tests.policies import participation_of
from tests.sim.radios import RadioModel
from tests.tiers import examples

from .peers import RING, Living, overlay, peers
from .physical import battery, member
from .worlds import IDEAL, LOADS, Run, asked, fleet, play, work


class Pairing(Living):
    """An algorithm of pairs that is one function; nodes take the mean of what they have."""

    def answer(self, node: SimPairNode, offer: Reply) -> Message:
        node.model = node.model + 1.0
        return asked()


async def meet(node: SimPairNode) -> None:
    """Compute for as long as the number of the node tells, and meet a neighbour, for ever."""
    while True:
        await node.compute(work(1.0 + node.id / 8))
        one = node.neighbours[node.round % len(node.neighbours)] if node.neighbours else None
        if one is not None:
            await node.contact(one, asked())
        node.commit(node.model)


def pairs(members: Sequence[Any], live: Any = meet, **parts: Any) -> Run:
    return play(replace(peers(members, **parts), algorithm=Pairing(live)))


def check_balance(run: Run) -> None:
    """Every send has its receive, or what has become of it, and all bits are accounted for."""
    sent = Counter((row["node"], row["peer"], row["round"]) for row in run.of("send", detail=None))
    assert sent == Counter((row["peer"], row["node"], row["round"]) for row in run.of("receive"))
    meters = run.world.meters()
    assert meters.bits_sent == meters.bits_delivered + meters.bits_lost + meters.bits_in_flight


def end(node: ClientId) -> PairProtocol:
    others = [one for one in range(4) if one != node]
    packing = Packing(lambda *_: LOADS)
    return PairProtocol(node, others, packing, beacons=True, deadline=9.0, header_bits=16)


def offer(exchange: int) -> Envelope:
    return Envelope(asked(), 1, 2 * exchange, 16)


def test_an_end_answers_holds_or_refuses() -> None:
    """Earlier is who has made fewer exchanges, and then who has the smaller number."""
    me = end(1)
    assert me.receive_in_pair(0, offer(7)) is Verdict.ANSWER
    first = me.offer(2, asked())
    assert first.exchange == 2
    assert me.receive_in_pair(0, offer(1)) is Verdict.HOLD
    assert me.receive_in_pair(3, offer(1)) is Verdict.REFUSE
    assert me.receive_in_pair(2, offer(2)) is Verdict.REFUSE
    assert me.receive_in_pair(2, Envelope(asked(), 1, 5, 16)) is Verdict.DROPPED
    assert me.receive_in_pair(3, Envelope(asked(), 1, 3, 16)) is Verdict.DROPPED
    assert me.receive_in_pair(2, Envelope(asked(), 1, 3, 16)) is Verdict.OVER
    assert len(me.replies()) == 1
    assert me.receive_in_pair(3, offer(2)) is Verdict.REFUSE  # busy until it is released
    assert [sender for sender, _ in me.release()] == [0]
    me.offer(2, asked())
    assert me.receive_in_pair(3, offer(1)) is Verdict.HOLD
    assert me.receive_in_pair(2, me.answer(offer(2))) is Verdict.OVER
    assert me.replies() == []
    assert me.answer(offer(2)).message is BEACON


def test_an_end_refuses_what_cannot_be() -> None:
    me = end(1)
    me.offer(2, asked())
    with pytest.raises(LocalProtocolError, match="last exchange is not committed"):
        me.offer(3, asked())
    me.release()
    with pytest.raises(ValueError, match="client-9: no neighbour of client-1"):
        me.offer(9, asked())
    for sender, envelope in ((9, offer(1)), (2, offer(0))):
        with pytest.raises(RemoteProtocolError, match="what it cannot"):
            me.receive_in_pair(sender, envelope)


def test_who_gives_up_and_asks_again_is_held_once_and_who_leaves_is_not() -> None:
    me = end(3)
    me.offer(2, asked())
    assert me.receive_in_pair(0, offer(1)) is Verdict.HOLD
    assert me.receive_in_pair(0, offer(1)) is Verdict.HOLD
    assert me.receive_in_pair(1, offer(1)) is Verdict.HOLD
    assert not me.neighbour_left(1)
    assert [sender for sender, _ in me.release()] == [0]


def test_offers_that_cross_end_with_one_average() -> None:
    """Both offer at 1 s: node 1 is refused, and then answers what it has held back."""

    async def live(node: SimPairNode) -> None:
        await node.compute(work(1.0))
        reply = await node.contact(1 - node.id, asked())
        assert (reply is None) == (node.id == 1)
        node.commit(node.model)
        await node.sleep(100.0)

    radio = RadioModel(up=8.0, down=8.0)
    run = pairs(fleet(*[(member().device, radio)] * 2), live, neighbours=overlay(nx.path_graph(2)))
    assert [(row["t"], row["node"], row["message"]) for row in run.of("receive")] == [
        (3.0, "client-1", "question"),
        (3.0, "client-0", "question"),
        (3.0, "client-1", "beacon"),
        (5.0, "client-0", "question"),
    ]
    # A round is two commits, and the models are those after them: node 1 has answered by then.
    assert [row["consensus"] for row in run.rounds] == [0.5]


def test_a_node_has_no_common_exchange() -> None:
    async def live(node: SimPairNode) -> None:
        await node.exchange(asked())

    with pytest.raises(TypeError, match="contact a neighbour"):
        pairs(fleet(*[(member().device, IDEAL)] * 3), live)


def test_a_lost_answer_is_waited_for_until_the_deadline() -> None:
    async def live(node: SimPairNode) -> None:
        if node.id == 1:
            await node.sleep(1000.0)
        while True:
            assert await node.contact(1, asked()) is None
            node.commit(node.model)

    slow = RadioModel(up=1.0, down=1.0)
    members = fleet((member().device, slow), (member().device, slow))
    pair = overlay(nx.path_graph(2))
    policy = participation_of(deadline=20.0)
    run = pairs(members, live, neighbours=pair, participation=policy, stop=Stop(rounds=2))
    assert run.times("round") == [40.0, 80.0]
    assert {row["detail"] for row in run.of("late")} == {"dropped"}
    check_balance(run)


def test_the_others_go_on_without_one_that_leaves() -> None:
    radio = RadioModel(up=4.0, down=8.0, energy_up=1.0, energy_down=1.0)
    members = [member(radio=radio), member(battery(30.0), radio=radio), member(radio=radio)]
    run = pairs(members, stop=Stop(rounds=9))
    assert run.reason == "rounds: 9 of 9"
    assert [row["node"] for row in run.of("depleted")] == ["client-1"]
    assert [row["cohort"] for row in run.rounds][-1] == 2
    check_balance(run)


@examples(20)
@given(st.data())
def test_the_books_of_any_world_of_pairs_balance_and_nobody_waits_for_ever(
    data: st.DataObject,
) -> None:
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
            ),
        )
        for _ in range(nodes)
    ]
    seed = data.draw(st.integers(0, 9))
    graph = nx.compose(nx.path_graph(nodes), nx.gnp_random_graph(nodes, 0.5, seed=seed))
    run = pairs(members, neighbours=overlay(graph), seed=seed, stop=Stop(rounds=6))
    assert run.error is None
    check_balance(run)


def test_the_ring_of_three_has_conflicts() -> None:
    """Without them the tests above would show nothing."""
    radio = RadioModel(up=4.0, down=8.0)
    run = pairs(fleet(*[(member().device, radio)] * 3), neighbours=RING, stop=Stop(rounds=20))
    beacons = run.of("receive", message="beacon")
    assert len(beacons) > 5
    assert np.isfinite([row["consensus"] for row in run.rounds]).all()


def test_a_contact_that_was_cancelled_leaves_no_deadline_to_the_next_one() -> None:
    ended: list[tuple[float, bool]] = []

    async def live(node: SimPairNode) -> None:
        if node.id == 1:
            await node.sleep(1000.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await node.contact(1, asked())
        # The second one is opened at 3 s. A deadline that is left from 0 s would end it at 4 s.
        while True:
            node.commit(node.model)
            reply = await node.contact(1, asked())
            ended.append((node.now, reply is None))

    slow = RadioModel(up=1.0, down=1.0)
    pair, policy = overlay(nx.path_graph(2)), participation_of(deadline=4.0)
    members = fleet((member().device, slow), (member().device, slow))
    pairs(members, live, neighbours=pair, participation=policy, stop=Stop(rounds=2))
    assert ended[0] == (7.0, True)
