"""Large fleets: who is never spoken to costs next to nothing, and changes nothing."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Message
from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.lazy import LazyTable
from fedsim.sim.server import SimServer
from tests.policies import participation_of

from .physical import online
from .radios import RadioModel, client_of
from .worlds import NO_LOSS, SLOW, Run, answered, asked, echo, fleet, play, rounds, setup, work

RADIO = RadioModel(up=100.0, down=200.0, latency=0.25)
MANY = 50_000


def drawn(clients: int, count: int = 3, times: int = 4) -> Run:
    members = fleet((SLOW, RADIO)) * clients
    policy = participation_of(count=count)
    return play(setup(rounds, echo, members, participation=policy, stop=Stop(rounds=times)))


def test_only_who_was_drawn_has_been_made() -> None:
    run = drawn(MANY)
    asked_once = {int(row["node"].removeprefix("client-")) for row in run.of("sampled")}
    assert 3 <= len(asked_once) <= 12
    assert set(run.clients) == asked_once


def test_the_rest_stands_in_the_books_at_zero_and_at_rest() -> None:
    run = drawn(MANY)
    meters = run.world.meters()
    untouched = np.setdiff1d(np.arange(MANY), list(run.clients))
    assert len(meters.joules) == len(meters.idle_joules) == MANY
    assert not meters.joules[untouched].any()
    idle = meters.idle_joules[untouched]
    assert (idle == idle[0]).all()
    assert idle[0] == SLOW.idle * run.t


def test_an_idle_client_has_no_task_and_a_busy_one_has_its_name() -> None:
    names: list[tuple[str, int]] = []

    async def handle(client: SimClient, message: Message) -> Message:
        task = asyncio.current_task()
        assert task is not None
        names.append((task.get_name(), client.id))
        await client.compute(work(1.0))
        return answered()

    alive: list[int] = []

    async def serve(server: SimServer) -> None:
        for _ in range(5):
            await server.exchange(asked())
            alive.append(len(asyncio.all_tasks()))
            server.commit(server.initial)

    play(setup(serve, handle, fleet((SLOW, RADIO)) * 4))
    assert names == [(f"client-{number}", number) for _ in range(5) for number in range(4)]
    assert alive == [1] * 5, "only the server's is left, round after round"


def test_what_comes_while_a_client_works_is_answered_in_the_order_of_arrival() -> None:
    begun: list[tuple[float, int]] = []

    async def handle(client: SimClient, message: Message) -> Message:
        begun.append((client.now, client.round))
        await client.compute(work(3.0))
        return answered()

    async def serve(server: SimServer) -> None:
        for _ in range(4):
            try:
                async with asyncio.timeout(1.0):
                    await server.exchange(asked())
            except TimeoutError:
                server.commit(server.initial)
        await asyncio.sleep(20.0)

    play(setup(serve, handle))
    assert [number for _, number in begun] == [1, 2, 3, 4]
    assert [later - sooner for (sooner, _), (later, _) in pairwise(begun)] == [3.0] * 3


def test_who_comes_and_goes_is_there_from_the_start_though_nobody_speaks_to_it() -> None:
    members = fleet((SLOW, RADIO)) * 1000
    members[700] = client_of(SLOW, RADIO, NO_LOSS, availability=online(2.0, 50.0))

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(10.0)

    run = play(setup(serve, echo, members))
    assert [(row["node"], row["t"]) for row in run.of("offline") + run.of("online")] == [
        ("client-700", 0.0),
        ("client-700", 2.0),
    ]
    assert not run.clients


runs_of_letters = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=8)


@given(runs_of_letters)
def test_runs_are_the_sequence_that_they_stand_for(given_runs: list[tuple[int, str]]) -> None:
    runs = RunLengthSequence(given_runs)
    plain = "".join(count * letter for count, letter in given_runs)
    assert "".join(runs) == plain
    assert len(runs) == len(plain)
    assert "".join(runs.map(str.upper)) == plain.upper()
    assert list(runs.where("b".__eq__)) == [n for n, letter in enumerate(plain) if letter == "b"]
    assert all("".join(runs[n : n + 3]) == plain[n : n + 3] for n in range(len(plain)))
    assert "".join(runs[::-2]) == plain[::-2]
    assert runs == tuple(plain) == runs.map(str)
    assert hash(runs) == hash(tuple(plain))
    assert runs != tuple(plain + "a")
    assert runs.map(ord).numbers().tolist() == [ord(letter) for letter in plain]
    assert runs.array(ord).tolist() == [float(ord(letter)) for letter in plain]
    backwards = RunLengthSequence.of(plain[::-1])
    assert list(joint(runs, backwards)) == list(zip(plain, plain[::-1], strict=True))


def test_runs_have_no_items_beyond_their_ends() -> None:
    runs = RunLengthSequence([(2, "a"), (1, "b")])
    for beyond in (3, -1):
        with pytest.raises(IndexError, match=f"3 items, from 0, and no item {beyond}"):
            runs[beyond]


def test_what_is_made_on_demand_is_made_once_and_walked_in_order() -> None:
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return f"made {number}"

    table = LazyTable(make)
    assert 7 not in table
    assert table.get(7) is None
    assert [table[7], table[2], table[7]] == ["made 7", "made 2", "made 7"]
    assert made == [7, 2]
    assert table.in_order() == ["made 2", "made 7"]
