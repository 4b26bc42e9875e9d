"""What a client does while its reply is on its way: when, in which order, what breaks it off."""

import asyncio
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from fedsim.core.ports import Message
from fedsim.protocol.stopping import Stop
from fedsim.scenario.building.fit_messages import FittingMethod
from fedsim.sim.arrays.fits import why_events
from fedsim.sim.client import SimClient
from fedsim.sim.config import what_follows
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel

from .physical import member, online, spans, told
from .worlds import Run, echo, fleet, play, rounds, setup, work, working

WORKER = device_of(speed=1.0, active=5.0, idle=2.0)
RADIO = RadioModel(4.0, inf)
"""An answer of 8 bits takes 2 s, a question no time."""


def following(seconds: float, **parts: Any) -> Run:
    async def follows(client: SimClient) -> None:
        await client.compute(work(seconds))

    members = parts.pop("members", [member(radio=RADIO, device=WORKER)])
    stop = parts.pop("stop", Stop(rounds=3))
    return play(setup(rounds, working(1.0), members, follows=follows, stop=stop, **parts))


@pytest.mark.parametrize("seconds", [0.5, 2.0, 3.5])
def test_it_overlaps_with_the_reply_and_the_next_message_waits_for_its_end(seconds: float) -> None:
    run = following(seconds)
    lasts = 1.0 + max(2.0, seconds)
    begins = [number * lasts for number in range(3)]
    assert [row["t"] for row in run.rounds] == [begin + 3.0 for begin in begins]
    assert spans(run, "send") == [(begin + 1.0, begin + 3.0) for begin in begins]
    worked = [
        (begin + one, min(begin + two, run.t))
        for begin in begins
        for one, two in ((0.0, 1.0), (1.0, 1.0 + seconds))
    ]
    assert spans(run, "compute") == worked
    joules = sum(3.0 * (end - begin) for begin, end in worked)
    assert sum(row["joules"] for row in run.of("compute")) == joules


def test_its_work_is_of_the_round_that_was_answered() -> None:
    numbers = told(following(1.0), "compute", "t", "round")
    assert numbers == [(1.0, 1), (2.0, 1), (4.0, 2), (5.0, 2), (7.0, 3), (8.0, 3)]


def test_who_goes_away_amid_it_has_replied_or_not_and_answers_again_once_back() -> None:
    there = member(None, online(0.0, 4.0, 5.0, inf), device=WORKER, radio=RADIO)
    run = following(9.0, members=[there], stop=Stop(rounds=3))
    assert spans(run, "compute") == [(0.0, 1.0), (1.0, 4.0), (5.0, 6.0), (6.0, 8.0)]
    assert told(run, "receive", "t", "round", node="server") == [(3.0, 1), (8.0, 3)]
    assert [row["t"] for row in run.of("abandoned")] == [4.0]


def test_what_is_cut_short_and_ends_all_the_same_takes_no_reply_back() -> None:
    async def follows(client: SimClient) -> None:
        try:
            await client.compute(work(9.0))
        except asyncio.CancelledError:
            client.state.cut = True

    there = member(None, online(0.0, 4.0, 5.0, inf), radio=RADIO)
    made = setup(rounds, working(1.0), [there], follows=follows, stop=Stop(rounds=3))
    run = play(made)
    assert run.clients[0].state.cut
    assert run.clients[0].state.taken_back == []
    assert told(run, "receive", "t", node="server") == [(3.0,), (8.0,)]


def test_an_error_in_it_is_the_runs() -> None:
    async def follows(client: SimClient) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        play(setup(rounds, echo, fleet((WORKER, RADIO)), follows=follows))


def test_such_rounds_are_played_event_by_event() -> None:
    async def follows(client: SimClient) -> None:
        await client.compute(work(1.0))

    made = setup(rounds, echo, fleet((WORKER, RADIO)), follows=follows)
    assert "goes on after replies" in why_events(made)


def test_a_fit_before_the_method_hands_it_on() -> None:
    async def follows(client: Message) -> None:
        raise AssertionError

    own: Any = SimpleNamespace(
        handle=echo, undelivered=None, computes_after_reply=True, afterwards=follows
    )
    exchange: Any = SimpleNamespace(steps=())
    assert what_follows(FittingMethod(own, exchange)) is not None
    own.computes_after_reply = False
    assert what_follows(FittingMethod(own, exchange)) is None
