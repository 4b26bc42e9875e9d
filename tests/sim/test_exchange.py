"""An exchange: who is asked, when it closes, what silence is, and what becomes of the late."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

import pytest

from fedsim.core.errors import Deadlock
from fedsim.core.ports import SILENCE, Message, Reply, Silence
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.server import SimServer
from tests.policies import participation_of, silence_of
from tests.tiers import every

from .links import ServerLink
from .worlds import IDEAL, SLOW, Run, answered, asked, deadline, fleet, play, setup, work

Told = tuple[float, list[tuple[int, int]]]
"""When an exchange closed, and who answered which round."""

FOUR = fleet(*[(SLOW, IDEAL)] * 4)
THREE_WAYS = every("link", [ServerLink(), ServerLink(2.0**20, 2.0**20), ServerLink(latency=0.0)])


def after(*seconds: float) -> Handler:
    """A handler that answers after so long, by client; silent at once where that is infinite."""

    async def handle(client: SimClient, message: Message) -> Message | Silence:
        if seconds[client.id] == inf:
            return SILENCE
        await client.compute(work(seconds[client.id]))
        return answered()

    return handle


def exchanges(
    handle: Handler,
    silence: SilencePolicy,
    cohorts: Sequence[Sequence[int] | None] = (None, None),
    **parts: Any,
) -> tuple[Run, list[Told]]:
    """Hold an exchange with each cohort, each in a round of its own."""
    told = list[Told]()

    async def serve(server: SimServer) -> None:
        for cohort in cohorts:
            replies = await server.exchange(asked(), to=cohort)
            assert all(isinstance(reply, Reply) for reply in replies)
            told.append((server.now, [(reply.client, reply.round) for reply in replies]))
            server.commit(server.initial)

    parts.setdefault("members", FOUR)
    return play(setup(serve, handle, silence=silence, **parts)), told


def test_it_closes_when_the_last_has_answered_and_sorts_by_client() -> None:
    _, told = exchanges(after(3.0, 1.0, 2.0, 0.5), silence_of())
    assert told == [(3.0, [(n, 1) for n in range(4)]), (6.0, [(n, 2) for n in range(4)])]


def test_a_beacon_is_a_header_that_closes_the_round_and_says_nothing() -> None:
    run, told = exchanges(after(inf, 1.0, 2.0, inf), silence_of(), header_bits=96)
    assert told == [(2.0, [(1, 1), (2, 1)]), (4.0, [(1, 2), (2, 2)])]
    assert [row["node"] for row in run.of("silent", round=1)] == ["client-0", "client-3"]
    beacons = run.of("receive", node="server", message="beacon")
    assert [(row["payload_bits"], row["header_bits"]) for row in beacons] == [(0, 96)] * 4
    assert (run.rounds[0]["transmissions"], run.rounds[0]["beacons"]) == (2, 2)
    assert run.rounds[0]["bits_up"] == 2 * (8 + 96) + 2 * 96
    assert run.rounds[0]["bits_down"] == 4 * (8 + 96)


def test_silence_under_a_deadline_sends_nothing_and_costs_the_time() -> None:
    run, told = exchanges(after(inf, 1.0, 2.0, inf), deadline(5.0), header_bits=96)
    assert told == [(5.0, [(1, 1), (2, 1)]), (10.0, [(1, 2), (2, 2)])]
    assert len(run.of("silent")) == 4
    assert (run.rounds[0]["transmissions"], run.rounds[0]["beacons"]) == (2, 0)
    assert run.rounds[0]["bits_up"] == 2 * (8 + 96)


def test_a_deadline_does_not_delay_a_round_in_which_all_answer() -> None:
    run, told = exchanges(after(1.0, 1.0, 2.0, 1.5), deadline(50.0))
    assert [t for t, _ in told] == [2.0, 4.0]
    assert run.t == 4.0


@THREE_WAYS
def test_a_reply_at_the_very_deadline_counts(link: ServerLink) -> None:
    # Without a shared link all is exact; with one, 8 bits take 2^-17 s either way.
    way = 0.0 if link.downlink == inf else 8.0 * 4 / 2.0**20 + 8.0 / 2.0**20
    work_until = 2.0 - way
    run, told = exchanges(
        after(work_until, inf, inf, inf), deadline(2.0), server=link, cohorts=[None]
    )
    assert told == [(2.0, [(0, 1)])]
    assert run.of("late") == []


def test_a_reply_one_float_after_the_deadline_is_late() -> None:
    run, told = exchanges(after(2.0000000000000004, inf, inf, inf), deadline(2.0))
    assert told[0] == (2.0, [])
    assert run.times("late") == [2.0000000000000004]


def test_a_deadline_of_no_time_leaves_what_takes_no_time() -> None:
    _, told = exchanges(after(0.0, inf, 0.0, 1.0), deadline(0.0), cohorts=[None])
    assert told == [(0.0, [(0, 1), (2, 1)])]


def test_what_is_late_counts_for_the_round_in_which_it_arrives() -> None:
    # Client 0 answers round 1 at 3, amid round 2; round 2 at 6, amid round 3.
    run, told = exchanges(after(3.0, 1.0, inf, inf), deadline(2.0), cohorts=[None] * 4)
    assert told == [
        (2.0, [(1, 1)]),
        (4.0, [(0, 1), (1, 2)]),
        (6.0, [(0, 2), (1, 3)]),
        (8.0, [(1, 4)]),
    ]
    late = [(row["t"], row["node"], row["round"], row["detail"]) for row in run.of("late")]
    assert late == [(t, "client-0", t // 3, "kept for the next round") for t in (3.0, 6.0)]


def test_what_is_late_is_dropped_where_the_policy_says_so() -> None:
    run, told = exchanges(after(3.0, 1.0, inf, inf), deadline(2.0, keep_late=False))
    assert [replies for _, replies in told] == [[(1, 1)], [(1, 2)]]
    assert [row["detail"] for row in run.of("late")] == ["dropped"]


def test_a_late_beacon_says_nothing_whatever_the_policy() -> None:
    async def handle(client: SimClient, message: Message) -> Silence:
        await client.compute(work(3.0))
        return SILENCE

    silence = silence_of(beacon=True, after=2.0)
    run, told = exchanges(handle, silence, cohorts=[[0]], stop=Stop(rounds=2))
    # The beacon comes at 3 s, one round late: it answers none, so no round is a step.
    assert told == []
    assert run.times("late") == [3.0]
    assert [row["detail"] for row in run.of("late")] == ["dropped"]
    assert [(row["t"], row["round"]) for row in run.of("abandoned")] == [(2.0, 1), (4.0, 2)]


def test_a_beacon_in_time_is_an_answer_although_it_says_nothing() -> None:
    run, told = exchanges(after(inf, inf, inf, inf), silence_of(beacon=True, after=2.0))
    assert told == [(0.0, []), (0.0, [])]
    assert run.of("abandoned") == []


def test_silence_until_a_deadline_is_an_answer_where_silence_is_not_sent() -> None:
    run, told = exchanges(after(inf, inf, inf, inf), deadline(5.0))
    assert told == [(5.0, []), (10.0, [])]
    assert run.of("abandoned") == []


def test_only_the_cohort_is_asked_and_in_the_order_of_its_numbers() -> None:
    run, told = exchanges(after(1.0, 1.0, 1.0, 1.0), silence_of(), cohorts=[[3, 1], [2], [0]])
    assert told == [(1.0, [(1, 1), (3, 1)]), (2.0, [(2, 2)]), (3.0, [(0, 3)])]
    asked_in_order = [row["node"] for row in run.of("receive", peer="server")]
    assert asked_in_order == ["client-1", "client-3", "client-2", "client-0"]
    assert [row["cohort"] for row in run.rounds] == [2, 1, 1]


def test_asking_nobody_takes_no_time_and_returns_what_came_late() -> None:
    _, told = exchanges(after(3.0, 1.0, 1.0, 1.0), deadline(2.0), cohorts=[[], [0], [1], []])
    assert told == [(0.0, []), (2.0, []), (3.0, [(0, 2), (1, 3)]), (3.0, [])]


def test_a_reply_to_an_earlier_exchange_does_not_close_a_later_one() -> None:
    # The late reply arrives at 3; the exchange that is open then waits for client 1 until 3.5.
    _, told = exchanges(after(3.0, 1.5, 1.0, 1.0), deadline(2.0), cohorts=[[0], [1]])
    assert told == [(2.0, []), (3.5, [(0, 1), (1, 2)])]


def test_a_reply_that_comes_while_nobody_waits_is_late() -> None:
    told = list[list[tuple[int, int]]]()

    async def serve(server: SimServer) -> None:
        for _ in range(2):
            replies = await server.exchange(asked(), to=[0])
            told.append([(reply.client, reply.round) for reply in replies])
            server.commit(server.initial)
            await asyncio.sleep(2.0)

    run = play(setup(serve, after(3.0), silence=deadline(2.0)))
    assert (told, run.times("late")) == ([[], [(0, 1)]], [3.0, 7.0])


def test_rounds_count_commits_and_not_exchanges() -> None:
    async def serve(server: SimServer) -> None:
        for _ in range(2):
            first = await server.exchange(asked(), to=[0])
            second = await server.exchange(asked(), to=[0])
            assert [reply.round for reply in (*first, *second)] == [server.round] * 2
            server.commit(server.initial)

    run = play(setup(serve, after(1.0)))
    assert [row["round"] for row in run.of("receive", node="server")] == [1, 1, 2, 2]
    assert len(run.rounds) == 2


def test_silence_that_nobody_announces_and_no_deadline_ends_is_a_deadlock() -> None:
    run, told = exchanges(after(inf, 1.0, 1.0, 1.0), silence_of(beacon=False))
    assert told == []
    assert isinstance(run.error, Deadlock)
    assert "the server waits in round 1: " in run.reason
    assert run.t == 1.0


@pytest.mark.parametrize("nobody", [-1, 4])
def test_a_client_that_does_not_exist_cannot_be_asked(nobody: int) -> None:
    with pytest.raises((IndexError, ValueError)):
        exchanges(after(1.0, 1.0, 1.0, 1.0), silence_of(), cohorts=[[nobody]])


def test_a_second_exchange_at_the_same_time_is_refused() -> None:
    async def serve(server: SimServer) -> None:
        await asyncio.gather(server.exchange(asked(), to=[0]), server.exchange(asked(), to=[1]))

    with pytest.raises(RuntimeError, match="an exchange is open"):
        play(setup(serve, after(1.0, 1.0), FOUR[:2]))


def test_an_exchange_that_was_cancelled_leaves_the_next_one_free() -> None:
    told = list[list[int]]()

    async def serve(server: SimServer) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await server.exchange(asked(), to=[0])
        told.append([reply.client for reply in await server.exchange(asked(), to=[1])])

    play(setup(serve, after(1.0, 1.0), FOUR[:2]))
    assert told[0][-1] == 1


@pytest.mark.parametrize("timer", ["deadline", "give_up"])
def test_an_exchange_that_was_cancelled_leaves_no_timer_to_the_next_one(timer: str) -> None:
    closed = list[tuple[float, int]]()

    async def serve(server: SimServer) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await server.exchange(asked(), to=[0])
        # Opened at 3 s. A timer of 4 s that is left from 0 s would close it, or give it up.
        replies = await server.exchange(asked(), to=[1])
        closed.append((server.now, len(replies)))
        server.commit(server.initial)

    keys: dict[str, Any] = {timer: 4.0}
    policy = participation_of(**keys)
    run = play(setup(serve, after(50.0, 3.5), FOUR[:2], participation=policy))
    assert closed[0] == (6.5, 1)
    assert not run.of("abandoned")
