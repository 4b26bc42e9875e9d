"""Whom the server waits for, and for how long; and laws of availability seen in the log."""

import asyncio
from math import inf

import pandas as pd
import pytest
from scipy import stats

from fedsim.core.errors import Deadlock
from fedsim.core.ports import Message
from fedsim.core.streams import stream
from fedsim.physics.availability import NEVER
from fedsim.physics.signals import Constant, Steps
from fedsim.protocol.stopping import Stop
from fedsim.results.analysis import time_in_states
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from fedsim.sim.worlds.main_task import ENDED
from tests.physics.laws import Bernoulli, Markov
from tests.sim.devices import device_of

from .physical import battery, gathered, member, online, told
from .worlds import answered, asked, echo, play, rounds, setup, working


def test_where_nobody_is_there_the_round_begins_as_the_first_one_comes_back() -> None:
    members = [member(None, online(5.0, inf)), member(None, online(0.0, 1.0, 3.5, inf))]
    run, seen = gathered(working(2.0), members, 2)
    # The only client that was asked has left at 1 s: that round is no step of the algorithm.
    assert told(run, "abandoned", "t", "round") == [(1.0, 1)]
    assert seen == [(5.5, [(1, 2)]), (7.5, [(0, 3), (1, 3)])]


def test_all_who_come_at_one_instant_are_asked_together() -> None:
    device = device_of(speed=1.0, active=1.0, idle=1.0)
    store = battery(8.0, charge=0.0, restart=0.5, threshold=0.5, source=Constant(0.5))
    members = [
        member(None, online(8.0, inf)),
        member(store, device=device),
        member(None, online(8.0, inf)),
        member(store, device=device),
    ]
    _, seen = gathered(working(2.0), members, 1)
    assert seen == [(10.0, [(n, 1) for n in range(4)])]


def test_the_server_waits_for_those_it_has_named() -> None:
    async def serve(server: SimServer) -> None:
        replies = await server.exchange(asked(), to=[1, 2])
        assert [reply.client for reply in replies] == [2]
        assert server.now == 6.0

    members = [member(), member(None, online(9.0, inf)), member(None, online(4.0, inf))]
    play(setup(serve, working(2.0), members))


def test_clients_that_are_named_and_have_left_for_good_are_no_end_of_the_run() -> None:
    """Their round is abandoned, and the method goes on with the others."""
    seen = list[tuple[float, list[int]]]()

    async def serve(server: SimServer) -> None:
        for to in ([0], [0, 2], None, [0], [1]):
            replies = await server.exchange(asked(), to=to)
            seen.append((server.now, [reply.client for reply in replies]))

    gone = member(None, online(0.0, 0.5))
    members = [member(None, online(0.0, 1.0)), member(None, online(0.0, 7.0)), gone]
    run = play(setup(serve, working(2.0), members))
    # The first exchange waits for client 0, which leaves at 1 s and never comes back.
    assert seen == [(1.0, []), (1.0, []), (3.0, [1]), (3.0, []), (5.0, [1])]
    assert told(run, "abandoned", "t") == [(1.0,), (1.0,), (1.0,), (3.0,)]
    assert run.times("skipped", node="client-2") == [1.0, 1.0]
    assert run.reason == ENDED


def test_where_those_who_are_named_and_all_others_have_left_the_run_ends() -> None:
    async def serve(server: SimServer) -> None:
        while True:
            await server.exchange(asked(), to=[0])

    members = [member(None, online(0.0, 1.0)), member(None, online(0.0, 1.0))]
    run = play(setup(serve, working(2.0), members))
    assert run.reason == "no client can take part any more: offline (2)"


def test_a_method_that_asks_only_clients_that_have_left_ends_by_its_rounds() -> None:
    async def serve(server: SimServer) -> None:
        while True:
            await server.exchange(asked(), to=[0])

    members = [member(None, online(0.0, 1.0)), member()]
    run = play(setup(serve, working(2.0), members, stop=Stop(rounds=7)))
    assert (run.reason, run.t) == ("rounds: 7 of 7", 1.0)


def test_a_run_ends_where_nobody_comes_back() -> None:
    run = play(setup(rounds, working(2.0), [member(None, online(0.0, 5.0, 7.0, 8.0))] * 2))
    assert run.reason == "no client can take part any more: offline (2)"
    # Two rounds, one that is broken off at 5 s, and one from 7 s on that is as well.
    assert run.times("round") == [2.0, 4.0, 5.0, 8.0]
    assert (run.t, run.error) == (8.0, None)


def test_a_run_ends_at_once_where_nobody_ever_is() -> None:
    run = play(setup(rounds, echo, [member(None, NEVER)] * 3))
    assert (run.reason, run.t) == ("no client can take part any more: offline (3)", 0.0)


def test_who_is_never_there_has_been_offline_all_the_time() -> None:
    store, stop = battery(100.0, charge=0.5), Stop(rounds=3)
    members = [member(store, NEVER), member(), member(None, online(1.0, 3.0))]
    run = play(setup(rounds, working(2.0), members, stop=stop))
    assert told(run, "offline", "t", "node", "state_of_charge")[0] == (0.0, "client-0", 0.5)
    times = time_in_states(pd.DataFrame(run.rows)).set_index("node")
    assert times["offline"].to_dict() == {"client-0": 6.0, "client-1": 0.0, "client-2": 4.0}
    assert times.sum(axis="columns").tolist() == [run.t] * 3 == [6.0] * 3


def test_those_who_do_not_come_back_are_not_waited_for_where_others_do() -> None:
    members = [member(None, NEVER), member(None, online(4.0, inf))]
    _, seen = gathered(working(2.0), members, 1)
    assert seen == [(6.0, [(1, 1)])]


def test_who_comes_back_with_an_empty_battery_is_no_hope() -> None:
    device = device_of(speed=1.0, active=1.0, idle=1.0)
    members = [member(battery(3.0), Markov(1.0, 1.0), device=device)]
    run = play(setup(rounds, working(2.0), members))
    assert run.reason == "no client can take part any more: battery empty (1)"
    assert run.times("depleted") == [3.0]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_markov_client_comes_and_goes_by_its_own_stream(seed: int) -> None:
    law = Markov(on=4.0, off=2.0)
    stop = Stop.in_si(time=400.0)
    run = play(setup(rounds, working(1.0), [member(None, law)] * 3, seed=seed, stop=stop))
    for client in range(3):
        there, toggles = law.timeline(stream(seed, "availability", client))
        begun = [] if there else [0.0]
        expected = begun + [t for t in (next(toggles) for _ in range(400)) if t < 400.0]
        seen = sorted(
            run.times("online", node=f"client-{client}")
            + run.times("offline", node=f"client-{client}")
        )
        assert seen == expected


def test_its_stays_are_those_of_the_law() -> None:
    law, stop = Markov(on=4.0, off=2.0), Stop.in_si(time=600.0)
    run = play(setup(rounds, working(50.0), [member(None, law)] * 5, stop=stop))
    away = [row["duration"] for row in run.of("online") if row["duration"] < row["t"]]
    assert stats.kstest(away, stats.expon(scale=2.0).cdf).pvalue > 1e-3


def test_a_bernoulli_client_turns_up_in_so_many_rounds_on_its_own() -> None:
    members = [member(None, Bernoulli(share)) for share in (0.2, 0.7)] + [member()]
    run = play(setup(rounds, working(1.0), members, stop=Stop(rounds=500)))
    missed = [{row["round"] for row in run.of("skipped", node=f"client-{n}")} for n in range(3)]
    assert told(run, "skipped", "detail")[0] == ("offline",)
    for share, rounds_missed in zip((0.2, 0.7), missed, strict=False):
        assert stats.binomtest(500 - len(rounds_missed), 500, share).pvalue > 1e-3
    assert stats.binomtest(len(missed[0] & missed[1]), 500, 0.8 * 0.3).pvalue > 1e-3
    assert missed[2] == set()
    assert run.of("offline") == []  # rounds have no times at which it would have gone


def test_a_round_in_which_nobody_turns_up_is_over_at_once() -> None:
    run = play(setup(rounds, working(1.0), [member(None, Bernoulli(0.3))], stop=Stop(rounds=60)))
    cohorts = [row["cohort"] for row in run.rounds]
    assert set(cohorts) == {0, 1}
    assert run.t == float(sum(cohorts))


async def never(client: SimClient, message: Message) -> Message:
    await asyncio.get_running_loop().create_future()
    return answered()


def test_comings_and_goings_do_not_hide_a_deadlock() -> None:
    members = [member(), member(None, Markov(1.0, 1.0)), member(None, Markov(5.0, 1.0))]
    run = play(setup(rounds, never, members))
    assert isinstance(run.error, Deadlock)
    assert "the server waits in round 1: " in run.reason


def test_the_weather_does_not_hide_a_deadlock() -> None:
    sun = Steps([0.0, 10.0], [4.0, 0.0], period=20.0)
    device = device_of(speed=1.0, active=2.0, idle=2.0)
    run = play(setup(rounds, never, [member(battery(100.0, source=sun), device=device)]))
    assert isinstance(run.error, Deadlock)


def test_a_server_that_waits_for_something_else_is_a_deadlock_as_well() -> None:
    async def serve(server: SimServer) -> None:
        await asyncio.get_running_loop().create_future()

    run = play(setup(serve, echo, [member(None, Markov(1.0, 1.0))]))
    assert isinstance(run.error, Deadlock)


def test_a_deadlock_ends_by_time_where_that_is_a_rule() -> None:
    members = [member(), member(None, Markov(1.0, 1.0))]
    run = play(setup(rounds, never, members, stop=Stop.in_si(time=30.0)))
    assert (run.t, run.reason) == (30.0, "time: 30 s")


def test_waiting_for_somebody_to_come_is_no_deadlock_however_long_it_takes() -> None:
    members = [member(None, online(1e9, inf)), member(None, Markov(1e-3, 1e8))]
    _, seen = gathered(working(1.0), members, 1)
    assert seen[0][0] >= 1.0


def test_an_exchange_that_is_opened_for_no_client_is_in_order_whatever_was_drawn_before() -> None:
    """Of two clients one is away, so the draw before has left out a client."""
    seen = []

    async def serve(server: SimServer) -> None:
        for to in (None, [], [1], []):
            seen.append((server.now, len(await server.exchange(asked(), to=to))))
            server.commit(server.initial)

    members = [member(None, online(50.0, inf)), member()]
    run = play(setup(serve, working(2.0), members, stop=Stop(rounds=9)))
    assert run.of("skipped") != []
    assert run.of("abandoned") == []
    assert seen == [(0.0, 1), (2.0, 0), (2.0, 1), (4.0, 0)]
