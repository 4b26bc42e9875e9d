"""Clients that come and go, by hand: what is broken off, what it has cost, who is left."""

import asyncio
from math import inf

from fedsim.core.ports import Message
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.server import SimServer
from tests.policies import participation_of, silence_of
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel

from .physical import gathered, member, online, spans, tired, told
from .worlds import answered, asked, echo, play, rounds, setup, work, working

WORKER = device_of(speed=1.0, active=5.0, idle=2.0)


def test_the_log_has_every_coming_and_going_at_its_time() -> None:
    members = [member(None, online(1.0, 2.5, 4.0, 8.0)), member()]
    run = play(setup(rounds, working(1.0), members, stop=Stop.in_si(time=10.0)))
    assert told(run, "online", "t", "node", "duration") == [
        (1.0, "client-0", 1.0),
        (4.0, "client-0", 1.5),
    ]
    assert told(run, "offline", "t", "node", "duration") == [
        (0.0, "client-0", 0.0),
        (2.5, "client-0", 0.0),
        (8.0, "client-0", 0.0),
    ]


def test_going_away_amid_work_breaks_it_off_and_it_is_paid_up_to_then() -> None:
    members = [member(None, online(0.0, 3.0), device=WORKER), member()]
    run, seen = gathered(working(8.0), members, 1)
    assert told(run, "compute", "t", "duration", "joules", node="client-0") == [(3.0, 3.0, 9.0)]
    assert seen == [(8.0, [(1, 1)])]
    assert run.world.meters().idle_joules.tolist() == [16.0, 0.0]  # it is on all the same


def test_going_away_amid_an_upload_loses_it_and_it_is_paid_up_to_then() -> None:
    radio = RadioModel(8.0, inf, energy_up=0.5, base=1.0)
    run, seen = gathered(echo_of(64), [member(None, online(0.0, 3.0), radio=radio)], 1)
    assert told(run, "send", "t", "duration", "joules", "detail", node="client-0") == [
        (3.0, 3.0, 24 * 0.5 + 3.0, "aborted")
    ]
    assert told(run, "lost", "t", "node", "payload_bits", "detail") == [
        (3.0, "client-0", 64, "aborted")
    ]
    ((when, message),) = run.clients[0].state.taken_back
    assert (when, message.label) == (3.0, "answer")
    assert seen == []
    assert told(run, "abandoned", "t", "duration") == [(3.0, 3.0)]


def test_going_away_amid_a_download_loses_it_and_it_is_paid_up_to_then() -> None:
    radio = RadioModel(inf, 2.0, energy_down=0.5, base=1.0)
    run, seen = gathered(echo, [member(None, online(0.0, 3.0), radio=radio)], 1)
    assert told(run, "receive", "t", "joules", "detail") == [(3.0, 6.0, "aborted")]
    assert told(run, "send", "t", "node", "joules", "detail") == [(3.0, "server", 0.0, "aborted")]
    assert seen == []
    assert told(run, "abandoned", "t", "duration") == [(3.0, 3.0)]


def echo_of(bits: int) -> Handler:
    async def handle(client: SimClient, message: Message) -> Message:
        return answered(bits)

    return handle


def test_messages_that_wait_are_lost_without_a_cost_beyond_their_bits() -> None:
    async def serve(server: SimServer) -> None:
        for _ in range(3):
            await server.exchange(asked(8))
            server.commit(server.initial)
        await asyncio.sleep(20.0)

    radio = RadioModel(inf, 1.0, energy_down=1.0)
    members = [member(None, online(0.0, 4.0), radio=radio)]
    run = play(setup(serve, echo, members, silence=silence_of(beacon=False, after=1.0)))
    assert told(run, "lost", "t", "round", "payload_bits", "detail") == [
        (4.0, number, 8, "aborted") for number in (1, 2, 3)
    ]
    assert told(run, "send", "duration") == [(4.0,), (0.0,), (0.0,)]
    assert told(run, "receive", "joules", "round") == [(4.0, 1)]
    assert run.world.meters().bits_lost == 24


def test_messages_in_the_inbox_of_a_client_at_work_are_forgotten() -> None:
    members = [member(None, online(0.0, 5.0, 6.0, inf)), member()]
    policy = participation_of(deadline=2.0)
    run, seen = gathered(tired(4.0, 1.0), members, 5, participation=policy)
    # At 5 s it works on what it was asked at 2 s, and that of 4 s waits.
    assert spans(run, "compute", 0) == [(0.0, 4.0), (4.0, 5.0), (6.0, 8.0)]
    assert told(run, "receive", "t", node="client-0") == [(0.0,), (2.0,), (4.0,), (6.0,)]
    assert seen == [
        (2.0, [(1, 1)]),
        (4.0, [(0, 1), (1, 2)]),
        (5.0, [(1, 3)]),
        (6.0, [(1, 4)]),
        (8.0, [(1, 5)]),
    ]


def test_what_ends_as_its_client_goes_has_ended() -> None:
    radio = RadioModel(4.0, 4.0)
    for until, event in ((2.0, "receive"), (5.0, "compute"), (7.0, "send")):
        run, seen = gathered(working(3.0), [member(None, online(0.0, until), radio=radio)], 1)
        assert told(run, event, "t", "detail", node="client-0") == [(until, None)]
        assert [len(replies) for _, replies in seen] == [1] * (event == "send")


def test_who_comes_is_there_from_that_very_instant_on() -> None:
    members = [member(), member(None, online(2.0, inf))]
    _, seen = gathered(working(2.0), members, 2)
    assert seen == [(2.0, [(0, 1)]), (4.0, [(0, 2), (1, 2)])]


def test_a_round_goes_on_with_those_who_are_left_and_the_others_are_skipped_in_the_next() -> None:
    members = [member(None, online(0.0, 1.0)), member(None, online(0.0, 3.0, 9.0, inf)), member()]
    run, seen = gathered(tired(5.0, 2.0, 4.0), members, 3)
    assert seen == [(4.0, [(1, 1), (2, 1)]), (8.0, [(2, 2)]), (12.0, [(2, 3)])]
    assert told(run, "skipped", "t", "node", "round", "detail") == [
        (4.0, "client-0", 2, "offline"),
        (4.0, "client-1", 2, "offline"),
        (8.0, "client-0", 3, "offline"),
        (8.0, "client-1", 3, "offline"),
    ]
    assert [row["cohort"] for row in run.rounds] == [3, 1, 1]


def test_a_radio_that_loses_its_network_is_idle_at_once_and_promoted_anew() -> None:
    radio = RadioModel(
        inf, 4.0, promotion_time=1.0, promotion_power=3.0, tail_time=10.0, tail_power=1.0
    )
    members = [member(None, online(0.0, 5.0, 6.0, inf), radio=radio)]
    run = play(setup(rounds, working(4.0), members, stop=Stop.in_si(time=14.0)))
    # 1 s to be promoted, 2 s to hear, 4 s to work: broken off at 5 s, and all over from 6 s on.
    assert spans(run, "promotion") == [(0.0, 1.0), (6.0, 7.0)]
    assert spans(run, "tail") == [(3.0, 5.0), (9.0, 13.0)]
    assert told(run, "compute", "t", "duration") == [(5.0, 2.0), (13.0, 4.0)]


def test_going_away_while_the_radio_is_promoted_pays_for_that_much_of_it() -> None:
    radio = RadioModel(inf, 4.0, promotion_time=4.0, promotion_power=3.0, tail_time=1.0)
    run, _ = gathered(echo, [member(None, online(0.0, 1.5), radio=radio)], 1)
    assert told(run, "promotion", "t", "duration", "joules") == [(1.5, 1.5, 4.5)]
    assert told(run, "send", "t", "duration", "detail") == [(1.5, 0.0, "aborted")]


def test_a_handler_that_answers_all_the_same_is_not_heard_and_is_told_so() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        try:
            await client.compute(work(8.0))
        except asyncio.CancelledError:
            return answered(80)
        return answered()

    members = [member(None, online(0.0, 3.0, 4.0, inf))]
    run, seen = gathered(handle, members, 1)
    assert seen == [(12.0, [(0, 2)])]
    ((when, message),) = run.clients[0].state.taken_back
    assert (when, message.bits) == (3.0, 80)


def test_a_client_that_comes_back_answers_as_before() -> None:
    handled = list[float]()

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(2.0))
        handled.append(client.now)
        return answered()

    edges = [edge for n in range(8) for edge in (3.0 * n, 3.0 * n + 1.0 + n % 2)]
    _, seen = gathered(handle, [member(None, online(*edges, 24.0, inf))], 4)
    # Every second time it is there for 2 s, which is just enough.
    assert handled == [5.0, 11.0, 17.0, 23.0]
    # Two rounds between them were no steps: it left at once, or after the one second.
    assert seen == [(t, [(0, 3 * n - 1)]) for n, t in enumerate(handled, 1)]
