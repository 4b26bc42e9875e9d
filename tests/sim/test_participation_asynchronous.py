"""An asynchronous server: it reacts to what arrives, and asks those who have nothing to do."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.policies import participation_of
from tests.tiers import examples

from .physical import Told, gathered, member, online, spans, tired, told
from .worlds import Run, asked, play, setup, work


def test_with_a_buffer_of_one_every_reply_is_a_round_and_who_has_replied_is_asked_again() -> None:
    policy = participation_of(buffer=1)
    run, seen = gathered(tired(2.0, 3.25, 5.0), [member()] * 3, 6, participation=policy)
    assert seen == [
        (2.0, [(0, 1)]),
        (3.25, [(1, 1)]),  # each answers the round in which it was asked
        (4.0, [(0, 2)]),
        (5.0, [(2, 1)]),
        (6.0, [(0, 4)]),
        (6.5, [(1, 3)]),
    ]
    assert [row["cohort"] for row in run.rounds] == [3, 1, 1, 1, 1, 1]
    assert run.of("late") == []
    assert spans(run, "compute", 0) == [(0.0, 2.0), (2.0, 4.0), (4.0, 6.0), (6.0, 6.5)]


def test_a_buffer_is_filled_before_anybody_is_asked_again() -> None:
    policy = participation_of(buffer=2)
    run, seen = gathered(tired(2.0, 3.25, 9.0), [member()] * 3, 3, participation=policy)
    assert seen == [
        (3.25, [(0, 1), (1, 1)]),
        (6.5, [(0, 2), (1, 2)]),
        (9.0, [(0, 3), (2, 1)]),
    ]
    assert spans(run, "compute", 0) == [(0.0, 2.0), (3.25, 5.25), (6.5, 8.5)]


def by_hand(works: Sequence[float], buffer: int, rounds: int) -> list[Told]:
    """Let each of them work, wait until its round is closed, and work again."""
    due, asked_in, seen = dict[int, float](), dict[int, int](), list[Told]()
    now = 0.0
    for number in range(1, rounds + 1):
        for client, seconds in enumerate(works):
            if client not in due:
                due[client], asked_in[client] = now + seconds, number
        first = sorted(due, key=due.__getitem__)[:buffer]
        now = max(due.pop(client) for client in first)
        seen.append((now, sorted((client, asked_in[client]) for client in first)))
    return seen


@examples(40)
@given(
    st.permutations([1.0 + 2**-9, 2.0 + 2**-11, 4.0 + 2**-13, 7.0 + 2**-7]),
    st.integers(1, 4),
    st.integers(1, 12),
)
def test_buffered_rounds_are_as_by_hand(works: list[float], buffer: int, rounds: int) -> None:
    policy = participation_of(buffer=buffer)
    _, seen = gathered(tired(*works), [member()] * 4, rounds, participation=policy)
    assert seen == by_hand(works, buffer, rounds)


def most_at_once(run: Run, clients: int) -> int:
    """Return how many clients have worked at the same time at most."""
    edges = [
        edge
        for client in range(clients)
        for begin, end in spans(run, "compute", client)
        for edge in ((begin, 1), (end, -1))
    ]
    count = most = 0
    for _, step in sorted(edges):  # at one instant, ends come first
        count += step
        most = max(most, count)
    return most


@pytest.mark.parametrize("buffer", [1, 3])
def test_no_more_work_at_once_than_may(buffer: int) -> None:
    async def handle(client: SimClient, message: Message) -> Message | Silence:
        await client.compute(work(1.0 + client.rng.random()))
        return SILENCE

    policy = participation_of(buffer=buffer, concurrency=3)
    run, _ = gathered(handle, [member()] * 8, 120, participation=policy)
    assert most_at_once(run, 8) == 3
    sampled = told(run, "sampled", "round", "node")
    assert len(sampled) == sum(row["cohort"] for row in run.rounds)
    times = Counter(node for _, node in sampled)
    assert len(times) == 8  # whoever has nothing to do may be drawn
    assert max(times.values()) < 2 * min(times.values())


def test_a_client_that_works_is_never_asked_a_second_time() -> None:
    policy = participation_of(buffer=1, concurrency=2)
    run, _ = gathered(tired(2.0, 3.25, 5.0), [member()] * 3, 20, participation=policy)
    for client in range(3):
        work_spans = spans(run, "compute", client)
        heard = [end for _, end in spans(run, "receive", client)]
        for (begin, _), t in zip(work_spans, heard, strict=True):
            assert begin == t  # it begins at once, so nothing has waited for it


def test_who_goes_away_amid_its_work_is_asked_again_once_it_is_back() -> None:
    members = [member(), member(None, online(0.0, 1.0, 4.5, inf))]
    policy = participation_of(buffer=1)
    run, seen = gathered(tired(2.0, 3.0), members, 5, participation=policy)
    # It is back at 4.5 s; the next reply, at 6 s, opens the round that asks it again.
    assert [t for t, _ in seen] == [2.0, 4.0, 6.0, 8.0, 9.0]
    assert seen[-1] == (9.0, [(1, 4)])
    assert spans(run, "compute", 1) == [(0.0, 1.0), (6.0, 9.0)]


def test_all_who_work_may_go_away_and_the_server_asks_whoever_comes_back_first() -> None:
    members = [member(None, online(0.0, 1.0, 7.0, inf)), member(None, online(0.0, 1.5, 5.0, inf))]
    policy = participation_of(buffer=1)
    run, seen = gathered(tired(2.0, 2.25), members, 2, participation=policy)
    # The round in which both have gone is over with the second of them: without a reply, no step.
    assert told(run, "abandoned", "t", "round") == [(1.5, 1)]
    assert seen == [(7.25, [(1, 2)]), (9.25, [(0, 3)])]
    assert [row["cohort"] for row in run.rounds] == [2, 1, 2]


def test_what_comes_while_the_server_does_something_else_counts_for_the_next_round() -> None:
    seen = list[Told]()

    async def serve(server: SimServer) -> None:
        for _ in range(3):
            replies = await server.exchange(asked())
            seen.append((server.now, [(reply.client, reply.round) for reply in replies]))
            server.commit(server.initial)
            await asyncio.sleep(1.5)

    policy = participation_of(buffer=1)
    run = play(setup(serve, tired(1.0, 2.0), [member()] * 2, participation=policy))
    assert seen == [(1.0, [(0, 1)]), (3.5, [(0, 2), (1, 1)]), (6.0, [(0, 3), (1, 2)])]
    assert told(run, "late", "t", "node") == [(t, "client-1") for t in (2.0, 4.5, 7.0)]


@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_of_replies_that_come_at_once_a_round_takes_its_buffer(buffer: int) -> None:
    """Six clients alike report in one instant, again and again: the rounds share them out."""
    policy = participation_of(buffer=buffer)
    _, seen = gathered(tired(*[2.0] * 6), [member()] * 6, 12 // buffer, participation=policy)
    assert [len(replies) for _, replies in seen] == [buffer] * (12 // buffer)
    clients = [client for _, replies in seen for client, _ in replies]
    assert sorted(clients[:6]) == sorted(clients[6:]) == list(range(6)), "each before any again"
    assert {now for now, _ in seen[: 6 // buffer]} == {2.0}
    assert {now for now, _ in seen[6 // buffer :]} == {4.0}
