"""Rounds that are given up: what has come is late, the model stays, the next round asks anew."""

import asyncio
from math import inf, isnan

import pytest

from fedsim.core.errors import Deadlock
from fedsim.core.ports import Message
from fedsim.protocol.participation import Participation
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.server import SimServer
from tests.policies import participation_of

from .worlds import IDEAL as RADIO
from .worlds import SLOW, Run, answered, asked, fleet, play, setup

TWO = fleet((SLOW, RADIO), (SLOW, RADIO))

Told = list[tuple[float, int, list[tuple[int, int]]]]


def answering(*waits: list[float]) -> Handler:
    """Each client waits so long before its first answer, its second, and so on; at the end none."""
    left = [list(each) for each in waits]

    async def handle(client: SimClient, message: Message) -> Message:
        own = left[client.id]
        await asyncio.sleep(own.pop(0) if own else 0.0)
        return answered()

    return handle


def told(handle: Handler, policy: Participation, rounds: int = 2) -> tuple[Run, Told]:
    """Commit so many rounds; return when each exchange was over, its round, and its replies."""
    seen: Told = []

    async def serve(server: SimServer) -> None:
        for _ in range(rounds):
            replies = await server.exchange(asked())
            told = [(reply.client, reply.round) for reply in replies]
            seen.append((server.now, server.round, told))
            server.commit(server.initial + server.round, figure=float(server.round))

    run = play(
        setup(serve, handle, TWO, participation=policy, evaluate=lambda model: float(model[0]))
    )
    return run, seen


ALL = participation_of(quorum=1.0, give_up=10.0)


def test_what_has_come_counts_for_the_next_round_and_the_model_stays() -> None:
    run, seen = told(answering([1.0, 1.0, 2.0], [1.0, 12.0]), ALL)
    # Asked at 1 s, client 1 answers at 13 s, when the round has been given up at 11 s for two.
    assert seen == [(1.0, 1, [(0, 1), (1, 1)]), (13.0, 3, [(0, 2), (0, 3), (1, 2), (1, 3)])]
    ((row,), late) = run.of("abandoned"), run.of("late")
    assert (row["t"], row["duration"], row["node"], row["round"]) == (11.0, 10.0, "server", 2)
    assert row["detail"] == "1 of 2 have reported, 2 are needed; missing: client-1"
    assert [(each["t"], each["node"], each["round"]) for each in late] == [
        (11.0, "client-0", 2),
        (13.0, "client-1", 2),
    ]
    assert {each["detail"] for each in late} == {"kept for the next round"}
    table = [(row["t"], row["round"], row["objective"], row["figure"]) for row in run.rounds]
    assert table == [(1.0, 1, 1.0, 1.0), (11.0, 2, 1.0, 1.0), (13.0, 3, 3.0, 3.0)]


def test_what_has_come_is_dropped_where_late_replies_are() -> None:
    policy = participation_of(quorum=1.0, give_up=10.0, keep_late=False)
    run, seen = told(answering([1.0], [12.0]), policy, 1)
    assert seen == [(12.0, 2, [(0, 2), (1, 2)])]
    assert {each["detail"] for each in run.of("late")} == {"dropped"}


def test_rounds_given_up_before_any_model_keep_the_initial_one() -> None:
    run, seen = told(answering([], [25.0]), ALL, 1)
    assert [when for when, _, _ in seen] == [25.0]
    figures = [(row["t"], row["objective"]) for row in run.rounds]
    start = run.rounds[0]["objective"]
    assert figures == [(10.0, start), (20.0, start), (25.0, start + 3.0)]
    missing = [row["figure"] for row in run.rounds[:2]]
    assert all(value is None or isnan(value) for value in missing)
    assert run.rounds[2]["figure"] == 3.0


def test_a_reply_at_the_very_moment_counts() -> None:
    run, seen = told(answering([10.0], [1.0]), ALL, 1)
    assert seen == [(10.0, 1, [(0, 1), (1, 1)])]
    assert run.of("abandoned") == []


def test_a_deadline_beside_a_quorum_is_waited_for_and_then_the_round_is_given_up() -> None:
    policy = participation_of(quorum=1.0, deadline=4.0, give_up=10.0)
    run, seen = told(answering([1.0], [12.0]), policy, 1)
    assert run.times("abandoned") == [10.0]
    assert [when for when, _, _ in seen] == [12.0]  # all have reported before the deadline


def test_a_round_that_nobody_can_report_in_ends_the_run_after_its_rounds() -> None:
    async def serve(server: SimServer) -> None:
        await server.exchange(asked())

    never = answering([inf], [inf])
    policy = participation_of(give_up=10.0)
    run = play(setup(serve, never, TWO, participation=policy, stop=Stop(rounds=5)))
    assert (run.reason, run.t) == ("rounds: 5 of 5", 50.0)
    assert len(run.of("abandoned")) == 5


def test_an_asynchronous_server_keeps_its_buffer_and_asks_anew() -> None:
    policy = participation_of(buffer=2, give_up=10.0)
    run, seen = told(answering([1.0, 3.0], [inf]), policy, 1)
    assert seen == [(13.0, 2, [(0, 1), (0, 2)])]
    assert run.of("late") == []
    (row,) = run.of("abandoned")
    assert (row["t"], row["detail"]) == (
        10.0,
        "1 of 2 have reported, 2 are needed; missing: client-1",
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (participation_of(), "0 of 2 have reported, 2 are needed; missing: client-0, client-1"),
        (participation_of(quorum=0.5), "0 of 2 have reported, 1 are needed"),
        (participation_of(buffer=2), "0 of 2 have reported, 2 are needed"),
    ],
)
def test_a_deadlock_speaks_of_clients_and_rounds(policy: Participation, words: str) -> None:
    run, _ = told(answering([inf], [inf]), policy)
    assert isinstance(run.error, Deadlock)
    assert "the server waits in round 1" in run.reason
    assert words in run.reason
    assert "participation.give_up" in run.reason
    assert "SimServer" not in run.reason
