"""Those who listen to a broadcast: they go away, they miss what waits, and the run ends."""

import asyncio
from math import inf
from typing import Any

from fedsim.protocol.stopping import Stop
from fedsim.sim.server import SimServer
from tests.policies import participation_of, silence_of
from tests.sim.radios import RadioModel

from .cells import BITS, broadcast
from .physical import member, online, spans, told
from .worlds import asked, echo, play, setup


def test_who_goes_away_has_paid_for_what_it_heard_and_the_others_hear_all() -> None:
    radio = RadioModel(inf, 8.0, energy_down=0.5, receive=1.0)
    run = broadcast([member(None, online(0.0, 3.0), radio=radio), member(radio=radio)])
    assert told(run, "receive", "t", "node", "duration", "joules", *BITS, "detail") == [
        (3.0, "client-0", 3.0, 24 * 0.5 + 3.0, 0, 0, 0, "aborted"),
        (8.0, "client-1", 8.0, 40.0, 64, 0, 0, None),
    ]
    assert told(run, "send", "t", "detail") == [(8.0, None)]


def test_a_broadcast_that_nobody_hears_to_its_end_is_lost() -> None:
    radio = RadioModel(inf, 8.0)
    members = [
        member(None, online(0.0, 3.0), radio=radio),
        member(None, online(0.0, 5.0), radio=radio),
    ]
    run = broadcast(members)
    assert told(run, "send", "t", "detail") == [(8.0, "lost")]  # the server does not know
    assert told(run, "lost", "t", "node", *BITS) == [(8.0, "server", 64, 0, 0)]
    assert run.of("receive") == []
    assert run.world.meters().bits_lost == 64


def test_who_goes_away_before_the_first_bit_slows_nobody_down() -> None:
    slow, fast = RadioModel(inf, 8.0, latency=1.0), RadioModel(inf, 32.0, latency=1.0)
    run = broadcast([member(None, online(0.0, 0.5), radio=slow), member(radio=fast)])
    assert spans(run, "receive", 1) == [(1.0, 3.0)]
    assert run.of("receive", node="client-0") == []


def test_nobody_left_before_the_first_bit_is_a_loss_as_well() -> None:
    radio = RadioModel(inf, 8.0, latency=1.0)
    run = broadcast([member(None, online(0.0, 0.5), radio=radio)])
    assert run.world.meters().bits_lost == 64
    assert told(run, "lost", "t") == [(1.0,)]


def asking_twice(gap: float, then: float) -> Any:
    """A server that asks all, asks all again after a while, and waits.

    Where silence is not sent, a deadline that no reply meets closes a round as any other.
    """

    async def serve(server: SimServer) -> None:
        for pause in (gap, then):
            await server.exchange(asked(64))
            server.commit(server.initial)
            await asyncio.sleep(pause)

    return serve


def test_a_broadcast_waits_for_the_one_before() -> None:
    radio = RadioModel(inf, 8.0)
    policy = participation_of(deadline=3.0)
    parts: dict[str, Any] = {"silence": silence_of(beacon=False), "participation": policy}
    made = setup(asking_twice(0.0, 20.0), echo, [member(radio=radio)] * 2, cells=True, **parts)
    run = play(made)
    assert told(run, "send", "t", "duration", node="server") == [(8.0, 8.0), (16.0, 8.0)]
    assert run.rounds[0]["bits_down"] == run.rounds[1]["bits_down"] == 64


def test_who_goes_away_does_not_hear_what_was_queued_even_if_it_comes_back() -> None:
    radio = RadioModel(inf, 8.0)
    away = online(0.0, 4.0, 5.0, inf)
    policy = participation_of(deadline=3.0)
    members = [member(None, away, radio=radio), member(radio=radio)]
    parts: dict[str, Any] = {"silence": silence_of(beacon=False), "participation": policy}
    made = setup(asking_twice(0.0, 20.0), echo, members, cells=True, **parts)
    run = play(made)
    assert run.of("receive", node="client-0", detail=None) == []
    assert told(run, "receive", "t", node="client-1") == [(8.0,), (16.0,)]


def test_what_is_under_way_and_what_waits_at_the_end_is_in_flight() -> None:
    radio = RadioModel(inf, 8.0, energy_down=0.5)
    made = setup(
        asking_twice(0.0, 50.0),
        echo,
        [member(radio=radio)] * 2,
        cells=True,
        participation=participation_of(deadline=3.0),
        stop=Stop.in_si(time=5.0),
    )
    run = play(made)
    assert told(run, "send", "duration", "joules", "detail") == [
        (5.0, 0.0, "in flight"),
        (0.0, 0.0, "in flight"),
    ]
    assert told(run, "receive", "node", "duration", "joules", *BITS, "detail") == [
        (f"client-{n}", 5.0, 20.0, 0, 0, 0, "in flight") for n in range(2)
    ]
    assert run.world.meters().bits_in_flight == 128


def test_a_round_that_no_client_answers_in_time_is_broadcast_again_behind_the_one_before() -> None:
    radio = RadioModel(inf, 8.0)
    parts: dict[str, Any] = {
        "participation": participation_of(deadline=3.0),
        "stop": Stop(rounds=3),
    }
    made = setup(asking_twice(0.0, 20.0), echo, [member(radio=radio)] * 2, cells=True, **parts)
    run = play(made)
    # Asked at 0, 3 and 6 s; the answers to the first broadcast come at 8 s and are late, and count.
    assert run.times("abandoned") == [3.0, 6.0]
    assert told(run, "late", "t", "round") == [(8.0, 1), (8.0, 1)]
    assert run.times("round") == [3.0, 6.0, 9.0]
    assert [row["t"] - row["duration"] for row in run.of("send", node="server")] == [0.0, 8.0, 9.0]
